/*
 * test_doors.c - the preload library answers for what it replaces and for nothing else: versions, per-thread variants,
 * other libraries' names, other interposers, drivers that look themselves up, programs that know no CUDA.
 */
#include "gmtest.h"
#include "run.h"

#include <dlfcn.h>

#define PRELOAD_NAME "libgmlake_preload.so"

static const char *const hooked[] = {
#define GM_HOOK(field, name, parameters, arguments) #name,
#define GM_NEED(field, name, parameters, arguments)
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED
};

static bool is_hooked(const char *symbol)
{
    for (size_t i = 0; i < GM_ARRAY_LENGTH(hooked); i++) {
        if (strcmp(hooked[i], symbol) == 0) {
            return true;
        }
    }
    return false;
}

/* Both runs, but for the lines that say which object an answer is in. */
static void expect_same_answers(struct run *bare, struct run *preloaded)
{
    char *left = NULL;
    char *right = NULL;
    char *a = strtok_r(bare->output, "\n", &left);
    char *b = strtok_r(preloaded->output, "\n", &right);
    assert_int_equal(bare->status, preloaded->status);
    while (a != NULL && b != NULL) {
        if (strncmp(a, "object:", 7) != 0 || strncmp(b, "object:", 7) != 0) {
            assert_string_equal(b, a);
        }
        a = strtok_r(NULL, "\n", &left);
        b = strtok_r(NULL, "\n", &right);
    }
    assert_null(a);
    assert_null(b);
}

/* The hooked names are answered by us, all others by the object that has them. Returns how many lines said so. */
static int expect_hooks(const struct run *preloaded)
{
    int lines = 0;
    for (const char *line = preloaded->output; (line = strstr(line, "object: ")) != NULL; line++) {
        char symbol[80];
        char object[80];
        assert_int_equal(sscanf(line, "object: %79s %79s", symbol, object), 2);
        bool ours = strcmp(object, PRELOAD_NAME) == 0;
        if (ours != is_hooked(symbol)) {
            fail_msg("%s is answered by %s", symbol, object);
        }
        lines++;
    }
    return lines;
}

static void every_version_and_flag_gives_the_hook_of_the_drivers_choice(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP, "versions", NULL};
    struct run bare = run_program(argv, false);
    struct run preloaded = run_program(argv, true);
    assert_int_equal(bare.status, 0);
    assert_true(expect_hooks(&preloaded) > 1000);
    expect_same_answers(&bare, &preloaded);
    run_free(&bare);
    run_free(&preloaded);
}

static void a_look_up_is_no_work(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP, "quiet", NULL};
    struct run bare = run_program(argv, false);
    struct run preloaded = run_program(argv, true);
    if (bare.status != 0 || preloaded.status != 0) {
        fail_msg("%s", preloaded.output);
    }
    assert_true(expect_hooks(&preloaded) > 100);
    expect_same_answers(&bare, &preloaded);
    run_free(&bare);
    run_free(&preloaded);
}

static void the_kill_switch_replaces_nothing(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP, "versions", NULL};
    run_set_environment("GMLAKE_ENABLE=0");
    struct run preloaded = run_program(argv, true);
    run_clear_environment();
    assert_int_equal(preloaded.status, 0);
    assert_null(strstr(preloaded.output, PRELOAD_NAME));
    run_free(&preloaded);
}

static void names_that_begin_like_the_drivers_stay_their_librarys(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP, "clash", CLASH, NULL};
    struct run bare = run_program(argv, false);
    struct run preloaded = run_program(argv, true);
    assert_int_equal(preloaded.status, 0);
    assert_null(strstr(preloaded.output, PRELOAD_NAME));
    assert_string_equal(preloaded.output, bare.output);
    run_free(&bare);
    run_free(&preloaded);
}

static void a_library_behind_us_finds_the_driver_next(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP_LINKED, "next", NULL};
    run_beside(NULL, SHIM);
    struct run run = run_program(argv, true);
    run_beside(NULL, NULL);
    if (run.status != 0 || strstr(run.output, "object: cuMemAlloc_v2 libcuda.so.1") == NULL) {
        fail_msg("exit %d\n%s", run.status, run.output);
    }
    run_free(&run);
}

static void a_library_in_front_of_us_finds_the_hook_next(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP_LINKED, "next", NULL};
    run_beside(SHIM, NULL);
    struct run run = run_program(argv, true);
    run_beside(NULL, NULL);
    if (run.status != 0 || strstr(run.output, "object: cuMemAlloc_v2 " PRELOAD_NAME) == NULL) {
        fail_msg("exit %d\n%s", run.status, run.output);
    }
    run_free(&run);
}

