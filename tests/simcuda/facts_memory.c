/*
 * facts_memory.c - questions about plain, host, mapped and stream-ordered memory.
 */
#include "facts.h"

void facts_plain_memory(void)
{
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    size_t pitch = 0;
    unsigned char byte = 1;
    facts_heading("plain memory");
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

void facts_memory_taken(void)
{
    facts_heading("memory that one plain allocation takes, and two");
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

void facts_host_memory(void)
{
    static char mine[8192];
    void *pinned_bytes = NULL;
    CUdeviceptr device = 0;
    unsigned flags = 0;
    facts_heading("host memory");
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
    facts_heading("address space");
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
    CUmemAllocationProp properties = facts_pinned(0);
    CUmemAllocationProp wrong = facts_pinned(99);
    facts_heading("create and map");
    FACT(cuMemCreate(one, 0, &properties, 0));
    FACT(cuMemCreate(one, 4096, &properties, 0));
    FACT(cuMemCreate(one, PAGE, NULL, 0));
    FACT(cuMemCreate(one, PAGE, &properties, 1));
    FACT(cuMemCreate(one, PAGE, &wrong, 0));
    FACT(cuMemCreate(one, (size_t)1 << 46, &properties, 0));
    wrong = facts_pinned(0);
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
    CUmemAccessDesc write = facts_open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc read = facts_open_for(CU_MEM_ACCESS_FLAGS_PROT_READ);
    CUmemAccessDesc wrong = facts_open_for((CUmemAccess_flags)2);
    CUmemLocation here = write.location;
    unsigned char byte = 1;
    unsigned long long flags = 99;
    facts_heading("access");
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
    facts_heading("questions about mappings");
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
    facts_heading("unmap and release");
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

void facts_virtual_memory(void)
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

void facts_pooled_memory(void)
{
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    CUmemoryPool pool;
    cuuint64_t value = 5;
    CUstream stream;
    facts_heading("stream-ordered memory");
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
