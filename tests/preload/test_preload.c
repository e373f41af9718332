/*
 * test_preload.c - a program hears the same with and without the preload library, and is served by it.
 *
 * The program is exercise.c, linked with the driver or not. Who served is read off the simulated driver's counts.
 */
#include "gmtest.h"
#include "run.h"

static struct run exercise(const char *program, const char *door, const char *scenario)
{
    const char *const argv[] = {program, door, scenario, NULL};
    return run_both_ways(argv);
}

/* Every allocation came from us: the driver made chunks and was never asked for memory. */
static void expect_served(struct run *run, const char *never)
{
    if (run_driver_count(run, never) != 0 || run_driver_count(run, "cuMemCreate") <= 0) {
        fail_msg("not served:\n%s", run->output);
    }
    run_free(run);
}

/* The driver gave all of the memory itself. */
static void expect_forwarded(struct run *run)
{
    if (run_driver_count(run, "cuMemCreate") != 0) {
        fail_msg("served, and must not be:\n%s", run->output);
    }
    run_free(run);
}

static const char *const loading_doors[] = {"dlsym", "dlvsym", "proc", "proc0", "proc1", "proc2"};
static const char *const linked_doors[] = {"linked", "default", "dlsym", "proc0"};

static void plain_memory_is_served_through_every_door(void **state)
{
    (void)state;
    for (size_t i = 0; i < GM_ARRAY_LENGTH(loading_doors); i++) {
        struct run run = exercise(EXERCISE, loading_doors[i], "plain");
        /* sizes and addresses that only the driver can judge: none, nowhere, and, twice, too much */
        if (run_driver_count(&run, "cuMemAlloc_v2") > 4) {
            fail_msg("%s: not served:\n%s", loading_doors[i], run.output);
        }
        assert_true(run_driver_count(&run, "cuMemCreate") > 0);
        run_free(&run);
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(linked_doors); i++) {
        struct run run = exercise(EXERCISE_LINKED, linked_doors[i], "plain");
        if (run_driver_count(&run, "cuMemAlloc_v2") > 4) {
            fail_msg("%s: not served:\n%s", linked_doors[i], run.output);
        }
        assert_true(run_driver_count(&run, "cuMemCreate") > 0);
        run_free(&run);
    }
}

static void blocks_answer_as_the_drivers_do(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "attributes");
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
    run = exercise(EXERCISE, "proc0", "many");
    expect_served(&run, "cuMemAlloc_v2");
}

static void memory_on_streams_is_served_through_every_door(void **state)
{
    (void)state;
    for (size_t i = 0; i < GM_ARRAY_LENGTH(loading_doors); i++) {
        struct run run = exercise(EXERCISE, loading_doors[i], "streams");
        if (run_driver_count(&run, "cuMemAllocAsync") > 2) { /* the two that only the driver can judge */
            fail_msg("%s: not served:\n%s", loading_doors[i], run.output);
        }
        assert_true(run_driver_count(&run, "cuMemCreate") > 0);
        run_free(&run);
    }
    struct run run = exercise(EXERCISE_LINKED, "linked", "streams");
    assert_true(run_driver_count(&run, "cuMemAllocAsync") <= 2);
    run_free(&run);
}

static void streams_may_end_while_their_frees_are_pending(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=0-200");
    struct run run = exercise(EXERCISE, "proc0", "short-streams");
    run_clear_environment();
    expect_served(&run, "cuMemAllocAsync");
}

static void each_thread_has_a_default_stream_of_its_own(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=0-2000");
    struct run run = exercise(EXERCISE, "proc0", "thread-streams");
    run_clear_environment();
    assert_non_null(strstr(run.output, "wrong: 0\n"));
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void pools_without_properties_are_served(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "pools");
    expect_served(&run, "cuMemAllocFromPoolAsync");
}

static void a_program_that_lives_on_pools_is_served(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=0-500");
    struct run run = exercise(EXERCISE, "proc0", "pool-trace");
    run_clear_environment();
    assert_null(strstr(run.output, "nothing is used: no"));
    assert_non_null(strstr(run.output, "wrong: 0\n"));
    expect_served(&run, "cuMemAllocFromPoolAsync");
}

