/*
 * test_runtime.c - programs of the CUDA runtime of the toolkit, shared and static, are served like any other.
 */
#include "gmtest.h"
#include "run.h"

static void program_is_served(const char *program)
{
    const char *const argv[] = {program, "run", NULL};
    struct run bare = run_program(argv, false);
    bool starts = strstr(bare.output, "cudaGetDeviceCount: 0") != NULL;
    run_free(&bare);
    if (!starts) {
        gm_skip("this CUDA runtime does not start on the simulated driver");
        return;
    }
    struct run run = run_both_ways(argv);
    assert_int_equal(run_driver_count(&run, "cuMemAlloc_v2"), 0);
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

static void the_shared_runtime_is_served(void **state)
{
    (void)state;
    program_is_served(RUNTIME_SHARED);
}

static void the_static_runtime_is_served(void **state)
{
    (void)state;
    program_is_served(RUNTIME_STATIC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shared_runtime_is_served),
        cmocka_unit_test(the_static_runtime_is_served),
    };
    return gm_test_result(cmocka_run_group_tests_name("runtime", tests, NULL, NULL));
}
