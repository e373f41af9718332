/*
 * test_api.c - the public calls: sizes from nothing to more than any device, frees that are refused, look-ups, the
 * walk, statistics, forked children, destruction with live blocks, captures.
 */
#include "pool_test.h"

static void sizes(void)
{
    static const size_t good[] = {1,         511,      512,     513,         16 * KIB, 16 * KIB + 1, MIB - 1,
                                  MIB,       MIB + 1,  2 * MIB, 2 * MIB + 1, 4 * MIB,  24 * MIB - 1, 24 * MIB,
                                  100 * MIB, 128 * MIB};
    static const size_t bad[] = {128 * MIB + 1, (size_t)1 << 38, ((size_t)2 << 40) + 512,
                                 SIZE_MAX / 2,  SIZE_MAX - 511,  SIZE_MAX};
    begin();
    gmlake_ptr address = 7;
    check_number(0, gmlake_alloc(lake, 0, NULL, &address));
    check_number(0, address);
    for (size_t i = 0; i < GM_ARRAY_LENGTH(good); i++) {
        address = take(good[i]);
        *(volatile char *)(uintptr_t)address = 1;
        *(volatile char *)(uintptr_t)(address + good[i] - 1) = 1;
        check_all();
        give(address);
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bad); i++) {
        expect_refused(ENOMEM, bad[i]);
        check_all();
    }
    check_number(0, stats().blocks);
    check_number(0, stats().requested);
    check_number(128 * MIB, stats().requested_peak);
    check_number(GM_ARRAY_LENGTH(bad), stats().oom);
    end();
}
SIM_TEST(sizes, "SIMCUDA_MEMORY=128M", NULL)

/* A device larger than what the arithmetic of blocks covers: clean errors, no small block for a huge request. */
static void huge_device(void)
{
    begin();
    expect_refused(ENOMEM, ((size_t)2 << 40) + 512);
    expect_refused(ENOMEM, (size_t)4 << 40);
    gmlake_ptr big = take((size_t)200 << 30);
    struct gmlake_block block;
    check_number(0, gmlake_find(lake, big + ((uint64_t)200 << 30) - 1, &block));
    check_number(big, block.address);
    give(big);
    end();
}
SIM_TEST(huge_device, "SIMCUDA_MEMORY=8T", "SIMCUDA_BACKING=0", NULL)

static void bad_frees(void)
{
    static char host[64];
    begin();
    struct gmlake *other;
    check_number(0, gmlake_create(0, &other));
    gmlake_ptr small = take(100);
    gmlake_ptr big = take(5 * MIB);
    CUdeviceptr foreign = sim_alloc(1 * MIB);
    const gmlake_ptr wrong[] = {small + 1,
                                small + 512,
                                small + 64 * KIB,
                                big + 1,
                                big + 512,
                                big + 5 * MIB,
                                big - 512,
                                (gmlake_ptr)(uintptr_t)host,
                                foreign,
                                foreign + 1,
                                1,
                                UINT64_MAX,
                                (uint64_t)1 << 48,
                                (uint64_t)1 << 60};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(wrong); i++) {
        check_number(-EINVAL, gmlake_free(lake, wrong[i], NULL));
        check_number(-EINVAL, gmlake_free_sync(lake, wrong[i]));
    }
    check_number(-EINVAL, gmlake_free(other, small, NULL));
    check_number(-EINVAL, gmlake_free_sync(other, big));
    check_number(0, gmlake_free(lake, 0, NULL));
    check_number(0, gmlake_free_sync(lake, 0));
    check_number(2, stats().blocks);
    check_all();
    works(sim.cuMemsetD8_v2(foreign, 1, 1 * MIB)); /* still there */
    works(sim.cuMemFree_v2(foreign));
    give(small);
    give(big);
    check_number(-EINVAL, gmlake_free(lake, small, NULL));
    check_number(-EINVAL, gmlake_free(lake, big, NULL));
    gmlake_destroy(other);
    end();
}
SIM_TEST(bad_frees, "SIMCUDA_MEMORY=128M", NULL)

static void found(void)
{
    static const size_t bytes[] = {1, 700, 16 * KIB, 17 * KIB, 3 * MIB, 40 * MIB};
    begin();
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bytes); i++) {
        struct gmlake_block block;
        gmlake_ptr address = take(bytes[i]);
        check_number(0, gmlake_find(lake, address, &block));
        check_number(0, gmlake_find(lake, address + bytes[i] - 1, &block));
        check_number(address, block.address);
        check_number(bytes[i], block.requested);
        check(block.size >= bytes[i] && block.kind != GMLAKE_BLOCK_FREE && block.chunks >= 1);
        check_number(-ENOENT, gmlake_find(lake, address + bytes[i], &block));
        check_number(-ENOENT, gmlake_find(lake, address - 1, &block));
        give(address);
        check_number(-ENOENT, gmlake_find(lake, address, &block));
    }
    end();
}
SIM_TEST(found, "SIMCUDA_MEMORY=128M", NULL)

