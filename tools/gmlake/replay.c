/*
 * replay.c - `gmlake replay`: the command line, and one replay after the other.
 *
 * Each trace is replayed in a process of its own where there are several, so that each starts on a fresh device and
 * a fresh allocator, and one that fails leaves the others alone.
 */
#include "replay.h"

#include "command.h"
#include "driver.h"
#include "paths.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct gm_command gm_command_replay;

/* What the command line says about the simulated driver. */
struct simulation {
    bool wanted;
    const char *memory; /* a size, or a multiple of the trace's peak such as "1.02x"; NULL: the driver's default */
    char path[PATH_MAX];
};

enum row {
    ROW_VIA,
    ROW_SIM,
    ROW_DEVICE_MEMORY,
    ROW_SET,
    ROW_SCALE,
    ROW_RATE,
    ROW_VERIFY,
    ROW_LATENCY,
    ROW_ITERATIONS,
    ROW_CALLS,
    ROW_DEVICE,
    ROW_JSON
};

static const struct gm_option options_table[] = {
    [ROW_VIA] = {"via", 0, "core|driver",
                 "core (default): gmlake_alloc() of the library built into this command.\n"
                 "driver: cuMemAllocAsync() of whatever libcuda the process has; under `gmlake run` that is GMLake\n"
                 "through its preload library, without it the driver's own pool."},
    [ROW_SIM] = {"sim", 0, "[=SIZE]",
                 "Use the simulated driver; SIZE is its device memory (24G, or 1.02x: times the\n"
                 "trace's peak)."},
    [ROW_DEVICE_MEMORY] = {"device-memory", 0, "SIZE", "The same, as an option of its own; implies --sim."},
    [ROW_SET] = {"set", 0, "NAME=VALUE", "Set a tunable ('gmlake tunables' lists them); may be repeated."},
    [ROW_SCALE] = {"scale", 0, "F", "Multiply every size by F (0.000001 to 1000)."},
    [ROW_RATE] = {"rate", 0, "N", "Make N calls a second, evenly, instead of as many as possible: to be watched."},
    [ROW_VERIFY] = {"verify", 0, NULL,
                    "Fill each block through its address and check it when it is freed: finds\n"
                    "blocks that share memory. Needs as much memory as the trace; see --scale."},
    [ROW_LATENCY] = {"latency", 0, NULL, "Time each call: p50, p99, p99.9 of those without driver calls (--via core)."},
    [ROW_ITERATIONS] = {"iterations", 0, NULL, "Report driver calls and time of each iteration."},
    [ROW_CALLS] = {"calls", 0, NULL, "Report calls and time of each driver function."},
    [ROW_DEVICE] = {"device", 0, "N", "The device (default 0)."},
    [ROW_JSON] = {"json", 0, NULL, "One JSON object a line and trace."},
    {NULL, 0, NULL, NULL},
};

static int bad_value(const char *option, const char *value)
{
    gm_usage_error(&gm_command_replay, "--%s: '%s' is not a value it takes", option, value);
    return -EINVAL;
}

/* "1.02x": the factor; 0 if @text is not of that form. */
static double memory_factor(const char *text)
{
    size_t length = strlen(text);
    char digits[32];
    double factor;
    if (length < 2 || length > sizeof digits || text[length - 1] != 'x') {
        return 0;
    }
    snprintf(digits, sizeof digits, "%.*s", (int)(length - 1), text);
    return gm_text_parse_number(digits, 0.01, 1e6, &factor) == 0 ? factor : 0;
}

static int take_memory(struct simulation *simulation, const char *value)
{
    uint64_t size;
    simulation->wanted = true;
    if (value == NULL) {
        return 0;
    }
    if (memory_factor(value) == 0 && gm_text_parse_size(value, &size) < 0) {
        return bad_value("device-memory", value);
    }
    simulation->memory = value;
    return 0;
}

static int take_setting(struct gm_replay_options *options, const char *value)
{
    enum gmlake_tunable which;
    uint64_t number;
    const char *text;
    char message[GM_SETTING_MESSAGE];
    if (gm_text_parse_setting(value, &which, &number, &text, message) < 0) {
        gm_usage_error(&gm_command_replay, "--set: %s", message);
        return -EINVAL;
    }
    if (options->setting_count == GM_SETTINGS_MAX) {
        gm_usage_error(&gm_command_replay, "--set: at most %d", GM_SETTINGS_MAX);
        return -EINVAL;
    }
    options->settings[options->setting_count++] = value;
    return 0;
}

static int take_device(struct gm_replay_options *options, const char *value)
{
    double number;
    if (gm_text_parse_number(value, 0, 63, &number) < 0 || number != (int)number) {
        return bad_value("device", value);
    }
    options->device = (int)number;
    return 0;
}

