/*
 * events.c - `gmlake events`: what has happened on the machine or to a process, and waiting for it.
 */
#include "command.h"
#include "monotonic.h"
#include "mount.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct gm_command gm_command_events;

#define COUNTERS_MAX 64

struct counter {
    char name[32];
    uint64_t value;
};

/* What an events file said, line by line. */
struct counters {
    unsigned count;
    struct counter counter[COUNTERS_MAX];
};

/* What is asked for. */
struct wish {
    struct gm_place place;
    const char *key; /* to wait for; NULL: none */
    bool follow;
    int64_t deadline_ms; /* INT64_MAX: none */
    double seconds;      /* the same as it was given */
};

static int fail(const struct wish *wish, int error)
{
    return gm_mount_failed(&gm_command_events, &wish->place, "events", -error);
}

/* Reads the counters from the start of @fd, which settles what poll(2) says of it. 0 or an errno. */
static int read_counters(int fd, struct counters *out)
{
    char text[COUNTERS_MAX * 54];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length < 0) {
        return errno;
    }
    text[length] = '\0';
    out->count = 0;
    for (char *line = text, *end; out->count < COUNTERS_MAX && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct counter *counter = &out->counter[out->count];
        char *blank = memchr(line, ' ', (size_t)(end - line));
        if (blank != NULL && blank - line < (ptrdiff_t)sizeof counter->name) {
            memcpy(counter->name, line, (size_t)(blank - line));
            counter->name[blank - line] = '\0';
            counter->value = strtoull(blank + 1, NULL, 10);
            out->count++;
        }
    }
    return 0;
}

/* The counter of that name in @counters; NULL: none. */
static const struct counter *find(const struct counters *counters, const char *name)
{
    for (unsigned i = 0; i < counters->count; i++) {
        if (strcmp(counters->counter[i].name, name) == 0) {
            return &counters->counter[i];
        }
    }
    return NULL;
}

/* Prints those that are not as in @before; all of them with NULL. */
static void print_changed(const struct counters *counters, const struct counters *before)
{
    for (unsigned i = 0; i < counters->count; i++) {
        const struct counter *now = &counters->counter[i];
        const struct counter *old = before != NULL ? find(before, now->name) : NULL;
        if (before == NULL || old == NULL || old->value != now->value) {
            printf("%s %ju\n", now->name, (uintmax_t)now->value);
        }
    }
}

/* Waits until the file has changed. 0; ETIME: the time is up; else an errno. */
static int wait_for_change(int fd, int64_t deadline_ms)
{
    for (;;) {
        struct pollfd changed = {fd, POLLPRI, 0};
        int64_t left = deadline_ms == INT64_MAX ? -1 : deadline_ms - gm_monotonic_ms();
        if (deadline_ms != INT64_MAX && left <= 0) {
            return ETIME;
        }
        int ready = poll(&changed, 1, left > 3600000 ? 3600000 : (int)left);
        if (ready < 0 && errno != EINTR) {
            return errno;
        }
        if (ready > 0) {
            return 0; /* trouble with the file itself is told by the next read */
        }
    }
}

static int time_is_up(const struct wish *wish)
{
    if (wish->key == NULL) {
        return GM_EXIT_OK;
    }
    gm_complain(&gm_command_events, "no %s in %g s", wish->key, wish->seconds);
    return GM_EXIT_ERROR;
}

/* Whether the counter waited for has risen. */
static bool is_it(const struct wish *wish, const struct counters *first, const struct counters *now)
{
    const struct counter *counter = wish->key != NULL ? find(now, wish->key) : NULL;
    const struct counter *was = wish->key != NULL ? find(first, wish->key) : NULL;
    return counter != NULL && (was == NULL || counter->value > was->value);
}

static int watch(int fd, const struct wish *wish, const struct counters *first)
{
    struct counters before = *first;
    for (;;) {
        struct counters now;
        int error = wait_for_change(fd, wish->deadline_ms);
        if (error == ETIME) {
            return time_is_up(wish);
        }
        error = error == 0 ? read_counters(fd, &now) : error;
        if (error != 0) {
            return fail(wish, error);
        }
        bool done = is_it(wish, first, &now);
        if (wish->follow) {
            print_changed(&now, &before);
        } else if (done) {
            printf("%s %ju\n", wish->key, (uintmax_t)find(&now, wish->key)->value);
        }
        if (fflush(stdout) != 0 || done) {
            return done ? GM_EXIT_OK : GM_EXIT_ERROR;
        }
        before = now;
    }
}

static int show(int directory, const struct wish *wish)
{
    struct counters first;
    int fd = openat(directory, "events", O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? errno : read_counters(fd, &first);
    int status = error != 0 ? fail(wish, error) : GM_EXIT_OK;
    if (error == 0 && wish->key != NULL && find(&first, wish->key) == NULL) {
        gm_complain(&gm_command_events, "no event '%s'; without --wait they are listed", wish->key);
        status = GM_EXIT_ERROR;
    } else if (error == 0) {
        if (wish->follow || wish->key == NULL) {
            print_changed(&first, NULL);
        }
        if (wish->follow || wish->key != NULL) {
            status = fflush(stdout) == 0 ? watch(fd, wish, &first) : GM_EXIT_ERROR;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

enum row { ROW_PID, ROW_FOLLOW, ROW_WAIT, ROW_TIMEOUT, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = GM_MOUNT_OPTION_PID,
    [ROW_FOLLOW] = {"follow", 'f', NULL, "Go on, and print each counter that has changed."},
    [ROW_WAIT] = {"wait", 'w', "KEY", "Wait until KEY rises, and print it."},
    [ROW_TIMEOUT] = {"timeout", 't', "SEC", "Give up after SEC seconds; with --wait that is an error."},
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct wish wish = {.deadline_ms = INT64_MAX};
    const char *value;
    for (int row; (row = gm_mount_option_next(&gm_command_events, argc, argv, &wish.place, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        wish.key = row == ROW_WAIT ? value : wish.key;
        wish.follow |= row == ROW_FOLLOW;
        if (row == ROW_TIMEOUT) {
            if (gm_text_parse_number(value, 0, 1e9, &wish.seconds) < 0) {
                return gm_usage_error(&gm_command_events, "--timeout: '%s' is not a number of seconds", value);
            }
            wish.deadline_ms = gm_monotonic_ms() + (int64_t)(wish.seconds * 1000);
        }
    }
    if (optind < argc) {
        return gm_usage_error(&gm_command_events, "takes no operand, got '%s'", argv[optind]);
    }
    if (wish.deadline_ms != INT64_MAX && !wish.follow && wish.key == NULL) {
        return gm_usage_error(&gm_command_events, "--timeout goes with --wait or --follow");
    }
    int directory;
    int status = gm_mount_open(&gm_command_events, &wish.place, &directory);
    if (status == GM_EXIT_OK) {
        status = show(directory, &wish);
        close(directory);
    }
    return status;
}

const struct gm_command gm_command_events = {
    .name = "events",
    .summary = "print what has happened, or wait for it",
    .synopsis = "[-p PID] [-f] [--wait KEY] [--timeout SEC] [--mount DIR]",
    .description =
        "    Prints the counters of events of the machine or of one process. --wait ends when KEY has risen since\n"
        "    the command began, however long ago it last did; the end of the process ends it too, with status 3.\n",
    .options = options,
    .examples = "    gmlake events -f\n    gmlake events -p 4711 --wait oom --timeout 60 && echo out of memory\n",
    .run = run,
};