struct seen {
    uint64_t end, live, bytes, free;
};

static int visit(void *arg, const struct gmlake_block *block)
{
    struct seen *seen = arg;
    check(block->address >= seen->end && block->size > 0);
    seen->end = block->address + block->size;
    seen->live += block->kind != GMLAKE_BLOCK_FREE;
    seen->bytes += block->requested;
    seen->free += block->kind == GMLAKE_BLOCK_FREE ? block->usable : 0;
    return 0;
}

static int stop(void *arg, const struct gmlake_block *block)
{
    (void)block;
    return ++*(int *)arg == 3 ? 42 : 0;
}

static void walked(void)
{
    begin();
    gmlake_ptr blocks[6];
    for (unsigned i = 0; i < 6; i++) {
        blocks[i] = take(((size_t)1 << 3 * i) * 300 + 1);
    }
    give(blocks[4]);
    struct seen seen = {0, 0, 0, 0};
    check_number(0, gmlake_walk(lake, visit, &seen));
    check_number(5, seen.live);
    check_number(stats().requested, seen.bytes);
    check(seen.free <= stats().reserved);
    int visits = 0;
    check_number(42, gmlake_walk(lake, stop, &visits));
    check_number(3, visits);
    end();
}
SIM_TEST(walked, "SIMCUDA_MEMORY=128M", NULL)

static void statistics_of_any_size(void)
{
    begin();
    give(take(3 * MIB));
    struct {
        struct gmlake_stats known;
        uint64_t later[2];
    } wide;
    memset(&wide, 0xff, sizeof wide);
    wide.known.size = sizeof wide;
    check_number(0, gmlake_get_stats(lake, &wide.known));
    check_number(0, wide.later[0]);
    check_number(0, wide.later[1]);
    check_number(sizeof wide, wide.known.size);
    check_number(1, wide.known.allocs);
    check_number(1, wide.known.frees);
    struct gmlake_stats narrow;
    memset(&narrow, 0xff, sizeof narrow);
    narrow.size = sizeof narrow.size;
    check_number(0, gmlake_get_stats(lake, &narrow));
    check_number(UINT64_MAX, narrow.requested);
    narrow.size = sizeof narrow.size - 1;
    check_number(-EINVAL, gmlake_get_stats(lake, &narrow));
    end();
}
SIM_TEST(statistics_of_any_size, "SIMCUDA_MEMORY=128M", NULL)

static int use_parent(void *arg)
{
    gmlake_ptr address = 3;
    struct gmlake_block block;
    struct gmlake_stats out = {.size = sizeof out};
    size_t released;
    gmlake_ptr live = *(gmlake_ptr *)arg;
    bool refused = gmlake_alloc(lake, 1, NULL, &address) == -ECHILD && address == 3 &&
                   gmlake_free(lake, live, NULL) == -ECHILD && gmlake_free_sync(lake, live) == -ECHILD &&
                   gmlake_find(lake, live, &block) == -ECHILD && gmlake_trim(lake, 0, &released) == -ECHILD &&
                   gmlake_get_stats(lake, &out) == -ECHILD && gmlake_walk(lake, visit, NULL) == -ECHILD &&
                   gmlake_check(lake) == -ECHILD && gmlake_forget_stream(lake, NULL) == -ECHILD;
    gmlake_destroy(lake);
    return refused ? 0 : 1;
}

static void forked(void)
{
    begin();
    gmlake_ptr address = take(3 * MIB);
    check_number(0, gm_test_in_child(use_parent, &address));
    check_all();
    give(address);
    end();
}
SIM_TEST(forked, "SIMCUDA_MEMORY=128M", "SIMCUDA_LEAKS=0", NULL)

static void destroyed_with_live_blocks(void)
{
    begin();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr address = take_on(20 * MIB, stream);
    take(1);
    take(5000);
    give(take(9 * MIB));
    check_number(0, gmlake_free_sync(lake, take(2 * MIB)));
    set("enabled", "0");
    take(3 * MIB);
    set("enabled", "default");
    use(address, 20 * MIB, 1, stream);
    end();
    gmlake_destroy(NULL);
}
SIM_TEST(destroyed_with_live_blocks, "SIMCUDA_MEMORY=128M", "SIMCUDA_STREAM_DELAY_US=1000", NULL)

static void created_where_it_cannot_be(void)
{
    sim_start();
    struct gmlake *none = NULL;
    check(gmlake_create(7, &none) < 0 && none == NULL);
    check(gmlake_create(-1, &none) < 0 && none == NULL);
    works(sim.cuCtxSetCurrent(NULL));
    check(gmlake_create(0, &none) < 0 && none == NULL);
}
SIM_TEST(created_where_it_cannot_be, "SIMCUDA_MEMORY=128M", NULL)

