/*
 * exercise_memory.c - what memory is: sizes, contents, answers, room.
 */
#include "exercise.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void scenario_plain(void)
{
    static const size_t sizes[] = {1, 512, 513, 100000, MIB, 3 * MIB, 20 * MIB + 4096};
    CUdeviceptr blocks[LENGTH(sizes)];
    CUdeviceptr base = 0;
    size_t size = 0;
    start(0);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&blocks[i], sizes[i]));
        say_if("aligned", blocks[i] % 256 == 0);
        use("holds its bytes", blocks[i], sizes[i]);
        say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, blocks[i] + sizes[i] - 1));
        say_if("the range is the block", base == blocks[i] && size == sizes[i]);
    }
    say("range without size", cu.cuMemGetAddressRange_(&base, NULL, blocks[1]));
    say("range without base", cu.cuMemGetAddressRange_(NULL, &size, blocks[1]));
    say("no bytes", cu.cuMemAlloc_(&base, 0));
    say("nowhere to put it", cu.cuMemAlloc_(NULL, MIB));
    say("rows of nothing", cu.cuMemAllocPitch_(&base, &size, 0, 10, 4));
    say("no rows", cu.cuMemAllocPitch_(&base, &size, 10, 0, 4));
    say("elements of three bytes", cu.cuMemAllocPitch_(&base, &size, 10, 10, 3));
    say("rows with nowhere to put the pitch", cu.cuMemAllocPitch_(&base, NULL, 10, 10, 4));
    say("more than there is", cu.cuMemAlloc_(&base, (size_t)1 << 46));
    say("free NULL", cu.cuMemFree_(0));
    say("free inside a block", cu.cuMemFree_(blocks[6] + MIB));
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        say("cuMemFree", cu.cuMemFree_(blocks[i]));
    }
    say("free twice", cu.cuMemFree_(blocks[5]));
    say("free what nobody gave", cu.cuMemFree_(4096));
}

/* Rows of every width twice, under every size of element, and what cannot be. */
void scenario_pitched(void)
{
    static const size_t widths[] = {1, 511, 512, 513, 700, 4096, 100001, 4 * MIB + 1};
    static const unsigned elements[] = {4, 8, 16};
    enum { ROUNDS = 3, HEIGHT = 5 };
    CUdeviceptr blocks[ROUNDS];
    size_t pitch;
    start(0);
    for (size_t i = 0; i < LENGTH(widths) * LENGTH(elements); i++) {
        size_t width = widths[i / LENGTH(elements)];
        unsigned element = elements[i % LENGTH(elements)];
        for (int round = 0; round < ROUNDS; round++) {
            CUdeviceptr base = 0;
            size_t size = 0;
            pitch = 4711;
            need("cuMemAllocPitch", cu.cuMemAllocPitch_(&blocks[round], &pitch, width, HEIGHT, element));
            printf("%zu bytes for %u: pitch %zu\n", width, element, pitch);
            use("holds its bytes", blocks[round], pitch * HEIGHT);
            say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, blocks[round] + pitch));
            say_if("the range is all rows", base == blocks[round] && size == pitch * HEIGHT);
        }
        for (int round = 0; round < ROUNDS; round++) {
            say("cuMemFree", cu.cuMemFree_(blocks[round]));
        }
    }
    pitch = 4711;
    say("no rows", cu.cuMemAllocPitch_(blocks, &pitch, 700, 0, 4));
    say("elements of three bytes", cu.cuMemAllocPitch_(blocks, &pitch, 700, 10, 3));
    say("more than there is", cu.cuMemAllocPitch_(blocks, &pitch, 700, (size_t)1 << 40, 4));
    say("more than can be said", cu.cuMemAllocPitch_(blocks, &pitch, 700, SIZE_MAX / 512, 4));
    say("nowhere to put the pitch", cu.cuMemAllocPitch_(blocks, NULL, 700, 10, 4));
    say("nowhere to put it", cu.cuMemAllocPitch_(NULL, &pitch, 700, 10, 4));
    printf("pitch still %zu\n", pitch);
}

