/*
 * test_pool.c - stream-ordered memory: steps, reuse by stream order, thresholds, attributes, limits.
 */
#include "sim.h"

#define STEP (32 * MIB)

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool;
    works(sim.cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static cuuint64_t amount(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    works(sim.cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void set_amount(CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t value)
{
    works(sim.cuMemPoolSetAttribute(pool, attribute, &value));
}

static CUdeviceptr alloc(size_t bytes, CUstream stream)
{
    CUdeviceptr address;
    works(sim.cuMemAllocAsync(&address, bytes, stream));
    return address;
}

static void reserves_by_steps(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    CUmemoryPool pool = default_pool();
    CUdeviceptr small = alloc(1, stream);
    CUdeviceptr next = alloc(1, stream);
    check_number(512, next - small);
    check_number(0, small % 512);
    check_number(STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    check_number(2, amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)); /* as asked for */
    CUdeviceptr large = alloc(STEP + 1, stream);
    check_number(3 * STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    check_number(3 * STEP, sim_device(0).in_use);

    works(sim.cuMemFreeAsync(large, stream));
    check_number(2, amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    check_number(STEP + 1 + 2, amount(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    set_amount(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    check_number(2, amount(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    cuuint64_t wrong = 5;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &wrong));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &wrong));

    /* The threshold is 0: what is idle goes at the next wait. */
    check_number(3 * STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuStreamSynchronize(stream));
    check_number(STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuMemFreeAsync(small, stream));
    works(sim.cuMemFreeAsync(next, stream));
    works(sim.cuCtxSynchronize());
    check_number(0, sim_device(0).in_use);
    check_number(3 * STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

static void the_threshold_keeps_memory(void)
{
    sim_start();
    CUmemoryPool pool = default_pool();
    set_amount(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 2 * STEP);
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = alloc(STEP, NULL);
    }
    for (int i = 0; i < 4; i++) {
        works(sim.cuMemFreeAsync(blocks[i], NULL));
    }
    works(sim.cuCtxSynchronize());
    check_number(2 * STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuMemPoolTrimTo(pool, STEP));
    check_number(STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuMemPoolTrimTo(pool, 0));
    check_number(0, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

/* Best fit: the hole that fits best is taken, and neighbours merge again. */
static void fits_and_merges(void)
{
    sim_start();
    CUdeviceptr blocks[4];
    for (size_t i = 0; i < 4; i++) {
        blocks[i] = alloc((i + 1) * MIB, NULL);
    }
    works(sim.cuMemFreeAsync(blocks[2], NULL));
    works(sim.cuMemFreeAsync(blocks[0], NULL));
    CUdeviceptr small = alloc(MIB, NULL);
    check_number(blocks[0], small);
    works(sim.cuMemFreeAsync(small, NULL));
    works(sim.cuMemFreeAsync(blocks[1], NULL));
    CUdeviceptr merged = alloc(6 * MIB, NULL);
    check_number(blocks[0], merged);
    works(sim.cuMemFreeAsync(merged, NULL));
    works(sim.cuMemFreeAsync(blocks[3], NULL));
}

/* Delayed: a stream has its own freed memory at once; another has it behind a wait that is put in for it. */
static void reuse_follows_stream_order(void)
{
    sim_start();
    CUstream first = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block = alloc(STEP, first);
    works(sim.cuMemsetD8Async(block, 1, STEP, first));
    works(sim.cuMemFreeAsync(block, first));
    check_number(block, alloc(STEP, first));
    works(sim.cuMemsetD8Async(block, 2, STEP, first));
    works(sim.cuMemFreeAsync(block, first));

    check_number(block, alloc(STEP, second));
    works(sim.cuMemsetD8Async(block, 3, STEP, second));
    works(sim.cuStreamSynchronize(second));
    check_number(3, *(volatile unsigned char *)(uintptr_t)block);
    works(sim.cuStreamSynchronize(first));
    check_number(3, *(volatile unsigned char *)(uintptr_t)block);

    /* Without leave to put in waits, the other stream gets memory of its own. */
    CUmemoryPool pool = default_pool();
    int off = 0;
    works(sim.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
    works(sim.cuMemFreeAsync(block, first));
    CUdeviceptr other = alloc(STEP, second);
    check(other != block);
    works(sim.cuMemFreeAsync(other, second));
    check_number(0, sim.violations());
}

/* Neighbours that two streams freed merge once both have come to it. */
static void two_streams_neighbours_merge_later(void)
{
    sim_start();
    CUstream first = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr low = alloc(STEP / 2, first);
    CUdeviceptr high = alloc(STEP / 2, second);
    check_number(low + STEP / 2, high);
    works(sim.cuMemFreeAsync(low, first));
    works(sim.cuMemFreeAsync(high, second));
    CUdeviceptr whole = alloc(STEP, first);
    check(whole != low);
    works(sim.cuMemFreeAsync(whole, first));
    CUmemoryPool pool = default_pool();
    set_amount(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
    works(sim.cuCtxSynchronize());
    CUdeviceptr a = alloc(STEP, first);
    CUdeviceptr b = alloc(STEP, second);
    check_number(2 * STEP, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuMemFreeAsync(a, first));
    works(sim.cuMemFreeAsync(b, second));
}

static void a_full_device_is_searched(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    CUmemoryPool pool = default_pool();
    set_amount(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
    CUdeviceptr a = alloc(2 * STEP, stream);
    CUdeviceptr b = alloc(2 * STEP, stream);
    CUdeviceptr untouched = 77;
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAllocAsync(&untouched, STEP, stream));
    check_number(77, untouched);
    works(sim.cuMemFreeAsync(a, stream));
    works(sim.cuMemFreeAsync(b, stream));
    /* 128 MB on their way back, in two pieces: both go so that one of four steps can come. */
    CUdeviceptr whole = alloc(4 * STEP, stream);
    check_number(4 * STEP, sim_device(0).in_use);
    works(sim.cuMemFreeAsync(whole, stream));
    /* Another pool's idle memory goes too. */
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool other;
    works(sim.cuMemPoolCreate(&other, &properties));
    CUdeviceptr here;
    works(sim.cuMemAllocFromPoolAsync(&here, 3 * STEP, other, stream));
    check_number(0, amount(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    works(sim.cuMemFreeAsync(here, stream));
    works(sim.cuMemPoolDestroy(other));
    check_number(0, sim_device(0).in_use);
}

static void pools_come_and_go(void)
{
    sim_start();
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                 .maxSize = STEP};
    CUmemoryPool pool;
    CUmemoryPool current;
    works(sim.cuMemPoolCreate(&pool, &properties));
    works(sim.cuDeviceSetMemPool(0, pool));
    works(sim.cuDeviceGetMemPool(&current, 0));
    check(current == pool);
    CUdeviceptr block = alloc(MIB, NULL);
    check_number(MIB, amount(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAllocAsync(&block, 40 * MIB, NULL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemPoolDestroy(default_pool()));
    works(sim.cuMemPoolDestroy(pool));
    works(sim.cuDeviceGetMemPool(&current, 0));
    check(current == default_pool());
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemPoolTrimTo(pool, 0));
    /* The block lives on, and takes the pool with it. */
    check_number(STEP, sim_device(0).in_use);
    works(sim.cuMemsetD8_v2(block, 1, MIB));
    works(sim.cuMemFreeAsync(block, NULL));
    check_number(0, sim_device(0).in_use);

    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    works(sim.cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    check(pool == default_pool());
    works(sim.cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    works(sim.cuMemGetMemPool(&current, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    check(current == pool);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemGetMemPool(&current, &location, CU_MEM_ALLOCATION_TYPE_MANAGED));
    properties.location.id = 9;
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuMemPoolCreate(&pool, &properties));
}

static void access_is_remembered(void)
{
    sim_start();
    CUmemoryPool pool = default_pool();
    CUmemLocation second = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUmemLocation first = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccess_flags flags;
    works(sim.cuMemPoolGetAccess(&flags, pool, &first));
    check_number(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    works(sim.cuMemPoolGetAccess(&flags, pool, &second));
    check_number(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
    CUmemAccessDesc access = {.location = second, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    works(sim.cuMemPoolSetAccess(pool, &access, 1));
    works(sim.cuMemPoolGetAccess(&flags, pool, &second));
    check_number(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    access = (CUmemAccessDesc){.location = first, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuMemPoolSetAccess(pool, &access, 1));
}

/* What two streams gave back side by side goes to the device with the synchronisation that ends them. */
static void neighbours_of_two_streams_are_trimmed(void)
{
    sim_start();
    CUstream streams[2] = {sim_stream(CU_STREAM_NON_BLOCKING), sim_stream(CU_STREAM_NON_BLOCKING)};
    CUdeviceptr blocks[2];
    for (int i = 0; i < 2; i++) {
        works(sim.cuMemAllocAsync(&blocks[i], MIB, streams[i]));
    }
    for (int i = 0; i < 2; i++) {
        works(sim.cuMemFreeAsync(blocks[i], streams[i]));
    }
    check(sim_device(0).in_use > 0);
    works(sim.cuCtxSynchronize());
    check_number(0, sim_device(0).in_use);
}

/* A destroyed pool leaves nothing behind where its last block was freed on a stream of another device, which is late.
 */
static void a_pool_ends_after_streams_of_other_devices(void)
{
    sim_start();
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr block;
    works(sim.cuMemPoolCreate(&pool, &properties));
    sim_use(1);
    CUstream other = sim_stream(CU_STREAM_NON_BLOCKING);
    works(sim.cuMemAllocFromPoolAsync(&block, MIB, pool, other));
    works(sim.cuMemFreeAsync(block, other));
    works(sim.cuMemPoolDestroy(pool));
    check_number(0, sim_device(0).in_use);
}

static void plain_and_pooled_mix(void)
{
    sim_start();
    CUdeviceptr address = 1;
    works(sim.cuMemAllocAsync(&address, 0, NULL));
    works(sim.cuMemFreeAsync(address, NULL));
    works(sim.cuMemFreeAsync(sim_alloc(PAGE), NULL)); /* of a cuMemAlloc pointer */
    works(sim.cuMemFree_v2(alloc(PAGE, NULL)));       /* of a cuMemAllocAsync pointer */
    works(sim.cuCtxSynchronize());
    check_number(0, sim_device(0).in_use);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeAsync(4096, NULL));
    address = alloc(PAGE, NULL);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeAsync(address + 512, NULL));
    works(sim.cuMemFreeAsync(address, NULL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeAsync(address, NULL));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAllocAsync(&address, (size_t)1 << 46, NULL));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAllocAsync(&address, SIZE_MAX, NULL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAllocAsync(NULL, 1, NULL));
}

static void a_cached_pair_costs_little(void)
{
    sim_start();
    set_amount(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
    works(sim.cuMemFreeAsync(alloc(64 * MIB, NULL), NULL));
    uint64_t before = sim.now_ns();
    works(sim.cuMemFreeAsync(alloc(64 * MIB, NULL), NULL));
    check_number(680, sim.now_ns() - before);
}

#define LATE "SIMCUDA_COST=0", "SIMCUDA_STREAM_DELAY_US=100"
SIM_TEST(reserves_by_steps, NULL)
SIM_TEST(the_threshold_keeps_memory, NULL)
SIM_TEST(fits_and_merges, NULL)
SIM_TEST(reuse_follows_stream_order, LATE, NULL)
SIM_TEST(two_streams_neighbours_merge_later, LATE, NULL)
SIM_TEST(a_full_device_is_searched, LATE, "SIMCUDA_MEMORY=128M", NULL)
SIM_TEST(pools_come_and_go, NULL)
SIM_TEST(access_is_remembered, "SIMCUDA_DEVICES=2", NULL)
SIM_TEST(a_pool_ends_after_streams_of_other_devices, "SIMCUDA_DEVICES=2", "SIMCUDA_STREAM_DELAY_US=100", NULL)
SIM_TEST(neighbours_of_two_streams_are_trimmed, LATE, NULL)
SIM_TEST(plain_and_pooled_mix, NULL)
SIM_TEST(a_cached_pair_costs_little, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserves_by_steps),
        cmocka_unit_test(test_the_threshold_keeps_memory),
        cmocka_unit_test(test_fits_and_merges),
        cmocka_unit_test(test_reuse_follows_stream_order),
        cmocka_unit_test(test_two_streams_neighbours_merge_later),
        cmocka_unit_test(test_a_full_device_is_searched),
        cmocka_unit_test(test_pools_come_and_go),
        cmocka_unit_test(test_access_is_remembered),
        cmocka_unit_test(test_neighbours_of_two_streams_are_trimmed),
        cmocka_unit_test(test_a_pool_ends_after_streams_of_other_devices),
        cmocka_unit_test(test_plain_and_pooled_mix),
        cmocka_unit_test(test_a_cached_pair_costs_little),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
