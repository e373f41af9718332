/*
 * test_limit.c - the ladder at the device limit: what fits only by stitching everything, by waiting, by a
 * synchronisation owed, or not at all; and threads that free while another waits.
 */
#include "cu.h"
#include "pool_test.h"

#include <pthread.h>

/* Fills the device with blocks of @bytes; frees every second one. Gives how many are live, in blocks[]. */
static gmlake_ptr blocks[256];
static size_t count;

static void scatter(size_t bytes)
{
    count = 0;
    while (count < GM_ARRAY_LENGTH(blocks) && gmlake_alloc(lake, bytes, NULL, &blocks[count]) == 0) {
        mark(blocks[count], bytes, (unsigned char)count);
        count++;
    }
    for (size_t i = 0; i < count; i += 2) {
        give(blocks[i]);
    }
    check_all();
}

static void free_the_rest(void)
{
    for (size_t i = 1; i < count; i += 2) {
        check_number((unsigned char)i, byte_at(blocks[i]));
        give(blocks[i]);
    }
}

static void only_by_stitching_everything(void)
{
    static const size_t bytes[] = {2 * MIB, 4 * MIB, 6 * MIB};
    begin();
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bytes); i++) {
        scatter(bytes[i]);
        size_t free = (count + 1) / 2 * bytes[i] + 96 * MIB % bytes[i];
        gmlake_ptr all = take(free);
        mark(all, free, 0xee);
        check_all();
        check(stats().reserved <= 96 * MIB);
        check(stats().stitched_blocks >= 1);
        struct gmlake_block block;
        check_number(0, gmlake_find(lake, all, &block));
        check_number(GMLAKE_BLOCK_STITCHED, block.kind);
        expect_refused(ENOMEM, 2 * MIB);
        give(all);
        free_the_rest();
        check_all();
        check_number(0, stats().blocks);
    }
    end();
}
SIM_TEST(only_by_stitching_everything, "SIMCUDA_MEMORY=96M", NULL)

