/*
 * replay_run.c - one replay: opens a driver and a door, walks the trace, takes the figures.
 *
 * HOW IT MEASURES
 *   Driver     --via core: by the counting table of meter.h. --via driver: by the simulated driver's own counts; a
 *              real driver only tells its free memory, so calls and mappings stay unknown, and driver time is the
 *              time inside the calls.
 *   Reserved   handles created and plain allocations, as counted (real driver via driver: free memory).
 *   In use     the account of device_memory.h, above what was in use before the allocator was created: simcuda's own
 *              peak, or that of a real driver at the end of each slice of 1024 operations. Pools give nothing back in
 *              between (a replay does not synchronise), so slices see the peak.
 *   CPU time   for each slice, the wall time outside the counting wrappers or the thread's CPU time, whichever is less:
 *              so that neither the driver nor other programs' turns are in it. The time that the same loop takes with
 *              a door that does nothing is taken off.
 */
#include "device_memory.h"
#include "door.h"
#include "replay.h"
#include "ticks.h"
#include "verify.h"

#include <errno.h>
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE = 1024, RATED_SLICE = 8, AHEAD = 8, PROGRESS_STEPS = 200 };

/* Invariant: address[b] is the block's address while it is live and was served, else 0; failed[b]: it was refused. */
struct replay {
    const struct gm_trace *trace;
    const struct gm_replay_options *options;
    struct gm_replay_result *result;
    const char *name;
    char *message;
    struct gm_driver driver;
    struct gm_cu table; /* the core's driver, --via core */
    struct gm_door *door;
    uint64_t *address;
    bool *failed;
    uint32_t *latencies; /* ticks of calls without driver work; NULL: not asked for */
    size_t latency_count;
    uint64_t latency_overhead; /* ticks of timing nothing */
    struct gm_device_memory memory;
    uint64_t base_in_use;  /* before the allocator existed */
    uint64_t wall_ns;      /* of the loop */
    uint64_t calls_ns;     /* of the loop, without the driver where it is metered */
    uint64_t net_ns;       /* the most that calls_ns() has said */
    double loop_ns_per_op; /* of the loop alone */
    uint64_t started_ns;   /* of the wall clock, at the first operation */
    size_t shown;          /* progress steps printed */
};

