/*
 * test_vmm.c - virtual memory management: the rules measured on the H200, and real bytes behind aliases.
 */
#include "sim.h"

static void rules_of_map(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(8 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(4 * PAGE);

    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemMap(range, 2 * PAGE, PAGE, chunk, 0));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemMap(range, PAGE, 0, chunk, 0));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemMap(range, 5 * PAGE, 0, chunk, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemMap(range + 4096, 4 * PAGE, 0, chunk, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemMap(range + 6 * PAGE, 4 * PAGE, 0, chunk, 0));
    works(sim.cuMemMap(range, 4 * PAGE, 0, chunk, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemMap(range + PAGE, 4 * PAGE, 0, chunk, 0));
    works(sim.cuMemMap(range + 4 * PAGE, 4 * PAGE, 0, chunk, 0));

    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemUnmap(range, PAGE));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemUnmap(range + PAGE, 3 * PAGE));
    check_number(2, sim_device(0).mappings);
    works(sim.cuMemUnmap(range, 8 * PAGE));
    check_number(0, sim_device(0).mappings);
    /* gaps are passed over */
    works(sim.cuMemMap(range + 2 * PAGE, 4 * PAGE, 0, chunk, 0));
    works(sim.cuMemUnmap(range, 8 * PAGE));
    check_number(0, sim_device(0).mappings);
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, 8 * PAGE));
}

static void rules_of_reserve(void)
{
    sim_start();
    CUdeviceptr address;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAddressReserve(&address, 0, 0, 0, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAddressReserve(&address, 4096, 0, 0, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAddressReserve(&address, PAGE, 3 * PAGE, 0, 0));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAddressReserve(&address, (size_t)1 << 48, 0, 0, 0));

    for (unsigned shift = 12; shift <= 32; shift += 4) {
        size_t alignment = (size_t)1 << shift;
        works(sim.cuMemAddressReserve(&address, 3 * PAGE, alignment, 0, 0));
        check(address % alignment == 0 && address % PAGE == 0);
        gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAddressFree(address, 2 * PAGE));
        gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAddressFree(address + PAGE, 2 * PAGE));
        works(sim.cuMemAddressFree(address, 3 * PAGE));
    }
    check_number(0, sim_device(0).va_bytes);

    CUdeviceptr wanted = sim_reserve(4 * PAGE);
    works(sim.cuMemAddressFree(wanted, 4 * PAGE));
    works(sim.cuMemAddressReserve(&address, 4 * PAGE, 0, wanted, 0));
    check_number(wanted, address);
    CUdeviceptr other;
    works(sim.cuMemAddressReserve(&other, 4 * PAGE, 0, wanted, 0));
    check(other != wanted);
    works(sim.cuMemAddressFree(address, 4 * PAGE));
    works(sim.cuMemAddressFree(other, 4 * PAGE));
}

