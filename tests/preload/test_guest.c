/*
 * test_guest.c - the preload library is a guest: in children, at the end of a process, among other allocators and
 * libraries that come and go, in programs with more rights than their user, and in a crowd of processes.
 */
#include "gmtest.h"
#include "run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct run exercise(const char *program, const char *door, const char *scenario)
{
    const char *const argv[] = {program, door, scenario, NULL};
    return run_both_ways(argv);
}

static void expect_served(struct run *run)
{
    assert_int_equal(run_driver_count(run, "cuMemAlloc_v2"), 0);
    assert_true(run_driver_count(run, "cuMemCreate") > 0);
    run_free(run);
}

/* Another thread may hold any lock of ours when the process forks. */
static void children_of_a_busy_process_run_on(void **state)
{
    (void)state;
    if (strstr(SANITIZER_RUNTIME, "libtsan") != NULL) {
        gm_skip("a shell does not run with this sanitizer preloaded");
        return;
    }
    struct run run = exercise(EXERCISE, "proc0", "forked-busy");
    assert_non_null(strstr(run.output, "child: python 42"));
    expect_served(&run);
}

static void calls_after_the_end_get_the_drivers_answer(void **state)
{
    (void)state;
    struct run run = exercise(EXERCISE, "proc0", "at-exit");
    assert_non_null(strstr(run.output, "late cuMemFree: 4\n"));
    run_free(&run);
    run = exercise(EXERCISE_LINKED, "linked", "at-exit");
    run_free(&run);
}

static void libraries_may_be_unloaded(void **state)
{
    (void)state;
    run_set_environment("PLUGIN=" PLUGIN);
    struct run run = exercise(EXERCISE, "dlsym", "unloading");
    expect_served(&run);
    run = exercise(EXERCISE_LINKED, "linked", "unloading");
    run_clear_environment();
    expect_served(&run);
}

/* malloc() that calls dlsym() before anything is ready, in front of us and behind us. */
static void allocators_may_look_things_up(void **state)
{
    (void)state;
    const char *const allocators[] = {EARLY_MALLOC, JEMALLOC};
    const char *const shell[] = {"sh", "-c", "echo a; exit 3", NULL};
    if (SANITIZER_RUNTIME[0] != '\0') {
        gm_skip("a sanitizer has an allocator of its own");
        return;
    }
    for (size_t i = 0; i < 2 * GM_ARRAY_LENGTH(allocators); i++) {
        const char *allocator = allocators[i / 2];
        if (access(allocator, R_OK) != 0) {
            print_message("not here: %s\n", allocator[0] == '\0' ? "jemalloc" : allocator);
            continue;
        }
        run_beside(i % 2 == 0 ? allocator : NULL, i % 2 == 0 ? NULL : allocator);
        struct run run = exercise(EXERCISE, "proc0", "many");
        expect_served(&run);
        run = exercise(EXERCISE_LINKED, "linked", "many");
        expect_served(&run);
        run = run_program(shell, true);
        assert_int_equal(run.status, 3);
        assert_string_equal(run.output, "a\n");
        assert_string_equal(run.errors, "");
        run_free(&run);
    }
    run_beside(NULL, NULL);
}

/* One of several processes is killed in the midst of allocations: the others go on, and nothing is left behind. */
static void one_of_several_may_be_killed(void **state)
{
    (void)state;
    static const char script[] =
        "cd \"$(mktemp -d)\" || exit 1\n"
        "here=$PWD; export TMPDIR=$here/tmp XDG_RUNTIME_DIR=$here/run; mkdir tmp run\n"
        "left() { ls tmp run /dev/shm | grep -i gmlake; }\n"
        "for i in 1 2 3 4; do\n"
        "    LD_PRELOAD=\"$0\" \"$1\" proc0 until-killed >out.$i 2>err.$i & pid[i]=$!\n"
        "done\n"
        "trap 'kill -9 ${pid[@]} 2>/dev/null; wait 2>/dev/null; rm -rf \"$here\"' EXIT\n"
        "size() { stat -c %s out.$1; }\n"
        "grown() { for ((t = 0; t < $3; t++)); do [ $(size $1) -gt $2 ] && return 0; sleep 0.02; done; return 1; }\n"
        "for i in 1 2 3 4; do grown $i 0 1000 || { echo \"$i does not start\"; cat err.$i; exit 1; }; done\n"
        "for victim in 1 2; do\n"
        "    kill -9 ${pid[victim]}; wait ${pid[victim]} 2>/dev/null\n"
        "    for i in 3 4; do\n"
        "        grown $i $(size $i) 50 || { echo \"$i stands still a second after $victim was killed\"; exit 1; }\n"
        "    done\n"
        "done\n"
        "kill -9 ${pid[3]} ${pid[4]}; wait 2>/dev/null\n"
        "cat err.*\n"
        "! left\n";
    char preload[4096];
    snprintf(preload, sizeof preload, "%s%s%s", SANITIZER_RUNTIME, SANITIZER_RUNTIME[0] == '\0' ? "" : ":",
             getenv("GMLAKE_TEST_PRELOAD"));
    const char *const argv[] = {"bash", "-c", script, preload, EXERCISE, NULL};
    if (strstr(SANITIZER_RUNTIME, "libtsan") != NULL) {
        gm_skip("a shell does not run with this sanitizer preloaded");
        return;
    }
    struct run run = run_program(argv, false);
    if (run.status != 0 || run.output[0] != '\0') {
        fail_msg("exit %d\n%s%s", run.status, run.output, run.errors);
    }
    run_free(&run);
}

