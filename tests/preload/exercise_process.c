/*
 * exercise_process.c - threads, devices, children, and a process's beginning.
 */
#include "exercise.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct errand {
    CUdeviceptr address;
    CUresult range;
    CUresult freed;
    int same;
};

static void *without_context(void *arg)
{
    struct errand *errand = arg;
    CUdeviceptr base = 0;
    size_t size = 0;
    errand->range = cu.cuMemGetAddressRange_(&base, &size, errand->address + MIB);
    errand->same = base == errand->address && size == 4 * MIB;
    errand->freed = cu.cuMemFree_(errand->address);
    return NULL;
}

void scenario_threads(void)
{
    pthread_t thread;
    struct errand errand = {0};
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&errand.address, 4 * MIB));
    if (pthread_create(&thread, NULL, without_context, &errand) != 0) {
        exit(1);
    }
    pthread_join(thread, NULL);
    say("range asked by a thread without a context", errand.range);
    say_if("the range is the block", errand.same);
    say("free by a thread without a context", errand.freed);
}

static CUcontext context_of_device(int ordinal)
{
    CUdevice device;
    CUcontext made;
    need("cuDeviceGet", cu.cuDeviceGet_(&device, ordinal));
    need("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain_(&made, device));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(made));
    return made;
}

static void say_device(const char *what, CUdeviceptr address)
{
    int ordinal = -1;
    say(what, cu.cuPointerGetAttribute_(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    printf("device: %d\n", ordinal);
}

/* Memory is the device's that the call means: the current one, or the stream's. */
void scenario_devices(void)
{
    CUdeviceptr first;
    CUdeviceptr second;
    CUdeviceptr third;
    CUstream stream_0;
    CUstream stream_1;
    pthread_t thread;
    start(0);
    CUcontext context_0 = context;
    need("cuStreamCreate", cu.cuStreamCreate_(&stream_0, CU_STREAM_NON_BLOCKING));
    CUcontext context_1 = context_of_device(1);
    need("cuStreamCreate", cu.cuStreamCreate_(&stream_1, CU_STREAM_NON_BLOCKING));
    need("cuMemAlloc", cu.cuMemAlloc_(&first, 4 * MIB));
    say_device("plain", first);
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_0));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&second, 4 * MIB, stream_1));
    say_device("on a stream of the other device", second);
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&third, 4 * MIB, NULL));
    say_device("on the default stream", third);
    say("free of the other device's", cu.cuMemFree_(first));
    say("free on the other device's stream", cu.cuMemFreeAsync_(third, stream_1));
    say("free on a stream of this device", cu.cuMemFreeAsync_(second, stream_0));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_1));
    struct errand errand = {0};
    need("cuMemAlloc", cu.cuMemAlloc_(&errand.address, 4 * MIB));
    if (pthread_create(&thread, NULL, without_context, &errand) != 0) {
        exit(1);
    }
    pthread_join(thread, NULL);
    say("free by a thread without a context", errand.freed);
}

/* What one device has, the other may use from when it is allowed to: memory from before and from after. */
void scenario_peers(void)
{
    CUdeviceptr before;
    CUdeviceptr after;
    CUdeviceptr ordered;
    CUmemoryPool pool;
    CUmemAccessDesc access;
    start(0);
    CUcontext context_0 = context;
    need("cuMemAlloc", cu.cuMemAlloc_(&before, 4 * MIB));
    CUcontext context_1 = context_of_device(1);
    say("cuCtxEnablePeerAccess", cu.cuCtxEnablePeerAccess_(context_0, 0));
    use("from before", before, 4 * MIB);
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_0));
    need("cuMemAlloc", cu.cuMemAlloc_(&after, 40 * MIB));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&ordered, 4 * MIB, NULL));
    need("cuDeviceGetDefaultMemPool", cu.cuDeviceGetDefaultMemPool_(&pool, 0));
    access = (CUmemAccessDesc){.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    say("cuMemPoolSetAccess", cu.cuMemPoolSetAccess_(pool, &access, 1));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_1));
    use("from after", after, 40 * MIB);
    use("from the pool", ordered, 4 * MIB);
    say("cuCtxDisablePeerAccess", cu.cuCtxDisablePeerAccess_(context_0));
    say("once more", cu.cuCtxDisablePeerAccess_(context_0));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_0));
    use("its own", before, 4 * MIB);
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context_1));
    say("cuCtxEnablePeerAccess", cu.cuCtxEnablePeerAccess_(context_0, 0));
    say("once more", cu.cuCtxEnablePeerAccess_(context_0, 0));
    use("from before", before, 4 * MIB);
    use("from after", after, 40 * MIB);
    say("cuMemFree", cu.cuMemFree_(after));
    say("cuMemFree", cu.cuMemFree_(before));
    say("cuMemFree", cu.cuMemFree_(ordered));
}

