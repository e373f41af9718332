/*
 * bench_alloc.c - CPU time of the core's calls, driver time excluded, on made-up loads.
 *
 * LOADS        pair: allocate and free one block of a size, over and over; the block is always there.
 *              replace: with N blocks live, free a random one and allocate another; sizes spread evenly over the
 *              octaves of a range.
 * STRUCTURE    Each load is made as a trace in memory and measured by the machinery of `gmlake replay`, on the
 *              simulated driver, which costs nothing where the allocator makes no driver call.
 * USE          bench_alloc [--json] [--quick]; --quick is a hundredth of the work.
 */
#include "json.h"
#include "paths.h"
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct load {
    const char *name;
    uint64_t smallest, largest; /* block sizes */
    size_t live;                /* blocks live; 0: the pair */
    size_t calls;               /* measured */
};

#define KB(n) ((uint64_t)(n) << 10)
#define MB(n) ((uint64_t)(n) << 20)
#define PAIR(bytes)                                                                                                    \
    {                                                                                                                  \
        "pair", bytes, bytes, 0, 400000                                                                                \
    }
#define REPLACE(smallest, largest, live)                                                                               \
    {                                                                                                                  \
        "replace", smallest, largest, live, 1000000                                                                    \
    }

static const struct load loads[] = {
    PAIR(512),
    PAIR(KB(4)),
    PAIR(KB(32)),
    PAIR(KB(256)),
    PAIR(MB(1)),
    PAIR(MB(4)),
    PAIR(MB(16)),
    PAIR(MB(64)),
    PAIR(MB(256)),
    PAIR(MB(1024)),
    REPLACE(512, 512, 1000),
    REPLACE(512, 512, 10000),
    REPLACE(512, 512, 100000),
    REPLACE(512, 512, 1000000),
    REPLACE(512, KB(32), 1000),
    REPLACE(512, KB(32), 10000),
    REPLACE(512, KB(32), 100000),
    REPLACE(512, KB(32), 1000000),
    REPLACE(512, MB(1), 1000),
    REPLACE(512, MB(1), 10000),
    REPLACE(512, MB(1), 100000),
    REPLACE(KB(64), MB(32), 1000),
    REPLACE(KB(64), MB(32), 10000),
};

