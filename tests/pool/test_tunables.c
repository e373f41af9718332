/*
 * test_tunables.c - each tunable changes what the next allocation does. For every row of tunables.def there is a test.
 */
#include "agent.h"
#include "pool_test.h"

/* Stitching is possible, and cheaper than growing: many free chunks, no live neighbour. */
static gmlake_ptr held[64];

static void scatter(size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        held[i] = take(bytes);
    }
    for (size_t i = 0; i < count; i += 2) {
        give(held[i]);
    }
}

static void enabled(void)
{
    begin();
    set("enabled", "0");
    gmlake_ptr driver = take(3 * MIB);
    struct gmlake_block block;
    CUdeviceptr base;
    size_t size;
    check_number(-ENOENT, gmlake_find(lake, driver, &block));
    works(sim.cuMemGetAddressRange_v2(&base, &size, driver));
    check_number(0, stats().reserved);
    set("enabled", "1");
    gmlake_ptr ours = take(3 * MIB);
    check_number(0, gmlake_find(lake, ours, &block));
    set("enabled", "0");
    give(ours);
    give(driver);
    check_number(-EINVAL, gmlake_free(lake, driver, NULL));
    /* What the pool keeps is the driver's when it lacks memory. */
    set("enabled", "1");
    give(take(200 * MIB));
    set("enabled", "0");
    driver = take(200 * MIB);
    give(driver);
    set("enabled", "default");
    end();
}
SIM_TEST(enabled, "SIMCUDA_MEMORY=256M", NULL)

static void stitch_min(void)
{
    begin();
    scatter(4 * MIB, 40);
    set("stitch_min", "64M");
    uint64_t before = stats().reserved;
    gmlake_ptr grown = take(40 * MIB);
    check_number(before + 40 * MIB, stats().reserved);
    check_number(0, stats().stitched_blocks);
    set("stitch_min", "0");
    before = stats().reserved;
    gmlake_ptr stitched = take(44 * MIB);
    check_number(before, stats().reserved);
    check_number(1, stats().stitched_blocks);
    give(stitched);
    give(grown);
    end();
}
SIM_TEST(stitch_min, "SIMCUDA_MEMORY=1G", NULL)

/* Stitches, frees what was stitched, and tells how much stays mapped for the next time. */
static uint64_t idle_after_stitching(void)
{
    scatter(4 * MIB, 40);
    gmlake_ptr stitched = take(70 * MIB);
    check_number(1, stats().stitched_blocks);
    give(stitched);
    for (size_t i = 1; i < 40; i += 2) {
        give(held[i]);
    }
    give(take(1 * MIB));
    return stats().stitched_idle;
}

static void stitch_cache_max(void)
{
    begin();
    set("stitch_cache_max", "max");
    check(idle_after_stitching() >= 60 * MIB);
    set("stitch_cache_max", "8M");
    give(take(1 * MIB));
    check(stats().stitched_idle <= 8 * MIB);
    check(stats().evict > 0);
    end();
}
SIM_TEST(stitch_cache_max, "SIMCUDA_MEMORY=1G", NULL)

static void mappings_max(void)
{
    begin();
    set("chunk_max_medium", "2M");
    for (int i = 0; i < 12; i++) {
        scatter(2 * MIB, 64);
        gmlake_ptr stitched = take((size_t)(50 + i) * MIB);
        give(stitched);
        for (size_t k = 1; k < 64; k += 2) {
            give(held[k]);
        }
    }
    uint64_t unlimited = stats().mappings;
    uint64_t chunks = stats().chunks;
    check(unlimited > chunks + 20);
    set("mappings_max", "64");
    scatter(2 * MIB, 64);
    gmlake_ptr stitched = take(63 * MIB);
    check_all();
    check(stats().evict > 0);
    check(stats().mappings < unlimited);
    give(stitched);
    end();
}
SIM_TEST(mappings_max, "SIMCUDA_MEMORY=1G", NULL)

static uint64_t size_in_a_gap(void)
{
    gmlake_ptr wide = take(700 * KIB);
    gmlake_ptr wall = take(700 * KIB);
    give(wide);
    gmlake_ptr narrow = take(650 * KIB);
    struct gmlake_block block;
    check_number(0, gmlake_find(lake, narrow, &block));
    check_number(650 * KIB, block.requested);
    check_all();
    give(narrow);
    give(wall);
    return block.size;
}

static void split_min(void)
{
    begin();
    check_number(650 * KIB, size_in_a_gap());
    set("split_min", "64K");
    check_number(700 * KIB, size_in_a_gap());
    set("split_min", "50K"); /* the rest of 50 KiB is just large enough */
    check_number(650 * KIB, size_in_a_gap());
    end();
}
SIM_TEST(split_min, "SIMCUDA_MEMORY=256M", NULL)

