/*
 * facts.c - asks the driver questions and prints the answers, one a line, without addresses or times.
 *
 * facts.txt holds what an H200 answered (driver 580, CUDA 13.0). The simulated driver must print the same; on a machine
 * with a GPU the real one must still do so. Usage: facts [LIBCUDA]
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)2 << 20)

static struct driver {
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) CUresult(CUDAAPI *symbol) parameters;
#include "exports.def"
#undef SIM_FUNCTION
} cu;

/* One answer: the result of a call. */
#define FACT(call) printf("%-92s %d\n", #call, (int)(cu.call))

/* One answer: a number. */
#define NUMBER(text, value) printf("%-92s %lld\n", text, (long long)(value))

static void heading(const char *text)
{
    printf("\n# %s\n", text);
}

static bool load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        return false;
    }
    void *address;
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...)                                            \
    address = dlsym(library, #symbol);                                                                                 \
    memcpy(&cu.symbol, &address, sizeof address);
#include "exports.def"
#undef SIM_FUNCTION
    return true;
}

static CUmemAllocationProp pinned(int ordinal)
{
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = ordinal;
    return properties;
}

static CUmemAccessDesc open_for(CUmemAccess_flags flags)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = flags;
    return access;
}

/* The result of a capture's end; the graph goes. */
static CUresult end_capture(CUstream stream)
{
    CUgraph graph = NULL;
    CUresult result = cu.cuStreamEndCapture(stream, &graph);
    if (graph != NULL) {
        cu.cuGraphDestroy(graph);
    }
    return result;
}

#define END(stream) printf("%-92s %d\n", "end of the capture", (int)end_capture(stream))

/* ---- the questions ---- */

static void before_init(void)
{
    CUdeviceptr address;
    CUcontext context;
    int count;
    heading("before cuInit");
    FACT(cuMemAlloc_v2(&address, 1));
    FACT(cuMemFree_v2(0));
    FACT(cuCtxGetCurrent(&context));
    FACT(cuDeviceGetCount(&count));
    FACT(cuInit(1));
    FACT(cuInit(0));
    heading("without a context");
    FACT(cuMemAlloc_v2(&address, 1));
    FACT(cuMemFree_v2(0));
    FACT(cuCtxSynchronize());
    FACT(cuCtxPopCurrent_v2(&context));
    FACT(cuCtxSetCurrent(NULL));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
    FACT(cuDeviceGet(&count, 99));
    FACT(cuDeviceGetAttribute(&count, (CUdevice_attribute)0, 0));
    FACT(cuDeviceGetAttribute(&count, (CUdevice_attribute)100000, 0));
}

