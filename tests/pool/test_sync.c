/*
 * test_sync.c - gmlake_free_sync(): memory that any stream may still use waits for a synchronisation of the context,
 * which is paid late, once for many, and whatever the size of the blocks.
 */
#include "pool_test.h"

#include <pthread.h>

static uint64_t calls_of(const char *name)
{
    static struct simcuda_call calls[256];
    size_t count = sim.query_calls(calls, GM_ARRAY_LENGTH(calls));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(calls[i].name, name) == 0) {
            return calls[i].calls;
        }
    }
    return 0;
}

static void paid_late_and_once(void)
{
    begin();
    gmlake_ptr blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = take(4 * MIB);
    }
    for (int i = 0; i < 8; i++) {
        check_number(0, gmlake_free_sync(lake, blocks[i]));
        check_all();
    }
    check_number(0, calls_of("cuCtxSynchronize"));
    check_number(0, stats().blocks);
    for (int i = 0; i < 8; i++) {
        blocks[i] = take(4 * MIB);
        check_all();
    }
    check_number(1, calls_of("cuCtxSynchronize"));
    check_number(32 * MIB, stats().reserved);
    end();
}
SIM_TEST(paid_late_and_once, "SIMCUDA_MEMORY=64M", NULL)

/* Objects of slabs wait for the same: a program that uses plain cuMemFree() must not grow without end. */
static void small_objects_come_back(void)
{
    begin();
    for (int i = 0; i < 20000; i++) {
        gmlake_ptr address = take(4096);
        check_number(0, gmlake_free_sync(lake, address));
    }
    check_all();
    check(stats().reserved <= 4 * MIB);
    end();
}
SIM_TEST(small_objects_come_back, "SIMCUDA_MEMORY=64M", NULL)

static void small_objects_come_back_at_the_limit(void)
{
    static gmlake_ptr blocks[20000];
    begin();
    size_t count = 0;
    while (gmlake_alloc(lake, 16 * KIB, NULL, &blocks[count]) == 0) {
        count++;
    }
    check(count >= 1000);
    for (size_t i = 0; i < count; i++) {
        check_number(0, gmlake_free_sync(lake, blocks[i]));
    }
    check_all();
    give(take(24 * MIB));
    end();
}
SIM_TEST(small_objects_come_back_at_the_limit, "SIMCUDA_MEMORY=32M", NULL)

/* What work of a stream unknown to the allocator writes must not fall on the next owner. */
static void no_reuse_before_the_work_is_done(void)
{
    begin();
    CUstream unknown = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr big = take(30 * MIB);
    gmlake_ptr small = take(1 * KIB);
    use(big, 30 * MIB, 0xbb, unknown);
    use(small, 1 * KIB, 0xbb, unknown);
    check_number(0, gmlake_free_sync(lake, big));
    check_number(0, gmlake_free_sync(lake, small));
    big = take(30 * MIB);
    mark(big, 30 * MIB, 0x11);
    for (int i = 0; i < 64; i++) {
        small = take(1 * KIB);
        mark(small, 1 * KIB, 0x11);
        let_time_pass(10);
        check_number(0x11, byte_at(small));
    }
    let_time_pass(100000);
    check_number(0x11, byte_at(big));
    check_number(0x11, byte_at(big + 30 * MIB - 1));
    end();
}
SIM_TEST(no_reuse_before_the_work_is_done, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=500", NULL)

static void a_failed_synchronisation_loses_nothing(void)
{
    begin();
    gmlake_ptr address = take(30 * MIB);
    gmlake_ptr small = take(1 * KIB);
    check_number(0, gmlake_free_sync(lake, address));
    check_number(0, gmlake_free_sync(lake, small));
    sim.fail_call("cuCtxSynchronize", 1, CUDA_ERROR_UNKNOWN);
    (void)gmlake_alloc(lake, 40 * MIB, NULL, &address);
    check_all();
    sim.fail_call("cuCtxSynchronize", 0, 0);
    if (stats().blocks == 0) {
        address = take(40 * MIB);
    }
    check_all();
    give(address);
    end();
}
SIM_TEST(a_failed_synchronisation_loses_nothing, "SIMCUDA_MEMORY=64M", NULL)

static void freed_twice_is_refused(void)
{
    begin();
    gmlake_ptr address = take(4 * MIB);
    gmlake_ptr small = take(100);
    struct gmlake_block block;
    check_number(0, gmlake_free_sync(lake, address));
    check_number(0, gmlake_free_sync(lake, small));
    check_number(-EINVAL, gmlake_free_sync(lake, address));
    check_number(-EINVAL, gmlake_free(lake, address, NULL));
    check_number(-EINVAL, gmlake_free_sync(lake, small));
    check_number(-EINVAL, gmlake_free(lake, small, NULL));
    check_number(-ENOENT, gmlake_find(lake, address, &block));
    check_number(-ENOENT, gmlake_find(lake, small, &block));
    end();
}
SIM_TEST(freed_twice_is_refused, "SIMCUDA_MEMORY=64M", NULL)

static void trim_pays_it(void)
{
    begin();
    gmlake_ptr address = take(20 * MIB);
    gmlake_ptr small = take(5 * KIB);
    size_t released = 0;
    check_number(0, gmlake_free_sync(lake, address));
    check_number(0, gmlake_free_sync(lake, small));
    check_number(0, gmlake_trim(lake, 0, &released));
    check(released >= 22 * MIB);
    check_number(0, stats().reserved);
    check_number(0, sim_device(0).in_use);
    end();
}
SIM_TEST(trim_pays_it, "SIMCUDA_MEMORY=64M", NULL)

/* Several threads that owe and need memory at once: none is refused what another is just waiting for. */
#define THREADS 4
static void *churn(void *arg)
{
    CUcontext context = arg;
    works(sim.cuCtxSetCurrent(context));
    for (int i = 0; i < 400; i++) {
        gmlake_ptr address;
        int rc = gmlake_alloc(lake, 14 * MIB, NULL, &address);
        if (rc != 0) {
            return (void *)(intptr_t)rc;
        }
        rc = gmlake_free_sync(lake, address);
        if (rc != 0) {
            return (void *)(intptr_t)rc;
        }
    }
    return NULL;
}

static void threads_that_owe(void)
{
    begin();
    CUcontext context;
    works(sim.cuCtxGetCurrent(&context));
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        check_number(0, pthread_create(&threads[t], NULL, churn, context));
    }
    for (int t = 0; t < THREADS; t++) {
        void *result;
        check_number(0, pthread_join(threads[t], &result));
        check_number(0, (intptr_t)result);
    }
    end();
}
SIM_TEST(threads_that_owe, "SIMCUDA_MEMORY=64M", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paid_late_and_once),
        cmocka_unit_test(test_small_objects_come_back),
        cmocka_unit_test(test_small_objects_come_back_at_the_limit),
        cmocka_unit_test(test_no_reuse_before_the_work_is_done),
        cmocka_unit_test(test_a_failed_synchronisation_loses_nothing),
        cmocka_unit_test(test_freed_twice_is_refused),
        cmocka_unit_test(test_trim_pays_it),
        cmocka_unit_test(test_threads_that_owe),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
