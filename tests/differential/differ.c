/*
 * differ.c - the differential test: a random program of driver calls hears the same with and without the preload
 * library.
 *
 *   differ [--seed N] [--seeds COUNT] [--steps N] [--calls N] [--time SECONDS] [--only STEP,...]
 *
 * Each seed gives a program (world.h). It runs in two processes, on the simulated driver bare and under the preload
 * library, and what both heard is compared line by line. At the first difference the program is cut down as far as a
 * few seconds allow, and the steps that are left, both answers and a command that repeats them are printed.
 * Environment: GMLAKE_TEST_PRELOAD is the library; libcuda.so.1 is found as usual.
 */
#include "child.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_SECONDS    300
#define SHRINK_SECONDS 20.0

struct options {
    uint64_t seed;
    unsigned long seeds;
    unsigned long steps;
    unsigned long calls; /* stop after as many; 0: no such end */
    double seconds;      /* the same */
    bool *only;          /* NULL: all steps */
};

struct heard {
    char *answers;
    char *errors;
    int status;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static char *take(int file)
{
    off_t size = lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    if (text == NULL || pread(file, text, (size_t)size, 0) != size) {
        fprintf(stderr, "differ: cannot read what a run wrote: %s\n", strerror(errno));
        exit(2);
    }
    close(file);
    return text;
}

static void set_environment(const struct plan *plan, bool preloaded)
{
    char list[4096];
    const char *library = getenv("GMLAKE_TEST_PRELOAD");
    snprintf(list, sizeof list, "%s%s%s", SANITIZER_RUNTIME, SANITIZER_RUNTIME[0] != '\0' && preloaded ? ":" : "",
             preloaded ? library : "");
    setenv("SIMCUDA_DEVICES", plan->single ? "1" : "2", 1);
    setenv("SIMCUDA_MEMORY", plan->tight ? "2G" : "16G", 1);
    setenv("SIMCUDA_STREAM_DELAY_US", plan->delayed ? "20-400" : "0", 1);
    setenv("SIMCUDA_LEAKS", "0", 1);
    if (list[0] != '\0') {
        setenv("LD_PRELOAD", list, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
}

/* The child finds its plan and what the first run heard under these descriptors. */
enum { PLAN_FILE = 10, EXPECTED_FILE = 11 };

static int keep_file(const void *bytes, size_t size)
{
    int file = memfd_create("differ", 0);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) {
        fprintf(stderr, "differ: cannot make a file in memory: %s\n", strerror(errno));
        exit(2);
    }
    return file;
}

static struct heard run(const struct plan *plan, bool preloaded, const char *expected)
{
    int answers = memfd_create("answers", MFD_CLOEXEC);
    int errors = memfd_create("errors", MFD_CLOEXEC);
    int kept = keep_file(plan->kept, plan->steps * sizeof plan->kept[0]);
    int before = keep_file(expected == NULL ? "" : expected, expected == NULL ? 0 : strlen(expected));
    char seed[32];
    char steps[32];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)plan->seed);
    snprintf(steps, sizeof steps, "%lu", plan->steps);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(answers, STDOUT_FILENO);
        dup2(errors, STDERR_FILENO);
        dup2(kept, PLAN_FILE);
        dup2(before, EXPECTED_FILE);
        set_environment(plan, preloaded);
        alarm(RUN_SECONDS);
        execl("/proc/self/exe", "differ", "--child", seed, steps, plan->tight ? "1" : "0", plan->delayed ? "1" : "0",
              plan->single ? "1" : "0", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    close(kept);
    close(before);
    return (struct heard){.answers = take(answers),
                          .errors = take(errors),
                          .status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

static void forget(struct heard *heard)
{
    free(heard->answers);
    free(heard->errors);
}

static int be_child(char **arguments)
{
    char *kept = take(PLAN_FILE);
    char *expected = take(EXPECTED_FILE);
    struct plan plan = {.seed = strtoull(arguments[0], NULL, 10),
                        .steps = strtoul(arguments[1], NULL, 10),
                        .kept = (const bool *)kept,
                        .tight = arguments[2][0] == '1',
                        .delayed = arguments[3][0] == '1',
                        .single = arguments[4][0] == '1'};
    int status = run_child(&plan, expected[0] == '\0' ? NULL : expected);
    free(kept);
    free(expected);
    return status;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* Whether a line of the run alone (bare) and one of the preloaded run are allowed to stand side by side. */
static bool agree(const char *bare_line, size_t bare_length, const char *our_line, size_t our_length)
{
    char name[32];
    unsigned long long bare;
    unsigned long long ours;
    int length = 0;
    if (bare_length == our_length && memcmp(bare_line, our_line, bare_length) == 0) {
        return true;
    }
    if (sscanf(bare_line, "~%31s%n %llu", name, &length, &bare) != 2 || our_line[0] != '~' ||
        strncmp(bare_line, our_line, (size_t)length + 1) != 0 || sscanf(our_line + length, "%llu", &ours) != 1) {
        return false;
    }
#define RELATION(relation, condition, reason)                                                                          \
    if (strcmp(name, #relation) == 0) {                                                                                \
        return condition;                                                                                              \
    }
#include "relations.def"
#undef RELATION
    return false;
}

struct difference {
    bool found;
    bool refused;       /* none, up to where the device was full for us alone */
    unsigned long step; /* the last one begun */
    char bare[512];     /* the lines */
    char ours[512];
};

/*
 * On a device this full, in percent, an allocation may be refused that the driver alone had room for: the driver holds
 * memory that it cannot use in its steps of 32 MB, we in pages of 2 MiB that are partly in use, for each context and
 * class of sizes, and both do at once where the driver serves a part of the pools. On a device of 2 GiB that is some
 * percent. The program ends there.
 */
#define FULL 80

static bool is_refused_when_full(const char *bare_line, const char *our_line, unsigned long fill)
{
    return fill > FULL && strncmp(bare_line, "~room 0\n", 8) == 0 && strncmp(our_line, "~room 2\n", 8) == 0;
}

static void copy_line(char *to, size_t size, const char *line, size_t length)
{
    snprintf(to, size, "%.*s", (int)length, line);
}

static struct difference compare(const struct heard *bare, const struct heard *ours)
{
    struct difference difference = {.found = false};
    const char *a = bare->answers;
    const char *b = ours->answers;
    unsigned long fill = 0;
    while (*a != '\0' || *b != '\0') {
        size_t a_length = strcspn(a, "\n");
        size_t b_length = strcspn(b, "\n");
        if (is_refused_when_full(a, b, fill)) {
            difference.refused = true;
            return difference;
        }
        if (!agree(a, a_length, b, b_length)) {
            difference.found = true;
            copy_line(difference.bare, sizeof difference.bare, a, a_length);
            copy_line(difference.ours, sizeof difference.ours, b, b_length);
            return difference;
        }
        if (a[0] == '#' && a[1] >= '0' && a[1] <= '9') {
            difference.step = strtoul(a + 1, NULL, 10);
        } else if (strncmp(a, "~fill ", 6) == 0) {
            fill = strtoul(a + 6, NULL, 10);
        }
        a += a_length + (a[a_length] == '\n');
        b += b_length + (b[b_length] == '\n');
    }
    if (bare->status != 0 || ours->status != 0) {
        difference.found = true;
        snprintf(difference.bare, sizeof difference.bare, "exit status %d", bare->status);
        snprintf(difference.ours, sizeof difference.ours, "exit status %d", ours->status);
    }
    return difference;
}

static unsigned long calls_in(const struct heard *heard)
{
    const char *line = strstr(heard->answers, "\n~calls ");
    return line == NULL ? 0 : strtoul(line + 8, NULL, 10);
}

static struct difference try_plan(const struct plan *plan, struct heard *bare, struct heard *ours)
{
    *bare = run(plan, false, NULL);
    *ours = run(plan, true, bare->answers);
    return compare(bare, ours);
}

/* --- cutting down ------------------------------------------------------------------------------------------------- */

static bool still_differs(const struct plan *plan)
{
    struct heard bare;
    struct heard ours;
    bool differs = try_plan(plan, &bare, &ours).found;
    forget(&bare);
    forget(&ours);
    return differs;
}

/* Leaves out ever smaller stretches of steps as long as a difference remains. */
static void shrink(const struct plan *plan, bool *kept, unsigned long last)
{
    double end = now() + SHRINK_SECONDS;
    bool *tried = malloc(plan->steps * sizeof *tried);
    if (tried == NULL) {
        return;
    }
    memset(kept + last + 1, 0, plan->steps - last - 1);
    for (unsigned long stretch = (last + 1) / 2; stretch > 0 && now() < end; stretch /= 2) {
        for (unsigned long at = 0; at < last && now() < end; at += stretch) {
            struct plan shorter = *plan;
            unsigned long left = last - at < stretch ? last - at : stretch;
            if (memchr(kept + at, true, left) == NULL) {
                continue;
            }
            memcpy(tried, kept, plan->steps * sizeof *tried);
            memset(tried + at, 0, left);
            shorter.kept = tried;
            if (still_differs(&shorter)) {
                memcpy(kept, tried, plan->steps * sizeof *tried);
            }
        }
    }
    free(tried);
}

static void print_steps(const char *title, const struct heard *heard)
{
    size_t length = strlen(heard->answers);
    const char *from = length > 6000 ? heard->answers + length - 6000 : heard->answers;
    printf("--- %s, exit status %d\n%s%s", title, heard->status, from > heard->answers ? "[...]\n" : "", from);
    length = strlen(heard->errors);
    printf("%s", length > 1500 ? heard->errors + length - 1500 : heard->errors);
}

static void report(const struct plan *plan, bool *kept, unsigned long last)
{
    struct heard bare;
    struct heard ours;
    shrink(plan, kept, last);
    struct difference difference = try_plan(plan, &bare, &ours);
    print_steps("the driver alone", &bare);
    print_steps("under the preload library", &ours);
    printf("--- seed %llu, step %lu: the program hears a difference\n    alone:     %s\n    preloaded: %s\n    again "
           "with: "
           "differ --seed %llu --seeds 1 --steps %lu --only ",
           (unsigned long long)plan->seed, difference.step, difference.bare, difference.ours,
           (unsigned long long)plan->seed, plan->steps);
    const char *comma = "";
    for (unsigned long i = 0; i < plan->steps; i++) {
        if (kept[i]) {
            printf("%s%lu", comma, i);
            comma = ",";
        }
    }
    printf("\n");
    forget(&bare);
    forget(&ours);
}

/* --- main --------------------------------------------------------------------------------------------------------- */

/* One seed; false: a difference. */
static bool do_seed(const struct options *options, uint64_t seed, unsigned long *calls, unsigned long *refused)
{
    bool *kept = malloc(options->steps * sizeof *kept);
    if (kept == NULL) {
        fprintf(stderr, "differ: no memory\n");
        exit(2);
    }
    memset(kept, true, options->steps * sizeof *kept);
    if (options->only != NULL) {
        memcpy(kept, options->only, options->steps * sizeof *kept);
    }
    struct plan plan = {.seed = seed,
                        .steps = options->steps,
                        .kept = kept,
                        .tight = seed % 4 == 3,
                        .delayed = seed % 3 == 1,
                        .single = seed % 5 < 2};
    struct heard bare;
    struct heard ours;
    struct difference difference = try_plan(&plan, &bare, &ours);
    *calls += calls_in(&bare);
    *refused += difference.refused;
    forget(&bare);
    forget(&ours);
    if (difference.found) {
        report(&plan, kept, difference.step);
    }
    free(kept);
    return !difference.found;
}

static bool *parse_only(char *text, unsigned long steps)
{
    bool *only = calloc(steps, sizeof *only);
    for (char *word = strtok(text, ","); only != NULL && word != NULL; word = strtok(NULL, ",")) {
        unsigned long step = strtoul(word, NULL, 10);
        if (step < steps) {
            only[step] = true;
        }
    }
    return only;
}

static struct options parse(int argc, char **argv)
{
    static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                          {"seeds", required_argument, NULL, 'S'},
                                          {"steps", required_argument, NULL, 'n'},
                                          {"calls", required_argument, NULL, 'c'},
                                          {"time", required_argument, NULL, 't'},
                                          {"only", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {.seed = 1, .seeds = 1000000, .steps = 3000};
    char *only = NULL;
    for (int letter; (letter = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (letter) {
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'S':
            options.seeds = strtoul(optarg, NULL, 10);
            break;
        case 'n':
            options.steps = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            options.calls = strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'o':
            only = optarg;
            break;
        default:
            fprintf(stderr, "usage: differ [--seed N] [--seeds COUNT] [--steps N] [--calls N] [--time SECONDS] "
                            "[--only STEP,...]\n");
            exit(2);
        }
    }
    options.only = only == NULL ? NULL : parse_only(only, options.steps);
    return options;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "--child") == 0) {
        return be_child(argv + 2);
    }
    if (getenv("GMLAKE_TEST_PRELOAD") == NULL) {
        fprintf(stderr, "differ: GMLAKE_TEST_PRELOAD must name the preload library\n");
        return 2;
    }
    struct options options = parse(argc, argv);
    unsigned long calls = 0;
    unsigned long seeds = 0;
    unsigned long refused = 0;
    double begin = now();
    for (; seeds < options.seeds && (options.calls == 0 || calls < options.calls) &&
           (options.seconds == 0 || now() - begin < options.seconds);
         seeds++) {
        if (!do_seed(&options, options.seed + seeds, &calls, &refused)) {
            free(options.only);
            return 1;
        }
    }
    printf("%lu programs, %lu driver calls twice, no difference; %lu ended on a device that was full for us alone\n",
           seeds, calls, refused);
    free(options.only);
    return 0;
}
