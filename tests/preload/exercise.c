/*
 * exercise.c - a CUDA program that goes through one of the doors and prints what it hears, one line a question.
 *
 *   exercise DOOR SCENARIO
 *
 * What is printed is the same with the driver alone and under the preload library: results, contents, and relations
 * between addresses, never an address. Lines that begin with "driver:" say what the simulated driver was asked, which
 * differs, and is how a test knows who served.
 */
#include "calls.h"
#include "report.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct calls cu;
static CUcontext context;

static void say(const char *what, CUresult rc)
{
    printf("%s: %d\n", what, (int)rc);
}

static void say_if(const char *what, int holds)
{
    printf("%s: %s\n", what, holds ? "yes" : "no");
}

/* Ends the exercise where its preparation fails: nothing after it would mean anything. */
static void need(const char *what, CUresult rc)
{
    if (rc != CUDA_SUCCESS) {
        say(what, rc);
        exit(1);
    }
}

static void start(int ordinal)
{
    CUdevice device;
    need("cuInit", cu.cuInit_(0));
    need("cuDeviceGet", cu.cuDeviceGet_(&device, ordinal));
    need("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain_(&context, device));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
}

/* Writes a pattern through the address and reads it back. */
static void use(const char *what, CUdeviceptr address, size_t bytes)
{
    size_t part = bytes < MIB ? bytes : MIB;
    unsigned char *sent = malloc(part);
    unsigned char *got = malloc(part);
    for (size_t i = 0; i < part; i++) {
        sent[i] = (unsigned char)(i * 7 + bytes);
    }
    CUdeviceptr last = address + bytes - part;
    int same = cu.cuMemsetD8_(address, 0x5a, bytes) == CUDA_SUCCESS &&
               cu.cuMemcpyHtoD_(last, sent, part) == CUDA_SUCCESS &&
               cu.cuMemcpyDtoH_(got, last, part) == CUDA_SUCCESS && memcmp(sent, got, part) == 0;
    say_if(what, same);
    free(sent);
    free(got);
}

static void plain(void)
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
    say("more than there is", cu.cuMemAlloc_(&base, (size_t)1 << 46));
    say("free NULL", cu.cuMemFree_(0));
    say("free inside a block", cu.cuMemFree_(blocks[6] + MIB));
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        say("cuMemFree", cu.cuMemFree_(blocks[i]));
    }
    say("free twice", cu.cuMemFree_(blocks[5]));
    say("free what nobody gave", cu.cuMemFree_(4096));
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

static void attributes(void)
{
    CUdeviceptr plain_block;
    CUdeviceptr pool_block;
    CUdeviceptr base;
    size_t size;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&plain_block, 5 * MIB));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&pool_block, 5 * MIB, NULL));
    ask_all("plain", plain_block, plain_block, 5 * MIB);
    ask_all("inside a plain one", plain_block + 3 * MIB, plain_block, 5 * MIB);
    ask_all("from the pool", pool_block, pool_block, 5 * MIB);
    ask_all("nobody's", 4096, 4096, 0);
    say("cuMemFree", cu.cuMemFree_(plain_block));
    ask_all("freed", plain_block, plain_block, 0);
    say("range of a freed one", cu.cuMemGetAddressRange_(&base, &size, plain_block));
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(pool_block, NULL));
}

/* Many blocks at a time, freed in another order. */
static void many(void)
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

static void streams(void)
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
static void short_streams(void)
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

/* The thread's own default stream: the driver's memory, but memory of ours may be freed on it. */
static void thread_streams(void)
{
    CUdeviceptr address;
    start(0);
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, 5 * MIB, CU_STREAM_PER_THREAD));
    say("free on it", cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 5 * MIB));
    use("holds its bytes", address, 5 * MIB);
    say("free on it", cu.cuMemFreeAsync_(address, CU_STREAM_PER_THREAD));
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
static void pools(void)
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
static void shared_pools(void)
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

static void info(void)
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