static int take_via(struct gm_replay_options *options, const char *value)
{
    if (strcmp(value, "core") != 0 && strcmp(value, "driver") != 0) {
        return bad_value("via", value);
    }
    options->via = value[0] == 'c' ? GM_VIA_CORE : GM_VIA_DRIVER;
    return 0;
}

static int take_option(enum row row, const char *value, struct gm_replay_options *options,
                       struct simulation *simulation)
{
    switch (row) {
    case ROW_VIA:
        return take_via(options, value);
    case ROW_SIM:
    case ROW_DEVICE_MEMORY:
        return take_memory(simulation, value);
    case ROW_SET:
        return take_setting(options, value);
    case ROW_SCALE:
        return gm_text_parse_number(value, 1e-6, 1000, &options->scale) < 0 ? bad_value("scale", value) : 0;
    case ROW_RATE:
        return gm_text_parse_number(value, 1, 1e9, &options->rate) < 0 ? bad_value("rate", value) : 0;
    case ROW_DEVICE:
        return take_device(options, value);
    case ROW_VERIFY:
        options->verify = true;
        return 0;
    case ROW_LATENCY:
        options->latency = true;
        return 0;
    case ROW_ITERATIONS:
        options->iterations = true;
        return 0;
    case ROW_CALLS:
        options->calls = true;
        return 0;
    case ROW_JSON:
        options->json = true;
        return 0;
    }
    return -EINVAL;
}

/*
 * Settles the environment that the simulated driver reads when it is loaded; what the user has set stays. A real
 * driver does not look at it.
 */
static void prepare_environment(const struct gm_replay_options *options, const struct simulation *simulation,
                                const struct gm_trace *trace)
{
    setenv("SIMCUDA_BACKING", options->verify ? "1" : "0", 0);
    setenv("SIMCUDA_STREAM_DELAY_US", "1000", 0);
    if (simulation->memory != NULL) {
        double factor = memory_factor(simulation->memory);
        char bytes[32];
        snprintf(bytes, sizeof bytes, "%" PRIu64, (uint64_t)(factor * (double)trace->peak_bytes + 0.5));
        setenv("SIMCUDA_MEMORY", factor > 0 ? bytes : simulation->memory, 1);
    }
    for (size_t i = 0; i < options->setting_count; i++) {
        enum gmlake_tunable which;
        uint64_t number;
        const char *text;
        char message[GM_SETTING_MESSAGE];
        char name[64];
        if (gm_text_parse_setting(options->settings[i], &which, &number, &text, message) == 0) {
            gm_text_environment_name(which, name);
            setenv(name, text, 1);
        }
    }
}

/* One trace, from file to report. */
static int replay_file(const char *path, int width, const struct gm_replay_options *options,
                       const struct simulation *simulation)
{
    struct gm_trace trace;
    struct gm_trace_error error;
    if (gm_trace_read(path, &trace, &error) < 0) {
        if (error.line > 0) {
            fprintf(stderr, "%s:%zu: %s\n", path, error.line, error.reason);
        } else {
            fprintf(stderr, "%s: %s\n", path, error.reason);
        }
        return GM_EXIT_ERROR;
    }
    if (options->scale != 1) {
        gm_trace_scale(&trace, options->scale);
    }
    prepare_environment(options, simulation, &trace);
    char name[256];
    char message[GM_REPLAY_MESSAGE];
    struct gm_replay_result result;
    gm_replay_trace_name(path, name, sizeof name);
    int rc = gm_replay_run(&trace, name, options, &result, message);
    gm_trace_finish(&trace);
    if (rc < 0) {
        gm_complain(&gm_command_replay, "%s: %s", path, message);
        return GM_EXIT_ERROR;
    }
    if (options->json) {
        gm_replay_print_json(path, options, &result);
    } else {
        gm_replay_print_row(path, width, options, &result);
    }
    bool clean = result.verify_errors == 0 && result.violations == 0;
    if (!clean) {
        gm_complain(&gm_command_replay, "%s: %" PRIu64 " verify errors, %" PRIu64 " driver rule violations", path,
                    result.verify_errors, result.violations);
    }
    gm_replay_result_finish(&result);
    return clean ? GM_EXIT_OK : GM_EXIT_ERROR;
}

/* The same in a child process. */
static int replay_file_apart(const char *path, int width, const struct gm_replay_options *options,
                             const struct simulation *simulation)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        gm_complain(&gm_command_replay, "%s: cannot fork: %s", path, strerror(errno));
        return GM_EXIT_ERROR;
    }
    if (child == 0) {
        exit(replay_file(path, width, options, simulation));
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return GM_EXIT_ERROR;
        }
    }
    if (WIFSIGNALED(status)) {
        gm_complain(&gm_command_replay, "%s: ended by signal %d (%s)", path, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
        return GM_EXIT_ERROR;
    }
    return WEXITSTATUS(status);
}

