/*
 * test_behaviour.c - what users of other allocators reported as broken, as far as the core has a part in it: memory
 * that does not grow where it need not, requests that are served where memory is there.
 */
#include "pool_test.h"

static gmlake_ptr blocks[512];

/* 8 x 16 MiB, all freed, then 4 x 32 MiB: nothing is added. */
static void order_independence(void)
{
    begin();
    for (int i = 0; i < 8; i++) {
        blocks[i] = take(16 * MIB);
    }
    for (int i = 0; i < 8; i++) {
        give(blocks[i]);
    }
    for (int i = 0; i < 4; i++) {
        blocks[i] = take(32 * MIB);
    }
    check_number(128 * MIB, stats().reserved_peak);
    for (int i = 0; i < 4; i++) {
        give(blocks[i]);
    }
    end();
}
SIM_TEST(order_independence, "SIMCUDA_MEMORY=1G", NULL)

/* Between live neighbours, scattered: no growth, and the neighbours keep their bytes. */
static void pinned_neighbours(void)
{
    begin();
    for (int i = 0; i < 4; i++) {
        blocks[i] = take(16 * MIB);
        memset((void *)(uintptr_t)blocks[i], i + 1, 16 * MIB);
    }
    give(blocks[0]);
    give(blocks[2]);
    gmlake_ptr stitched = take(32 * MIB);
    memset((void *)(uintptr_t)stitched, 0xee, 32 * MIB);
    check_number(64 * MIB, stats().reserved_peak);
    for (int i = 1; i < 4; i += 2) {
        for (size_t at = 0; at < 16 * MIB; at += 4 * KIB) {
            check_number(i + 1, byte_at(blocks[i] + at));
        }
        give(blocks[i]);
    }
    give(stitched);
    end();
}
SIM_TEST(pinned_neighbours, "SIMCUDA_MEMORY=1G", NULL)

/* What a large block left serves a small one. */
static void pool_boundary(void)
{
    begin();
    give(take(2 * MIB));
    gmlake_ptr small = take(512 * KIB);
    gmlake_ptr smaller = take(500);
    check_number(2 * MIB, stats().reserved_peak);
    give(small);
    give(smaller);
    end();
}
SIM_TEST(pool_boundary, "SIMCUDA_MEMORY=1G", NULL)

/* Free memory in holes all over a full device serves one large request. */
static void scattered_free_memory(void)
{
    begin();
    set("chunk_max_medium", "2M");
    give(take(300 * MIB)); /* not the first memory of a program any more, for which chunks are coarse */
    check_number(0, gmlake_trim(lake, 0, NULL));
    size_t count = 0;
    while (count < GM_ARRAY_LENGTH(blocks) && gmlake_alloc(lake, 6 * MIB, NULL, &blocks[count]) == 0) {
        count++;
    }
    uint64_t refused = stats().oom;
    for (size_t i = 0; i < count; i += 3) {
        give(blocks[i]);
    }
    gmlake_ptr large = take(count / 3 * 6 * MIB);
    check_all();
    check_number(refused, stats().oom);
    give(large);
    for (size_t i = 0; i < count; i++) {
        if (i % 3 != 0) {
            give(blocks[i]);
        }
    }
    end();
}
SIM_TEST(scattered_free_memory, "SIMCUDA_MEMORY=1G", NULL)

/* The CPU runs ahead: buffers made on one stream, used on another, freed there. What is held follows the window in
 * flight, not the count. */
static void cross_stream_over_hold(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 200; i++) {
        gmlake_ptr buffer = take_on(20 * MIB, one);
        use(buffer, 1, 1, two);
        give_on(buffer, two);
        let_time_pass(500);
    }
    /* Ten in flight at a time. */
    check(stats().reserved_peak <= 13 * 20 * MIB);
    end();
}
SIM_TEST(cross_stream_over_hold, "SIMCUDA_MEMORY=8G", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

/* What an idle stream freed serves the others, merged. */
static void idle_stream(void)
{
    begin();
    CUstream idle = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream busy = sim_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 100; i++) {
        blocks[i] = take_on(1 * MIB + (size_t)i * 10 * KIB, idle);
    }
    for (int i = 0; i < 100; i++) {
        give_on(blocks[i], idle);
    }
    uint64_t before = stats().reserved;
    gmlake_ptr large = take_on(100 * MIB, busy);
    check_number(before, stats().reserved_peak);
    give_on(large, busy);
    end();
}
SIM_TEST(idle_stream, "SIMCUDA_MEMORY=1G", NULL)

/* Each of 48 layers is replaced by one 6 % larger: growth of a few layers, not of a copy. */
static void replaced_by_larger(void)
{
    begin();
    for (int i = 0; i < 48; i++) {
        blocks[i] = take(20 * MIB);
    }
    for (int i = 0; i < 48; i++) {
        gmlake_ptr larger = take(20 * MIB + 20 * MIB * 6 / 100);
        give(blocks[i]);
        blocks[i] = larger;
        check_all();
    }
    uint64_t live = stats().requested;
    check(stats().reserved_peak <= live + live / 20);
    for (int i = 0; i < 48; i++) {
        give(blocks[i]);
    }
    end();
}
SIM_TEST(replaced_by_larger, "SIMCUDA_MEMORY=4G", NULL)