static void capture_on(const char *what, CUstreamCaptureMode mode)
{
    CUstream captured = NULL;
    CUstream other = NULL;
    CUgraph graph = NULL;
    CUdeviceptr kept;
    CUdeviceptr inside;
    CUdeviceptr beside;
    CUresult rc;
    printf("%s\n", what);
    need("cuStreamCreate", cu.cuStreamCreate_(&captured, CU_STREAM_NON_BLOCKING));
    need("cuStreamCreate", cu.cuStreamCreate_(&other, CU_STREAM_NON_BLOCKING));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&kept, 4 * MIB, captured));
    need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(captured, mode));
    say("allocate in the graph", cu.cuMemAllocAsync_(&inside, 4 * MIB, captured));
    say("free in the graph", cu.cuMemFreeAsync_(inside, captured));
    rc = cu.cuMemAllocAsync_(&beside, 4 * MIB, other);
    say("allocate beside it", rc);
    if (rc == CUDA_SUCCESS) {
        say("free beside it", cu.cuMemFreeAsync_(beside, other));
    }
    rc = cu.cuMemAlloc_(&beside, 4 * MIB);
    say("plain allocation", rc);
    if (rc == CUDA_SUCCESS) {
        say("plain free", cu.cuMemFree_(beside));
    }
    rc = cu.cuStreamEndCapture_(captured, &graph);
    say("cuStreamEndCapture", rc);
    say_if("there is a graph", graph != NULL);
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(kept, other));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("cuStreamDestroy", cu.cuStreamDestroy_(captured));
    say("cuStreamDestroy", cu.cuStreamDestroy_(other));
}

static void captures(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr address;
    start(0);
    capture_on("thread-local capture", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capture_on("global capture", CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_on("relaxed capture", CU_STREAM_CAPTURE_MODE_RELAXED);
    say("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    printf("mode before: %d\n", (int)mode);
    capture_on("global capture, relaxed thread", CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 4 * MIB));
    say("cuMemFree", cu.cuMemFree_(address));
}

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

static void threads(void)
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

/* Before anything: no context, no initialisation. */
static void early(void)
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
static void forked(void)
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
static void forked_early(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        plain();
        fflush(NULL);
        _exit(0);
    }
    wait_for(child);
    plain();
}

/* Virtual memory that the program manages itself is nothing of ours. */
static void foreign(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    CUdeviceptr range;
    CUdeviceptr base = 0;
    size_t size = 0;
    start(0);
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    say("cuMemCreate", cu.cuMemCreate_(&handle, 2 * MIB, &properties, 0));
    say("cuMemAddressReserve", cu.cuMemAddressReserve_(&range, 8 * MIB, 0, 0, 0));
    say("cuMemMap", cu.cuMemMap_(range, 2 * MIB, 0, handle, 0));
    say("cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, range + MIB));
    say_if("the range is the mapping", base == range && size == 2 * MIB);
    say("cuMemFree of it", cu.cuMemFree_(range));
    say("cuMemFreeAsync of it", cu.cuMemFreeAsync_(range, NULL));
    say("cuMemUnmap", cu.cuMemUnmap_(range, 2 * MIB));
    say("cuMemRelease", cu.cuMemRelease_(handle));
    say("cuMemAddressFree", cu.cuMemAddressFree_(range, 8 * MIB));
}

/* Idle memory of ours makes room for what only the driver can give. */
static void room(void)
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

static CUdeviceptr left_over;

static void free_late(void)
{
    say("free while the process ends", cu.cuMemFree_(left_over));
}

/* Static destructors free memory late. */
static void at_exit(void)
{
    atexit(free_late);
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&left_over, MIB));
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"plain", plain},
    {"attributes", attributes},
    {"many", many},
    {"streams", streams},
    {"short-streams", short_streams},
    {"thread-streams", thread_streams},
    {"pools", pools},
    {"shared-pools", shared_pools},
    {"info", info},
    {"captures", captures},
    {"threads", threads},
    {"early", early},
    {"forked", forked},
    {"forked-early", forked_early},
    {"foreign", foreign},
    {"room", room},
    {"at-exit", at_exit},
};

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: exercise DOOR SCENARIO\n");
        return 2;
    }
    if (calls_find(argv[1], &cu) != 0) {
        return 1;
    }
    for (size_t i = 0; i < LENGTH(scenarios); i++) {
        if (strcmp(scenarios[i].name, argv[2]) == 0) {
            scenarios[i].run();
            report_driver_calls();
            return 0;
        }
    }
    fprintf(stderr, "no such scenario: %s\n", argv[2]);
    return 2;
}