/* Prints an answer about @address: what does not depend on where the allocator puts things. */
static void ask(CUpointer_attribute attribute, CUdeviceptr address, CUdeviceptr block, size_t bytes)
{
    union {
        unsigned long long number;
        void *pointer;
        size_t size;
    } one, many;
    void *data = &many;
    one.number = many.number = 0;
    CUresult rc = cu.cuPointerGetAttribute_(&one, attribute, address);
    CUresult rc_many = cu.cuPointerGetAttributes_(1, &attribute, &data, address);
    printf("attribute %d: %d and %d, ", (int)attribute, (int)rc, (int)rc_many);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        printf("%s\n", one.pointer == context ? "the context" : one.pointer == NULL ? "none" : "another one");
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        printf("%lld from the block\n", rc == CUDA_SUCCESS ? (long long)(one.number - block) : 0);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        printf("%s\n", one.size == bytes ? "the block's" : "another");
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        printf("%s\n", one.pointer != NULL ? "a pool" : "none");
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: /* any number will do */
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: /* of a pool: its own affair */
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        printf("\n");
        break;
    default:
        printf("%llu\n", one.number);
    }
    say_if("both forms agree", one.number == many.number || rc != CUDA_SUCCESS);
}

/* HW_DECOMPRESS is left out: memory of ours does not have it. */
static void ask_all(const char *what, CUdeviceptr address, CUdeviceptr block, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    printf("%s\n", what);
    for (int i = CU_POINTER_ATTRIBUTE_CONTEXT; i < CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
        if (i != CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
            ask((CUpointer_attribute)i, address, block, bytes);
        }
    }
    say("cuMemRetainAllocationHandle", cu.cuMemRetainAllocationHandle_(&handle, (void *)(uintptr_t)address));
}

void scenario_attributes(void)
{
    CUdeviceptr plain_block;
    CUdeviceptr pool_block;
    CUdeviceptr base;
    size_t size;
    void *host = NULL;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&plain_block, 5 * MIB));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&pool_block, 5 * MIB, NULL));
    ask_all("plain", plain_block, plain_block, 5 * MIB);
    ask_all("inside a plain one", plain_block + 3 * MIB, plain_block, 5 * MIB);
    ask_all("from the pool", pool_block, pool_block, 5 * MIB);
    ask_all("nobody's", 4096, 4096, 0);
    need("cuMemAllocHost", cu.cuMemAllocHost_(&host, 5 * MIB));
    ask_all("the host's", (CUdeviceptr)(uintptr_t)host, (CUdeviceptr)(uintptr_t)host, 5 * MIB);
    say("cuMemFreeHost", cu.cuMemFreeHost_(host));
    say("cuMemFree", cu.cuMemFree_(plain_block));
    ask_all("freed", plain_block, plain_block, 0);
    say("range of a freed one", cu.cuMemGetAddressRange_(&base, &size, plain_block));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(pool_block, NULL));
}

/* Many blocks at a time, freed in another order. */
void scenario_many(void)
{
    enum { COUNT = 3000 };
    static CUdeviceptr blocks[COUNT];
    CUcontext owner;
    int wrong = 0;
    start(0);
    for (int i = 0; i < COUNT; i++) {
        need("cuMemAlloc", cu.cuMemAlloc_(&blocks[i], 600 + (size_t)i * 7));
    }
    for (int step = 1; step <= 2; step++) {
        for (int i = 0; i < COUNT; i += step) {
            owner = NULL;
            wrong += cu.cuPointerGetAttribute_(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, blocks[i]) != CUDA_SUCCESS ||
                     owner != context;
        }
        for (int i = 1; step == 1 && i < COUNT; i += 2) {
            wrong += cu.cuMemFree_(blocks[i]) != CUDA_SUCCESS;
        }
    }
    for (int i = 0; i < COUNT; i += 2) {
        wrong += cu.cuMemFree_(blocks[COUNT - 2 - i]) != CUDA_SUCCESS;
    }
    printf("wrong: %d\n", wrong);
}

void scenario_info(void)
{
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    CUdeviceptr address;
    start(0);
    say("cuMemGetInfo", cu.cuMemGetInfo_(&before, &total));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 64 * MIB));
    say("cuMemGetInfo", cu.cuMemGetInfo_(&after, &total));
    say_if("less is free", after + 64 * MIB <= before && after + 80 * MIB > before);
    say("cuMemFree", cu.cuMemFree_(address));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("without total", cu.cuMemGetInfo_(&after, NULL));
    say_if("as much is free as before", after + 2 * MIB >= before && after <= before);
    say_if("not more than there is", after <= total);
    total = 0;
    say("without free", cu.cuMemGetInfo_(NULL, &total));
    say_if("total", total >= before);
    say("with nothing", cu.cuMemGetInfo_(NULL, NULL));
}

