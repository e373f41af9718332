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

static int reclaim(int directory, const char *pid, const char *amount)
{
    char text[64];
    snprintf(text, sizeof text, "%s\n", amount);
    int rc = gm_mount_write(directory, "reclaim", text);
    switch (rc) {
    case 0:
        return GM_EXIT_OK;
    case -EAGAIN:
        gm_complain(&gm_command_reclaim, "process %s has given back less, or does not answer", pid);
        return GM_EXIT_ERROR;
    case -ESRCH:
        gm_complain(&gm_command_reclaim, "process %s has ended", pid);
        return GM_EXIT_NO_PROCESS;
    default:
        gm_complain(&gm_command_reclaim, "process %s: %s", pid, strerror(-rc));
        return GM_EXIT_ERROR;
    }
}

enum row { ROW_PID, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = {"pid", 'p', "PID", "The process."},
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    const char *pid = NULL;
    const char *mount = NULL;
    const char *value;
    uint64_t bytes;
    for (int row; (row = gm_option_next(&gm_command_reclaim, argc, argv, false, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        pid = row == ROW_PID ? value : pid;
        mount = row == ROW_MOUNT ? value : mount;
    }
    if (pid == NULL || argc - optind != 1) {
        return gm_usage_error(&gm_command_reclaim, "wants -p PID and an amount");
    }
    if (strlen(argv[optind]) > 40 || gm_parse_size(argv[optind], strlen(argv[optind]), &bytes) < 0) {
        return gm_usage_error(&gm_command_reclaim, "'%.40s' is no amount: a size such as 2G, or \"max\"", argv[optind]);
    }
    int directory;
    int status = gm_mount_open(&gm_command_reclaim, mount, pid, &directory);
    if (status == GM_EXIT_OK) {
        status = reclaim(directory, pid, argv[optind]);
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