static void look_ups(void)
{
    void *address;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    heading("look-ups");
    FACT(cuGetProcAddress_v2("", &address, 0, 0, NULL));
    NUMBER("found", address != NULL);
    FACT(cuGetProcAddress_v2("cuFrobnicate", &address, 13000, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress("cuFrobnicate", &address, 13000, 0));
    FACT(cuGetProcAddress_v2("cuMemAllocAsync", &address, 11010, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress("cuMemAllocAsync", &address, 11010, 0));
    FACT(cuGetProcAddress_v2("cuMemAllocAsync", &address, 11020, 2, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress_v2("cuMemAlloc_v2", &address, 13000, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress_v2("cuInit", &address, 99000, 0, &status));
    FACT(cuGetProcAddress_v2("cuInit", &address, 13000, 3, &status));
    FACT(cuGetProcAddress_v2("cuInit", &address, 13000, 8, &status));
}

static void plain_memory(void)
{
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    size_t pitch = 0;
    unsigned char byte = 1;
    heading("plain memory");
    FACT(cuMemAlloc_v2(&a, 0));
    FACT(cuMemAlloc_v2(NULL, 1));
    FACT(cuMemAlloc_v2(&a, SIZE_MAX));
    FACT(cuMemAlloc_v2(&a, (size_t)1 << 46));
    FACT(cuMemAlloc_v2(&a, 1));
    FACT(cuMemAlloc_v2(&b, 1));
    NUMBER("apart", b > a ? b - a : a - b);
    FACT(cuMemGetAddressRange_v2(&base, &size, a));
    NUMBER("size", size);
    FACT(cuMemGetAddressRange_v2(NULL, &size, a));
    FACT(cuMemGetAddressRange_v2(&base, NULL, a));
    FACT(cuMemGetAddressRange_v2(NULL, NULL, a));
    FACT(cuMemGetAddressRange_v2(&base, &size, 0x1000));
    FACT(cuMemGetAddressRange_v2(&base, &size, 0));
    FACT(cuMemGetInfo_v2(NULL, NULL));
    FACT(cuMemsetD8_v2(a, 1, 0));
    FACT(cuMemcpyHtoD_v2(a, &byte, 0));
    FACT(cuMemcpyHtoD_v2(a, NULL, 1));
    FACT(cuMemcpyHtoD_v2(0x1000, &byte, 1));
    FACT(cuMemcpyDtoH_v2(&byte, 0x1000, 1));
    FACT(cuMemsetD8_v2(0x1000, 1, 1));
    FACT(cuMemsetD32_v2(a + 2, 1, 1));
    FACT(cuMemFree_v2(0));
    FACT(cuMemFree_v2(0x1000));
    FACT(cuMemFree_v2(a));
    FACT(cuMemFree_v2(a));
    FACT(cuMemFree_v2(b));
    FACT(cuMemAllocPitch_v2(&a, &pitch, 700, 10, 4));
    NUMBER("pitch", pitch);
    FACT(cuMemGetAddressRange_v2(&base, &size, a));
    NUMBER("size", size);
    FACT(cuMemFree_v2(a + 512));
    FACT(cuMemFree_v2(a));
    FACT(cuMemAllocPitch_v2(&a, &pitch, 0, 10, 4));
    FACT(cuMemAllocPitch_v2(&a, &pitch, 700, 10, 3));
}

static void memory_taken(size_t bytes, const char *text)
{
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    size_t before = 0;
    size_t one = 0;
    size_t two = 0;
    cu.cuMemGetInfo_v2(&before, NULL);
    cu.cuMemAlloc_v2(&first, bytes);
    cu.cuMemGetInfo_v2(&one, NULL);
    cu.cuMemAlloc_v2(&second, bytes);
    cu.cuMemGetInfo_v2(&two, NULL);
    cu.cuMemFree_v2(first);
    cu.cuMemFree_v2(second);
    printf("%-92s %zu %zu\n", text, before - one, before - two);
}

static void memory_of_the_device(void)
{
    heading("memory that one plain allocation takes, and two");
    memory_taken(1, "1 byte");
    memory_taken(PAGE / 4, "512 KB");
    memory_taken(PAGE / 2 - 512, "1 MB less 512");
    memory_taken(PAGE / 2, "1 MB");
    memory_taken(PAGE / 2 + 512, "1 MB and 512");
    memory_taken(PAGE - 512, "2 MB less 512");
    memory_taken(PAGE, "2 MB");
    memory_taken(PAGE + 512, "2 MB and 512");
    memory_taken(5 * PAGE + PAGE / 2, "11 MB");
}

static void host_memory(void)
{
    static char mine[8192];
    void *pinned_bytes = NULL;
    CUdeviceptr device = 0;
    unsigned flags = 0;
    heading("host memory");
    FACT(cuMemHostAlloc(&pinned_bytes, 0, 0));
    NUMBER("no address", pinned_bytes == NULL);
    FACT(cuMemHostAlloc(&pinned_bytes, 100, 0x80));
    FACT(cuMemHostAlloc(&pinned_bytes, 10000, 0));
    FACT(cuMemHostGetDevicePointer_v2(&device, pinned_bytes, 0));
    NUMBER("same address", device == (CUdeviceptr)(uintptr_t)pinned_bytes);
    FACT(cuMemHostGetFlags(&flags, pinned_bytes));
    NUMBER("flags", flags);
    FACT(cuMemsetD8_v2(device, 1, 10000));
    FACT(cuMemFree_v2(device));
    FACT(cuMemHostUnregister(pinned_bytes));
    FACT(cuMemFreeHost(pinned_bytes));
    FACT(cuMemFreeHost(NULL));
    FACT(cuMemFreeHost(pinned_bytes));
    FACT(cuMemHostRegister_v2(mine, sizeof mine, 0));
    FACT(cuMemHostRegister_v2(mine, sizeof mine, 0));
    FACT(cuMemFreeHost(mine));
    FACT(cuMemHostUnregister(mine));
    FACT(cuMemHostUnregister(mine));
}

static void address_space(void)
{
    CUdeviceptr range = 0;
    heading("address space");
    FACT(cuMemAddressReserve(&range, 0, 0, 0, 0));
    FACT(cuMemAddressReserve(&range, 4096, 0, 0, 0));
    FACT(cuMemAddressReserve(&range, PAGE, 3 * PAGE, 0, 0));
    FACT(cuMemAddressReserve(&range, PAGE, 4096, 0, 0));
    FACT(cuMemAddressFree(range, PAGE));
    FACT(cuMemAddressReserve(&range, PAGE, 0, 0, 1));
    FACT(cuMemAddressReserve(&range, 3 * PAGE, (size_t)1 << 32, 0, 0));
    NUMBER("aligned", range % ((size_t)1 << 32) == 0);
    FACT(cuMemAddressFree(range, 2 * PAGE));
    FACT(cuMemAddressFree(range + PAGE, 2 * PAGE));
    FACT(cuMemAddressFree(range, 3 * PAGE));
    FACT(cuMemAddressFree(range, 3 * PAGE));
}

static void create_and_map(CUdeviceptr range, CUmemGenericAllocationHandle *one, CUmemGenericAllocationHandle *two)
{
    CUmemAllocationProp properties = pinned(0);
    CUmemAllocationProp wrong = pinned(99);
    heading("create and map");
    FACT(cuMemCreate(one, 0, &properties, 0));
    FACT(cuMemCreate(one, 4096, &properties, 0));
    FACT(cuMemCreate(one, PAGE, NULL, 0));
    FACT(cuMemCreate(one, PAGE, &properties, 1));
    FACT(cuMemCreate(one, PAGE, &wrong, 0));
    FACT(cuMemCreate(one, (size_t)1 << 46, &properties, 0));
    wrong = pinned(0);
    wrong.type = (CUmemAllocationType)0;
    FACT(cuMemCreate(one, PAGE, &wrong, 0));
    FACT(cuMemCreate(one, PAGE, &properties, 0));
    FACT(cuMemCreate(two, 2 * PAGE, &properties, 0));
    FACT(cuMemMap(range, PAGE, PAGE, *two, 0));
    FACT(cuMemMap(range, PAGE, 0, *two, 0));
    FACT(cuMemMap(range, 2 * PAGE, 0, *one, 0));
    FACT(cuMemMap(range + 4096, PAGE, 0, *one, 0));
    FACT(cuMemMap(range, PAGE, 0, *one, 1));
    FACT(cuMemMap(0x1000000000, PAGE, 0, *one, 0));
    FACT(cuMemMap(range, PAGE, 0, *one, 0));
    FACT(cuMemMap(range, PAGE, 0, *one, 0));
    FACT(cuMemMap(range + PAGE, 2 * PAGE, 0, *two, 0));
    FACT(cuMemMap(range + 4 * PAGE, PAGE, 0, *one, 0));
}

static void access_to_mappings(CUdeviceptr range)
{
    CUmemAccessDesc write = open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc read = open_for(CU_MEM_ACCESS_FLAGS_PROT_READ);
    CUmemAccessDesc wrong = open_for((CUmemAccess_flags)2);
    CUmemLocation here = write.location;
    unsigned char byte = 1;
    unsigned long long flags = 99;
    heading("access");
    FACT(cuMemcpyDtoH_v2(&byte, range, 1));
    FACT(cuMemGetAccess(&flags, &here, range));
    NUMBER("flags", flags);
    FACT(cuMemGetAccess(&flags, &here, range + 5 * PAGE));
    FACT(cuMemSetAccess(range, PAGE, &write, 0));
    FACT(cuMemSetAccess(range, PAGE, NULL, 1));
    FACT(cuMemSetAccess(range, PAGE, &wrong, 1));
    FACT(cuMemSetAccess(range + PAGE, PAGE, &write, 1));
    FACT(cuMemSetAccess(range, 6 * PAGE, &write, 1));
    FACT(cuMemSetAccess(range + 5 * PAGE, PAGE, &write, 1));
    FACT(cuMemSetAccess(range, 3 * PAGE, &write, 1));
    FACT(cuMemSetAccess(range + 4 * PAGE, PAGE, &read, 1));
    FACT(cuMemGetAccess(&flags, &here, range + 4 * PAGE));
    NUMBER("flags", flags);
    FACT(cuMemcpyDtoH_v2(&byte, range + 4 * PAGE, 1));
    FACT(cuMemsetD8_v2(range, 1, 3 * PAGE));
    FACT(cuMemcpyDtoH_v2(&byte, range + 4 * PAGE, 1));
    NUMBER("byte through the alias", byte);
    FACT(cuMemcpyDtoH_v2(&byte, range + 5 * PAGE, 1));
    FACT(cuMemcpyHtoD_v2(range + 3 * PAGE, &byte, 1));
}

static void questions_about_mappings(CUdeviceptr range)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties;
    heading("questions about mappings");
    FACT(cuMemGetAddressRange_v2(&base, &size, range + PAGE + 100));
    NUMBER("base", base - range);
    NUMBER("size", size);
    FACT(cuMemGetAddressRange_v2(&base, &size, range + 5 * PAGE));
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(range + 100)));
    FACT(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
    NUMBER("handle types", properties.requestedHandleTypes);
    FACT(cuMemRelease(handle));
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(range + 5 * PAGE)));
    FACT(cuMemFree_v2(range));
}