/* Virtual memory that the program manages itself is nothing of ours, on the device or, as NCCL has it, on the host. */
static void use_foreign(const char *what, CUmemLocationType type)
{
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle retained = 0;
    CUmemAllocationProp properties;
    CUmemAccessDesc access;
    CUdeviceptr range;
    CUdeviceptr base = 0;
    size_t size = 0;
    int descriptor = -1;
    printf("%s\n", what);
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = type;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    say("cuMemCreate", cu.cuMemCreate_(&handle, 2 * MIB, &properties, 0));
    say("cuMemAddressReserve", cu.cuMemAddressReserve_(&range, 8 * MIB, 0, 0, 0));
    say("cuMemMap", cu.cuMemMap_(range, 2 * MIB, 0, handle, 0));
    say("cuMemSetAccess", cu.cuMemSetAccess_(range, 2 * MIB, &access, 1));
    say("cuMemExportToShareableHandle",
        cu.cuMemExportToShareableHandle_(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    say_if("there is a descriptor", descriptor >= 0 && close(descriptor) == 0);
    say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, range + MIB));
    say_if("the range is the mapping", base == range && size == 2 * MIB);
    say("cuMemRetainAllocationHandle", cu.cuMemRetainAllocationHandle_(&retained, (void *)(uintptr_t)range));
    say_if("it is the handle", retained == handle);
    say("cuMemRelease", cu.cuMemRelease_(retained));
    say("cuMemFree of it", cu.cuMemFree_(range));
    say("cuMemFreeAsync of it", cu.cuMemFreeAsync_(range, NULL));
    say("cuMemUnmap of what the range says", cu.cuMemUnmap_(base, size));
    say("cuMemRelease", cu.cuMemRelease_(handle));
    say("cuMemAddressFree", cu.cuMemAddressFree_(range, 8 * MIB));
}

/* What others have given cannot be freed by us; the driver says what becomes of it. */
void scenario_foreign(void)
{
    CUdeviceptr captured = 0;
    CUdeviceptr ours;
    CUstream stream;
    CUgraph graph = NULL;
    void *host = NULL;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&ours, 4 * MIB));
    use_foreign("on the device", CU_MEM_LOCATION_TYPE_DEVICE);
    use_foreign("on the host", CU_MEM_LOCATION_TYPE_HOST_NUMA);
    need("cuMemAllocHost", cu.cuMemAllocHost_(&host, MIB));
    say("cuMemFree of host memory", cu.cuMemFree_((CUdeviceptr)(uintptr_t)host));
    say("cuMemFreeAsync of host memory", cu.cuMemFreeAsync_((CUdeviceptr)(uintptr_t)host, NULL));
    say("cuMemFreeHost", cu.cuMemFreeHost_(host));
    need("cuStreamCreate", cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
    need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    say("allocation in a graph", cu.cuMemAllocAsync_(&captured, 4 * MIB, stream));
    say("cuMemFree of what a graph will have", cu.cuMemFree_(captured));
    say("cuStreamEndCapture", cu.cuStreamEndCapture_(stream, &graph));
    say("cuMemFree of what a graph has", cu.cuMemFree_(captured));
    say("cuMemFreeAsync of what a graph has", cu.cuMemFreeAsync_(captured, stream));
    say("free inside ours", cu.cuMemFree_(ours + 2 * MIB));
    say("cuMemFree", cu.cuMemFree_(ours));
    say("twice", cu.cuMemFree_(ours));
    say("twice on a stream", cu.cuMemFreeAsync_(ours, stream));
}