/* A remainder of more than 4 GiB stays inside the block; objects of slabs are as they are. */
static void split_min_at_its_most(void)
{
    begin();
    gmlake_ptr all = take((size_t)12 << 30);
    give(all);
    set("split_min", "1T");
    gmlake_ptr address = take(30 * MIB);
    gmlake_ptr object = take(3000);
    check_all();
    give(address);
    give(object);
    address = take(((size_t)12 << 30) - 30 * MIB);
    check_all();
    give(address);
    end();
}
SIM_TEST(split_min_at_its_most, "SIMCUDA_MEMORY=16G", "SIMCUDA_BACKING=0", NULL)

/* Operations until the next look at what work has completed. */
static void pass_operations(void)
{
    for (int i = 0; i < 70; i++) {
        give(take(1 * MIB));
    }
}

/* Past loading: as much was freed as is live. */
static void past_loading(void)
{
    for (int i = 0; i < 20; i++) {
        give(take(40 * MIB));
    }
    check_number(0, gmlake_trim(lake, 0, NULL));
}

/* Chunks that one block of @bytes gets with the largest chunk set to @value. */
static uint64_t chunks_for(size_t bytes, const char *name, const char *value)
{
    set(name, value);
    gmlake_ptr address = take(bytes);
    uint64_t chunks = stats().chunks;
    check_all();
    give(address);
    check_number(0, gmlake_trim(lake, 0, NULL));
    set(name, "default");
    return chunks;
}

/* Chunks created for sixteen requests of 1000 KiB, which share chunks of that size. */
static uint64_t chunks_shared(const char *value)
{
    gmlake_ptr addresses[16];
    set("chunk_max_small", value);
    uint64_t before = stats().chunks;
    for (size_t i = 0; i < 16; i++) {
        addresses[i] = take(1000 * KIB);
    }
    uint64_t chunks = stats().chunks - before;
    check_all();
    for (size_t i = 0; i < 16; i++) {
        give(addresses[i]);
    }
    check_number(0, gmlake_trim(lake, 0, NULL));
    set("chunk_max_small", "default");
    return chunks;
}

static void chunk_max_small(void)
{
    begin();
    past_loading();
    check_number(8, chunks_shared("2M"));
    check_number(2, chunks_shared("8M"));
    check_number(1, chunks_shared("32M"));
    end();
}
SIM_TEST(chunk_max_small, "SIMCUDA_MEMORY=1G", NULL)

static void chunk_max_medium(void)
{
    begin();
    past_loading();
    check_number(8, chunks_for(16 * MIB, "chunk_max_medium", "2M"));
    check_number(4, chunks_for(16 * MIB, "chunk_max_medium", "4M"));
    check_number(1, chunks_for(16 * MIB, "chunk_max_medium", "16M"));
    end();
}
SIM_TEST(chunk_max_medium, "SIMCUDA_MEMORY=64G", NULL)

static void chunk_max_large(void)
{
    begin();
    past_loading();
    check_number(16, chunks_for(64 * MIB, "chunk_max_large", "8M"));
    check_number(4, chunks_for(64 * MIB, "chunk_max_large", "32M"));
    check_number(1, chunks_for(64 * MIB, "chunk_max_large", "128M"));
    end();
}
SIM_TEST(chunk_max_large, "SIMCUDA_MEMORY=64G", NULL)

/* The largest chunk follows the time that goes into the driver. */
static void chunks_by_driver_time(void)
{
    begin();
    past_loading();
    while (stats().driver_ns < 55000000) {
        check_number(8, chunks_for(64 * MIB, "chunk_max_large", "16M"));
    }
    while (stats().driver_ns < 60000000) {
        chunks_for(64 * MIB, "chunk_max_large", "16M");
    }
    check_number(2, chunks_for(64 * MIB, "chunk_max_large", "16M"));
    let_time_pass(stats().driver_ns / 1000 * 200); /* half a per cent */
    check_number(4, chunks_for(64 * MIB, "chunk_max_large", "16M"));
    end();
}
SIM_TEST(chunks_by_driver_time, "SIMCUDA_MEMORY=64G", NULL)

static uint64_t grown_with_slack(const char *value)
{
    set("growth_slack", value);
    scatter(4 * MIB, 40);
    uint64_t before = stats().reserved;
    gmlake_ptr address = take(40 * MIB);
    uint64_t grown = stats().reserved - before;
    give(address);
    for (size_t i = 1; i < 40; i += 2) {
        give(held[i]);
    }
    check_all();
    check_number(0, gmlake_trim(lake, 0, NULL));
    return grown;
}

static void growth_slack(void)
{
    begin();
    check_number(0, grown_with_slack("0"));
    check_number(40 * MIB, grown_with_slack("1000000"));
    end();
}
SIM_TEST(growth_slack, "SIMCUDA_MEMORY=1G", NULL)