/* --- what it costs a program that has no use for it --------------------------------------------------------------- */

enum { BATCHES = 21, EXECS = 20 };

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Processor time of one exec of true(1), with @preload in the environment or none. */
static double cost_of_exec(char *preload)
{
    char name[] = "true";
    char *const argv[] = {name, NULL};
    char *const environment[] = {preload, NULL};
    double before = processor_seconds();
    for (int i = 0; i < EXECS; i++) {
        pid_t child;
        int status;
        assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environment), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    return (processor_seconds() - before) / EXECS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_us(double seconds[BATCHES])
{
    qsort(seconds, BATCHES, sizeof seconds[0], compare);
    return seconds[BATCHES / 2] * 1e6;
}

/* Where all of an exec takes ten times as long as elsewhere, so does our part of it, a few faults of pages. */
static void an_idle_guest_costs_less_than_a_tenth_of_a_millisecond(void **state)
{
    (void)state;
    char preload[4096];
    double bare[BATCHES];
    double differences[BATCHES];
    if (SANITIZER_RUNTIME[0] != '\0') {
        gm_skip("a sanitizer costs more than that");
        return;
    }
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", getenv("GMLAKE_TEST_PRELOAD"));
    for (int i = 0; i < BATCHES; i++) {
        bare[i] = cost_of_exec(NULL);
        differences[i] = cost_of_exec(preload) - bare[i];
    }
    double exec_us = median_us(bare);
    double more_us = median_us(differences);
    print_message("an exec of %.0f us costs %.0f us more\n", exec_us, more_us);
    assert_true(more_us < 100 || more_us < exec_us / 5);
}

/* --- programs with more rights than their user ---------------------------------------------------------------------
 */

static void copy_with_rights(const char *to)
{
    char buffer[65536];
    ssize_t bytes;
    int source = open(SECURE, O_RDONLY | O_CLOEXEC);
    int copy = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(source >= 0 && copy >= 0);
    while ((bytes = read(source, buffer, sizeof buffer)) > 0) {
        assert_int_equal(write(copy, buffer, (size_t)bytes), bytes);
    }
    close(source);
    assert_int_equal(fchmod(copy, 04755), 0);
    close(copy);
}

/* There, settings of the user's are not listened to. */
static void programs_with_more_rights_ignore_the_environment(void **state)
{
    (void)state;
    static const char copy[] = SECURE ".setuid";
    const char *const plain[] = {SECURE, NULL};
    const char *const secure[] = {"setpriv", "--reuid", "65534", "--clear-groups", copy, NULL};
    if (SANITIZER_RUNTIME[0] != '\0' || geteuid() != 0) {
        gm_skip("a sanitizer does not run so, or we are not root");
        return;
    }
    copy_with_rights(copy);
    run_set_environment("GMLAKE_ENABLE=0");
    struct run heard = run_program(plain, false);
    struct run unheard = run_program(secure, false);
    run_clear_environment();
    unlink(copy);
    assert_string_equal(heard.output, "secure: no\nobject: libcuda.so.1\n");
    bool possible = strstr(unheard.output, "secure: yes\n") != NULL;
    bool right = strcmp(unheard.output, "secure: yes\nobject: libgmlake_preload.so\n") == 0;
    if (possible && !right) {
        fail_msg("%s%s", unheard.output, unheard.errors);
    }
    if (!possible) {
        print_message("%s%s", unheard.output, unheard.errors);
        gm_skip("no set-uid programs here");
    }
    run_free(&heard);
    run_free(&unheard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_a_busy_process_run_on),
        cmocka_unit_test(calls_after_the_end_get_the_drivers_answer),
        cmocka_unit_test(libraries_may_be_unloaded),
        cmocka_unit_test(allocators_may_look_things_up),
        cmocka_unit_test(one_of_several_may_be_killed),
        cmocka_unit_test(an_idle_guest_costs_less_than_a_tenth_of_a_millisecond),
        cmocka_unit_test(programs_with_more_rights_ignore_the_environment),
    };
    return gm_test_result(cmocka_run_group_tests_name("guest", tests, NULL, NULL));
}