/* A block made of pieces that lay apart: it is one block at each of its addresses, in all that can be asked. */
void scenario_stitched(void)
{
    enum { PIECES = 24, PIECE = 4 * MIB, WHOLE = 40 * MIB };
    CUdeviceptr pieces[PIECES];
    CUdeviceptr whole;
    int wrong = 0;
    start(0);
    for (int i = 0; i < PIECES; i++) {
        need("cuMemAllocAsync", cu.cuMemAllocAsync_(&pieces[i], PIECE, NULL));
    }
    for (int i = 0; i < PIECES; i += 2) {
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(pieces[i], NULL));
    }
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    need("cuMemAlloc", cu.cuMemAlloc_(&whole, WHOLE));
    for (size_t at = 0; at < WHOLE; at += MIB / 2) {
        CUdeviceptr base = 0;
        CUdeviceptr start_address = 0;
        size_t size = 0;
        size_t range = 0;
        wrong += cu.cuMemGetAddressRange_(&base, &size, whole + at) != CUDA_SUCCESS || base != whole || size != WHOLE;
        wrong += cu.cuPointerGetAttribute_(&start_address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, whole + at) !=
                     CUDA_SUCCESS ||
                 start_address != whole;
        wrong += cu.cuPointerGetAttribute_(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, whole + at) != CUDA_SUCCESS ||
                 range != WHOLE;
    }
    printf("wrong answers: %d\n", wrong);
    use("holds its bytes", whole, WHOLE);
    say("cuMemFree", cu.cuMemFree_(whole));
    for (int i = 1; i < PIECES; i += 2) {
        use("holds its bytes", pieces[i], PIECE);
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(pieces[i], NULL));
    }
}

/* Idle memory of ours makes room for what only the driver can give. */
void scenario_room(void)
{
    CUdeviceptr address;
    CUdeviceptr pitched;
    size_t pitch;
    size_t free_bytes = 0;
    size_t total = 0;
    start(0);
    need("cuMemGetInfo", cu.cuMemGetInfo_(&free_bytes, &total));
    size_t most = free_bytes / 4 * 3;
    need("cuMemAlloc", cu.cuMemAlloc_(&address, most));
    say("cuMemFree", cu.cuMemFree_(address));
    say("cuMemAllocPitch", cu.cuMemAllocPitch_(&pitched, &pitch, MIB, most / MIB, 4));
    say("cuMemFree", cu.cuMemFree_(pitched));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, most));
    say("cuMemFree", cu.cuMemFree_(address));
}

static CUmemoryPool pool_with(CUmemAllocationHandleType handles)
{
    CUmemoryPool pool;
    CUmemPoolProps properties;
    cuuint64_t all = UINT64_MAX;
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = handles;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    need("cuMemPoolCreate", cu.cuMemPoolCreate_(&pool, &properties));
    need("cuMemPoolSetAttribute", cu.cuMemPoolSetAttribute_(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    return pool;
}

/* Leaves @bytes in @pool that nobody uses, for its threshold is high. */
static void leave_idle(CUmemoryPool pool, size_t bytes)
{
    CUdeviceptr address;
    need("cuMemAllocFromPoolAsync", cu.cuMemAllocFromPoolAsync_(&address, bytes, pool, NULL));
    need("cuMemFreeAsync", cu.cuMemFreeAsync_(address, NULL));
    need("cuStreamSynchronize", cu.cuStreamSynchronize_(NULL));
}

/*
 * On a device of 1 GiB. The driver takes what is idle in pools when it has no room for a pool, as it has not where some
 * is idle in another pool whose memory we use for any: the program finds room for plain memory afterwards.
 */
void scenario_room_of_pools(void)
{
    CUdeviceptr ordered;
    CUdeviceptr plain;
    CUdeviceptr last;
    start(0);
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        CUmemoryPool ours = pool_with(CU_MEM_HANDLE_TYPE_NONE);
        CUmemoryPool drivers = pool_with(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        leave_idle(ours, 300 * MIB);
        need("cuMemAllocFromPoolAsync", cu.cuMemAllocFromPoolAsync_(&last, MIB, drivers, NULL));
        leave_idle(drivers, 580 * MIB);
        if (destroyed) {
            say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(drivers));
        }
        say("on a stream", cu.cuMemAllocAsync_(&ordered, 300 * MIB, NULL));
        say("plain", cu.cuMemAlloc_(&plain, 600 * MIB));
        use("holds its bytes", plain, MIB);
        say("cuMemFree", cu.cuMemFree_(plain));
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(ordered, NULL));
        say("cuMemFree", cu.cuMemFree_(last));
        say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(ours));
        if (!destroyed) {
            say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(drivers));
        }
    }
}

static CUdeviceptr from_pool(size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr address;
    need("cuMemAllocFromPoolAsync", cu.cuMemAllocFromPoolAsync_(&address, bytes, pool, stream));
    return address;
}

/*
 * With streams that run late. A plain free waits for all of them in the driver, which then puts memory of a bounded
 * pool elsewhere than it does where the free is ours and waits for nothing. All that the bound allows is had in both
 * cases, and no more.
 */