static void unmap_and_release(CUdeviceptr range, CUmemGenericAllocationHandle one, CUmemGenericAllocationHandle two)
{
    unsigned char byte;
    heading("unmap and release");
    FACT(cuMemUnmap(range + 4096, PAGE));
    FACT(cuMemUnmap(range, PAGE + 4096));
    FACT(cuMemUnmap(range, 0));
    FACT(cuMemUnmap(range + PAGE, PAGE));
    FACT(cuMemUnmap(range, 4 * PAGE));
    FACT(cuMemUnmap(range, 2 * PAGE));
    FACT(cuMemUnmap(range + 5 * PAGE, PAGE));
    FACT(cuMemAddressFree(range, 8 * PAGE));
    FACT(cuMemRelease(one));
    FACT(cuMemcpyDtoH_v2(&byte, range, 1));
    FACT(cuMemUnmap(range, 3 * PAGE));
    FACT(cuMemUnmap(range, 3 * PAGE));
    FACT(cuMemcpyDtoH_v2(&byte, range, 1));
    FACT(cuMemUnmap(range + 4 * PAGE, PAGE));
    FACT(cuMemRelease(two));
    FACT(cuMemAddressFree(range, 8 * PAGE));
}

static void virtual_memory(void)
{
    CUdeviceptr range = 0;
    CUmemGenericAllocationHandle one = 0;
    CUmemGenericAllocationHandle two = 0;
    address_space();
    cu.cuMemAddressReserve(&range, 8 * PAGE, 0, 0, 0);
    create_and_map(range, &one, &two);
    access_to_mappings(range);
    questions_about_mappings(range);
    unmap_and_release(range, one, two);
}

