/*
 * run.c - fork, environment, exec, and two files in memory for what is printed.
 */
#include "run.h"

#include "gmtest.h"

#include <sys/mman.h>

#define SECONDS    60
#define MOST_EXTRA 8

static const char *extra[MOST_EXTRA];
static size_t extra_count;
static const char *preloaded_before;
static const char *preloaded_behind;

void run_set_environment(const char *assignment)
{
    assert_true(extra_count < MOST_EXTRA);
    extra[extra_count++] = assignment;
}

void run_clear_environment(void)
{
    extra_count = 0;
}

void run_beside(const char *before, const char *behind)
{
    preloaded_before = before;
    preloaded_behind = behind;
}

static void append(char *list, size_t size, const char *name)
{
    if (name != NULL && name[0] != '\0') {
        size_t length = strlen(list);
        snprintf(list + length, size - length, "%s%s", length > 0 ? ":" : "", name);
    }
}

/* In the child: the environment of the run. A sanitizer's runtime has to be the first library of all. */
static void set_environment(bool preloaded)
{
    char list[4096] = "";
    for (size_t i = 0; i < extra_count; i++) {
        char *assignment = strdup(extra[i]);
        putenv(assignment);
    }
    append(list, sizeof list, SANITIZER_RUNTIME);
    append(list, sizeof list, preloaded_before);
    append(list, sizeof list, preloaded ? getenv("GMLAKE_TEST_PRELOAD") : NULL);
    append(list, sizeof list, preloaded_behind);
    if (list[0] != '\0') {
        setenv("LD_PRELOAD", list, 1);
    }
}

/* What the child wrote to @file, from its start. Closes it. */
static char *take(int file)
{
    off_t size = lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(file, text, (size_t)size, 0), size);
    close(file);
    return text;
}

struct run run_program(const char *const *argv, bool preloaded)
{
    int output = memfd_create("output", MFD_CLOEXEC);
    int errors = memfd_create("errors", MFD_CLOEXEC);
    assert_true(output >= 0 && errors >= 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(output, STDOUT_FILENO);
        dup2(errors, STDERR_FILENO);
        set_environment(preloaded);
        alarm(SECONDS);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return (struct run){.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                        .output = take(output),
                        .errors = take(errors)};
}

void run_free(struct run *run)
{
    free(run->output);
    free(run->errors);
    run->output = NULL;
    run->errors = NULL;
}

/* Copies what both runs must have in common: all but the counts. */
static char *common_part(const char *output)
{
    char *copy = malloc(strlen(output) + 1);
    char *end = copy;
    for (const char *line = output; *line != '\0';) {
        const char *next = strchr(line, '\n');
        size_t length = next == NULL ? strlen(line) : (size_t)(next - line) + 1;
        if (strncmp(line, "driver:", 7) != 0) {
            memcpy(end, line, length);
            end += length;
        }
        line += length;
    }
    *end = '\0';
    return copy;
}

long long run_driver_count(const struct run *run, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "driver: %s ", name);
    const char *line = strstr(run->output, key);
    return line == NULL ? -1 : atoll(line + strlen(key));
}

struct run run_both_ways(const char *const *argv)
{
    struct run bare = run_program(argv, false);
    struct run preloaded = run_program(argv, true);
    char *expected = common_part(bare.output);
    char *got = common_part(preloaded.output);
    if (bare.status != preloaded.status || strcmp(expected, got) != 0) {
        fprintf(stderr, "--- %s %s %s: the driver alone, exit %d\n%s%s--- preloaded, exit %d\n%s%s", argv[0], argv[1],
                argv[2] == NULL ? "" : argv[2], bare.status, bare.output, bare.errors, preloaded.status,
                preloaded.output, preloaded.errors);
        fail_msg("%s: preloading changes what the program hears", argv[0]);
    }
    if (bare.status != 0) {
        fail_msg("%s %s: exit %d\n%s%s", argv[0], argv[1], bare.status, bare.output, bare.errors);
    }
    free(expected);
    free(got);
    run_free(&bare);
    return preloaded;
}