static void only_after_pending_frees(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    for (int waits = 0; waits < 2; waits++) {
        set("cross_stream_wait", waits ? "1" : "0");
        gmlake_ptr address = take_on(90 * MIB, one);
        use(address, 90 * MIB, 0xbb, one);
        give_on(address, one);
        address = take_on(94 * MIB, two); /* the first call serves it */
        use(address, 94 * MIB, 0x11, two);
        works(sim.cuStreamSynchronize(two));
        let_time_pass(50000);
        check_number(0x11, byte_at(address));
        check_number(0x11, byte_at(address + 94 * MIB - 1));
        give_on(address, two);
        check_all();
    }
    end();
}
SIM_TEST(only_after_pending_frees, "SIMCUDA_MEMORY=96M", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

/* Objects of slabs freed on another stream, with the device full. */
static void small_pending_frees(void)
{
    static gmlake_ptr objects[1024];
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr rest = take_on(80 * MIB, one);
    size_t got = 0;
    while (got < GM_ARRAY_LENGTH(objects) && gmlake_alloc(lake, 16 * KIB, one, &objects[got]) == 0) {
        got++;
    }
    check(got >= 900);
    for (size_t i = 0; i < got; i++) {
        use(objects[i], 16 * KIB, 0xbb, two);
        give_on(objects[i], two);
    }
    for (size_t i = 0; i < got; i++) {
        objects[i] = take_on(16 * KIB, one);
        use(objects[i], 16 * KIB, 0x11, one);
    }
    works(sim.cuStreamSynchronize(one));
    let_time_pass(50000);
    for (size_t i = 0; i < got; i++) {
        check_number(0x11, byte_at(objects[i]));
        give_on(objects[i], one);
    }
    give_on(rest, one);
    end();
}
SIM_TEST(small_pending_frees, "SIMCUDA_MEMORY=96M", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

static void only_after_a_synchronisation_owed(void)
{
    begin();
    CUstream unknown = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr address = take(70 * MIB);
    use(address, 70 * MIB, 0xbb, unknown);
    check_number(0, gmlake_free_sync(lake, address));
    address = take(94 * MIB);
    mark(address, 94 * MIB, 0x11);
    let_time_pass(50000);
    check_number(0x11, byte_at(address));
    give(address);
    end();
}
SIM_TEST(only_after_a_synchronisation_owed, "SIMCUDA_MEMORY=96M", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

/* However memory is used later: what a chunk pins that is partly in use is little of a small device, too. */
static void chunks_are_small_parts_of_the_device(void)
{
    begin();
    gmlake_ptr weights = take(512 * MIB);
    check_number(512 / 16, stats().chunks);
    gmlake_ptr later = take(256 * MIB);
    check_number((512 + 256) / 16, stats().chunks);
    give(weights);
    give(later);
    end();
}
SIM_TEST(chunks_are_small_parts_of_the_device, "SIMCUDA_MEMORY=2G", NULL)

static void what_cannot_fit(void)
{
    begin();
    gmlake_ptr half = take(50 * MIB);
    mark(half, 50 * MIB, 5);
    for (int i = 0; i < 5; i++) {
        expect_refused(ENOMEM, 50 * MIB);
        check_all();
    }
    check_number(5, stats().oom);
    check_number(1, stats().blocks);
    check_number(50 * MIB, stats().requested);
    check_number(5, byte_at(half + 50 * MIB - 1));
    give(take(46 * MIB));
    give(half);
    end();
}
SIM_TEST(what_cannot_fit, "SIMCUDA_MEMORY=96M", NULL)

/* The last pages of the device serve small requests although no larger chunk can be made. */
static void down_to_the_last_page(void)
{
    begin();
    gmlake_ptr most = take(94 * MIB);
    gmlake_ptr last = take(2 * MIB);
    expect_refused(ENOMEM, 1);
    give(last);
    last = take(1);
    give(last);
    give(most);
    check_number(96 * MIB, stats().reserved);
    end();
}
SIM_TEST(down_to_the_last_page, "SIMCUDA_MEMORY=96M", NULL)

/* A small request whose slab does not fit is served for itself. */
static void too_little_for_a_slab(void)
{
    begin();
    gmlake_ptr first = take(900 * KIB);
    gmlake_ptr most = take(94 * MIB);
    gmlake_ptr second = take(500 * KIB);
    gmlake_ptr object = take(12 * KIB);
    struct gmlake_block block;
    check_all();
    check_number(0, gmlake_find(lake, object + 12 * KIB - 1, &block));
    check_number(object, block.address);
    check_number(12 * KIB, block.requested);
    check_number(-EINVAL, gmlake_free(lake, object + 512, NULL));
    give(object);
    give(first);
    give(most);
    give(second);
    end();
}
SIM_TEST(too_little_for_a_slab, "SIMCUDA_MEMORY=96M", NULL)

/* The driver refuses every chunk, though it says it has room: what is free is stitched. */
static void a_driver_that_gives_nothing(void)
{
    begin();
    scatter(4 * MIB);
    free_the_rest();
    size_t released;
    check_number(0, gmlake_trim(lake, 48 * MIB, &released));
    for (unsigned i = 1; i <= 32; i++) {
        sim.fail_call("cuMemCreate", i, CUDA_ERROR_OUT_OF_MEMORY);
    }
    gmlake_ptr address = take(40 * MIB);
    check_all();
    sim.fail_call("cuMemCreate", 0, 0);
    give(address);
    end();
}
SIM_TEST(a_driver_that_gives_nothing, "SIMCUDA_MEMORY=96M", NULL)

/* Another program took the rest of the device. */
static void a_neighbour_on_the_device(void)
{
    begin();
    CUdeviceptr foreign = sim_alloc(40 * MIB);
    scatter(2 * MIB);
    gmlake_ptr address = take((count + 1) / 2 * 2 * MIB);
    expect_refused(ENOMEM, 2 * MIB);
    works(sim.cuMemFree_v2(foreign));
    gmlake_ptr more = take(38 * MIB);
    give(more);
    give(address);
    free_the_rest();
    end();
}
SIM_TEST(a_neighbour_on_the_device, "SIMCUDA_MEMORY=96M", NULL)

static const struct gm_cu *loaded;

/* Where the device is full, another thread gives back what the pool has free before the caller hears of it. */
static CUresult mem_alloc_beside_others(CUdeviceptr *out, size_t bytes)
{
    size_t released;
    CUresult code = loaded->mem_alloc(out, bytes);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) {
        check_number(0, gmlake_trim(lake, 0, &released));
    }
    return code;
}

/* With the tunable enabled off. */
static void others_give_back_for_the_driver(void)
{
    check_number(0, gm_cu_get(&loaded));
    struct gm_cu table = *loaded;
    table.mem_alloc = mem_alloc_beside_others;
    gm_cu_use(&table);
    begin();
    give(take(80 * MIB));
    set("enabled", "0");
    give(take(80 * MIB));
    expect_refused(ENOMEM, 120 * MIB);
    set("enabled", "default");
    end();
}
SIM_TEST(others_give_back_for_the_driver, "SIMCUDA_MEMORY=96M", NULL)

/* Two threads at the limit: what one frees in its stream's order serves the other, which waits for it. */
#define THREADS 3
static CUcontext context;
static _Atomic unsigned refusals;

static void *churn(void *arg)
{
    CUstream stream = arg;
    works(sim.cuCtxSetCurrent(context));
    for (int i = 0; i < 300; i++) {
        size_t bytes = (size_t)(1 + i % 30) * MIB;
        gmlake_ptr address = 0;
        int rc = gmlake_alloc(lake, bytes, stream, &address);
        check(rc == 0 || rc == -ENOMEM);
        if (rc != 0) {
            refusals++;
            continue;
        }
        use(address, bytes, (unsigned char)i, stream);
        works(sim.cuStreamSynchronize(stream));
        check_number((unsigned char)i, byte_at(address));
        check_number((unsigned char)i, byte_at(address + bytes - 1));
        use(address, bytes, 0xbb, stream);
        give_on(address, stream);
        check_number(0, gmlake_check(lake));
    }
    return NULL;
}

static void threads_at_the_limit(void)
{
    begin();
    works(sim.cuCtxGetCurrent(&context));
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        check_number(0, pthread_create(&threads[t], NULL, churn, sim_stream(CU_STREAM_NON_BLOCKING)));
    }
    for (int t = 0; t < THREADS; t++) {
        check_number(0, pthread_join(threads[t], NULL));
    }
    check_number(0, refusals); /* three times 30 MiB at most are live or pending */
    end();
}
SIM_TEST(threads_at_the_limit, "SIMCUDA_MEMORY=96M", "SIMCUDA_STREAM_DELAY_US=0-2000", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_by_stitching_everything),
        cmocka_unit_test(test_only_after_pending_frees),
        cmocka_unit_test(test_small_pending_frees),
        cmocka_unit_test(test_only_after_a_synchronisation_owed),
        cmocka_unit_test(test_chunks_are_small_parts_of_the_device),
        cmocka_unit_test(test_what_cannot_fit),
        cmocka_unit_test(test_down_to_the_last_page),
        cmocka_unit_test(test_too_little_for_a_slab),
        cmocka_unit_test(test_a_driver_that_gives_nothing),
        cmocka_unit_test(test_a_neighbour_on_the_device),
        cmocka_unit_test(test_others_give_back_for_the_driver),
        cmocka_unit_test(test_threads_at_the_limit),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