static void pooled_memory(void)
{
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUmemoryPool pool;
    cuuint64_t value = 5;
    CUstream stream;
    heading("stream-ordered memory");
    cu.cuStreamCreate(&stream, 0);
    FACT(cuDeviceGetDefaultMemPool(&pool, 0));
    FACT(cuMemAllocAsync(&a, 0, stream));
    NUMBER("no address", a == 0);
    FACT(cuMemFreeAsync(a, stream));
    FACT(cuMemFreeAsync(0, stream));
    FACT(cuMemAllocAsync(NULL, 1, stream));
    FACT(cuMemAllocAsync(&a, SIZE_MAX, stream));
    FACT(cuMemAllocAsync(&a, (size_t)1 << 46, stream));
    FACT(cuMemAllocFromPoolAsync(&a, 1, NULL, stream));
    FACT(cuMemAllocAsync(&a, 1, stream));
    FACT(cuMemAllocAsync(&b, 1, stream));
    NUMBER("apart", b > a ? b - a : a - b);
    FACT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    NUMBER("reserved", value);
    FACT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    NUMBER("used", value);
    value = 5;
    FACT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    FACT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    FACT(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value));
    FACT(cuMemPoolDestroy(pool));
    FACT(cuMemFreeAsync(a + 512 * 100, stream));
    FACT(cuMemFreeAsync(0x1000, stream));
    FACT(cuMemFreeAsync(a, stream));
    FACT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    NUMBER("used after the free was queued", value);
    FACT(cuStreamSynchronize(stream));
    FACT(cuMemFree_v2(b));
    FACT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    NUMBER("reserved after a plain free", value);
    FACT(cuCtxSynchronize());
    FACT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    NUMBER("reserved after a wait", value);
    FACT(cuMemAlloc_v2(&a, PAGE));
    FACT(cuMemFreeAsync(a, stream));
    FACT(cuStreamSynchronize(stream));
    static const size_t sizes[] = {16, 31, 32, 33, 40, 64, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t mapping = 0;
        cu.cuMemAllocAsync(&a, sizes[i] << 20, stream);
        cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
        cu.cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, a);
        printf("%zu MB take %llu MB, the first mapping is %zu MB\n", sizes[i], (unsigned long long)value >> 20,
               mapping >> 20);
        cu.cuMemFreeAsync(a, stream);
        cu.cuStreamSynchronize(stream);
    }
    cu.cuStreamDestroy_v2(stream);
}