static void a_stitched_block_is_one_block(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "stitched");
    assert_non_null(strstr(run.output, "wrong answers: 0\n"));
    /* 96 MiB in pieces; had the whole got memory of its own, it would be more */
    assert_true(run_driver_count(&run, "MiB at most") <= 100);
    assert_true(run_driver_count(&run, "MiB at most") >= 96);
    expect_served(&run, "cuMemAlloc_v2");
}

static void pools_that_others_may_open_are_not(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "shared-pools");
    expect_forwarded(&run);
}

static void idle_memory_counts_as_free(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "info");
    expect_served(&run, "cuMemAlloc_v2");
}

static void captures_are_as_legal_as_before(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "captures");
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
    run = exercise(EXERCISE, "proc2", "captures");
    run_free(&run);
}

static void another_threads_capture_forbids_what_it_did(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "captures-beside");
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

static void what_a_free_owes_is_paid_before_a_capture(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=46M");
    run_set_environment("SIMCUDA_STREAM_DELAY_US=500");
    struct run run = exercise(EXERCISE, "proc0", "captures-owed");
    run_clear_environment();
    assert_null(strstr(run.output, "900"));
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

static void a_capture_ends_with_its_stream_or_context(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=46M");
    struct run run = exercise(EXERCISE, "proc0", "captures-dropped");
    run_clear_environment();
    expect_served(&run, "cuMemAlloc_v2");
}

static void a_thread_without_a_context_may_ask_and_free(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "threads");
    expect_served(&run, "cuMemAlloc_v2");
}

static void a_call_means_what_is_current_when_it_is_made(void **state)
{
    (void)state;
    static const char *const doors[] = {"dlsym", "proc0", "proc2"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(doors); i++) {
        struct run run = exercise(EXERCISE, doors[i], "current");
        assert_true(run_driver_count(&run, "cuMemCreate") > 0);
        run_free(&run);
    }
}

static void memory_is_the_devices_that_the_call_means(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_DEVICES=2");
    struct run run = exercise(EXERCISE, "proc0", "devices");
    run_clear_environment();
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void every_context_is_served(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "dlsym", "contexts");
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void work_of_one_context_is_waited_for_by_the_other(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=0-3000");
    run_set_environment("SIMCUDA_MEMORY=44M");
    struct run run = exercise(EXERCISE, "proc0", "late-contexts");
    run_clear_environment();
    assert_non_null(strstr(run.output, "wrong: 0\n"));
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

static void a_context_ends_with_its_memory(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=160M");
    struct run run = exercise(EXERCISE, "dlsym", "context-end");
    run_clear_environment();
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void what_is_idle_after_a_context_has_room_for_the_next(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=160M");
    struct run run = exercise(EXERCISE, "proc0", "context-idle");
    run_clear_environment();
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

/* The driver has to say once for each width and element size; what follows is served. */
static void rows_are_as_far_apart_as_the_driver_puts_them(void **state)
{
    enum { KINDS = 24, REFUSED = 8 }; /* two twice: once more after idle memory was given back */
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "pitched");
    assert_int_equal(run_driver_count(&run, "cuMemAllocPitch_v2"), KINDS + REFUSED);
    expect_served(&run, "cuMemAlloc_v2");
}

static void peers_see_what_they_may(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_DEVICES=2");
    struct run run = exercise(EXERCISE, "proc0", "peers");
    run_clear_environment();
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void many_threads_are_served_at_once(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=0-50");
    struct run run = exercise(EXERCISE, "proc0", "crowd");
    run_clear_environment();
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    expect_served(&run, "cuMemAlloc_v2");
}

static void calls_before_a_context_get_the_drivers_answer(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "dlsym", "early");
    run_free(&run);
    run = exercise(EXERCISE_LINKED, "linked", "early");
    run_free(&run);
}

static void a_forked_child_is_left_to_the_driver(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "forked");
    expect_served(&run, "cuMemAlloc_v2");
}

static void a_child_forked_before_the_start_is_served(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "forked-early");
    assert_true(run_driver_count(&run, "cuMemCreate") > 0);
    run_free(&run);
}

static void virtual_memory_of_the_program_is_untouched(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "foreign");
    expect_served(&run, "cuMemAlloc_v2");
}

