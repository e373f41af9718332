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

/* --- a program that lives on pools, as RMM's asynchronous resource does ---------------------------------------------
 */

#define TRACE_STREAMS 3
#define TRACE_BLOCKS  48

/* Invariant: bytes is 0, or the block is live and holds @value at both ends once its stream has come so far. */
struct traced {
    CUdeviceptr address;
    size_t bytes;
    int stream; /* used last on it */
    unsigned char value;
};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int fill_ends(const struct traced *block, CUstream stream)
{
    return (cu.cuMemsetD8Async_(block->address, block->value, 64, stream) != CUDA_SUCCESS) +
           (cu.cuMemsetD8Async_(block->address + block->bytes - 64, block->value, 64, stream) != CUDA_SUCCESS);
}

static int holds_ends(const struct traced *block)
{
    unsigned char bytes[2] = {0};
    cu.cuMemcpyDtoH_(&bytes[0], block->address, 1);
    cu.cuMemcpyDtoH_(&bytes[1], block->address + block->bytes - 1, 1);
    return bytes[0] == block->value && bytes[1] == block->value;
}

/* Frees the block on @stream, in the order of what its last stream does with it. */
static int free_traced(struct traced *block, int stream, const CUstream *streams, CUevent event)
{
    int wrong = 0;
    if (stream != block->stream) {
        wrong += cu.cuEventRecord_(event, streams[block->stream]) != CUDA_SUCCESS;
        wrong += cu.cuStreamWaitEvent_(streams[stream], event, 0) != CUDA_SUCCESS;
    }
    wrong += cu.cuMemFreeAsync_(block->address, streams[stream]) != CUDA_SUCCESS;
    block->bytes = 0;
    return wrong;
}

static void say_used(const char *what, CUmemoryPool pool)
{
    cuuint64_t used = 1;
    say(what, cu.cuMemPoolGetAttribute_(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    say_if("nothing is used", used == 0);
}

void scenario_pool_trace(void)
{
    CUstream streams[TRACE_STREAMS] = {NULL};
    struct traced blocks[TRACE_BLOCKS];
    CUmemoryPool pools[3] = {NULL};
    cuuint64_t most = UINT64_MAX;
    CUevent event;
    unsigned random = 1;
    int wrong = 0;
    start(0);
    memset(blocks, 0, sizeof blocks);
    need("cuEventCreate", cu.cuEventCreate_(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 1; i < TRACE_STREAMS; i++) {
        need("cuStreamCreate", cu.cuStreamCreate_(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    need("cuDeviceGetDefaultMemPool", cu.cuDeviceGetDefaultMemPool_(&pools[0], 0));
    pools[1] = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    pools[2] = new_pool(CU_MEM_HANDLE_TYPE_NONE);
    say("threshold", cu.cuMemPoolSetAttribute_(pools[1], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
    for (int step = 0; step < 3000; step++) {
        struct traced *block = &blocks[next_random(&random) % TRACE_BLOCKS];
        int stream = (int)(next_random(&random) % TRACE_STREAMS);
        if (block->bytes != 0) {
            wrong += cu.cuStreamSynchronize_(streams[block->stream]) != CUDA_SUCCESS;
            wrong += !holds_ends(block);
            block->value ^= 0xff;
            wrong += fill_ends(block, streams[block->stream]); /* late, when the block is another's */
            wrong += free_traced(block, stream, streams, event);
        } else {
            block->bytes = 64 + next_random(&random) % (step % 7 == 0 ? 20 * MIB : 100000);
            block->stream = stream;
            block->value = (unsigned char)step;
            wrong += cu.cuMemAllocFromPoolAsync_(&block->address, block->bytes, pools[step % 3], streams[stream]) !=
                     CUDA_SUCCESS;
            wrong += fill_ends(block, streams[stream]);
        }
        if (step % 500 == 499) {
            say("cuMemPoolTrimTo", cu.cuMemPoolTrimTo_(pools[step % 3], 0));
        }
    }
    printf("wrong: %d\n", wrong);
    say("destroyed with blocks in use", cu.cuMemPoolDestroy_(pools[2]));
    for (int i = 0; i < TRACE_BLOCKS; i++) {
        if (blocks[i].bytes != 0) {
            wrong += free_traced(&blocks[i], i % TRACE_STREAMS, streams, event);
        }
    }
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say_used("used of the default pool", pools[0]);
    say_used("used of an own pool", pools[1]);
    say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(pools[1]));
    printf("wrong: %d\n", wrong);
}