static void streams_and_events(void)
{
    CUstream stream;
    CUevent event;
    CUevent other;
    float milliseconds;
    unsigned long long id;
    heading("streams and events");
    FACT(cuStreamCreate(&stream, 64));
    FACT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    FACT(cuEventCreate(&event, 0x100));
    FACT(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    FACT(cuEventCreate(&event, CU_EVENT_DEFAULT));
    FACT(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    FACT(cuEventQuery(event));
    FACT(cuEventSynchronize(event));
    FACT(cuStreamWaitEvent(stream, event, 0));
    FACT(cuStreamWaitEvent(stream, event, 2));
    FACT(cuEventElapsedTime(&milliseconds, event, event));
    FACT(cuEventRecord(event, stream));
    FACT(cuEventRecord(other, stream));
    FACT(cuStreamSynchronize(stream));
    FACT(cuEventElapsedTime(&milliseconds, event, event));
    FACT(cuEventElapsedTime(&milliseconds, event, other));
    FACT(cuStreamGetId(NULL, &id));
    FACT(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
    FACT(cuEventDestroy_v2(event));
    FACT(cuEventDestroy_v2(other));
    FACT(cuStreamDestroy_v2(CU_STREAM_LEGACY));
    FACT(cuStreamDestroy_v2(NULL));
    FACT(cuStreamDestroy_v2(stream));
}

/* A value without what differs from run to run. */
static const char *shown(CUpointer_attribute attribute, unsigned long long value, CUdeviceptr address)
{
    static char texts[2][32];
    static unsigned turn;
    char *text = texts[turn++ % 2];
    bool hidden = attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ||
                  attribute == CU_POINTER_ATTRIBUTE_CONTEXT || attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
    if (value != 0 && value == address) {
        snprintf(text, sizeof texts[0], "itself");
    } else if (!hidden && value < 1ull << 33) {
        snprintf(text, sizeof texts[0], "%d", (int)value);
    } else {
        snprintf(text, sizeof texts[0], value == 0 ? "0" : "set");
    }
    return text;
}

/* How many bytes the plural form writes. */
static int width(CUpointer_attribute attribute, CUdeviceptr address)
{
    unsigned char low[16];
    unsigned char high[16];
    void *into_low[] = {low};
    void *into_high[] = {high};
    memset(low, 0x55, sizeof low);
    memset(high, 0xaa, sizeof high);
    cu.cuPointerGetAttributes(1, &attribute, into_low, address);
    cu.cuPointerGetAttributes(1, &attribute, into_high, address);
    int bytes = 0;
    for (int i = 0; i < 16; i++) {
        bytes = low[i] == high[i] ? i + 1 : bytes;
    }
    return bytes;
}

static void all_attributes(CUdeviceptr address, const char *kind)
{
    heading(kind);
    for (int i = 1; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
        if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
            continue; /* depends on the machine's kernel drivers */
        }
        unsigned long long one = 0;
        unsigned long long many = 0;
        CUpointer_attribute attribute = (CUpointer_attribute)i;
        void *data[] = {&many};
        int first = (int)cu.cuPointerGetAttribute(&one, attribute, address);
        int second = (int)cu.cuPointerGetAttributes(1, &attribute, data, address);
        printf("attribute %-2d: %d %s, %d %s, %d bytes\n", i, first, shown(attribute, one, address), second,
               shown(attribute, many, address), width(attribute, address));
    }
}

static void pointers(CUdeviceptr plain, CUdeviceptr pooled, CUdeviceptr range)
{
    static char mine[64];
    unsigned on = 1;
    void *pinned_bytes;
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    CUdeviceptr opened;
    all_attributes(plain + 512, "attributes of plain memory");
    all_attributes(pooled + 512, "attributes of stream-ordered memory");
    all_attributes(range + 512, "attributes of mapped memory");
    all_attributes(range + 4 * PAGE, "attributes of reserved memory, not mapped");
    all_attributes((CUdeviceptr)(uintptr_t)mine, "attributes of unknown memory");
    all_attributes(0, "attributes of NULL");
    cu.cuMemAllocHost_v2(&pinned_bytes, 4096);
    all_attributes((CUdeviceptr)(uintptr_t)pinned_bytes, "attributes of page-locked host memory");
    heading("other questions about pointers");
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)(uintptr_t)pinned_bytes));
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, plain));
    unsigned memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pooled));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    on = 0;
    FACT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    memops = 0xaaaaaaaa;
    FACT(cuPointerGetAttribute(&memops, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    NUMBER("synchronous, in a word of 0xaaaaaaaa", memops);
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)plain));
    FACT(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)pooled));
    FACT(cuIpcGetMemHandle(&ipc, pooled));
    FACT(cuIpcGetMemHandle(&ipc, range));
    FACT(cuIpcGetMemHandle(&ipc, plain + 512));
    FACT(cuIpcGetMemHandle(&ipc, plain));
    FACT(cuIpcOpenMemHandle_v2(&opened, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    FACT(cuIpcCloseMemHandle(plain));
    FACT(cuMemFreeHost(pinned_bytes));
}

static void sharing(CUdeviceptr plain, CUdeviceptr range, CUmemGenericAllocationHandle chunk)
{
    int descriptor = -1;
    CUmemGenericAllocationHandle same = 0;
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUmemRangeHandleType dma = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    heading("sharing");
    FACT(cuMemExportToShareableHandle(&descriptor, chunk, CU_MEM_HANDLE_TYPE_NONE, 0));
    FACT(cuMemExportToShareableHandle(&descriptor, chunk, type, 0));
    FACT(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)descriptor, type));
    NUMBER("the same handle", same == chunk);
    FACT(cuMemRelease(same));
    FACT(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)range));
    NUMBER("the same handle", same == chunk);
    FACT(cuMemRelease(same));
    FACT(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)0, type));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, plain, PAGE, dma, 0));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 2 * PAGE, dma, 0));
    close(descriptor);
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 4 * PAGE, dma, 0));
    FACT(cuMemGetHandleForAddressRange(&descriptor, range, 0, dma, 0));
    FACT(cuMemGetHandleForAddressRange(&descriptor, 0x1000, PAGE, dma, 0));
}

