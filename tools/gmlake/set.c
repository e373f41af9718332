/*
 * set.c - `gmlake set`: changes a tunable of a running process, or of all that have no value of their own, through the
 * mount.
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
static int refused(const struct gm_place *place, const char *name, const char *value, int rc)
{
    char setting[256];
    char message[GM_SETTING_MESSAGE];
    enum gmlake_tunable which;
    uint64_t number;
    const char *text;
    snprintf(setting, sizeof setting, "%s=%s", name, value);
    if (gm_text_parse_setting(setting, &which, &number, &text, message) < 0) {
        gm_complain(&gm_command_set, "%s", message);
        return GM_EXIT_ERROR;
    }
    return gm_mount_failed(&gm_command_set, place, setting, rc);
}

static int set_value(int directory, const struct gm_place *place, const char *name, const char *value)
{
    char path[128];
    char text[128];
    bool fits = strchr(name, '/') == NULL && snprintf(path, sizeof path, "tunables/%s", name) < (int)sizeof path &&
                snprintf(text, sizeof text, "%s\n", value) < (int)sizeof text;
    int rc = fits ? gm_mount_write(directory, path, text) : -EINVAL;
    return rc == 0 ? GM_EXIT_OK : refused(place, name, value, rc);
}

static const struct gm_option options[] = {
    GM_MOUNT_OPTION_PID,
    GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct gm_place place = {0};
    const char *value;
    if (gm_mount_option_next(&gm_command_set, argc, argv, &place, &value) != -1) {
        return GM_EXIT_USAGE;
    }
    if (argc - optind != 2) {
        return gm_usage_error(&gm_command_set, "wants a name and a value");
    }
    int directory;
    int status = gm_mount_open(&gm_command_set, &place, &directory);
    if (status != GM_EXIT_OK) {
        return status;
    }
    status = set_value(directory, &place, gm_mount_tunable(argv[optind]), argv[optind + 1]);
    close(directory);
    return status;
}

const struct gm_command gm_command_set = {
    .name = "set",
    .summary = "change a tunable of a running process, or of the machine",
    .synopsis = "[-p PID] [--mount DIR] NAME VALUE",
    .description =
        "    Sets tunable NAME to VALUE: a number, a size such as 64M, \"max\", or \"default\". It is in force\n"
        "    from the next allocation on: with -p in that process, without in all processes that have no value of\n"
        "    their own, now and later. \"max\" and \"high\" are short for memory_max and memory_high.\n",
    .options = options,
    .examples =
        "    gmlake set -p 4711 stitch_min 64M\n    gmlake set stitch_min default\n    gmlake set -p 4711 max 20G\n",
    .run = run,
};