static void rules_of_create(void)
{
    sim_start();
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = sim_properties(0);
    size_t granularity = 0;
    works(sim.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    check_number(PAGE, granularity);
    works(sim.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    check_number(PAGE, granularity);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemCreate(&handle, 0, &properties, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemCreate(&handle, PAGE + 4096, &properties, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemCreate(&handle, PAGE, NULL, 0));
    properties.location.id = 1;
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuMemCreate(&handle, PAGE, &properties, 0));
    properties.location.id = 0;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemCreate(&handle, PAGE, &properties, 0));
}

static void aliases_share_bytes(void)
{
    sim_start();
    CUdeviceptr first = sim_reserve(2 * PAGE);
    CUdeviceptr second = sim_reserve(2 * PAGE);
    CUmemGenericAllocationHandle a = sim_chunk(PAGE);
    CUmemGenericAllocationHandle b = sim_chunk(PAGE);
    sim_map(first, PAGE, a);
    sim_map(first + PAGE, PAGE, b);
    sim_map(second, PAGE, b);
    sim_map(second + PAGE, PAGE, a);

    check_number(0, sim_byte(first));
    works(sim.cuMemsetD8_v2(first, 7, PAGE));
    works(sim.cuMemsetD8_v2(second, 9, PAGE));
    check_number(7, sim_byte(second + PAGE));
    check_number(9, sim_byte(first + 2 * PAGE - 1));
    ((volatile unsigned char *)(uintptr_t)first)[5] = 11;
    check_number(11, ((volatile unsigned char *)(uintptr_t)second)[PAGE + 5]);

    /* A mapping outlives the handle and the other mapping. */
    works(sim.cuMemRelease(a));
    works(sim.cuMemUnmap(first, PAGE));
    check_number(7, sim_byte(second + PAGE));
    check_number(2 * PAGE, sim_device(0).in_use);
    works(sim.cuMemUnmap(second + PAGE, PAGE));
    check_number(PAGE, sim_device(0).in_use);

    works(sim.cuMemUnmap(first + PAGE, PAGE));
    works(sim.cuMemUnmap(second, PAGE));
    works(sim.cuMemRelease(b));
    check_number(0, sim_device(0).in_use);
    works(sim.cuMemAddressFree(first, 2 * PAGE));
    works(sim.cuMemAddressFree(second, 2 * PAGE));
    check_number(0, sim.violations());
}

static void access_is_needed(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(2 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    unsigned char byte = 1;
    works(sim.cuMemMap(range, PAGE, 0, chunk, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyDtoH_v2(&byte, range, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim_open(range, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READ));
    works(sim_open(range, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READ));
    works(sim.cuMemcpyDtoH_v2(&byte, range, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyHtoD_v2(range, &byte, 1));
    works(sim_open(range, PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    works(sim.cuMemcpyHtoD_v2(range, &byte, 1));

    unsigned long long flags = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    works(sim.cuMemGetAccess(&flags, &here, range));
    check_number(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemGetAccess(&flags, &here, range + PAGE));
    check_number(3, sim.violations());
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, 2 * PAGE));
}

static void a_second_device_needs_its_own_access(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    sim_map(range, PAGE, chunk);
    sim_use(1);
    unsigned char byte;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyDtoH_v2(&byte, range, 1));
    CUmemAccessDesc both[] = {
        {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ}};
    works(sim.cuMemSetAccess(range, PAGE, both, 2));
    works(sim.cuMemcpyDtoH_v2(&byte, range, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyHtoD_v2(range, &byte, 1));
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, PAGE));
}

static void capacity_ends(void)
{
    sim_start();
    CUmemGenericAllocationHandle handles[8];
    CUmemAllocationProp properties = sim_properties(0);
    for (int i = 0; i < 8; i++) {
        works(sim.cuMemCreate(&handles[i], PAGE, &properties, 0));
    }
    CUmemGenericAllocationHandle untouched = 42;
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemCreate(&untouched, PAGE, &properties, 0));
    check_number(42, untouched);
    size_t free_bytes = 1;
    size_t total = 0;
    works(sim.cuMemGetInfo_v2(&free_bytes, &total));
    check_number(0, free_bytes);
    check_number(16 * MIB, total);
    works(sim.cuMemRelease(handles[3]));
    works(sim.cuMemCreate(&handles[3], PAGE, &properties, 0));
    check_number(16 * MIB, sim_device(0).in_use_peak);
    for (int i = 0; i < 8; i++) {
        works(sim.cuMemRelease(handles[i]));
    }
}

static void retain_finds_the_chunk(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    CUmemGenericAllocationHandle found = 0;
    sim_map(range, PAGE, chunk);
    works(sim.cuMemRetainAllocationHandle(&found, (void *)(uintptr_t)(range + 100)));
    check_number(chunk, found);
    works(sim.cuMemRelease(chunk));
    CUmemAllocationProp properties;
    works(sim.cuMemGetAllocationPropertiesFromHandle(&properties, found));
    check_number(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, properties.requestedHandleTypes);
    works(sim.cuMemRelease(found));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemRelease(found));
    /* No handle is left, the memory is: retain makes a new one. */
    works(sim.cuMemRetainAllocationHandle(&found, (void *)(uintptr_t)range));
    works(sim.cuMemUnmap(range, PAGE));
    check_number(PAGE, sim_device(0).in_use);
    works(sim.cuMemRelease(found));
    check_number(0, sim_device(0).in_use);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemRetainAllocationHandle(&found, (void *)(uintptr_t)range));
    works(sim.cuMemAddressFree(range, PAGE));
}