static void one_of_each(void)
{
    CUdeviceptr plain;
    CUdeviceptr pooled;
    CUdeviceptr range;
    CUmemGenericAllocationHandle chunk;
    CUmemAllocationProp properties = pinned(0);
    CUmemAccessDesc write = open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    properties.allocFlags.gpuDirectRDMACapable = 1;
    cu.cuMemAlloc_v2(&plain, 3 * PAGE);
    cu.cuMemAllocAsync(&pooled, 3 * PAGE, NULL);
    cu.cuMemAddressReserve(&range, 32 * PAGE, 0, 0, 0);
    cu.cuMemCreate(&chunk, PAGE, &properties, 0);
    for (size_t i = 0; i < 3; i++) {
        cu.cuMemMap(range + i * PAGE, PAGE, 0, chunk, 0);
    }
    cu.cuMemSetAccess(range, 3 * PAGE, &write, 1);
    pointers(plain, pooled, range);
    sharing(plain, range, chunk);
    cu.cuMemFree_v2(plain);
    cu.cuMemFree_v2(pooled);
    cu.cuMemUnmap(range, 3 * PAGE);
    cu.cuMemRelease(chunk);
    cu.cuMemAddressFree(range, 32 * PAGE);
}

static void capture_in_mode(CUstreamCaptureMode mode, CUstream stream, CUevent event)
{
    CUdeviceptr address = 0;
    CUdeviceptr range = 0;
    size_t bytes;
    CUmemoryPool pool;
    cuuint64_t value;
    CUmemGenericAllocationHandle chunk;
    CUmemAllocationProp properties = pinned(0);
    CUmemAccessDesc write = open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    static const char *const names[] = {"capture, global", "capture, thread-local", "capture, relaxed"};
    heading(names[mode]);
#define DURING(call)                                                                                                   \
    do {                                                                                                               \
        cu.cuStreamBeginCapture_v2(stream, mode);                                                                      \
        FACT(call);                                                                                                    \
        END(stream);                                                                                                   \
    } while (0)
    cu.cuDeviceGetDefaultMemPool(&pool, 0);
    DURING(cuMemGetInfo_v2(&bytes, &bytes));
    DURING(cuMemAddressReserve(&range, PAGE, 0, 0, 0));
    DURING(cuMemCreate(&chunk, PAGE, &properties, 0));
    DURING(cuMemMap(range, PAGE, 0, chunk, 0));
    DURING(cuMemSetAccess(range, PAGE, &write, 1));
    DURING(cuMemUnmap(range, PAGE));
    DURING(cuMemRelease(chunk));
    DURING(cuMemAddressFree(range, PAGE));
    DURING(cuMemAlloc_v2(&address, PAGE));
    if (address == 0) {
        cu.cuMemAlloc_v2(&address, PAGE);
    }
    DURING(cuMemsetD8_v2(address, 1, 1));
    DURING(cuMemFree_v2(address));
    DURING(cuEventQuery(event));
    DURING(cuEventSynchronize(event));
    DURING(cuStreamSynchronize(stream));
    DURING(cuStreamQuery(stream));
    DURING(cuCtxSynchronize());
    DURING(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    DURING(cuMemPoolTrimTo(pool, 0));
    DURING(cuStreamWaitEvent(stream, event, 0));
    DURING(cuStreamBeginCapture_v2(stream, mode));
    DURING(cuMemAllocAsync(&range, PAGE, stream));
    DURING(cuMemFreeAsync(0x1000, stream));
    cu.cuMemFree_v2(address);
#undef DURING
}

static void capture(void)
{
    CUstream stream;
    CUstream other;
    CUevent event;
    CUgraph graph;
    CUdeviceptr memory;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cu.cuMemAlloc_v2(&memory, 1);
    cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cu.cuEventRecord(event, other);
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        capture_in_mode((CUstreamCaptureMode)mode, stream, event);
    }
    heading("capture, borders");
    FACT(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FACT(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)9));
    FACT(cuStreamEndCapture(stream, &graph));
