/*
 * get.c - `gmlake get`: the tunables of a process, or the machine's, from the mount.
 */
#include "command.h"
#include "json.h"
#include "mount.h"

#include <errno.h>
#include <getopt.h>
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tunables.h>
#include <unistd.h>

extern const struct gm_command gm_command_get;

/* The value in the file of tunable @name, without its newline; to be freed. 0 or -errno. */
static int read_value(int directory, const char *name, char **out)
{
    char path[128];
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
        snprintf(path, sizeof path, "tunables/%s", name) >= (int)sizeof path) {
        return -ENOENT;
    }
    int rc = gm_mount_read(directory, path, out);
    if (rc == 0) {
        (*out)[strcspn(*out, "\n")] = '\0';
    }
    return rc;
}

static int get_one(int directory, const struct gm_place *place, const char *name, struct gm_json *json)
{
    char *text;
    int rc = read_value(directory, name, &text);
    if (rc == -ENOENT) {
        gm_complain(&gm_command_get, "no tunable '%s'; 'gmlake tunables' lists them", name);
        return GM_EXIT_ERROR;
    }
    if (rc < 0) {
        return gm_mount_failed(&gm_command_get, place, name, rc);
    }
    if (json != NULL) {
        gm_json_string(json, name, text);
    } else {
        puts(text);
    }
    free(text);
    return GM_EXIT_OK;
}

static int get_all(int directory, const struct gm_place *place, struct gm_json *json)
{
    for (size_t i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        if (json == NULL) {
            printf("%s ", gm_tunable_table[i].name);
        }
        int status = get_one(directory, place, gm_tunable_table[i].name, json);
        if (status != GM_EXIT_OK) {
            return status;
        }
    }
    return GM_EXIT_OK;
}

enum row { ROW_PID, ROW_JSON, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = GM_MOUNT_OPTION_PID,
    [ROW_JSON] = {"json", 0, NULL, "One JSON object."},
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct gm_place place = {0};
    const char *value;
    bool as_json = false;
    for (int row; (row = gm_mount_option_next(&gm_command_get, argc, argv, &place, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        as_json |= row == ROW_JSON;
    }
    if (argc - optind > 1) {
        return gm_usage_error(&gm_command_get, "one tunable at a time");
    }
    int directory;
    int status = gm_mount_open(&gm_command_get, &place, &directory);
    if (status != GM_EXIT_OK) {
        return status;
    }
    struct gm_json json = {.file = stdout};
    if (as_json) {
        gm_json_object(&json, NULL);
    }
    struct gm_json *target = as_json ? &json : NULL;
    status = optind < argc ? get_one(directory, &place, gm_mount_tunable(argv[optind]), target)
                           : get_all(directory, &place, target);
    if (as_json) {
        gm_json_end_object(&json);
        putchar('\n');
    }
    close(directory);
    return status;
}

const struct gm_command gm_command_get = {
    .name = "get",
    .summary = "print tunables of the machine or of one process",
    .synopsis = "[-p PID] [--json] [--mount DIR] [NAME]",
    .description =
        "    Prints the value of tunable NAME, or all of them, each on a line with its name. \"max\" and \"high\" are\n"
        "    short for memory_max and memory_high.\n",
    .options = options,
    .examples = "    gmlake get\n    gmlake get -p 4711 stitch_min\n",
    .run = run,
};