static void host_chunks_do_not_count(void)
{
    sim_start();
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = sim_properties(0);
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    works(sim.cuMemCreate(&handle, 64 * MIB, &properties, 0));
    check_number(0, sim_device(0).in_use);
    CUdeviceptr range = sim_reserve(64 * MIB);
    sim_map(range, 64 * MIB, handle);
    works(sim.cuMemsetD8_v2(range, 3, 64 * MIB));
    check_number(3, sim_byte(range + 64 * MIB - 1));
    works(sim.cuMemUnmap(range, 64 * MIB));
    works(sim.cuMemRelease(handle));
    works(sim.cuMemAddressFree(range, 64 * MIB));
}

/* Memory that went back reads as zeros when it comes again, and costs the host nothing while nobody wrote to it. */
static void new_memory_is_zero(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(PAGE);
    for (int round = 0; round < 3; round++) {
        CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
        sim_map(range, PAGE, chunk);
        check_number(0, sim_byte(range + 12345));
        works(sim.cuMemsetD8_v2(range, 0xff, PAGE));
        works(sim.cuMemUnmap(range, PAGE));
        works(sim.cuMemRelease(chunk));
    }
    works(sim.cuMemAddressFree(range, PAGE));
}

/* Without backing everything is answered alike, and no byte is anywhere. */
static void works_without_backing(void)
{
    rules_of_map();
    CUdeviceptr address;
    works(sim.cuMemAddressReserve(&address, (size_t)1 << 44, (size_t)1 << 40, 0, 0));
    check(address % ((size_t)1 << 40) == 0);
    CUmemGenericAllocationHandle chunk = sim_chunk((size_t)100 << 30);
    sim_map(address, (size_t)100 << 30, chunk);
    works(sim.cuMemsetD8_v2(address, 1, (size_t)100 << 30));
    works(sim.cuMemUnmap(address, (size_t)100 << 30));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(address, (size_t)1 << 44));
}

static void a_device_without_it_says_so(void)
{
    sim_start();
    int supported = 1;
    works(sim.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    check_number(0, supported);
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = sim_properties(0);
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemAddressReserve(&address, PAGE, 0, 0, 0));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemCreate(&handle, PAGE, &properties, 0));
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));
}

SIM_TEST(rules_of_map, NULL)
SIM_TEST(rules_of_reserve, NULL)
SIM_TEST(rules_of_create, NULL)
SIM_TEST(aliases_share_bytes, NULL)
SIM_TEST(access_is_needed, NULL)
SIM_TEST(a_second_device_needs_its_own_access, "SIMCUDA_DEVICES=2", NULL)
SIM_TEST(capacity_ends, "SIMCUDA_MEMORY=16M", NULL)
SIM_TEST(retain_finds_the_chunk, NULL)
SIM_TEST(host_chunks_do_not_count, "SIMCUDA_MEMORY=16M", NULL)
SIM_TEST(new_memory_is_zero, NULL)
SIM_TEST(works_without_backing, "SIMCUDA_BACKING=0", NULL)
SIM_TEST(a_device_without_it_says_so, "SIMCUDA_VMM=0", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_of_map),
        cmocka_unit_test(test_rules_of_reserve),
        cmocka_unit_test(test_rules_of_create),
        cmocka_unit_test(test_aliases_share_bytes),
        cmocka_unit_test(test_access_is_needed),
        cmocka_unit_test(test_a_second_device_needs_its_own_access),
        cmocka_unit_test(test_capacity_ends),
        cmocka_unit_test(test_retain_finds_the_chunk),
        cmocka_unit_test(test_host_chunks_do_not_count),
        cmocka_unit_test(test_new_memory_is_zero),
        cmocka_unit_test(test_works_without_backing),
        cmocka_unit_test(test_a_device_without_it_says_so),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