/* Room for the longest trace name in the table. */
static int name_width(char **paths, int count)
{
    int width = (int)strlen("trace");
    for (int i = 0; i < count; i++) {
        char name[256];
        gm_replay_trace_name(paths[i], name, sizeof name);
        int length = (int)strlen(name);
        width = length > width ? length : width;
    }
    return width;
}

static int replay_files(char **paths, int count, const struct gm_replay_options *options,
                        const struct simulation *simulation)
{
    int width = name_width(paths, count);
    if (!options->json) {
        gm_replay_print_heading(width);
    }
    if (count == 1) {
        return replay_file(paths[0], width, options, simulation);
    }
    int worst = GM_EXIT_OK;
    for (int i = 0; i < count; i++) {
        int status = replay_file_apart(paths[i], width, options, simulation);
        worst = status != GM_EXIT_OK ? GM_EXIT_ERROR : worst;
    }
    return worst;
}

static int run(int argc, char **argv)
{
    struct gm_replay_options options = {.scale = 1, .progress = isatty(STDERR_FILENO)};
    struct simulation simulation = {0};
    const char *value;
    for (int row; (row = gm_option_next(&gm_command_replay, argc, argv, false, &value)) != -1;) {
        if (row < 0 || take_option((enum row)row, value, &options, &simulation) < 0) {
            return GM_EXIT_USAGE;
        }
    }
    if (optind == argc) {
        return gm_usage_error(&gm_command_replay, "which trace?");
    }
    if (options.latency && options.verify) {
        return gm_usage_error(&gm_command_replay, "--latency would time the checks of --verify; choose one");
    }
    if (simulation.wanted) {
        if (gm_path_of_library(GM_SIMULATED_DRIVER, simulation.path) < 0) {
            gm_complain(&gm_command_replay, "no simulated driver at %s", simulation.path);
            return GM_EXIT_ERROR;
        }
        options.driver_path = simulation.path;
    }
    return replay_files(argv + optind, argc - optind, &options, &simulation);
}

const struct gm_command gm_command_replay = {
    .name = "replay",
    .summary = "replay recorded allocations and measure efficiency and speed",
    .synopsis = "[--via core|driver] [--sim[=SIZE]] [--set NAME=VALUE]... [--json] TRACE...",
    .description =
        "    Replays each TRACE (text, plain or gzip) against an allocator and reports its memory efficiency: the\n"
        "    peak of the live bytes asked for over the peak of the bytes reserved on the device. Both, and the\n"
        "    driver's calls and time, are counted at the driver, not by the allocator.\n"
        "    A malformed trace is reported as FILE:LINE: reason and not replayed.\n"
        "\n"
        "    Lines of a trace: `a ID BYTES STREAM US` allocates, `f ID STREAM US` frees, `i N` ends iteration N, `#`\n"
        "    starts a comment. An ID names one block, is never used again, and may stay allocated.\n"
        "\n"
        "    On the simulated driver time is modelled: its clock follows the trace, work freed on a stream takes\n"
        "    1 ms more (SIMCUDA_STREAM_DELAY_US), and memory has no contents except with --verify (SIMCUDA_BACKING).\n"
        "\n"
        "    JSON: trace, ops, peak_requested_bytes, peak_reserved_bytes, efficiency, ns_per_op (time a call\n"
        "    without driver time; --via driver: with the driver's host time, which cannot be told apart),\n"
        "    ns_per_op_driver (with driver time, modelled or real), first_iteration_driver_us, steady_driver_calls\n"
        "    and steady_driver_us (median an iteration over the last half), peak_mappings, va_bytes, oom\n"
        "    (allocations refused; the replay goes on without them); then efficiency_by_driver_free, file, via,\n"
        "    simulated, scale, iterations, later_percent (driver time after the third iteration, of the time the\n"
        "    trace took there), steady_memory_calls (of steady_driver_calls those that\n"
        "    manage memory: cuMem...), last_driver_calls, driver_calls, driver_us, and what the options below add.\n"
        "    Figures that cannot be known are null.\n",
    .options = options_table,
    .examples = "    gmlake replay --sim tests/data/unet.gz\n"
                "    gmlake replay --sim --device-memory 1.02x --json traces/*.gz\n"
                "    gmlake replay --sim --verify --scale 0.01 tests/data/opt-1.3b-LR.gz\n"
                "    gmlake run -- gmlake replay --via driver tests/data/unet.gz\n",
    .run = run,
};