static void idle_memory_makes_room_for_the_driver(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=1G");
    struct run run = exercise(EXERCISE, "proc0", "room");
    run_clear_environment();
    expect_served(&run, "cuMemAlloc_v2");
}

static void what_is_idle_in_the_drivers_pools_makes_room(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_MEMORY=1G");
    struct run run = exercise(EXERCISE, "proc0", "room-of-pools");
    run_clear_environment();
    assert_int_equal(run_driver_count(&run, "cuMemAllocAsync"), 0);
    run_free(&run);
}

static void expect_line(const struct run *run, const char *line)
{
    if (strstr(run->output, line) == NULL) {
        fail_msg("no '%s' in:\n%s\n%s", line, run->output, run->errors);
    }
}

static void a_bounded_pool_has_room_up_to_its_bound(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_STREAM_DELAY_US=10000");
    struct run run = exercise(EXERCISE, "proc0", "bounded-pool");
    run_clear_environment();
    expect_line(&run, "14 MiB: 0\n");
    expect_line(&run, "beyond the bound: 2\n");
    run_free(&run);
}

/* The lines of the scenario with the code that each call should give. */
static const char limit_lines[] = "plain: 2\n"
                                  "on a stream: 2\n"
                                  "from a pool: 2\n"
                                  "pitched: 2\n"
                                  "virtual: 2\n"
                                  "nothing came of it: yes\n";

/* The driver would give: beyond the limit it is not even asked. */
static void nobody_gets_more_than_memory_max(void **state)
{
    (void)state;
    static const char *const argv[] = {EXERCISE, "proc0", "limit", NULL};
    for (int enabled = 1; enabled >= 0; enabled--) {
        run_set_environment("SIMCUDA_MEMORY=1G");
        run_set_environment("GMLAKE_MEMORY_MAX=64M");
        run_set_environment(enabled ? "GMLAKE_ENABLED=1" : "GMLAKE_ENABLED=0");
        struct run run = run_program(argv, true);
        run_clear_environment();
        assert_int_equal(run.status, 0);
        expect_line(&run, limit_lines);
        expect_line(&run, "more than there is: 2\nnowhere: 1\nwithin: 0\ncuMemFree: 0\ncuMemFree: 0\n");
        expect_line(&run, "what was freed counts no more: 0\nbeside it: 2\n");
        expect_line(&run, "the other way round: 0\ncuMemFreeAsync: 0\n");
        assert_int_equal(run_driver_count(&run, "cuMemAllocFromPoolAsync"), 0);
        run_free(&run);
    }
}

static void the_kill_switch_leaves_everything_to_the_driver(void **state)
{
    (void)state;
    run_set_environment("GMLAKE_ENABLE=0");
    struct run run = exercise(EXERCISE, "proc0", "plain");
    expect_forwarded(&run);
    run = exercise(EXERCISE_LINKED, "linked", "streams");
    run_clear_environment();
    expect_forwarded(&run);
}

static void the_tunable_enabled_leaves_new_memory_to_the_driver(void **state)
{
    (void)state;
    run_set_environment("GMLAKE_ENABLED=0");
    struct run run = exercise(EXERCISE, "proc0", "plain");
    run_clear_environment();
    expect_forwarded(&run);
}

static void a_device_without_virtual_memory_is_the_drivers(void **state)
{
    (void)state;
    run_set_environment("SIMCUDA_VMM=0");
    struct run run = exercise(EXERCISE, "proc0", "plain");
    expect_forwarded(&run);
    run = exercise(EXERCISE_LINKED, "linked", "streams");
    run_clear_environment();
    expect_forwarded(&run);
}

