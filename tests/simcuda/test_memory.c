/*
 * test_memory.c - plain allocations, copies and fills, page-locked host memory.
 */
#include "sim.h"

static void plain_allocations(void)
{
    sim_start();
    CUdeviceptr address = 7;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAlloc_v2(&address, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAlloc_v2(NULL, 1));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&address, SIZE_MAX));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&address, (size_t)1 << 40));
    check_number(7, address);

    CUdeviceptr one = sim_alloc(1);
    CUdeviceptr two = sim_alloc(1);
    check_number(512, two - one);
    check_number(PAGE, sim_device(0).in_use);
    CUdeviceptr large = sim_alloc(PAGE + 1);
    check_number(3 * PAGE, sim_device(0).in_use);
    size_t free_bytes = 0;
    size_t total = 0;
    works(sim.cuMemGetInfo_v2(&free_bytes, &total));
    check_number(total - 3 * PAGE, free_bytes);
    works(sim.cuMemGetInfo_v2(NULL, NULL));

    CUdeviceptr base = 0;
    size_t size = 0;
    works(sim.cuMemGetAddressRange_v2(&base, &size, large + PAGE));
    check(base == large && size == PAGE + 1);
    works(sim.cuMemGetAddressRange_v2(NULL, NULL, one));
    gives(CUDA_ERROR_NOT_FOUND, sim.cuMemGetAddressRange_v2(&base, &size, large + PAGE + 1));

    works(sim.cuMemFree_v2(0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(large + 512));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(0x1000));
    works(sim.cuMemFree_v2(large));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(large));
    works(sim.cuMemFree_v2(one));
    check_number(PAGE, sim_device(0).in_use);
    works(sim.cuMemFree_v2(two));
    check_number(0, sim_device(0).in_use);
}

static void many_small_ones_share_pages(void)
{
    sim_start();
    enum { COUNT = 10000 };
    static CUdeviceptr blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = sim_alloc((size_t)(i * 37 % 3000) + 1);
        works(sim.cuMemsetD8_v2(blocks[i], (unsigned char)i, 1));
    }
    check(sim_device(0).in_use < 24 * MIB);
    for (int i = 0; i < COUNT; i += 2) {
        works(sim.cuMemFree_v2(blocks[i]));
    }
    for (int i = 1; i < COUNT; i += 2) {
        check_number((unsigned char)i, sim_byte(blocks[i]));
        works(sim.cuMemFree_v2(blocks[i]));
    }
    check_number(0, sim_device(0).in_use);
}

static void pitched_rows(void)
{
    sim_start();
    CUdeviceptr address;
    size_t pitch = 0;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAllocPitch_v2(&address, &pitch, 100, 10, 3));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAllocPitch_v2(&address, &pitch, 0, 10, 4));
    works(sim.cuMemAllocPitch_v2(&address, &pitch, 700, 10, 4));
    check_number(1024, pitch);
    size_t size = 0;
    works(sim.cuMemGetAddressRange_v2(NULL, &size, address));
    check_number(10240, size);

    unsigned char host[4][8];
    memset(host, 1, sizeof host);
    works(sim.cuMemsetD2D8_v2(address, pitch, 9, 700, 10));
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = address,
                          .dstXInBytes = 2,
                          .dstY = 1,
                          .dstPitch = pitch,
                          .WidthInBytes = 3,
                          .Height = 4};
    works(sim.cuMemcpy2D_v2(&copy));
    check_number(9, sim_byte(address + pitch + 1));
    check_number(1, sim_byte(address + pitch + 2));
    check_number(1, sim_byte(address + 4 * pitch + 4));
    check_number(9, sim_byte(address + 4 * pitch + 5));
    check_number(9, sim_byte(address + 5 * pitch + 2));
    copy.Height = 10; /* the last row lies behind the end */
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpy2DAsync_v2(&copy, NULL));
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemcpy2DUnaligned_v2(&copy));
    works(sim.cuMemFree_v2(address));
}

