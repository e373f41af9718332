/*
 * reclaim.c - `gmlake reclaim`: has a process give idle memory back to the device.
 */
#include "command.h"
#include "mount.h"

#include <errno.h>
#include <getopt.h>
#include <parse.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct gm_command gm_command_reclaim;

static int reclaim(int directory, const struct gm_place *place, const char *amount)
{
    char text[64];
    snprintf(text, sizeof text, "%s\n", amount);
    int rc = gm_mount_write(directory, "reclaim", text);
    if (rc == -EAGAIN) {
        gm_complain(&gm_command_reclaim, "process %s has given back less, or does not answer", place->pid);
        return GM_EXIT_ERROR;
    }
    return rc == 0 ? GM_EXIT_OK : gm_mount_failed(&gm_command_reclaim, place, "reclaim", rc);
}

static const struct gm_option options[] = {
    GM_MOUNT_OPTION_PID_REQUIRED,
    GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct gm_place place = {0};
    const char *value;
    uint64_t bytes;
    if (gm_mount_option_next(&gm_command_reclaim, argc, argv, &place, &value) != -1) {
        return GM_EXIT_USAGE;
    }
    if (place.pid == NULL || argc - optind != 1) {
        return gm_usage_error(&gm_command_reclaim, "wants -p PID and an amount");
    }
    if (strlen(argv[optind]) > 40 || gm_parse_size(argv[optind], strlen(argv[optind]), &bytes) < 0) {
        return gm_usage_error(&gm_command_reclaim, "'%.40s' is no amount: a size such as 2G, or \"max\"", argv[optind]);
    }
    int directory;
    int status = gm_mount_open(&gm_command_reclaim, &place, &directory);
    if (status == GM_EXIT_OK) {
        status = reclaim(directory, &place, argv[optind]);
        close(directory);
    }
    return status;
}

const struct gm_command gm_command_reclaim = {
    .name = "reclaim",
    .summary = "have a process give idle memory back",
    .synopsis = "-p PID [--mount DIR] AMOUNT",
    .description =
        "    Has the process give AMOUNT of the device memory that it does not use back to the device: a size\n"
        "    such as 2G, or \"max\" for all of it. Fails if it was less.\n",
    .options = options,
    .examples = "    gmlake reclaim -p 4711 2G\n",
    .run = run,
};
