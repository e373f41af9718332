/*
 * run.c - `gmlake run`: starts a program with GMLake in front of its CUDA driver.
 *
 * Everything is done by the environment, so it reaches the program's own children (launchers, workers) as well.
 */
#include "command.h"
#include "frameworks.h"
#include "paths.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct gm_command gm_command_run;

static int cannot_set(const char *name)
{
    gm_complain(&gm_command_run, "cannot set %s: %s", name, strerror(errno));
    return -ENOMEM;
}

/* Puts @item in front of the list in variable @name, unless it is in it already. */
static int prepend(const char *name, const char *item)
{
    const char *old = getenv(name);
    size_t length = strlen(item);
    for (const char *rest = old; rest != NULL && *rest != '\0'; rest += strcspn(rest, ": ")) {
        rest += strspn(rest, ": ");
        if (strncmp(rest, item, length) == 0 && strcspn(rest, ": ") == length) {
            return 0;
        }
    }
    char *list;
    bool empty = old == NULL || old[0] == '\0';
    if (asprintf(&list, "%s%s%s", item, empty ? "" : ":", empty ? "" : old) < 0) {
        return cannot_set(name);
    }
    int rc = setenv(name, list, 1) == 0 ? 0 : cannot_set(name);
    free(list);
    return rc;
}

/* A sanitizer's run-time library, if this build has one: it must come first in every process that loads our library. */
static int find_sanitizer(struct dl_phdr_info *object, size_t size, void *out)
{
    (void)size;
    static const char *const names[] = {"/libasan.so", "/libtsan.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strstr(object->dlpi_name, names[i]) != NULL) {
            *(const char **)out = object->dlpi_name;
            return 1;
        }
    }
    return 0;
}

static int set_preload(void)
{
    char path[PATH_MAX];
    if (gm_path_of_library(GM_PRELOAD_LIBRARY, path) < 0) {
        gm_complain(&gm_command_run, "no preload library at %s", path);
        return -ENOENT;
    }
    if (strpbrk(path, ": ") != NULL) {
        gm_complain(&gm_command_run, "LD_PRELOAD cannot hold a path with blanks or colons: %s", path);
        return -EINVAL;
    }
    int rc = prepend("LD_PRELOAD", path);
    const char *sanitizer = NULL;
    dl_iterate_phdr(find_sanitizer, &sanitizer);
    return rc == 0 && sanitizer != NULL ? prepend("LD_PRELOAD", sanitizer) : rc;
}

/* Makes the simulated driver the libcuda.so.1 that is found; @memory NULL: of its default size. */
static int set_simulation(const char *memory)
{
    char path[PATH_MAX];
    if (gm_path_of_library(GM_SIMULATED_DRIVER, path) < 0) {
        gm_complain(&gm_command_run, "no simulated driver at %s", path);
        return -ENOENT;
    }
    *strrchr(path, '/') = '\0';
    if (memory != NULL && setenv("SIMCUDA_MEMORY", memory, 1) != 0) {
        return cannot_set("SIMCUDA_MEMORY");
    }
    /* A served program keeps its pool to the end, as it may: that is no leak worth a report. */
    if (setenv("SIMCUDA_LEAKS", "0", 0) != 0) {
        return cannot_set("SIMCUDA_LEAKS");
    }
    return prepend("LD_LIBRARY_PATH", path);
}

static int set_tunable(const char *setting)
{
    enum gmlake_tunable which;
    uint64_t number;
    const char *text;
    char message[GM_SETTING_MESSAGE];
    char name[64];
    if (gm_text_parse_setting(setting, &which, &number, &text, message) < 0) {
        gm_usage_error(&gm_command_run, "--set: %s", message);
        return -EINVAL;
    }
    gm_text_environment_name(which, name);
    return setenv(name, text, 1) == 0 ? 0 : cannot_set(name);
}

/* A library that is told to serve nothing needs no framework to ask it. */
static bool serves_nothing(void)
{
    const char *enable = getenv("GMLAKE_ENABLE");
    const char *share = getenv("GMLAKE_IPC");
    return (enable != NULL && strcmp(enable, "0") == 0) || (share != NULL && strcmp(share, "1") == 0);
}