static int fail(struct replay *replay, int rc, const char *what)
{
    snprintf(replay->message, GM_REPLAY_MESSAGE, "%s: %s (driver error %d)", what, gmlake_strerror(rc),
             gmlake_driver_error());
    return rc;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* A refused allocation. The replay goes on without the block, unless it is not for lack of memory. */
static int refused(struct replay *replay, const struct gm_trace_op *op, int rc)
{
    if (rc != -ENOMEM) {
        return rc;
    }
    replay->address[op->block] = 0;
    replay->failed[op->block] = true;
    replay->result->oom++;
    return 0;
}

/* Moves the virtual clock, for doors that go to the driver without passing the meter. */
typedef void advance_fn(uint64_t ns);

static void advance_nothing(uint64_t ns)
{
    (void)ns;
}

static advance_fn *advance_of(const struct replay *replay)
{
    bool unmetered = replay->options->via == GM_VIA_DRIVER || replay->options->verify;
    return unmetered && replay->driver.sim_advance_to_ns != NULL ? replay->driver.sim_advance_to_ns : advance_nothing;
}

/*
 * Has what the loop itself needs for the operations before @end that come soon: where it has to come from memory, the
 * call would wait for it, and only the loop alone would not. A program has the address that it frees.
 */
static inline void look_ahead(const struct replay *replay, const struct gm_trace_op *op, const struct gm_trace_op *end)
{
    const struct gm_trace_op *soon = op + AHEAD < end ? op + AHEAD : op;
    __builtin_prefetch(&replay->address[soon->block]);
    __builtin_prefetch(&replay->failed[soon->block]);
}

static inline __attribute__((always_inline)) int one_op(struct replay *replay, struct gm_door *door,
                                                        const struct gm_trace_op *op)
{
    CUstream stream = replay->driver.streams[op->stream];
    if (op->frees) {
        if (__builtin_expect(replay->failed[op->block], 0)) {
            return 0;
        }
        return door->free(door, op, stream, replay->address[op->block]);
    }
    int rc = door->alloc(door, op, stream, &replay->address[op->block]);
    return __builtin_expect(rc < 0, 0) ? refused(replay, op, rc) : 0;
}

/* The operations [first, end); stops at the first that fails. Time stands still when @advance does nothing. */
static int replay_slice(struct replay *replay, struct gm_door *door, size_t first, size_t end)
{
    const struct gm_trace_op *past = replay->trace->ops + end;
    for (const struct gm_trace_op *op = replay->trace->ops + first; op < past; op++) {
        look_ahead(replay, op, past);
        gm_meter.trace_ns = op->time_ns;
        int rc = one_op(replay, door, op);
        if (__builtin_expect(rc < 0, 0)) {
            return rc;
        }
    }
    return 0;
}

/* The same, moving the driver's clock before each operation. */
static int replay_slice_clocked(struct replay *replay, struct gm_door *door, size_t first, size_t end,
                                advance_fn *advance)
{
    const struct gm_trace_op *past = replay->trace->ops + end;
    for (const struct gm_trace_op *op = replay->trace->ops + first; op < past; op++) {
        look_ahead(replay, op, past);
        gm_meter.trace_ns = op->time_ns;
        advance(door == &gm_door_nothing ? 0 : op->time_ns);
        int rc = one_op(replay, door, op);
        if (__builtin_expect(rc < 0, 0)) {
            return rc;
        }
    }
    return 0;
}

/* The same, timing each call and keeping the times of those that made no driver call. */
static int replay_slice_timed(struct replay *replay, struct gm_door *door, size_t first, size_t end,
                              advance_fn *advance)
{
    const struct gm_trace_op *from = replay->trace->ops + replay->options->latency_from;
    const struct gm_trace_op *past = replay->trace->ops + end;
    for (const struct gm_trace_op *op = replay->trace->ops + first; op < past; op++) {
        look_ahead(replay, op, past);
        gm_meter.trace_ns = op->time_ns;
        advance(door == &gm_door_nothing ? 0 : op->time_ns);
        uint64_t calls = gm_meter.calls;
        uint64_t start = gm_ticks();
        int rc = one_op(replay, door, op);
        uint64_t ticks = gm_ticks() - start;
        if (__builtin_expect(rc < 0, 0)) {
            return rc;
        }
        if (gm_meter.calls == calls && op >= from) {
            replay->latencies[replay->latency_count++] = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
        }
    }
    return 0;
}

static int run_slice(struct replay *replay, struct gm_door *door, size_t first, size_t end)
{
    advance_fn *advance = advance_of(replay);
    if (replay->options->latency) {
        return replay_slice_timed(replay, door, first, end, advance);
    }
    return advance == advance_nothing ? replay_slice(replay, door, first, end)
                                      : replay_slice_clocked(replay, door, first, end, advance);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

/*
 * Time in the calls of the first @ops operations, without the loop around them. Never less than it was for fewer: where
 * calls are no slower than the loop was when it ran alone, they seem to take less than no time.
 */
static uint64_t calls_ns(struct replay *replay, uint64_t ops)
{
    uint64_t loop = (uint64_t)(replay->loop_ns_per_op * (double)ops);
    uint64_t net = replay->calls_ns > loop ? replay->calls_ns - loop : 0;
    replay->net_ns = net > replay->net_ns ? net : replay->net_ns;
    return replay->net_ns;
}

static struct gm_replay_mark take_mark(struct replay *replay, uint64_t ops)
{
    struct gm_replay_mark mark = {.trace_ns = replay->trace->ops[ops > 0 ? ops - 1 : 0].time_ns, .ops = ops};
    mark.calls_ns = calls_ns(replay, ops);
    if (replay->options->via == GM_VIA_CORE) {
        mark.calls = gm_meter.calls;
        mark.memory_calls = gm_meter.memory_calls;
        mark.driver_ns = gm_meter.driver_ns;
    } else if (gm_driver_simulated(&replay->driver)) {
        gm_driver_sum_calls(&replay->driver, &mark.calls, &mark.memory_calls, &mark.driver_ns);
    } else {
        mark.driver_ns = replay->wall_ns;
    }
    return mark;
}

/* What a real device has in use, at a moment when the reserved memory may be at its peak. */
static void sample_memory(struct replay *replay)
{
    uint64_t used;
    if (!gm_driver_simulated(&replay->driver) && gm_device_memory_used(&replay->memory, &used) == 0 &&
        used > replay->base_in_use && used - replay->base_in_use > replay->result->peak_in_use) {
        replay->result->peak_in_use = used - replay->base_in_use;
    }
}

static void show_progress(struct replay *replay, size_t done)
{
    size_t step = done * PROGRESS_STEPS / replay->trace->op_count;
    if (!replay->options->progress || step == replay->shown) {
        return;
    }
    static const char bar[] = "########################################";
    enum { WIDTH = sizeof bar - 1 };
    int filled = (int)(step * WIDTH / PROGRESS_STEPS);
    replay->shown = step;
    fprintf(stderr, "\r%-28.28s [%.*s%*s] %3zu %%", replay->name, filled, bar, WIDTH - filled, "",
            step * 100 / PROGRESS_STEPS);
    if (step == PROGRESS_STEPS) {
        fprintf(stderr, "\r\033[K");
    }
}

/* --rate: waits for the moment at which operation @next is due. */
static void keep_rate(const struct replay *replay, size_t next)
{
    if (replay->options->rate == 0) {
        return;
    }
    uint64_t due = (uint64_t)((double)next * 1e9 / replay->options->rate);
    uint64_t gone = gm_monotonic_ns() - replay->started_ns;
    if (due > gone) {
        uint64_t left = due - gone;
        nanosleep(&(struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)}, NULL);
    }
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* One slice, with both clocks running. */
static int timed_slice(struct replay *replay, size_t first, size_t end)
{
    uint64_t metered = gm_meter.wall_ns;
    uint64_t cpu = thread_cpu_ns();
    uint64_t start = gm_monotonic_ns();
    int rc = run_slice(replay, replay->door, first, end);
    uint64_t wall = gm_monotonic_ns() - start;
    cpu = thread_cpu_ns() - cpu;
    replay->wall_ns += wall;
    if (replay->options->via == GM_VIA_CORE) {
        /* Each is an upper bound: the first contains other programs' turns, the second the driver's CPU time. */
        wall -= gm_meter.wall_ns - metered;
        wall = cpu < wall ? cpu : wall;
    }
    replay->calls_ns += wall;
    return rc;
}

/* Walks [first, end) in slices, with the clock running only over the slices. */
static int replay_stretch(struct replay *replay, size_t first, size_t end)
{
    while (first < end) {
        size_t slice = replay->options->rate > 0 ? RATED_SLICE : SLICE;
        size_t next = first + slice < end ? first + slice : end;
        keep_rate(replay, first);
        int rc = timed_slice(replay, first, next);
        if (rc < 0) {
            return fail(replay, rc, "the allocator failed");
        }
        sample_memory(replay);
        show_progress(replay, next);
        first = next;
    }
    return 0;
}

/* The marks of the trace; a trace without any is one iteration. */
static size_t mark_count(const struct gm_trace *trace)
{
    return trace->mark_count > 0 ? trace->mark_count : 1;
}

static size_t mark_position(const struct gm_trace *trace, size_t iteration)
{
    return trace->mark_count > 0 ? trace->marks[iteration] : trace->op_count;
}

static int replay_iterations(struct replay *replay)
{
    const struct gm_trace *trace = replay->trace;
    struct gm_replay_result *result = replay->result;
    result->iterations = mark_count(trace);
    result->marks = calloc(result->iterations + 1, sizeof *result->marks);
    if (result->marks == NULL) {
        return fail(replay, -ENOMEM, "no room for the iterations");
    }
    result->marks[0].trace_ns = trace->ops[0].time_ns;
    replay->started_ns = gm_monotonic_ns();
    size_t done = 0;
    for (size_t i = 0; i < result->iterations; i++) {
        size_t end = mark_position(trace, i);
        int rc = replay_stretch(replay, done, end);
        if (rc < 0) {
            return rc;
        }
        done = end;
        result->marks[i + 1] = take_mark(replay, end);
    }
    return replay_stretch(replay, done, trace->op_count);
}

static int compare_latencies(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* The time that the given share of the calls did not exceed, in ticks; sorts them. */
static uint32_t latency_at(struct replay *replay, double share)
{
    qsort(replay->latencies, replay->latency_count, sizeof *replay->latencies, compare_latencies);
    return replay->latencies[(size_t)((double)(replay->latency_count - 1) * share)];
}

/* The loop's own time a call: the fastest of three passes through the door that does nothing. */
static void find_loop_overhead(struct replay *replay)
{
    uint64_t best = UINT64_MAX;
    for (int pass = 0; pass < 3; pass++) {
        uint64_t total = 0;
        replay->latency_count = 0;
        for (size_t first = 0; first < replay->trace->op_count; first += SLICE) {
            size_t left = replay->trace->op_count - first;
            uint64_t start = gm_monotonic_ns();
            run_slice(replay, &gm_door_nothing, first, first + (left < SLICE ? left : SLICE));
            total += gm_monotonic_ns() - start;
        }
        best = total < best ? total : best;
    }
    if (replay->latencies != NULL) {
        replay->latency_overhead = latency_at(replay, 0.5);
        replay->latency_count = 0;
    }
    replay->loop_ns_per_op = (double)best / (double)replay->trace->op_count;
}

static void take_latencies(struct replay *replay)
{
    static const double shares[] = {0.5, 0.99, 0.999};
    for (size_t i = 0; i < 3 && replay->latency_count > 0; i++) {
        uint64_t ticks = latency_at(replay, shares[i]);
        uint64_t overhead = replay->latency_overhead;
        replay->result->latency_ns[i] = gm_ticks_to_ns(ticks > overhead ? ticks - overhead : 0);
    }
}

static void take_rows(struct replay *replay)
{
    struct gm_replay_result *result = replay->result;
    if (replay->options->via == GM_VIA_CORE) {
        memcpy(result->rows, gm_meter.rows, sizeof gm_meter.rows);
        result->row_count = GM_METER_CALLS;
        return;
    }
    if (!gm_driver_simulated(&replay->driver)) {
        return;
    }
    struct simcuda_call calls[GM_REPLAY_ROWS];
    size_t count = replay->driver.sim_query_calls(calls, GM_REPLAY_ROWS);
    result->row_count = count < GM_REPLAY_ROWS ? count : GM_REPLAY_ROWS;
    for (size_t i = 0; i < result->row_count; i++) {
        result->rows[i] = (struct gm_meter_row){calls[i].name, calls[i].calls, calls[i].ns};
    }
}

/* What the driver and the meter have to say at the end. */
static void take_figures(struct replay *replay)
{
    struct gm_replay_result *result = replay->result;
    bool simulated = gm_driver_simulated(&replay->driver);
    bool core = replay->options->via == GM_VIA_CORE;
    struct gm_replay_mark last = take_mark(replay, replay->trace->op_count);
    struct simcuda_device device = {0};
    if (simulated && replay->driver.sim_query_device(replay->options->device, &device) == 0) {
        result->peak_in_use = device.in_use_peak - replay->base_in_use;
        result->violations = replay->driver.sim_violations != NULL ? replay->driver.sim_violations() : 0;
    }
    result->ops = replay->trace->op_count;
    result->simulated = simulated;
    result->counted = core || simulated;
    result->driver_calls = last.calls;
    result->driver_ns = last.driver_ns;
    result->peak_requested = gm_trace_peak(replay->trace, result->oom > 0 ? replay->failed : NULL);
    result->peak_reserved = core ? gm_meter.ledger.held_peak : result->peak_in_use;
    result->peak_mappings = core ? gm_meter.ledger.mappings_peak : device.mappings_peak;
    result->va_bytes = core ? gm_meter.ledger.va_peak : device.va_peak;
    result->calls_ns = last.calls_ns;
    result->calls_have_driver = !core;
    take_rows(replay);
    if (replay->latencies != NULL) {
        take_latencies(replay);
    }
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

static int open_core(struct replay *replay)
{
    int rc = gm_cu_load(replay->driver.path, &replay->table);
    if (rc < 0) {
        return fail(replay, rc, "the driver cannot be loaded for the core");
    }
    gm_meter_start(&replay->table, replay->driver.sim_advance_to_ns);
    for (size_t i = 0; i < replay->options->setting_count; i++) {
        char name[64];
        const char *equals = strchr(replay->options->settings[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - replay->options->settings[i]), replay->options->settings[i]);
        rc = gmlake_set_tunable(name, equals + 1);
        if (rc < 0) {
            return fail(replay, rc, name);
        }
    }
    rc = gm_door_core_open(replay->options->device, &replay->door);
    return rc < 0 ? fail(replay, rc, "the allocator cannot be created") : 0;
}

static int open_door(struct replay *replay)
{
    if (replay->driver.sim_reset_counts != NULL) {
        replay->driver.sim_reset_counts();
    }
    gm_device_memory_open(&replay->driver, &replay->memory);
    gm_device_memory_used(&replay->memory, &replay->base_in_use);
    int rc = 0;
    if (replay->options->via == GM_VIA_CORE) {
        rc = open_core(replay);
    } else {
        replay->door = gm_door_driver(&replay->driver);
        if (replay->door == NULL) {
            snprintf(replay->message, GM_REPLAY_MESSAGE, "the driver has no stream-ordered allocator");
            rc = -ENOTSUP;
        }
    }
    return rc;
}

static void free_live_blocks(struct replay *replay)
{
    for (size_t i = 0; i < replay->trace->op_count; i++) {
        const struct gm_trace_op *op = &replay->trace->ops[i];
        if (op->frees) {
            replay->failed[op->block] = true;
        }
    }
    for (size_t i = 0; i < replay->trace->op_count; i++) {
        const struct gm_trace_op *op = &replay->trace->ops[i];
        if (!op->frees && !replay->failed[op->block]) {
            replay->door->free(replay->door, op, replay->driver.streams[op->stream], replay->address[op->block]);
        }
    }
}

static int replay_verified(struct replay *replay)
{
    struct gm_door *inner = replay->door;
    int rc = gm_verify_open(replay->trace, &replay->driver, inner, &replay->door);
    if (rc < 0) {
        return fail(replay, rc, "no room to verify");
    }
    rc = replay_iterations(replay);
    if (rc == 0) {
        take_figures(replay);
        free_live_blocks(replay);
    }
    replay->result->verify_errors = gm_verify_errors(replay->door);
    gm_verify_close(replay->door);
    replay->door = inner;
    return rc;
}

static int replay_plain(struct replay *replay)
{
    find_loop_overhead(replay);
    memset(replay->address, 0, replay->trace->blocks * sizeof *replay->address);
    int rc = replay_iterations(replay);
    if (rc == 0) {
        take_figures(replay);
        free_live_blocks(replay);
    }
    return rc;
}

static int run_opened(struct replay *replay)
{
    int rc = open_door(replay);
    if (rc == 0) {
        rc = replay->options->verify ? replay_verified(replay) : replay_plain(replay);
    }
    if (replay->options->via == GM_VIA_CORE) {
        if (replay->door != NULL) {
            gm_door_core_close(replay->door);
        }
        gm_meter_stop();
    }
    return rc;
}

static int reserve_arrays(struct replay *replay)
{
    replay->address = calloc(replay->trace->blocks, sizeof *replay->address);
    replay->failed = calloc(replay->trace->blocks, sizeof *replay->failed);
    if (replay->options->latency) {
        replay->latencies = calloc(replay->trace->op_count, sizeof *replay->latencies);
    }
    bool all =
        replay->address != NULL && replay->failed != NULL && (!replay->options->latency || replay->latencies != NULL);
    return all ? 0 : fail(replay, -ENOMEM, "no host memory for the replay");
}

int gm_replay_run(const struct gm_trace *trace, const char *name, const struct gm_replay_options *options,
                  struct gm_replay_result *out, char message[GM_REPLAY_MESSAGE])
{
    struct gm_replay_result result = {0};
    struct replay replay = {.trace = trace, .options = options, .result = &result, .name = name, .message = message};
    int rc = reserve_arrays(&replay);
    if (rc == 0) {
        rc = gm_driver_open(options->driver_path, options->device, trace->streams, &replay.driver, message);
    }
    if (rc == 0) {
        rc = run_opened(&replay);
        gm_driver_close(&replay.driver);
    }
    free(replay.address);
    free(replay.failed);
    free(replay.latencies);
    if (rc < 0) {
        gm_replay_result_finish(&result);
        return rc;
    }
    *out = result;
    return 0;
}

void gm_replay_result_finish(struct gm_replay_result *result)
{
    free(result->marks);
    *result = (struct gm_replay_result){0};
}