static void a_driver_that_looks_itself_up_finds_itself(void **state)
{
    (void)state;
    const char *const argv[] = {LOOKUP, "init", NULL};
    run_set_environment("LD_LIBRARY_PATH=" REENTRANT_DIR);
    struct run bare = run_program(argv, false);
    struct run preloaded = run_program(argv, true);
    run_clear_environment();
    if (preloaded.status != 0 || strstr(preloaded.output, "cuInit: 0\n") == NULL) {
        fail_msg("exit %d\n%s", preloaded.status, preloaded.output);
    }
    assert_non_null(strstr(preloaded.output, "object: cuMemAlloc_v2 " PRELOAD_NAME));
    expect_same_answers(&bare, &preloaded);
    run_free(&bare);
    run_free(&preloaded);
}

/* Exported names that exist without a driver answer as a driver does that nobody has initialised. */
static void without_a_driver_the_hooks_say_not_initialised(void **state)
{
    (void)state;
    const char *const argv[] = {WITHOUT_DRIVER, NULL};
    struct run run = run_program(argv, true);
    if (run.status != 0) {
        fail_msg("exit %d\n%s", run.status, run.output);
    }
    run_free(&run);
}

static void programs_without_cuda_do_not_notice(void **state)
{
    (void)state;
    static const char *const commands[][4] = {
        {"true", NULL},
        {"false", NULL},
        {"sh", "-c", "echo a; echo b >&2; exit 3", NULL},
        {"bash", "-c", "x=1; (exit 5); echo $? $x; ls / | head -3", NULL},
        {"env", "-i", "/bin/sh", "-c"},
        {"no-such-program", NULL},
        {"python3", "-c", "import ctypes, threading; print(ctypes.CDLL(None).getpid() > 0)", NULL},
    };
    if (strstr(SANITIZER_RUNTIME, "libtsan") != NULL) {
        gm_skip("a shell does not run with this sanitizer preloaded");
        return;
    }
    for (size_t i = 0; i < 2 * GM_ARRAY_LENGTH(commands); i++) {
        const char *const *words = commands[i / 2];
        const char *argv[6] = {words[0], words[1], words[2], words[3], NULL, NULL};
        if (strcmp(argv[0], "env") == 0) {
            argv[4] = "exit 4";
        }
        if (i % 2 != 0) {
            run_set_environment("LD_LIBRARY_PATH="); /* a machine without a driver */
        }
        struct run bare = run_program(argv, false);
        struct run preloaded = run_program(argv, true);
        run_clear_environment();
        assert_int_equal(preloaded.status, bare.status);
        assert_string_equal(preloaded.output, bare.output);
        assert_string_equal(preloaded.errors, bare.errors);
        run_free(&bare);
        run_free(&preloaded);
    }
}

static void nothing_runs_at_load(void **state)
{
    (void)state;
    const char *const argv[] = {
        "sh", "-c",
        "nm --defined-only \"$GMLAKE_TEST_PRELOAD\" | grep -E ' (_GLOBAL__sub|.*constructor)' || "
        "true; readelf -dW \"$GMLAKE_TEST_PRELOAD\" | grep INIT_ARRAYSZ",
        NULL};
    if (SANITIZER_RUNTIME[0] != '\0') {
        gm_skip("a sanitizer adds constructors of its own");
        return;
    }
    struct run run = run_program(argv, false);
    /* the one entry that the compiler's start files put into every shared object */
    assert_non_null(strstr(run.output, "INIT_ARRAYSZ)       8 (bytes)"));
    assert_null(strstr(run.output, "_GLOBAL__sub"));
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_and_flag_gives_the_hook_of_the_drivers_choice),
        cmocka_unit_test(a_look_up_is_no_work),
        cmocka_unit_test(the_kill_switch_replaces_nothing),
        cmocka_unit_test(names_that_begin_like_the_drivers_stay_their_librarys),
        cmocka_unit_test(a_library_behind_us_finds_the_driver_next),
        cmocka_unit_test(a_library_in_front_of_us_finds_the_hook_next),
        cmocka_unit_test(a_driver_that_looks_itself_up_finds_itself),
        cmocka_unit_test(without_a_driver_the_hooks_say_not_initialised),
        cmocka_unit_test(programs_without_cuda_do_not_notice),
        cmocka_unit_test(nothing_runs_at_load),
    };
    return gm_test_result(cmocka_run_group_tests_name("doors", tests, NULL, NULL));
}