static void not_supported(void)
{
    sim_start();
    struct gmlake *none = NULL;
    check_number(-ENOTSUP, gmlake_create(0, &none));
    check(none == NULL);
}
SIM_TEST(not_supported, "SIMCUDA_MEMORY=128M", "SIMCUDA_VMM=0", NULL)

/* Somebody captures; the allocator goes on with everything it may do, and the capture stays whole. */
static void capture(CUstreamCaptureMode mode)
{
    begin();
    CUstream captured = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = sim_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    gmlake_ptr block = take_on(20 * MIB, captured);
    give_on(take_on(20 * MIB, other), other);
    gmlake_ptr owed = take_on(10 * MIB, other);
    works(sim.cuStreamBeginCapture_v2(captured, mode));
    use(block, 20 * MIB, 1, captured);
    check_number(0, gmlake_free_sync(lake, owed));
    for (int i = 0; i < 100; i++) {
        gmlake_ptr address = take_on(1 * MIB + (size_t)i * 3000, i % 2 == 0 ? other : captured);
        give_on(address, i % 3 == 0 ? captured : other);
    }
    expect_refused_on(ENOMEM, 120 * MIB, other);
    (void)gmlake_trim(lake, 0, NULL);
    works(sim.cuStreamEndCapture(captured, &graph));
    check(graph != NULL);
    works(sim.cuGraphDestroy(graph));
    check_all();
    give_on(block, captured);
    gmlake_ptr all = take_on(120 * MIB, other);
    give_on(all, other);
    end();
}

static void capture_global(void)
{
    capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
}
SIM_TEST(capture_global, "SIMCUDA_MEMORY=128M", "SIMCUDA_STREAM_DELAY_US=0-200", NULL)

static void capture_relaxed(void)
{
    capture(CU_STREAM_CAPTURE_MODE_RELAXED);
}
SIM_TEST(capture_relaxed, "SIMCUDA_MEMORY=128M", "SIMCUDA_STREAM_DELAY_US=0-200", NULL)

/* The bytes of each small block are known to the byte, in every order of freeing, and the table of starts stays right.
 */
static void small_blocks_to_the_byte(void)
{
    static gmlake_ptr blocks[16 << 10];
    begin();
    uint64_t live = 0;
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        blocks[i] = take(i + 1);
        live += i + 1;
    }
    check_number(live, stats().requested);
    check_number(GM_ARRAY_LENGTH(blocks), stats().blocks);
    check_all();
    for (size_t step = 0; step < 7; step++) {
        for (size_t i = step; i < GM_ARRAY_LENGTH(blocks); i += 7) {
            struct gmlake_block block;
            check_number(0, gmlake_find(lake, blocks[i] + i / 2, &block));
            check_number(i + 1, block.requested);
            check(block.address == blocks[i]);
            check_number(-EINVAL, gmlake_free(lake, blocks[i] + 1, NULL));
            give(blocks[i]);
            check_number(-EINVAL, gmlake_free(lake, blocks[i], NULL));
            live -= i + 1;
        }
        check_number(live, stats().requested);
        check_all();
    }
    end();
}
SIM_TEST(small_blocks_to_the_byte, "SIMCUDA_MEMORY=2G", "SIMCUDA_BACKING=0", NULL)

/* Blocks that begin in the granule a slab ends in, and go again, leave all its objects to be found. */
static void blocks_beside_slabs(void)
{
    static gmlake_ptr blocks[2000];
    static size_t sizes[2000];
    begin();
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        sizes[i] = i % 3 == 0 ? 17 * KIB + i * 8 : (i % 29 + 1) * 512;
        blocks[i] = take(sizes[i]);
    }
    check_all();
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i += 3) {
        give(blocks[i]);
    }
    check_all();
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        if (i % 3 != 0) {
            struct gmlake_block block;
            check_number(0, gmlake_find(lake, blocks[i] + sizes[i] - 1, &block));
            check(block.address == blocks[i]);
            give(blocks[i]);
        }
    }
    check_number(0, stats().requested);
    check_number(0, stats().blocks);
    check_all();
    end();
}
SIM_TEST(blocks_beside_slabs, "SIMCUDA_MEMORY=1G", "SIMCUDA_BACKING=0", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_huge_device),
        cmocka_unit_test(test_bad_frees),
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_walked),
        cmocka_unit_test(test_statistics_of_any_size),
        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_destroyed_with_live_blocks),
        cmocka_unit_test(test_created_where_it_cannot_be),
        cmocka_unit_test(test_not_supported),
        cmocka_unit_test(test_capture_global),
        cmocka_unit_test(test_capture_relaxed),
        cmocka_unit_test(test_small_blocks_to_the_byte),
        cmocka_unit_test(test_blocks_beside_slabs),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