/* 60 of 80, freed, then 70 of 80. */
static void most_then_more(void)
{
    begin();
    give(take((size_t)60 << 30));
    give(take((size_t)70 << 30));
    check_all();
    end();
}
SIM_TEST(most_then_more, "SIMCUDA_MEMORY=80G", "SIMCUDA_BACKING=0", NULL)

/* Thousands of small stitches: addresses in proportion to what is mapped, mappings under their cap. */
static void budget_of_addresses(void)
{
    begin();
    set("mappings_max", "3000");
    uint64_t random = 88172645463325252u;
    size_t live = 0;
    for (int i = 0; i < 10000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (live == GM_ARRAY_LENGTH(blocks) || (live > 0 && random % 2 == 0)) {
            size_t victim = random / 2 % live;
            give(blocks[victim]);
            blocks[victim] = blocks[--live];
        } else {
            blocks[live++] = take(2 * MIB + random / 2 % (30 * MIB));
        }
    }
    check_all();
    check(stats().mappings_peak <= 3600);
    check(stats().va_bytes <= (uint64_t)128
                                  << 30); /* ranges begin at 4 GiB each; what counts is that they come to an end */
    while (live > 0) {
        give(blocks[--live]);
    }
    check_number(0, gmlake_trim(lake, 0, NULL));
    check_number(0, stats().va_bytes);
    end();
}
SIM_TEST(budget_of_addresses, "SIMCUDA_MEMORY=16G", "SIMCUDA_BACKING=0", NULL)

/* One iteration after the other of the same requests: soon no driver call manages memory any more. */
static void convergence(void)
{
    begin();
    uint64_t calls[10];
    for (int iteration = 0; iteration < 10; iteration++) {
        for (int i = 0; i < 60; i++) {
            blocks[i] = take((size_t)(1 + i * 7919 % 40) * MIB + (size_t)(i % 5) * 700);
            if (i % 3 == 2) {
                give(blocks[i - 1]);
            }
        }
        for (int i = 0; i < 60; i++) {
            if (i % 3 != 1) {
                give(blocks[i]);
            }
        }
        calls[iteration] = stats().driver_calls;
    }
    check_number(calls[5], calls[9]);
    end();
}
SIM_TEST(convergence, "SIMCUDA_MEMORY=16G", "SIMCUDA_BACKING=0", NULL)

/* A large block begins and ends in partly used chunks, and leaves whole ones: they can be given back, or serve others.
 */
static void ends_before_whole_chunks(void)
{
    enum { COUNT = 40, FREED = 17 };
    begin();
    set("chunk_max_large", "128M"); /* a young pool makes chunks of half of it */
    set("growth_slack", "0");
    give(take(1024 * MIB)); /* not the first memory of a program any more */
    check_number(0, gmlake_trim(lake, 0, NULL));
    gmlake_ptr first = take(64 * MIB);
    gmlake_ptr second = take(64 * MIB);
    check_number(2, stats().chunks);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = take(32 * MIB);
    }
    give(first);
    give(second);
    gmlake_ptr head = take(32 * MIB);
    gmlake_ptr busy = take(64 * MIB); /* the end of the first, the start of the second */
    give(head);
    for (int i = 0; i < FREED; i++) {
        give(blocks[2 * i + 1]);
    }
    uint64_t reserved = stats().reserved;
    gmlake_ptr large = take(FREED * 32 * MIB); /* as much as there is in whole chunks */
    check_number(reserved, stats().reserved);
    check_number(0, gmlake_trim(lake, 0, NULL));
    check_number(reserved - 2 * 32 * MIB, stats().reserved);
    check_all();
    give(large);
    give(busy);
    for (int i = 0; i < COUNT; i++) {
        if (i % 2 == 0 || i > 2 * FREED) {
            give(blocks[i]);
        }
    }
    end();
}
SIM_TEST(ends_before_whole_chunks, "SIMCUDA_MEMORY=16G", "SIMCUDA_BACKING=0", NULL)

/* A free with work under way, an allocation on another stream, with each way of telling when it is done. */
static void early_reuse(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    static const size_t sizes[] = {600, 20 * KIB, 3 * MIB, 50 * MIB};
    for (int i = 0; i < 400; i++) {
        size_t bytes = sizes[i % 4];
        set("cross_stream_wait", i / 4 % 2 == 0 ? "0" : "1");
        gmlake_ptr address = take_on(bytes, one);
        use(address, bytes, 0xbb, one);
        give_on(address, one);
        if (i % 7 == 0) {
            let_time_pass(100);
        }
        address = take_on(bytes, two);
        use(address, bytes, (unsigned char)(i % 100), two);
        works(sim.cuStreamSynchronize(two));
        let_time_pass(i % 11 == 0 ? 2000 : 0);
        check_number(i % 100, byte_at(address));
        check_number(i % 100, byte_at(address + bytes - 1));
        give_on(address, two);
    }
    end();
}
SIM_TEST(early_reuse, "SIMCUDA_MEMORY=128M", "SIMCUDA_STREAM_DELAY_US=50-900", NULL)