/* A small fast generator, the same sequence every run (xorshift64*). */
static uint64_t next_random(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

static uint64_t random_size(const struct load *load)
{
    if (load->smallest == load->largest) {
        return load->smallest;
    }
    double octaves = log2((double)load->largest / (double)load->smallest);
    double share = (double)(next_random() >> 11) / (double)(1ull << 53);
    return (uint64_t)((double)load->smallest * exp2(octaves * share));
}

static void add_op(struct gm_trace *trace, uint32_t block, uint64_t bytes, bool frees)
{
    trace->ops[trace->op_count] = (struct gm_trace_op){bytes, trace->op_count * 1000, block, 0, frees};
    trace->op_count++;
}

/* @calls operations on one block that comes and goes. */
static void make_pair(const struct load *load, size_t calls, struct gm_trace *trace)
{
    trace->blocks = (uint32_t)(calls / 2);
    for (uint32_t block = 0; block < trace->blocks; block++) {
        add_op(trace, block, load->smallest, false);
        add_op(trace, block, load->smallest, true);
    }
}

/* @load->live blocks, then @calls operations that replace random ones; -1: no memory. */
static int make_replace(const struct load *load, size_t calls, struct gm_trace *trace)
{
    size_t live = load->live;
    struct gm_trace_op *current = calloc(live, sizeof *current);
    if (current == NULL) {
        return -1;
    }
    for (uint32_t block = 0; block < live; block++) {
        add_op(trace, block, random_size(load), false);
        current[block] = trace->ops[trace->op_count - 1];
    }
    trace->blocks = (uint32_t)live;
    for (size_t i = 0; i < calls / 2; i++) {
        struct gm_trace_op *victim = &current[next_random() % live];
        add_op(trace, victim->block, victim->bytes, true);
        add_op(trace, trace->blocks++, random_size(load), false);
        *victim = trace->ops[trace->op_count - 1];
    }
    free(current);
    return 0;
}

/* The load as a trace of three iterations: what comes before, a warm-up as long as what is measured, and that. */
static int make_trace(const struct load *load, size_t calls, struct gm_trace *trace)
{
    size_t total = load->live + 2 * calls;
    *trace = (struct gm_trace){.streams = 1};
    trace->ops = calloc(total, sizeof *trace->ops);
    trace->marks = calloc(3, sizeof *trace->marks);
    if (trace->ops == NULL || trace->marks == NULL) {
        return -1;
    }
    if (load->live == 0) {
        make_pair(load, 2 * calls, trace);
    } else if (make_replace(load, 2 * calls, trace) < 0) {
        return -1;
    }
    trace->marks[0] = load->live;
    trace->marks[1] = load->live + calls;
    trace->marks[2] = trace->op_count;
    trace->mark_count = 3;
    trace->peak_bytes = gm_trace_peak(trace, NULL);
    return 0;
}

static void report(const struct load *load, const struct gm_replay_result *plain, const struct gm_replay_result *timed,
                   bool as_json)
{
    const struct gm_replay_mark *from = &plain->marks[2];
    const struct gm_replay_mark *to = &plain->marks[3];
    double ns = (double)(to->calls_ns - from->calls_ns) / (double)(to->ops - from->ops);
    double driver_calls = (double)(to->calls - from->calls);
    double efficiency = (double)plain->peak_requested / (double)plain->peak_reserved;
    if (!as_json) {
        printf("%-8s %11llu %11llu %8zu %9.1f %7.0f %7.0f %7.0f %10.0f %11.4f\n", load->name,
               (unsigned long long)load->smallest, (unsigned long long)load->largest, load->live, ns,
               timed->latency_ns[0], timed->latency_ns[1], timed->latency_ns[2], driver_calls, efficiency);
        return;
    }
    struct gm_json json = {.file = stdout};
    gm_json_object(&json, NULL);
    gm_json_string(&json, "load", load->name);
    gm_json_integer(&json, "smallest_bytes", load->smallest);
    gm_json_integer(&json, "largest_bytes", load->largest);
    gm_json_integer(&json, "live_blocks", load->live);
    gm_json_number(&json, "ns_per_op", ns, 1);
    gm_json_number(&json, "p50_ns", timed->latency_ns[0], 0);
    gm_json_number(&json, "p99_ns", timed->latency_ns[1], 0);
    gm_json_number(&json, "p99_9_ns", timed->latency_ns[2], 0);
    gm_json_number(&json, "driver_calls", driver_calls, 0);
    gm_json_number(&json, "efficiency", efficiency, 4);
    gm_json_end_object(&json);
    putchar('\n');
}

static int measure(const struct load *load, size_t calls, const char *driver_path, bool as_json)
{
    struct gm_trace trace;
    struct gm_replay_result plain;
    struct gm_replay_result timed;
    char message[GM_REPLAY_MESSAGE] = "out of memory";
    struct gm_replay_options options = {.scale = 1, .driver_path = driver_path};
    int rc = make_trace(load, calls, &trace);
    if (rc == 0) {
        rc = gm_replay_run(&trace, load->name, &options, &plain, message);
    }
    if (rc == 0) {
        options.latency = true;
        options.latency_from = trace.marks[1];
        rc = gm_replay_run(&trace, load->name, &options, &timed, message);
        if (rc == 0) {
            report(load, &plain, &timed, as_json);
            gm_replay_result_finish(&timed);
        }
        gm_replay_result_finish(&plain);
    }
    gm_trace_finish(&trace);
    if (rc < 0) {
        fprintf(stderr, "bench_alloc: %s: %s\n", load->name, message);
    }
    return rc;
}

int main(int argc, char **argv)
{
    bool as_json = false;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        as_json |= strcmp(argv[i], "--json") == 0;
        quick |= strcmp(argv[i], "--quick") == 0;
        if (strcmp(argv[i], "--json") != 0 && strcmp(argv[i], "--quick") != 0) {
            fprintf(stderr, "usage: bench_alloc [--json] [--quick]\n");
            return 2;
        }
    }
    char path[PATH_MAX];
    if (gm_path_of_library(GM_SIMULATED_DRIVER, path) < 0) {
        fprintf(stderr, "bench_alloc: no simulated driver at %s\n", path);
        return 1;
    }
    setenv("SIMCUDA_BACKING", "0", 0);
    setenv("SIMCUDA_MEMORY", "1T", 0);
    if (!as_json) {
        printf("%-8s %11s %11s %8s %9s %7s %7s %7s %10s %11s\n", "load", "smallest", "largest", "live", "ns/call",
               "p50", "p99", "p99.9", "drv calls", "efficiency");
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        if (quick && loads[i].live > 10000) {
            continue;
        }
        failed |= measure(&loads[i], quick ? loads[i].calls / 100 : loads[i].calls, path, as_json) < 0;
        fflush(stdout);
    }
    return failed;
}
