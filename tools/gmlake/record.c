/*
 * record.c - `gmlake trace`: records the allocations of a running process into a file that `gmlake replay` reads.
 */
#include "command.h"
#include "monotonic.h"
#include "mount.h"
#include "text.h"
#include "trace_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const struct gm_command gm_command_trace;

/* Between two looks for new events: a ring of the default size holds a third of a million. */
#define PAUSE_MS       20

#define EVENTS_AT_ONCE 3000

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static double now_seconds(void)
{
    return (double)gm_monotonic_ns() / 1e9;
}

/* Takes what there is. The number of events; -ESRCH the process has ended, and nothing is left. */
static int drain(int pipe_fd, struct gm_trace_writer *writer)
{
    static struct gmlake_ctl_event events[EVENTS_AT_ONCE];
    ssize_t length = read(pipe_fd, events, sizeof events);
    if (length < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    int count = (int)((size_t)length / sizeof events[0]);
    int rc = gm_trace_writer_add(writer, events, (size_t)count);
    return rc < 0 ? rc : count;
}

/* Until the time is over, the user interrupts or the process ends (-ESRCH). */
static int record(int pipe_fd, struct gm_trace_writer *writer, double seconds)
{
    double end = now_seconds() + seconds;
    while (!interrupted && (seconds <= 0 || now_seconds() < end)) {
        int count = drain(pipe_fd, writer);
        if (count < 0) {
            return count;
        }
        if (count == 0) {
            nanosleep(&(struct timespec){0, PAUSE_MS * 1000000L}, NULL);
        }
    }
    return 0;
}

/* Switches the trace off and takes the rest. */
static int finish(int directory, int pipe_fd, struct gm_trace_writer *writer)
{
    int rc = gm_mount_write(directory, "trace", "off\n");
    if (rc < 0 && rc != -ESRCH && rc != -ENOENT) {
        gm_complain(&gm_command_trace, "the trace stays on: %s", strerror(-rc));
    }
    int count = 1;
    while (count > 0) {
        count = drain(pipe_fd, writer);
    }
    return count == -ESRCH ? 0 : count;
}

static int is_on(int directory, bool *on)
{
    char *text;
    int rc = gm_mount_read(directory, "trace", &text);
    if (rc == 0) {
        *on = strncmp(text, "on", 2) == 0;
        free(text);
    }
    return rc;
}

/* Switches the trace on, unless somebody else has one on: its events would be taken from him. */
static int begin(int directory, const char *ring)
{
    char text[64];
    bool on;
    int rc = is_on(directory, &on);
    if (rc == 0 && on) {
        gm_complain(&gm_command_trace, "a trace of this process is on already; 'echo off >.../trace' ends it");
        return GM_EXIT_ERROR;
    }
    if (rc == 0) {
        snprintf(text, sizeof text, "on ring=%s\n", ring);
        rc = gm_mount_write(directory, "trace", text);
    }
    if (rc < 0) {
        gm_complain(&gm_command_trace, "cannot switch the trace on: %s",
                    rc == -EAGAIN ? "the process does not answer" : strerror(-rc));
        return rc == -ESRCH ? GM_EXIT_NO_PROCESS : GM_EXIT_ERROR;
    }
    return GM_EXIT_OK;
}

static void report(const char *path, const struct gm_trace_counts *counts)
{
    fprintf(stderr, "%s: %" PRIu64 " allocations, %" PRIu64 " frees", path, counts->allocs, counts->frees);
    if (counts->unknown > 0) {
        fprintf(stderr, "; %" PRIu64 " frees of older blocks left out", counts->unknown);
    }
    if (counts->lost > 0) {
        fprintf(stderr, "; %" PRIu64 " events LOST, take a larger --ring", counts->lost);
    }
    fputc('\n', stderr);
}

static int run_trace(int directory, const char *path, int device, const char *ring, double seconds)
{
    struct gm_trace_writer *writer;
    struct gm_trace_counts counts;
    int status = begin(directory, ring); /* first: a file that is there already is not lost for nothing */
    if (status != GM_EXIT_OK) {
        return status;
    }
    int rc = gm_trace_writer_open(path, device, &writer);
    if (rc < 0) {
        (void)gm_mount_write(directory, "trace", "off\n");
        gm_complain(&gm_command_trace, "%s: %s", path, strerror(-rc));
        return GM_EXIT_ERROR;
    }
    int pipe_fd = openat(directory, "trace_pipe", O_RDONLY | O_CLOEXEC);
    rc = pipe_fd < 0 ? -errno : record(pipe_fd, writer, seconds);
    if (rc == 0 || rc == -ESRCH) {
        rc = rc == 0 ? finish(directory, pipe_fd, writer) : 0;
    } else {
        (void)gm_mount_write(directory, "trace", "off\n");
    }
    if (pipe_fd >= 0) {
        close(pipe_fd);
    }
    if (rc < 0) {
        gm_complain(&gm_command_trace, "%s: %s", path, strerror(-rc));
        status = GM_EXIT_ERROR;
    }
    rc = gm_trace_writer_close(writer, &counts);
    if (rc < 0 && status == GM_EXIT_OK) {
        gm_complain(&gm_command_trace, "%s: %s", path, strerror(-rc));
        status = GM_EXIT_ERROR;
    }
    if (status == GM_EXIT_OK) {
        report(path, &counts);
    }
    return status;
}

enum row { ROW_PID, ROW_OUTPUT, ROW_SECONDS, ROW_RING, ROW_DEVICE, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = GM_MOUNT_OPTION_PID_REQUIRED,
    [ROW_OUTPUT] = {"output", 'o', "FILE", "The file; compressed if its name ends in .gz."},
    [ROW_SECONDS] = {"seconds", 0, "N", "End after N seconds; otherwise when interrupted or when the process ends."},
    [ROW_RING] = {"ring", 0, "SIZE", "Memory for events not yet taken (default 64M)."},
    [ROW_DEVICE] = {"device", 0, "ORDINAL", "Only what happens on this device."},
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct gm_place place = {0};
    const char *path = NULL;
    const char *ring = "64M";
    const char *value;
    double seconds = 0;
    double device = -1;
    uint64_t size;
    for (int row; (row = gm_mount_option_next(&gm_command_trace, argc, argv, &place, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        path = row == ROW_OUTPUT ? value : path;
        ring = row == ROW_RING ? value : ring;
        if ((row == ROW_SECONDS && gm_text_parse_number(value, 0.01, 1e7, &seconds) < 0) ||
            (row == ROW_RING && gm_text_parse_size(value, &size) < 0) ||
            (row == ROW_DEVICE && gm_text_parse_number(value, 0, 1023, &device) < 0)) {
            return gm_usage_error(&gm_command_trace, "'%s' is not a value for --%s", value, options[row].name);
        }
    }
    if (place.pid == NULL || path == NULL || optind < argc) {
        return gm_usage_error(&gm_command_trace, "wants -p PID and -o FILE, and nothing more");
    }
    int directory;
    int status = gm_mount_open(&gm_command_trace, &place, &directory);
    if (status != GM_EXIT_OK) {
        return status;
    }
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status = run_trace(directory, path, (int)device, ring, seconds);
    close(directory);
    return status;
}

const struct gm_command gm_command_trace = {
    .name = "trace",
    .summary = "record the allocations of a running process",
    .synopsis = "-p PID -o FILE [--seconds N] [--ring SIZE] [--device ORDINAL] [--mount DIR]",
    .description =
        "    Records the allocations and frees that GMLake serves in the process, from now on, into FILE, which\n"
        "    'gmlake replay' reads. Blocks that are there already are not in it, nor are their frees.\n",
    .options = options,
    .examples = "    gmlake trace -p 4711 -o train.gz --seconds 60\n    gmlake replay --sim train.gz\n",
    .run = run,
};