static void fills_of_all_widths(void)
{
    sim_start();
    CUdeviceptr address = sim_alloc(64);
    unsigned char got[64];
    works(sim.cuMemsetD8_v2(address, 0x11, 64));
    works(sim.cuMemsetD16_v2(address + 8, 0x2233, 4));
    works(sim.cuMemsetD32_v2(address + 32, 0x44556677, 2));
    works(sim.cuMemcpyDtoH_v2(got, address, 64));
    check(got[7] == 0x11 && got[8] == 0x33 && got[9] == 0x22 && got[15] == 0x22 && got[16] == 0x11);
    check(got[32] == 0x77 && got[39] == 0x44 && got[40] == 0x11);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemsetD32_v2(address + 2, 1, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemsetD16Async(address + 1, 1, 1, NULL));
    works(sim.cuMemsetD8_v2(address, 1, 0));
    works(sim.cuMemsetD2D32_v2(address, 32, 5, 2, 2));
    check_number(5, sim_byte(address + 36));
    works(sim.cuMemsetD2D16Async(address, 32, 6, 2, 2, NULL));
    check_number(6, sim_byte(address + 34));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemsetD2D32Async(address, 4, 5, 2, 2, NULL));
    works(sim.cuMemFree_v2(address));
}

static void copies_in_all_directions(void)
{
    sim_start();
    CUdeviceptr a = sim_alloc(100);
    CUdeviceptr b = sim_alloc(100);
    unsigned char host[100];
    unsigned char back[100] = {0};
    for (int i = 0; i < 100; i++) {
        host[i] = (unsigned char)(i + 1);
    }
    works(sim.cuMemcpyHtoD_v2(a, host, 100));
    works(sim.cuMemcpyDtoD_v2(b, a, 100));
    works(sim.cuMemcpyDtoH_v2(back, b, 100));
    check(memcmp(host, back, 100) == 0);
    memset(back, 0, sizeof back);
    works(sim.cuMemcpy((CUdeviceptr)(uintptr_t)back, b, 100));
    check(memcmp(host, back, 100) == 0);
    works(sim.cuMemcpyAsync(a + 50, (CUdeviceptr)(uintptr_t)host, 50, NULL));
    check_number(1, sim_byte(a + 50));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)back, host, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemcpyDtoD_v2(b + 1, a, 100));
    works(sim.cuMemcpyDtoD_v2(b, a, 0));
    works(sim.cuMemFree_v2(a));
    works(sim.cuMemFree_v2(b));
}

static void host_memory(void)
{
    sim_start();
    void *pinned;
    works(sim.cuMemHostAlloc(&pinned, 0, 0));
    check(pinned == NULL);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemHostAlloc(&pinned, 1, 0x80));
    works(sim.cuMemHostAlloc(&pinned, 10000, CU_MEMHOSTALLOC_WRITECOMBINED));
    CUdeviceptr device;
    works(sim.cuMemHostGetDevicePointer_v2(&device, pinned, 0));
    check_number((uintptr_t)pinned, device);
    unsigned flags = 0;
    works(sim.cuMemHostGetFlags(&flags, pinned));
    check(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
    works(sim.cuMemsetD8_v2(device, 4, 10000));
    check_number(4, ((volatile char *)pinned)[9999]);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeHost((char *)pinned + 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemHostUnregister(pinned));
    works(sim.cuMemFreeHost(pinned));
    works(sim.cuMemFreeHost(NULL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemHostGetDevicePointer_v2(&device, pinned, 0));

    static char mine[8192];
    works(sim.cuMemHostRegister_v2(mine, sizeof mine, CU_MEMHOSTREGISTER_PORTABLE));
    gives(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, sim.cuMemHostRegister_v2(mine + 100, 10, 0));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeHost(mine));
    works(sim.cuMemHostUnregister(mine));
    gives(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, sim.cuMemHostUnregister(mine));
}

static void the_device_ends(void)
{
    sim_start();
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = sim_alloc(PAGE);
    }
    CUdeviceptr more;
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&more, 1));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&more, PAGE));
    works(sim.cuMemFree_v2(blocks[1]));
    works(sim.cuMemAlloc_v2(&blocks[1], 1));
    for (int i = 0; i < 4; i++) {
        works(sim.cuMemFree_v2(blocks[i]));
    }
    check_number(4 * PAGE, sim_device(0).in_use_peak);
}

SIM_TEST(plain_allocations, NULL)
SIM_TEST(many_small_ones_share_pages, NULL)
SIM_TEST(pitched_rows, NULL)
SIM_TEST(fills_of_all_widths, NULL)
SIM_TEST(copies_in_all_directions, NULL)
SIM_TEST(host_memory, NULL)
SIM_TEST(the_device_ends, "SIMCUDA_MEMORY=8M", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_allocations),
        cmocka_unit_test(test_many_small_ones_share_pages),
        cmocka_unit_test(test_pitched_rows),
        cmocka_unit_test(test_fills_of_all_widths),
        cmocka_unit_test(test_copies_in_all_directions),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_the_device_ends),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
