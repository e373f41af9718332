/*
 * replay.h - replaying one trace: what is asked, what is measured.
 *
 * STRUCTURE    replay.c reads the command line and runs one trace after the other, replay_run.c does one,
 *              replay_report.c prints what came of it.
 * CONCURRENCY  one thread; one replay a process at a time (meter.h).
 */
#ifndef GM_REPLAY_H
#define GM_REPLAY_H

#include "meter.h"
#include "trace.h"

#include <stdbool.h>
#include <stdint.h>

enum gm_via { GM_VIA_CORE, GM_VIA_DRIVER };

enum { GM_SETTINGS_MAX = 64, GM_REPLAY_ROWS = 128 };
_Static_assert((int)GM_METER_CALLS <= (int)GM_REPLAY_ROWS, "a row for every function the meter counts");

struct gm_replay_options {
    enum gm_via via;
    const char *driver_path;               /* NULL: the process's libcuda.so.1 */
    const char *settings[GM_SETTINGS_MAX]; /* "name=value", checked */
    size_t setting_count;
    double scale;
    double rate; /* calls a second; 0: as many as possible */
    bool verify;
    bool latency;
    size_t latency_from; /* operations before this one are not timed */
    bool json;
    bool iterations; /* report each */
    bool calls;      /* report each driver function */
    bool progress;
    int device;
};

/* What had been done by some moment. */
struct gm_replay_mark {
    uint64_t calls;
    uint64_t memory_calls; /* those of them that manage memory: cuMem... */
    uint64_t driver_ns;
    uint64_t trace_ns;
    uint64_t ops;
    uint64_t calls_ns; /* as gm_replay_result.calls_ns */
};

/* Invariant: figures of an iteration are differences of neighbouring marks; marks has iterations + 1 elements. */
struct gm_replay_result {
    uint64_t ops;
    uint64_t oom;            /* allocations refused */
    uint64_t peak_requested; /* of the blocks that were served */
    uint64_t peak_reserved;  /* at the driver boundary */
    uint64_t peak_in_use;    /* by the driver's own account, above what was in use before; 0: not known */
    uint64_t peak_mappings;
    uint64_t va_bytes;
    uint64_t calls_ns;      /* in the allocator's calls, without driver time where that can be told apart */
    bool calls_have_driver; /* it could not: calls_ns contains the driver's own host time */
    uint64_t driver_ns;     /* over the whole replay */
    uint64_t driver_calls;
    bool simulated;
    bool counted; /* driver calls, mappings and address space are known */
    struct gm_replay_mark *marks;
    size_t iterations;
    double latency_ns[3]; /* p50, p99, p99.9 of calls without driver work; with --latency */
    uint64_t verify_errors;
    uint64_t violations;                      /* misuse the simulated driver saw */
    struct gm_meter_row rows[GM_REPLAY_ROWS]; /* one a driver function */
    size_t row_count;
};

enum { GM_REPLAY_MESSAGE = 320 };

/*
 * Replays @trace. @name is for the progress bar. -errno with the reason in @message; *out is to be finished after
 * success only.
 */
int gm_replay_run(const struct gm_trace *trace, const char *name, const struct gm_replay_options *options,
                  struct gm_replay_result *out, char message[GM_REPLAY_MESSAGE]);

void gm_replay_result_finish(struct gm_replay_result *result);

/* One trace's line of JSON, or row of the table. @path is the file; @width the room for names in the table. */
void gm_replay_print_json(const char *path, const struct gm_replay_options *options,
                          const struct gm_replay_result *result);
void gm_replay_print_heading(int width);
void gm_replay_print_row(const char *path, int width, const struct gm_replay_options *options,
                         const struct gm_replay_result *result);

/* The trace's name: its file name without directory and ".gz". At most @size - 1 bytes into @out. */
void gm_replay_trace_name(const char *path, char *out, size_t size);

#endif