#define BEGIN() cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)
    BEGIN();
    FACT(cuEventRecord(event, stream));
    FACT(cuEventQuery(event));
    END(stream);
    FACT(cuEventQuery(event));
    BEGIN();
    FACT(cuEventRecord(event, stream));
    END(stream);
    FACT(cuEventQuery(event));
    FACT(cuEventSynchronize(event));
    FACT(cuStreamWaitEvent(other, event, 0));
    FACT(cuEventRecord(event, other));
    FACT(cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cu.cuEventSynchronize(event));
    BEGIN();
    FACT(cuEventRecord(event, stream));
    FACT(cuStreamWaitEvent(other, event, 0));
    FACT(cuStreamEndCapture(other, &graph));
    END(stream);
    heading("capture, a fork without work");
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    END(stream);
    BEGIN();
    cu.cuMemsetD8Async(memory, 1, 1, stream);
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    END(stream);
    heading("capture, a fork with work");
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    END(stream);
    FACT(cuStreamIsCapturing(other, &status));
    NUMBER("status", status);
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    FACT(cuEventRecord(event, other));
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    FACT(cuStreamWaitEvent(stream, event, 0));
    END(stream);
    heading("capture, merged");
    BEGIN();
    cu.cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED);
    cu.cuEventRecord(event, other);
    FACT(cuStreamWaitEvent(stream, event, 0));
    END(stream);
    END(other);
    FACT(cuEventQuery(event));
    FACT(cuStreamWaitEvent(stream, event, 0));
