/*
 * exercise_contexts.c - several contexts on a device: memory of one used and freed under another, and their ends.
 */
#include "exercise.h"

#include <stdio.h>

/* A context beside the primary one; it is current then. */
static CUcontext another_context(void)
{
    CUcontext made;
    CUdevice device;
    need("cuDeviceGet", cu.cuDeviceGet_(&device, 0));
    need("cuCtxCreate", cu.cuCtxCreate_(&made, NULL, 0, device));
    return made;
}

static CUstream new_stream(void)
{
    CUstream stream;
    need("cuStreamCreate", cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* What the driver says of allocations and frees with the context that is current now, if any. */
static void allocate_and_free(CUstream stream)
{
    CUdeviceptr plain = 0;
    CUdeviceptr on_default = 0;
    CUdeviceptr on_stream = 0;
    say("  cuMemAlloc", cu.cuMemAlloc_(&plain, 4 * MIB));
    say("  cuMemAllocAsync", cu.cuMemAllocAsync_(&on_default, 4 * MIB, NULL));
    say("  cuMemAllocAsync on a stream", cu.cuMemAllocAsync_(&on_stream, 4 * MIB, stream));
    say("  cuMemFreeAsync on a stream", on_stream == 0 ? CUDA_SUCCESS : cu.cuMemFreeAsync_(on_stream, stream));
    say("  cuMemFreeAsync", on_default == 0 ? CUDA_SUCCESS : cu.cuMemFreeAsync_(on_default, NULL));
    say("  cuMemFree", plain == 0 ? CUDA_SUCCESS : cu.cuMemFree_(plain));
}

/* One context, which the thread has current or not: with memory that a call would be served from in either case. */
void scenario_current(void)
{
    CUcontext popped = NULL;
    start(0);
    CUstream stream = new_stream();
    for (int round = 0; round < 2; round++) {
        allocate_and_free(stream);
        say("cuCtxPushCurrent of none", cu.cuCtxPushCurrent_(NULL));
        allocate_and_free(stream);
        say("cuCtxPopCurrent", cu.cuCtxPopCurrent_(&popped));
        allocate_and_free(stream);
        say("cuCtxSetCurrent to none", cu.cuCtxSetCurrent_(NULL));
        allocate_and_free(stream);
        say("cuCtxPushCurrent", cu.cuCtxPushCurrent_(context));
        allocate_and_free(stream);
        say("cuCtxPopCurrent", cu.cuCtxPopCurrent_(&popped));
        say_if("it was the context", popped == context);
        allocate_and_free(stream);
        say("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    }
    allocate_and_free(stream);
}

void scenario_contexts(void)
{
    CUdeviceptr blocks[3];
    CUdeviceptr own;
    CUcontext owner = NULL;
    start(0);
    for (size_t i = 0; i < LENGTH(blocks); i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&blocks[i], 4 * MIB));
    }
    CUcontext second = another_context();
    CUstream stream = new_stream();
    need("cuMemAlloc", cu.cuMemAlloc_(&own, 4 * MIB));
    use("holds its bytes", own, 4 * MIB);
    say("CONTEXT", cu.cuPointerGetAttribute_(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, own));
    say_if("it belongs to the second", owner == second);
    say("free of its own", cu.cuMemFree_(own));
    say("free of the first one's", cu.cuMemFree_(blocks[0]));
    say("free on its stream", cu.cuMemFreeAsync_(blocks[1], stream));
    say("free on its default stream", cu.cuMemFreeAsync_(blocks[2], NULL));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&own, 4 * MIB, stream));
    say("free on the other's stream", cu.cuMemFreeAsync_(own, stream));
    say("cuCtxDestroy", cu.cuCtxDestroy_(second));
    need("cuMemAlloc", cu.cuMemAlloc_(&own, 4 * MIB));
    use("holds its bytes", own, 4 * MIB);
    say("cuMemFree", cu.cuMemFree_(own));
}

static int byte_is(CUdeviceptr address, unsigned char value)
{
    unsigned char byte = (unsigned char)~value;
    return cu.cuMemcpyDtoH_(&byte, address, 1) == CUDA_SUCCESS && byte == value;
}

/*
 * Work of one context, late, on memory that the other gets next: freed on the second one's stream, from under the first
 * one, before the second has ever allocated; and freed plainly while the second still copies from it. The device is so
 * small (44 MiB) that the next block can only be the last one.
 */