static void *one_of_a_crowd(void *arg)
{
    enum { HELD = 16, ROUNDS = 600 };
    CUdeviceptr held[HELD] = {0};
    unsigned random = 12345u + *(const unsigned *)arg;
    CUstream stream = NULL;
    intptr_t failed = cu.cuCtxSetCurrent_(context) != CUDA_SUCCESS ||
                      cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    for (int round = 0; failed == 0 && round < ROUNDS; round++) {
        random = random * 1103515245u + 12345u;
        CUdeviceptr *place = &held[random >> 16 & (HELD - 1)];
        size_t bytes = ((size_t)(random >> 8) & 0x3fffff) + 1;
        bool ordered = (random >> 5 & 1) != 0;
        if (*place != 0) {
            failed +=
                ordered ? cu.cuMemFreeAsync_(*place, stream) != CUDA_SUCCESS : cu.cuMemFree_(*place) != CUDA_SUCCESS;
            *place = 0;
        } else {
            failed += ordered ? cu.cuMemAllocAsync_(place, bytes, stream) != CUDA_SUCCESS
                              : cu.cuMemAlloc_(place, bytes) != CUDA_SUCCESS;
        }
    }
    for (int i = 0; i < HELD; i++) {
        failed += cu.cuMemFree_(held[i]) != CUDA_SUCCESS;
    }
    failed += cu.cuStreamDestroy_(stream) != CUDA_SUCCESS;
    return (void *)failed;
}

/* Many threads at once, each with a stream of its own, after an allocation: calls during the first are the driver's. */
void scenario_crowd(void)
{
    enum { THREADS = 4 };
    CUdeviceptr first;
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    intptr_t failed = 0;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&first, MIB));
    say("cuMemFree", cu.cuMemFree_(first));
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i;
        if (pthread_create(&threads[i], NULL, one_of_a_crowd, &seeds[i]) != 0) {
            exit(1);
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *verdict;
        pthread_join(threads[i], &verdict);
        failed += (intptr_t)verdict;
    }
    printf("failed: %d\n", (int)failed);
}

/* Before anything: no context, no initialisation. */
void scenario_early(void)
{
    CUdeviceptr address;
    size_t bytes;
    say("cuMemAlloc before cuInit", cu.cuMemAlloc_(&address, MIB));
    say("cuMemAllocAsync before cuInit", cu.cuMemAllocAsync_(&address, MIB, NULL));
    say("cuMemFree before cuInit", cu.cuMemFree_(4096));
    say("cuMemGetInfo before cuInit", cu.cuMemGetInfo_(&bytes, &bytes));
    need("cuInit", cu.cuInit_(0));
    say("cuMemAlloc without a context", cu.cuMemAlloc_(&address, MIB));
    say("cuMemAllocAsync without a context", cu.cuMemAllocAsync_(&address, MIB, NULL));
    say("cuMemGetInfo without a context", cu.cuMemGetInfo_(&bytes, &bytes));
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&address, MIB));
    say("cuMemFree", cu.cuMemFree_(address));
}

static void wait_for(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* A child of a process that uses CUDA cannot use it; its parent does not notice. */
void scenario_forked(void)
{
    CUdeviceptr address;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 4 * MIB));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr own;
        say("child: cuMemAlloc", cu.cuMemAlloc_(&own, MIB));
        say("child: cuMemAllocAsync", cu.cuMemAllocAsync_(&own, MIB, NULL));
        say("child: cuMemFree", cu.cuMemFree_(address));
        fflush(NULL);
        _exit(0);
    }
    wait_for(child);
    use("holds its bytes", address, 4 * MIB);
    say("cuMemFree", cu.cuMemFree_(address));
}

/* A child forked before has a CUDA of its own. */
void scenario_forked_early(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        scenario_plain();
        fflush(NULL);
        _exit(0);
    }
    wait_for(child);
    scenario_plain();
}
