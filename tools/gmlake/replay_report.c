/*
 * replay_report.c - what a replay found, for programs (JSON) and for people (a table).
 */
#include "json.h"
#include "replay.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The iterations before this one are the start: the steady state is judged from here on. */
enum { STEADY_FROM = 3 };

void gm_replay_trace_name(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t length = strlen(name);
    if (length > 3 && strcmp(name + length - 3, ".gz") == 0) {
        length -= 3;
    }
    snprintf(out, size, "%.*s", (int)length, name);
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : NAN;
}

static double calls_of(const struct gm_replay_result *result, size_t iteration)
{
    return (double)(result->marks[iteration + 1].calls - result->marks[iteration].calls);
}

static double memory_calls_of(const struct gm_replay_result *result, size_t iteration)
{
    return (double)(result->marks[iteration + 1].memory_calls - result->marks[iteration].memory_calls);
}

static double us_of(const struct gm_replay_result *result, size_t iteration)
{
    return (double)(result->marks[iteration + 1].driver_ns - result->marks[iteration].driver_ns) / 1e3;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* CPU time a call, of the iteration. */
static double ns_of(const struct gm_replay_result *result, size_t iteration)
{
    const struct gm_replay_mark *from = &result->marks[iteration];
    return ratio(from[1].calls_ns - from[0].calls_ns, from[1].ops - from[0].ops);
}

/* The median of a figure over the last half of the iterations. */
static double steady(const struct gm_replay_result *result,
                     double (*figure)(const struct gm_replay_result *result, size_t iteration))
{
    size_t first = result->iterations / 2;
    size_t count = result->iterations - first;
    double *values = calloc(count, sizeof *values);
    if (values == NULL) {
        return NAN;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = figure(result, first + i);
    }
    qsort(values, count, sizeof *values, compare_doubles);
    double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    free(values);
    return median;
}

/* Driver time after the third iteration, in percent of the time the trace took there. */
static double later_percent(const struct gm_replay_result *result)
{
    if (result->iterations <= STEADY_FROM) {
        return NAN;
    }
    const struct gm_replay_mark *from = &result->marks[STEADY_FROM];
    const struct gm_replay_mark *to = &result->marks[result->iterations];
    double traced = (double)(to->trace_ns - from->trace_ns);
    return traced > 0 ? 100 * (double)(to->driver_ns - from->driver_ns) / traced : NAN;
}

static double ns_per_op(const struct gm_replay_result *result)
{
    return ratio(result->calls_ns, result->ops);
}

/* Driver time included; where the wall time has it already (a real driver, not metered), that is it. */
static double ns_per_op_driver(const struct gm_replay_result *result)
{
    bool add = !(result->calls_have_driver && !result->simulated);
    return ratio(result->calls_ns + (add ? result->driver_ns : 0), result->ops);
}

/* A figure that is only known where driver calls are counted. */
static void counted(struct gm_json *json, const struct gm_replay_result *result, const char *key, uint64_t value)
{
    if (result->counted) {
        gm_json_integer(json, key, value);
    } else {
        gm_json_null(json, key);
    }
}

static void print_iterations(struct gm_json *json, const struct gm_replay_result *result)
{
    gm_json_array(json, "iteration_driver_calls");
    for (size_t i = 0; i < result->iterations; i++) {
        gm_json_number(json, NULL, calls_of(result, i), 0);
    }
    gm_json_end_array(json);
    gm_json_array(json, "iteration_driver_us");
    for (size_t i = 0; i < result->iterations; i++) {
        gm_json_number(json, NULL, us_of(result, i), 1);
    }
    gm_json_end_array(json);
    gm_json_array(json, "iteration_ns_per_op");
    for (size_t i = 0; i < result->iterations; i++) {
        gm_json_number(json, NULL, ns_of(result, i), 1);
    }
    gm_json_end_array(json);
}

static void print_calls(struct gm_json *json, const struct gm_replay_result *result)
{
    gm_json_object(json, "calls");
    for (size_t i = 0; i < result->row_count; i++) {
        if (result->rows[i].calls > 0) {
            gm_json_object(json, result->rows[i].name);
            gm_json_integer(json, "calls", result->rows[i].calls);
            gm_json_number(json, "us", (double)result->rows[i].ns / 1e3, 1);
            gm_json_end_object(json);
        }
    }
    gm_json_end_object(json);
}

/* The fields of the contract (see the help of `gmlake replay`). */
static void print_contract(struct gm_json *json, const char *path, const struct gm_replay_result *result)
{
    char name[256];
    gm_replay_trace_name(path, name, sizeof name);
    gm_json_string(json, "trace", name);
    gm_json_integer(json, "ops", result->ops);
    gm_json_integer(json, "peak_requested_bytes", result->peak_requested);
    if (result->counted || result->peak_reserved > 0) {
        gm_json_integer(json, "peak_reserved_bytes", result->peak_reserved);
    } else {
        gm_json_null(json, "peak_reserved_bytes");
    }
    gm_json_number(json, "efficiency", ratio(result->peak_requested, result->peak_reserved), 5);
    gm_json_number(json, "ns_per_op", ns_per_op(result), 1);
    gm_json_number(json, "ns_per_op_driver", ns_per_op_driver(result), 1);
    gm_json_number(json, "first_iteration_driver_us", us_of(result, 0), 1);
    gm_json_number(json, "steady_driver_calls", result->counted ? steady(result, calls_of) : NAN, 1);
    gm_json_number(json, "steady_driver_us", steady(result, us_of), 1);
    counted(json, result, "peak_mappings", result->peak_mappings);
    counted(json, result, "va_bytes", result->va_bytes);
    gm_json_integer(json, "oom", result->oom);
}

void gm_replay_print_json(const char *path, const struct gm_replay_options *options,
                          const struct gm_replay_result *result)
{
    struct gm_json json = {.file = stdout};
    gm_json_object(&json, NULL);
    print_contract(&json, path, result);
    gm_json_number(&json, "efficiency_by_driver_free",
                   result->peak_in_use > 0 ? ratio(result->peak_requested, result->peak_in_use) : NAN, 5);
    gm_json_string(&json, "file", path);
    gm_json_string(&json, "via", options->via == GM_VIA_CORE ? "core" : "driver");
    gm_json_boolean(&json, "simulated", result->simulated);
    gm_json_number(&json, "scale", options->scale, 6);
    gm_json_integer(&json, "iterations", result->iterations);
    gm_json_number(&json, "later_percent", later_percent(result), 4);
    gm_json_number(&json, "steady_memory_calls", result->counted ? steady(result, memory_calls_of) : NAN, 1);
    gm_json_number(&json, "last_driver_calls", result->counted ? calls_of(result, result->iterations - 1) : NAN, 0);
    counted(&json, result, "driver_calls", result->driver_calls);
    gm_json_number(&json, "driver_us", (double)result->driver_ns / 1e3, 1);
    if (options->latency) {
        gm_json_number(&json, "p50_ns", result->latency_ns[0], 0);
        gm_json_number(&json, "p99_ns", result->latency_ns[1], 0);
        gm_json_number(&json, "p99_9_ns", result->latency_ns[2], 0);
    }
    if (options->verify) {
        gm_json_integer(&json, "verify_errors", result->verify_errors);
    }
    if (result->simulated) {
        gm_json_integer(&json, "driver_violations", result->violations);
    }
    if (options->iterations) {
        print_iterations(&json, result);
    }
    if (options->calls) {
        print_calls(&json, result);
    }
    gm_json_end_object(&json);
    putchar('\n');
}

void gm_replay_print_heading(int width)
{
    printf("%-*s %10s %12s %12s %9s %8s %8s %8s %8s %6s\n", width, "trace", "efficiency", "requested", "reserved",
           "first ms", "later %", "calls/it", "ns/call", "mappings", "oom");
}

/* A number, or a dash where it is not known. */
static void print_cell(int width, double value, int digits)
{
    if (isfinite(value)) {
        printf(" %*.*f", width, digits, value);
    } else {
        printf(" %*s", width, "-");
    }
}

static void print_row_details(const struct gm_replay_options *options, const struct gm_replay_result *result)
{
    if (options->latency) {
        printf("    calls without driver work: p50 %.0f ns, p99 %.0f ns, p99.9 %.0f ns\n", result->latency_ns[0],
               result->latency_ns[1], result->latency_ns[2]);
    }
    for (size_t i = 0; options->iterations && i < result->iterations; i++) {
        printf("    iteration %-5zu %8.0f driver calls %12.1f us %8.1f ns/call\n", i + 1, calls_of(result, i),
               us_of(result, i), ns_of(result, i));
    }
    for (size_t i = 0; options->calls && i < result->row_count; i++) {
        if (result->rows[i].calls > 0) {
            printf("    %-32s %10llu calls %14.1f us\n", result->rows[i].name,
                   (unsigned long long)result->rows[i].calls, (double)result->rows[i].ns / 1e3);
        }
    }
}

void gm_replay_print_row(const char *path, int width, const struct gm_replay_options *options,
                         const struct gm_replay_result *result)
{
    char name[256];
    char requested[GM_TEXT_SIZE], reserved[GM_TEXT_SIZE];
    gm_replay_trace_name(path, name, sizeof name);
    gm_text_size(result->peak_requested, requested);
    gm_text_size(result->peak_reserved, reserved);
    printf("%-*s", width, name);
    print_cell(10, ratio(result->peak_requested, result->peak_reserved), 4);
    printf(" %12s %12s", requested, reserved);
    print_cell(9, us_of(result, 0) / 1e3, 1);
    print_cell(8, later_percent(result), 2);
    print_cell(8, result->counted ? steady(result, calls_of) : NAN, 0);
    print_cell(8, ns_per_op(result), 0);
    print_cell(8, result->counted ? (double)result->peak_mappings : NAN, 0);
    printf(" %6llu\n", (unsigned long long)result->oom);
    print_row_details(options, result);
}