void scenario_late_contexts(void)
{
    enum { ROUNDS = 8, ORDERED = 30 * MIB, PLAIN = 8 * MIB };
    CUdeviceptr ordered;
    CUdeviceptr plain;
    CUdeviceptr copy;
    int wrong = 0;
    start(0);
    CUstream first_stream = new_stream();
    CUcontext second = another_context();
    CUstream second_stream = new_stream();
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    need("cuMemAlloc", cu.cuMemAlloc_(&copy, MIB));
    for (int i = 0; i < ROUNDS; i++) {
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&ordered, ORDERED, second_stream));
        wrong += cu.cuMemsetD8Async_(ordered, 0xbb, ORDERED, second_stream) != CUDA_SUCCESS;
        wrong += cu.cuMemFreeAsync_(ordered, second_stream) != CUDA_SUCCESS;
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&ordered, ORDERED, first_stream));
        wrong += cu.cuMemsetD8Async_(ordered, 0x11, ORDERED, first_stream) != CUDA_SUCCESS;
        wrong += cu.cuStreamSynchronize_(first_stream) != CUDA_SUCCESS;
        wrong += cu.cuStreamSynchronize_(second_stream) != CUDA_SUCCESS;
        wrong += !byte_is(ordered, 0x11) || !byte_is(ordered + ORDERED - 1, 0x11);

        need("cuMemAlloc", cu.cuMemAlloc_(&plain, PLAIN));
        wrong += cu.cuMemsetD8_(plain, 0x22, PLAIN) != CUDA_SUCCESS;
        wrong += cu.cuCtxSynchronize_() != CUDA_SUCCESS;
        wrong += cu.cuMemcpyDtoDAsync_(copy, plain + PLAIN - MIB, MIB, second_stream) != CUDA_SUCCESS;
        wrong += cu.cuMemFree_(plain) != CUDA_SUCCESS;
        need("cuMemAlloc", cu.cuMemAlloc_(&plain, PLAIN));
        wrong += cu.cuMemsetD8_(plain, 0x33, PLAIN) != CUDA_SUCCESS;
        wrong += cu.cuCtxSynchronize_() != CUDA_SUCCESS;
        wrong += cu.cuStreamSynchronize_(second_stream) != CUDA_SUCCESS;
        wrong += !byte_is(copy, 0x22) || !byte_is(copy + MIB - 1, 0x22);
        wrong += cu.cuMemFree_(plain) != CUDA_SUCCESS;
        wrong += cu.cuMemFreeAsync_(ordered, first_stream) != CUDA_SUCCESS;
    }
    printf("wrong: %d\n", wrong);
    say("cuMemFree", cu.cuMemFree_(copy));
    say("cuCtxDestroy", cu.cuCtxDestroy_(second));
}

/* A context's plain memory ends with it, memory of pools does not. More of them in a row than the device has room for.
 */
void scenario_context_end(void)
{
    enum { ROUNDS = 12 };
    CUdeviceptr kept[ROUNDS];
    CUdeviceptr address = 0;
    CUdeviceptr base;
    size_t size;
    start(0);
    for (int i = 0; i < ROUNDS; i++) {
        CUcontext made = another_context();
        need("cuMemAlloc", cu.cuMemAlloc_(&address, 30 * MIB));
        need("cuMemAlloc", cu.cuMemAlloc_(&address, 1000));
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&kept[i], 2 * MIB, NULL));
        need("cuCtxSynchronize", cu.cuCtxSynchronize_());
        need("cuCtxDestroy", cu.cuCtxDestroy_(made));
    }
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    say("range of what has ended", cu.cuMemGetAddressRange_(&base, &size, address));
    say("free of what has ended", cu.cuMemFree_(address));
    for (int i = 0; i < ROUNDS; i++) {
        use("memory of the pool is there", kept[i], 2 * MIB);
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(kept[i], NULL));
    }
    say("destroy what is none", cu.cuCtxDestroy_(NULL));
    for (int i = 0; i < ROUNDS; i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&address, 30 * MIB));
        use("holds its bytes", address, 30 * MIB);
        say("end of the primary context",
            i % 2 == 0 ? cu.cuDevicePrimaryCtxReset_(0) : cu.cuDevicePrimaryCtxRelease_(0));
        start(0);
    }
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 4 * MIB, NULL));
    use("holds its bytes", address, 4 * MIB);
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, NULL));
}

/* Memory of pools outlives its context; freed after that, it has room for the next, under whichever context. */
void scenario_context_idle(void)
{
    enum { ROUNDS = 2, BLOCK = 100 * MIB };
    CUdeviceptr ordered;
    CUdeviceptr plain;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&plain, MIB));
    for (int round = 0; round < ROUNDS; round++) {
        CUcontext made = another_context();
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&ordered, BLOCK, NULL));
        need("cuCtxSynchronize", cu.cuCtxSynchronize_());
        need("cuCtxDestroy", cu.cuCtxDestroy_(made));
        need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
        use("it is there", ordered, BLOCK);
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(ordered, NULL));
        need("cuCtxSynchronize", cu.cuCtxSynchronize_());
        CUdeviceptr next = 0;
        say("the next", cu.cuMemAlloc_(&next, BLOCK));
        use("holds its bytes", next, BLOCK);
        say("cuMemFree", cu.cuMemFree_(next));
    }
    say("cuMemFree", cu.cuMemFree_(plain));
}