/* A free chunk of 64 MiB is asked for a fourth, while memory is short: the device refused some before. */
static uint64_t cuts_with(const char *name, const char *value)
{
    CUdeviceptr others = sim_alloc((64 * 1024 - 256) * MIB); /* a device of 256 MiB, but for the largest chunk */
    past_loading();
    set(name, value);
    set("chunk_max_large", "128M"); /* 64 MiB, while little time has gone into the driver */
    gmlake_ptr rest = take(192 * MIB);
    gmlake_ptr large = take(62 * MIB);
    expect_refused(ENOMEM, 30 * MIB);
    give(large);
    let_time_pass(10000000);
    pass_operations();
    uint64_t before = stats().cut;
    large = take(26 * MIB + 1);
    uint64_t cuts = stats().cut - before;
    check_all();
    give(large);
    give(rest);
    check_number(0, gmlake_trim(lake, 0, NULL));
    set(name, "default");
    works(sim.cuMemFree_v2(others));
    return cuts;
}

static void cut_min(void)
{
    begin();
    check(cuts_with("cut_min", "2M") > 0);
    check_number(0, cuts_with("cut_min", "128M"));
    end();
}
SIM_TEST(cut_min, "SIMCUDA_MEMORY=64G", NULL)

/* 0 never cuts, not even at the limit, where any other budget would not be asked about. */
static void cut_budget(void)
{
    begin();
    check(cuts_with("cut_budget", "1") > 0);
    check_number(0, cuts_with("cut_budget", "0"));
    end();
}
SIM_TEST(cut_budget, "SIMCUDA_MEMORY=64G", NULL)

/* 300 MiB freed on one stream, wanted on another, with memory to grow into. */
static struct gmlake_stats across_streams(const char *value)
{
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    set("cross_stream_wait", value);
    gmlake_ptr address = take_on(300 * MIB, one);
    use(address, 300 * MIB, 1, one);
    give_on(address, one);
    address = take_on(300 * MIB, two);
    struct gmlake_stats after = stats();
    check_all();
    give_on(address, two);
    check_number(0, gmlake_trim(lake, 0, NULL));
    return after;
}

static void cross_stream_wait(void)
{
    begin();
    struct gmlake_stats without = across_streams("0");
    check_number(0, without.stream_waits);
    check_number(600 * MIB, without.reserved);
    struct gmlake_stats with = across_streams("1");
    check_number(1, with.stream_waits);
    check_number(300 * MIB, with.reserved);
    end();
}
SIM_TEST(cross_stream_wait, "SIMCUDA_MEMORY=1G", "SIMCUDA_STREAM_DELAY_US=100000", NULL)

static void release_threshold(void)
{
    begin();
    give(take(300 * MIB));
    give(take(1 * MIB));
    check(stats().free_chunks >= 298 * MIB);
    set("release_threshold", "100M");
    give(take(1 * MIB));
    check(stats().free_chunks <= 100 * MIB);
    check(stats().trim > 0);
    set("release_threshold", "0");
    pass_operations();
    check(stats().free_chunks <= 2 * MIB);
    end();
}
SIM_TEST(release_threshold, "SIMCUDA_MEMORY=64G", NULL)

/* The limits belong to the process; test_account.c has the rest of what they do. */
static void memory_max(void)
{
    begin();
    gm_agent_stop(); /* which would act on the limits, too */
    set("memory_max", "64M");
    gmlake_ptr most = take(60 * MIB);
    expect_refused(ENOMEM, 10 * MIB);
    check(stats().reserved <= 64 * MIB);
    check(stats().max_events > 0 && stats().oom == 1);
    set("memory_max", "max");
    give(take(10 * MIB));
    give(most);
    set("memory_max", "default");
    end();
}
SIM_TEST(memory_max, "SIMCUDA_MEMORY=1G", NULL)

static void memory_high(void)
{
    begin();
    gm_agent_stop();
    set("stitch_min", "64M");
    set("memory_high", "100M");
    scatter(4 * MIB, 40);
    check_number(1, stats().high_events);
    uint64_t before = stats().reserved;
    gmlake_ptr stitched = take(40 * MIB);
    check_number(before, stats().reserved); /* although stitch_min says to grow */
    check_number(1, stats().stitched_blocks);
    gmlake_ptr grown = take(60 * MIB); /* nobody is refused */
    check(stats().reserved > before);
    give(stitched);
    give(grown);
    set("memory_high", "default");
    end();
}
SIM_TEST(memory_high, "SIMCUDA_MEMORY=1G", NULL)

int main(void)
{
    /* One for each row: a tunable without a test does not compile. */
    const struct CMUnitTest tests[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) cmocka_unit_test(test_##name),
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
        cmocka_unit_test(test_split_min_at_its_most),
        cmocka_unit_test(test_chunks_by_driver_time),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