#undef BEGIN
    cu.cuMemFree_v2(memory);
    cu.cuEventDestroy_v2(event);
    cu.cuStreamDestroy_v2(other);
    cu.cuStreamDestroy_v2(stream);
}

static void contexts(void)
{
    CUcontext primary;
    CUcontext context;
    CUcontext popped;
    CUdeviceptr address;
    CUdevice device;
    unsigned version;
    heading("contexts");
    cu.cuCtxGetCurrent(&primary);
    FACT(cuCtxDestroy_v2(primary));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuCtxSetCurrent(NULL));
    FACT(cuMemGetAddressRange_v2(NULL, NULL, address));
    FACT(cuMemsetD8_v2(address, 1, 1));
    FACT(cuMemFree_v2(address));
    FACT(cuCtxSetCurrent(primary));
    FACT(cuCtxCreate_v2(&context, 0, 99));
    FACT(cuCtxCreate_v2(&context, 0, 0));
    FACT(cuCtxGetApiVersion(context, &version));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuCtxPushCurrent_v2(context));
    FACT(cuCtxEnablePeerAccess(context, 0));
    FACT(cuCtxEnablePeerAccess(primary, 0));
    FACT(cuCtxDisablePeerAccess(primary));
    FACT(cuCtxDestroy_v2(context));
    FACT(cuCtxGetDevice(&device));
    FACT(cuMemFree_v2(address));
    FACT(cuCtxPopCurrent_v2(&popped));
    FACT(cuCtxSetCurrent(primary));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
}

/* Every section has a process of its own: what one breaks does not colour the next. */
static const struct section {
    void (*ask)(void);
    bool started; /* with the primary context of device 0 current */
} sections[] = {
    {look_ups, false},   {before_init, false},   {plain_memory, true},  {memory_of_the_device, true},
    {host_memory, true}, {virtual_memory, true}, {pooled_memory, true}, {streams_and_events, true},
    {one_of_each, true}, {capture, true},        {contexts, true},
};

static int run_section(const struct section *section, const char *path)
{
    CUcontext primary;
    if (!load(path)) {
        return 77;
    }
    if (section->started) {
        if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS) {
            fprintf(stderr, "skipped: no device\n");
            return 77;
        }
        cu.cuCtxSetCurrent(primary);
    }
    section->ask();
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "libcuda.so.1";
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(run_section(&sections[i], path));
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
            printf("section %zu was ended by signal %d\n", i, WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
            return WEXITSTATUS(status);
        }
    }
    return 0;
}
