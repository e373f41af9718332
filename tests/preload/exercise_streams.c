/*
 * exercise_streams.c - memory in the order of streams; pools too.
 */
#include "exercise.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void scenario_streams(void)
{
    CUstream own = NULL;
    CUdeviceptr address;
    start(0);
    need("cuStreamCreate", cu.cuStreamCreate_(&own, CU_STREAM_NON_BLOCKING));
    const CUstream all[] = {NULL, own, CU_STREAM_LEGACY};
    for (size_t i = 0; i < LENGTH(all); i++) {
        for (size_t j = 0; j < LENGTH(all); j++) {
            need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 5 * MIB, all[i]));
            need("cuStreamSynchronize", cu.cuStreamSynchronize_(all[i]));
            use("holds its bytes", address, 5 * MIB);
            say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, all[j]));
        }
    }
    say("no bytes", cu.cuMemAllocAsync_(&address, 0, own));
    say("nowhere to put it", cu.cuMemAllocAsync_(NULL, MIB, own));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, MIB, own));
    say("free inside a block", cu.cuMemFreeAsync_(address + 512, own));
    say("plain free of it", cu.cuMemFree_(address));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, MIB));
    say("stream free of a plain block", cu.cuMemFreeAsync_(address, own));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("cuStreamDestroy", cu.cuStreamDestroy_(own));
}

/* Streams come and go, and their handles come back. More of them than are told apart at a time. */
void scenario_short_streams(void)
{
    CUdeviceptr address;
    CUstream stream;
    int failed = 0;
    start(0);
    for (int i = 0; i < 600; i++) {
        need("cuStreamCreate", cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, (size_t)(i % 7 + 1) * MIB, stream));
        failed |= cu.cuMemsetD8Async_(address, (unsigned char)i, MIB, stream) != CUDA_SUCCESS;
        failed |= cu.cuMemFreeAsync_(address, stream) != CUDA_SUCCESS;
        failed |= cu.cuStreamDestroy_(stream) != CUDA_SUCCESS;
    }
    say_if("some call failed", failed);
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
}

/* What another thread frees on its own stream while its work there is late. */
static void *leave_behind(void *arg)
{
    CUdeviceptr address = 0;
    intptr_t failed = cu.cuCtxSetCurrent_(context) != CUDA_SUCCESS ||
                      cu.cuMemAllocAsync_(&address, 8 * MIB, CU_STREAM_PER_THREAD) != CUDA_SUCCESS ||
                      cu.cuMemsetD8Async_(address, 0xbb, 8 * MIB, CU_STREAM_PER_THREAD) != CUDA_SUCCESS ||
                      cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
    (void)arg;
    return (void *)failed;
}

/* Each thread has a default stream of its own, behind one handle. */
void scenario_thread_streams(void)
{
    CUdeviceptr address;
    pthread_t thread;
    void *failed;
    unsigned char byte = 0;
    int wrong = 0;
    start(0);
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 5 * MIB, CU_STREAM_PER_THREAD));
    say("free on it", cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 5 * MIB));
    use("holds its bytes", address, 5 * MIB);
    say("free on it", cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD));
    for (int round = 0; round < 40; round++) {
        if (pthread_create(&thread, NULL, leave_behind, NULL) != 0 || pthread_join(thread, &failed) != 0) {
            exit(1);
        }
        wrong += failed != NULL;
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 8 * MIB, CU_STREAM_PER_THREAD));
        wrong += cu.cuMemsetD8Async_(address, 0x11, 8 * MIB, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        wrong += cu.cuStreamSynchronize_(CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        wrong += cu.cuCtxSynchronize_() != CUDA_SUCCESS; /* all that is late has run now */
        wrong += cu.cuMemcpyDtoH_(&byte, address + 4 * MIB, 1) != CUDA_SUCCESS || byte != 0x11;
        wrong += cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
    }
    printf("wrong: %d\n", wrong);
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
}

static void from_pool(const char *what, CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr address;
    CUresult rc = cu.cuMemAllocFromPoolAsync_(&address, 4 * MIB, pool, stream);
    say(what, rc);
    if (rc == CUDA_SUCCESS) {
        cu.cuStreamSynchronize_(stream);
        use("holds its bytes", address, 4 * MIB);
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, stream));
    }
}

static CUmemoryPool new_pool(CUmemAllocationHandleType handles)
{
    CUmemoryPool pool = NULL;
    CUmemPoolProps properties;
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = handles;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    need("cuMemPoolCreate", cu.cuMemPoolCreate_(&pool, &properties));
    return pool;
}

/* Pools without special properties. */
void scenario_pools(void)
{
    CUmemoryPool own;
    CUmemoryPool standard = NULL;
    start(0);
    need("cuDeviceGetDefaultMemPool", cu.cuDeviceGetDefaultMemPool_(&standard, 0));
    from_pool("the default pool", standard, NULL);
    own = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    from_pool("an own pool", own, NULL);
    say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(own));
}

/* Pools that other processes may open: never served. */
void scenario_shared_pools(void)
{
    CUdeviceptr address;
    start(0);
    CUmemoryPool shared = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    from_pool("a pool to be exported", shared, NULL);
    say("cuDeviceSetMemPool", cu.cuDeviceSetMemPool_(0, shared));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 4 * MIB, NULL));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, NULL));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(shared));
    say("no pool", cu.cuMemAllocFromPoolAsync_(&address, MIB, NULL, NULL));
}