/* Handles for other processes are the driver's alone. Whoever asks for one of ours is told, once, what to do. */
static void memory_to_be_shared_is_left_to_the_driver_on_request(void **state)
{
    (void)state;
    static const char message[] = "gmlake run --ipc";
    run_set_environment("GMLAKE_IPC=1");
    struct run run = exercise(EXERCISE, "proc0", "ipc");
    run_clear_environment();
    assert_null(strstr(run.errors, message));
    expect_forwarded(&run);
    const char *const argv[] = {EXERCISE, "proc0", "ipc", NULL};
    run = run_program(argv, true);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.output, "cuIpcGetMemHandle: 1\n"));
    const char *told = strstr(run.errors, message);
    assert_non_null(told);
    assert_null(strstr(told + 1, message));
    assert_int_equal(run.errors[strlen(run.errors) - 1], '\n');
    expect_served(&run, "cuMemAlloc_v2");
}

static void what_the_core_cannot_make_the_driver_is_asked_for(void **state)
{
    (void)state;
    static const char *const faults[] = {"cuMemCreate:1:2", "cuMemAddressReserve:1:2", "cuMemMap:1:999",
                                         "cuMemSetAccess:1:999", "cuMemGetAllocationGranularity:1:999"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(faults); i++) {
        char assignment[80];
        snprintf(assignment, sizeof assignment, "SIMCUDA_FAIL=%s", faults[i]);
        run_set_environment(assignment);
        struct run run = exercise(EXERCISE, "proc0", "plain");
        run_clear_environment();
        run_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_memory_is_served_through_every_door),
        cmocka_unit_test(blocks_answer_as_the_drivers_do),
        cmocka_unit_test(memory_on_streams_is_served_through_every_door),
        cmocka_unit_test(streams_may_end_while_their_frees_are_pending),
        cmocka_unit_test(each_thread_has_a_default_stream_of_its_own),
        cmocka_unit_test(pools_without_properties_are_served),
        cmocka_unit_test(a_program_that_lives_on_pools_is_served),
        cmocka_unit_test(a_stitched_block_is_one_block),
        cmocka_unit_test(pools_that_others_may_open_are_not),
        cmocka_unit_test(idle_memory_counts_as_free),
        cmocka_unit_test(captures_are_as_legal_as_before),
        cmocka_unit_test(another_threads_capture_forbids_what_it_did),
        cmocka_unit_test(what_a_free_owes_is_paid_before_a_capture),
        cmocka_unit_test(a_capture_ends_with_its_stream_or_context),
        cmocka_unit_test(a_thread_without_a_context_may_ask_and_free),
        cmocka_unit_test(a_call_means_what_is_current_when_it_is_made),
        cmocka_unit_test(memory_is_the_devices_that_the_call_means),
        cmocka_unit_test(every_context_is_served),
        cmocka_unit_test(work_of_one_context_is_waited_for_by_the_other),
        cmocka_unit_test(a_context_ends_with_its_memory),
        cmocka_unit_test(what_is_idle_after_a_context_has_room_for_the_next),
        cmocka_unit_test(rows_are_as_far_apart_as_the_driver_puts_them),
        cmocka_unit_test(peers_see_what_they_may),
        cmocka_unit_test(many_threads_are_served_at_once),
        cmocka_unit_test(calls_before_a_context_get_the_drivers_answer),
        cmocka_unit_test(a_forked_child_is_left_to_the_driver),
        cmocka_unit_test(a_child_forked_before_the_start_is_served),
        cmocka_unit_test(virtual_memory_of_the_program_is_untouched),
        cmocka_unit_test(idle_memory_makes_room_for_the_driver),
        cmocka_unit_test(what_is_idle_in_the_drivers_pools_makes_room),
        cmocka_unit_test(a_bounded_pool_has_room_up_to_its_bound),
        cmocka_unit_test(nobody_gets_more_than_memory_max),
        cmocka_unit_test(the_kill_switch_leaves_everything_to_the_driver),
        cmocka_unit_test(the_tunable_enabled_leaves_new_memory_to_the_driver),
        cmocka_unit_test(a_device_without_virtual_memory_is_the_drivers),
        cmocka_unit_test(memory_to_be_shared_is_left_to_the_driver_on_request),
        cmocka_unit_test(what_the_core_cannot_make_the_driver_is_asked_for),
    };
    return gm_test_result(cmocka_run_group_tests_name("preload", tests, NULL, NULL));
}
