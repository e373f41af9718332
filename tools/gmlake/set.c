/*
 * set.c - `gmlake set`: changes a tunable of a running process, or the default for new ones, through the mount.
 */
#include "command.h"
#include "mount.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct gm_command gm_command_set;

/* The daemon has refused; the local table words the reason where it can. */
static int refused(const char *name, const char *value, int rc)
{
    char setting[256];
    char message[GM_SETTING_MESSAGE];
    enum gmlake_tunable which;
    uint64_t number;
    const char *text;
    snprintf(setting, sizeof setting, "%s=%s", name, value);
    if (gm_text_parse_setting(setting, &which, &number, &text, message) < 0) {
        gm_complain(&gm_command_set, "%s", message);
    } else {
        gm_complain(&gm_command_set, "%s=%s: %s", name, value, strerror(-rc));
    }
    return GM_EXIT_ERROR;
}

static int set_value(int directory, const char *name, const char *value)
{
    char path[128];
    char text[128];
    bool fits = strchr(name, '/') == NULL && snprintf(path, sizeof path, "tunables/%s", name) < (int)sizeof path &&
                snprintf(text, sizeof text, "%s\n", value) < (int)sizeof text;
    int rc = fits ? gm_mount_write(directory, path, text) : -EINVAL;
    return rc == 0 ? GM_EXIT_OK : refused(name, value, rc);
}

enum row { ROW_PID, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = GM_MOUNT_OPTION_PID,
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    const char *pid = NULL;
    const char *mount = NULL;
    const char *value;
    for (int row; (row = gm_option_next(&gm_command_set, argc, argv, true, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        pid = row == ROW_PID ? value : pid;
        mount = row == ROW_MOUNT ? value : mount;
    }
    if (argc - optind != 2) {
        return gm_usage_error(&gm_command_set, "wants a name and a value");
    }
    int directory;
    int status = gm_mount_open(&gm_command_set, mount, pid, &directory);
    if (status != GM_EXIT_OK) {
        return status;
    }
    status = set_value(directory, gm_mount_tunable(argv[optind]), argv[optind + 1]);
    close(directory);
    return status;
}

const struct gm_command gm_command_set = {
    .name = "set",
    .summary = "change a tunable of a running process, or the default of new ones",
    .synopsis = "[-p PID] [--mount DIR] NAME VALUE",
    .description =
        "    Sets tunable NAME to VALUE: a number, a size such as 64M, \"max\", or \"default\". With -p it takes\n"
        "    effect on the process's next allocation; without, it is what new processes start with. \"max\" and "
        "\"high\"\n"
        "    are short for memory_max and memory_high.\n",
    .options = options,
    .examples =
        "    gmlake set -p 4711 stitch_min 64M\n    gmlake set stitch_min default\n    gmlake set -p 4711 max 20G\n",
    .run = run,
};
