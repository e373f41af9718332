/*
 * gmtest.h - what all test programs share: cmocka with its prerequisites, skipping that is counted, short assertions.
 *
 * STRUCTURE    A test program lists its tests and ends main() with `return gm_test_result(failed)`, where failed is
 *              what cmocka_run_group_tests() gave: 1 when a test failed, else 77 when one was skipped, else 0.
 *              cmocka alone would report a skipped test as passed.
 * CONCURRENCY  cmocka's assertions jump: they, and gm_skip(), are for the main thread. Threads return their verdict.
 */
#ifndef GMTEST_H
#define GMTEST_H

/* cmocka.h wants these four first. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GM_TEST_SKIPPED        77

#define GM_ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int gm_tests_skipped;

/* Ends the running test as skipped, saying why. GMLAKE_TESTS_FAIL_ON_SKIP=1 turns it into a failure. */
#define gm_skip(...)                                                                                                   \
    do {                                                                                                               \
        fprintf(stderr, "skipped: " __VA_ARGS__);                                                                      \
        fputc('\n', stderr);                                                                                           \
        if (getenv("GMLAKE_TESTS_FAIL_ON_SKIP") != NULL) {                                                             \
            fail_msg("skipping is not allowed here");                                                                  \
        }                                                                                                              \
        gm_tests_skipped++;                                                                                            \
        skip();                                                                                                        \
    } while (0)

/* The exit code of a test program whose cmocka run had @failed failures. */
static inline int gm_test_result(int failed)
{
    return failed != 0 ? 1 : gm_tests_skipped > 0 ? GM_TEST_SKIPPED : 0;
}

/* A result that is 0 or -errno; the message names both. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        long rc_ = (long)(call);                                                                                       \
        if (rc_ != 0) {                                                                                                \
            fail_msg("%s: %ld (%s), expected 0", #call, rc_, rc_ < 0 ? strerror((int)-rc_) : "not an errno");          \
        }                                                                                                              \
    } while (0)

/* assert_error(call, ENOMEM): the call gives -ENOMEM. */
#define assert_error(call, error)                                                                                      \
    do {                                                                                                               \
        long rc_ = (long)(call);                                                                                       \
        if (rc_ != -(long)(error)) {                                                                                   \
            fail_msg("%s: %ld (%s), expected -%s", #call, rc_, rc_ < 0 ? strerror((int)-rc_) : "not an errno",         \
                     #error);                                                                                          \
        }                                                                                                              \
    } while (0)

/*
 * Runs @body(@arg) in a child process, so that what it does to the environment, once-only state or the process is
 * its own. The child's result is body's return value; a child that dies by a signal fails the test.
 */
static inline int gm_test_in_child(int (*body)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        fail_msg("fork: %s", strerror(errno));
    }
    if (child == 0) {
        int verdict = body(arg);
        fflush(NULL);
        _exit(verdict);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            fail_msg("waitpid: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status)) {
        fail_msg("the child was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status);
}

/* The value of a GMLAKE_TEST_* variable that CMake sets for every test; a test run by hand without it is skipped. */
static inline const char *gm_test_setting(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        gm_skip("%s is not set; run this test through ctest", name);
    }
    return value;
}

#endif