/* A block that is freed at once is given again for as much, and is free memory for everything else. */
static void the_newest_block_comes_back(void)
{
    begin();
    gmlake_ptr kept = take(40 * MIB);
    gmlake_ptr newest = take(3 * MIB);
    for (int i = 0; i < 3; i++) {
        give(newest);
        check_all();
        check(take(3 * MIB) == newest);
        check_all();
    }
    check_number(0, gmlake_free(lake, newest, NULL));
    check_number(-EINVAL, gmlake_free(lake, newest, NULL));
    check_number(-EINVAL, gmlake_free_sync(lake, newest));
    check_all();
    struct gmlake_block block;
    check_number(-ENOENT, gmlake_find(lake, newest, &block));
    check_number(-EINVAL, gmlake_free(lake, newest, NULL));
    uint64_t chunks = stats().chunks;
    newest = take(3 * MIB);
    give(newest);
    gmlake_ptr half = take(3 * MIB / 2); /* in the same memory */
    check(half == newest && stats().chunks == chunks);
    give(half);
    give(kept);
    check(take(40 * MIB) == kept); /* not the newest any more, but first in its range */
    give(kept);
    check_all();
    check_number(0, gmlake_trim(lake, 0, NULL));
    check_number(0, stats().reserved);
    end();
}
SIM_TEST(the_newest_block_comes_back, "SIMCUDA_MEMORY=256M", NULL)

/* On another stream it is as free as any other block: when its work is done. */
static void the_newest_block_is_its_streams(void)
{
    begin();
    set("cross_stream_wait", "0");
    CUstream first = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr newest = take_on(4 * MIB, first);
    use(newest, 4 * MIB, 1, first);
    give_on(newest, first);
    gmlake_ptr other = take_on(4 * MIB, second);
    check(other != newest);
    check(take_on(4 * MIB, first) == newest);
    check_all();
    give_on(newest, first);
    check_number(0, gmlake_forget_stream(lake, first));
    check_all();
    end();
}
SIM_TEST(the_newest_block_is_its_streams, "SIMCUDA_MEMORY=256M", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

/*
 * Among thousands of live blocks, those of 16 to 64 KiB are objects of slabs, too: of sizes in steps of an eighth. They
 * do not overlap, and come back when there is no crowd any more.
 */
static void crowd(void)
{
    enum { CROWD = 8192, LARGER = 300 };
    begin();
    gmlake_ptr *small = calloc(CROWD, sizeof *small);
    uint64_t allocated = stats().allocated;
    gmlake_ptr alone = take(17 * KIB);
    check_number(17 * KIB, stats().allocated - allocated);
    for (int i = 0; i < CROWD; i++) {
        small[i] = take(512);
    }
    allocated = stats().allocated;
    give(take(17 * KIB));
    gmlake_ptr one_of_many = take(17 * KIB);
    check_number(18 * KIB, stats().allocated - allocated);
    for (int i = 0; i < LARGER; i++) {
        size_t size = 16 * KIB + 1 + (size_t)i * 163;
        blocks[i] = take(size);
        memset((void *)(uintptr_t)blocks[i], i, size);
    }
    check_all();
    for (int i = 0; i < LARGER; i++) {
        size_t size = 16 * KIB + 1 + (size_t)i * 163;
        check_number(i & 0xff, byte_at(blocks[i]));
        check_number(i & 0xff, byte_at(blocks[i] + size - 1));
        if (i % 2 == 0) {
            give(blocks[i]);
        }
    }
    check_all();
    for (int i = 0; i < CROWD; i++) {
        give(small[i]);
    }
    for (int i = 1; i < LARGER; i += 2) {
        give(blocks[i]);
    }
    give(one_of_many);
    give(alone);
    check_number(0, stats().allocated);
    free(small);
    end();
}
SIM_TEST(crowd, "SIMCUDA_MEMORY=1G", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_independence),
        cmocka_unit_test(test_pinned_neighbours),
        cmocka_unit_test(test_pool_boundary),
        cmocka_unit_test(test_scattered_free_memory),
        cmocka_unit_test(test_cross_stream_over_hold),
        cmocka_unit_test(test_idle_stream),
        cmocka_unit_test(test_replaced_by_larger),
        cmocka_unit_test(test_most_then_more),
        cmocka_unit_test(test_budget_of_addresses),
        cmocka_unit_test(test_convergence),
        cmocka_unit_test(test_ends_before_whole_chunks),
        cmocka_unit_test(test_early_reuse),
        cmocka_unit_test(test_the_newest_block_comes_back),
        cmocka_unit_test(test_the_newest_block_is_its_streams),
        cmocka_unit_test(test_crowd),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