enum row { ROW_SIM, ROW_SET, ROW_NATIVE, ROW_IPC };

static const struct gm_option options[] = {
    [ROW_SIM] = {"sim", 0, "[=SIZE]", "Run on the simulated driver, with SIZE (24G) of device memory; no GPU needed."},
    [ROW_SET] = {"set", 0, "NAME=VALUE", "Start with a tunable set ('gmlake tunables' lists them); may be repeated."},
    [ROW_NATIVE] = {"native", 0, NULL,
                    "Leave the frameworks' own caching allocators on top: none of the settings above is made, and\n"
                    "GMLake serves the segments they ask for. For what a framework can do on its own allocator alone,\n"
                    "as torch.compile(mode=\"reduce-overhead\") and torch.cuda.MemPool."},
    [ROW_IPC] = {"ipc", 0, NULL,
                 "Leave memory to the driver, so that it can be shared with other processes by CUDA IPC handles\n"
                 "(torch.multiprocessing; GMLAKE_IPC=1). Nothing is served then. Includes --native."},
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    bool simulate = false;
    bool native = serves_nothing();
    bool share = false;
    const char *memory = NULL;
    const char *value;
    uint64_t size;
    for (int row; (row = gm_option_next(&gm_command_run, argc, argv, true, &value)) != -1;) {
        if (row < 0 || (row == ROW_SET && set_tunable(value) < 0)) {
            return GM_EXIT_USAGE;
        }
        share |= row == ROW_IPC;
        native |= row == ROW_NATIVE || row == ROW_IPC;
        if (row == ROW_SIM) {
            simulate = true;
            memory = value;
            if (memory != NULL && gm_text_parse_size(memory, &size) < 0) {
                return gm_usage_error(&gm_command_run, "--sim: '%s' is not a size", memory);
            }
        }
    }
    if (optind == argc) {
        return gm_usage_error(&gm_command_run, "which program?");
    }
    if (set_preload() < 0 || (simulate && set_simulation(memory) < 0) ||
        (!native && gm_frameworks_apply(&gm_command_run) < 0)) {
        return GM_EXIT_ERROR;
    }
    if (share && setenv("GMLAKE_IPC", "1", 1) != 0) {
        (void)cannot_set("GMLAKE_IPC");
        return GM_EXIT_ERROR;
    }
    execvp(argv[optind], argv + optind);
    int error = errno;
    gm_complain(&gm_command_run, "%s: %s", argv[optind], strerror(error));
    return error == ENOENT ? GM_EXIT_NOT_FOUND : GM_EXIT_CANNOT_RUN;
}

const struct gm_command gm_command_run = {
    .name = "run",
    .summary = "run a program with GMLake in front of its CUDA driver",
    .synopsis = "[--native | --ipc] [--sim[=SIZE]] [--set NAME=VALUE]... [--] COMMAND [ARGUMENT]...",
    .description =
        "    Runs COMMAND with the preload library, so that device memory it and its children ask the driver for\n"
        "    comes from GMLake. Prints nothing and becomes COMMAND.\n"
        "    Frameworks that pool memory themselves are told to leave that to the driver, which is GMLake here,\n"
        "    unless the user has set these variables (for PyTorch: or PYTORCH_ALLOC_CONF; for JAX's first: or the\n"
        "    second) or says --native:\n"
#define GM_FRAMEWORK_SETTING GM_FRAMEWORK_HELP_ROW
#include "frameworks.def"
#undef GM_FRAMEWORK_SETTING
        "    With GMLAKE_ENABLE=0 in the environment the library stands aside and nothing is set: COMMAND runs as it\n"
        "    would without. GMLAKE_ENABLED=0 is something else: the start value of the tunable `enabled`, which can "
        "be\n"
        "    set to 1 again while COMMAND runs.\n",
    .options = options,
    .examples = "    gmlake run -- python3 train.py\n"
                "    gmlake run --native -- python3 serve.py\n"
                "    gmlake run --sim=24G --set stitch_min=64M -- gmlake replay --via driver trace.gz\n",
    .exit_status = "that of COMMAND; 126 it cannot be run, 127 it is not found; 1 error, 2 usage",
    .run = run,
};