void scenario_bounded_pool(void)
{
    CUmemoryPool pool;
    CUmemoryPool asked = NULL;
    CUmemPoolProps properties;
    CUstream streams[2];
    CUdeviceptr plain;
    CUdeviceptr address = 0;
    CUdeviceptr large = 0;
    cuuint64_t used = 0;
    start(0);
    need("cuStreamCreate", cu.cuStreamCreate_(&streams[0], CU_STREAM_NON_BLOCKING));
    need("cuStreamCreate", cu.cuStreamCreate_(&streams[1], CU_STREAM_NON_BLOCKING));
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.maxSize = 32 * MIB;
    need("cuMemPoolCreate", cu.cuMemPoolCreate_(&pool, &properties));
    need("cuMemAlloc", cu.cuMemAlloc_(&plain, MIB));
    CUdeviceptr first = from_pool(8 * MIB, pool, streams[0]);
    CUdeviceptr second = from_pool(8 * MIB, pool, streams[1]);
    CUdeviceptr third = from_pool(7 * MIB, pool, streams[0]);
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(first, streams[0]));
    say("cuMemFree", cu.cuMemFree_(plain));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(second, streams[1]));
    first = from_pool(6 * MIB, pool, streams[0]);
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(NULL)); /* the stream has one */
    say("14 MiB", cu.cuMemAllocFromPoolAsync_(&large, 14 * MIB, pool, streams[0]));
    say("plain without a context", cu.cuMemAlloc_(&address, MIB));
    say("beyond the bound without a context", cu.cuMemAllocFromPoolAsync_(&address, 8 * MIB, pool, NULL));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    say("cuStreamSynchronize", cu.cuStreamSynchronize_(streams[0]));
    use("holds its bytes", large, 14 * MIB);
    say("its pool", cu.cuPointerGetAttribute_(&asked, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, large));
    say_if("is that one", asked == pool);
    say("what is used", cu.cuMemPoolGetAttribute_(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    say_if("is 27 MiB", used == 27 * MIB);
    say("beyond the bound", cu.cuMemAllocFromPoolAsync_(&address, 8 * MIB, pool, streams[0]));
    say("within it", cu.cuMemAllocFromPoolAsync_(&second, 2 * MIB, pool, streams[0]));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(first, streams[0]));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(second, streams[1]));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(third, streams[0]));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(large, streams[1]));
    say("what is used", cu.cuMemPoolGetAttribute_(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    say_if("is nothing", used == 0);
    say("cuMemPoolDestroy", cu.cuMemPoolDestroy_(pool));
}

/* With a limit of 64 MiB for the process, whoever serves. */
void scenario_limit(void)
{
    CUdeviceptr held;
    CUdeviceptr address = 0;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    size_t pitch;
    start(0);
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    need("cuDeviceGetDefaultMemPool", cu.cuDeviceGetDefaultMemPool_(&pool, 0));
    need("cuMemAlloc", cu.cuMemAlloc_(&held, 40 * MIB));
    say("plain", cu.cuMemAlloc_(&address, 32 * MIB));
    say("on a stream", cu.cuMemAllocAsync_(&address, 32 * MIB, NULL));
    say("from a pool", cu.cuMemAllocFromPoolAsync_(&address, 32 * MIB, pool, NULL));
    say("pitched", cu.cuMemAllocPitch_(&address, &pitch, MIB, 32, 4));
    say("virtual", cu.cuMemCreate_(&handle, 32 * MIB, &properties, 0));
    say_if("nothing came of it", address == 0);
    say("more than there is", cu.cuMemAlloc_(&address, (size_t)1 << 50));
    say("nowhere", cu.cuMemAlloc_(NULL, MIB));
    say("within", cu.cuMemAlloc_(&address, 16 * MIB));
    say("cuMemFree", cu.cuMemFree_(address));
    say("cuMemFree", cu.cuMemFree_(held));
    say("what was freed counts no more", cu.cuMemAllocPitch_(&address, &pitch, MIB, 48, 4));
    say("beside it", cu.cuMemAlloc_(&held, 32 * MIB));
    say("freed twice", cu.cuMemFree_(4096));
    say("cuMemFree", cu.cuMemFree_(address));
    say("the other way round", cu.cuMemAllocAsync_(&held, 60 * MIB, NULL));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(held, NULL));
}
