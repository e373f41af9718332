/*
 * entry.c - the exported functions, their counts and their log.
 */
#include "entry.h"

#include "capture.h"
#include "clock.h"
#include "config.h"
#include "context.h"
#include "faults.h"
#include "leaks.h"
#include "report.h"
#include "simcuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* All of these under the lock. */
static bool configured;
static bool initialised;
static bool forked; /* from a process that had initialised */
static bool ended;
static bool in_callback;
static FILE *log_file;
static enum sim_function serving;
static bool has_output;
static uint64_t output;
static uint64_t charged_before;

static struct {
    uint64_t calls;
    uint64_t ns;
} counts[SIM_FUNCTION_COUNT];

void sim_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void end(void);

bool sim_forked(void)
{
    return forked;
}

bool sim_initialised(void)
{
    return initialised;
}

void sim_set_initialised(void)
{
    initialised = true;
    atexit(end);
}

void sim_set_callback(bool running)
{
    in_callback = running;
}

const char *sim_entry_name(void)
{
    return sim_rows[serving].symbol;
}

void sim_log_output(uint64_t value)
{
    has_output = true;
    output = value;
}

/* ---- life of the library ---- */

/* A child of fork has no driver: as with the real one, it may only exec or exit. */
static void after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    forked = forked || initialised;
    initialised = false;
    sim_config.leaks = false;
}

static void open_log(void)
{
    if (sim_config.log == NULL) {
        return;
    }
    log_file = strcmp(sim_config.log, "-") == 0 ? stderr : fopen(sim_config.log, "we");
    if (log_file == NULL) {
        fprintf(stderr, "simcuda: SIMCUDA_LOG=%s: cannot be opened: %s\n", sim_config.log, strerror(errno));
    }
}

static void configure(void)
{
    configured = true;
    sim_config_read();
    pthread_atfork(NULL, NULL, after_fork);
    open_log();
    if (sim_config.fail != NULL) {
        sim_fault_parse(sim_config.fail);
    }
}

/* Runs at exit, before what the program registered earlier than cuInit: as with the real driver, that comes too late.
 */
static void end(void)
{
    sim_lock();
    if (initialised && sim_config.leaks) {
        sim_leaks_tell();
    }
    if (log_file != NULL) {
        fflush(log_file);
    }
    ended = true;
    sim_unlock();
}

/* ---- one call ---- */

static CUresult check_context(void)
{
    const struct sim_context *context = sim_context_current();
    if (context == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return context->alive ? context->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult check_needs(unsigned traits)
{
    if (traits & SIM_EARLY) {
        return CUDA_SUCCESS;
    }
    if (ended) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    if (in_callback) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (!initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    sim_stream_settle();
    CUresult result = traits & SIM_CURRENT ? check_context() : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && (traits & SIM_UNSAFE)) {
        result = sim_capture_forbids();
    }
    return result;
}

static CUresult enter(enum sim_function function, bool per_thread)
{
    sim_lock();
    if (!configured) {
        configure();
    }
    serving = function;
    has_output = false;
    charged_before = sim_clock_charged();
    counts[function].calls++;
    sim_thread.per_thread = per_thread;
    CUresult fault = sim_fault_check(function);
    return fault != CUDA_SUCCESS ? fault : check_needs(sim_rows[function].traits);
}

static void write_log(bool per_thread, CUresult result, const uint64_t *values, size_t count)
{
    fprintf(log_file, "%12llu %s%s(", (unsigned long long)(sim_clock_now() / 1000), sim_rows[serving].symbol,
            per_thread ? " [per-thread]" : "");
    for (size_t i = 0; i < count; i++) {
        fprintf(log_file, values[i] < 1024 ? "%s%llu" : "%s%#llx", i > 0 ? ", " : "", (unsigned long long)values[i]);
    }
    fprintf(log_file, ") = %d", (int)result);
    if (has_output && result == CUDA_SUCCESS) {
        fprintf(log_file, " -> %#llx", (unsigned long long)output);
    }
    fputc('\n', log_file);
}

static CUresult leave(enum sim_function function, bool per_thread, CUresult result, const uint64_t *values,
                      size_t count)
{
    serving = function;
    counts[function].ns += sim_clock_charged() - charged_before;
    if (log_file != NULL) {
        write_log(per_thread, result, values, count);
    }
    sim_unlock();
    return result;
}

/* ---- the exported bodies ---- */

/* Arguments as numbers, for the log. STRUCT: has one passed by value, not logged. */
#define V(x)                          (uint64_t)(uintptr_t)(x)
#define VALUES_0(...)                 NULL, 0
#define VALUES_STRUCT(...)            NULL, 0
#define VALUES_1(a)                   (const uint64_t[]){V(a)}, 1
#define VALUES_2(a, b)                (const uint64_t[]){V(a), V(b)}, 2
#define VALUES_3(a, b, c)             (const uint64_t[]){V(a), V(b), V(c)}, 3
#define VALUES_4(a, b, c, d)          (const uint64_t[]){V(a), V(b), V(c), V(d)}, 4
#define VALUES_5(a, b, c, d, e)       (const uint64_t[]){V(a), V(b), V(c), V(d), V(e)}, 5
#define VALUES_6(a, b, c, d, e, f)    (const uint64_t[]){V(a), V(b), V(c), V(d), V(e), V(f)}, 6
#define VALUES_7(a, b, c, d, e, f, g) (const uint64_t[]){V(a), V(b), V(c), V(d), V(e), V(f), V(g)}, 7

#define BODY(symbol, per_thread, count, ...)                                                                           \
    {                                                                                                                  \
        CUresult result = enter(SIM_##symbol, per_thread);                                                             \
        if (result == CUDA_SUCCESS) {                                                                                  \
            result = sim_##symbol(__VA_ARGS__);                                                                        \
        }                                                                                                              \
        return leave(SIM_##symbol, per_thread, result, VALUES_##count(__VA_ARGS__));                                   \
    }

#define VARIANT_NONE(symbol, parameters, count, ...)
#define VARIANT_PTDS(symbol, parameters, count, ...)                                                                   \
    EXPORT CUresult CUDAAPI symbol##_ptds parameters BODY(symbol, true, count, __VA_ARGS__)
#define VARIANT_PTSZ(symbol, parameters, count, ...)                                                                   \
    EXPORT CUresult CUDAAPI symbol##_ptsz parameters BODY(symbol, true, count, __VA_ARGS__)

#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, count, ...)                                     \
    EXPORT CUresult CUDAAPI symbol parameters BODY(symbol, false, count, __VA_ARGS__)                                  \
        VARIANT_##variant(symbol, parameters, count, __VA_ARGS__)
#include "exports.def"
#undef SIM_FUNCTION

#define ADDRESS_NONE(symbol) NULL
#define ADDRESS_PTDS(symbol) (sim_address *)symbol##_ptds
#define ADDRESS_PTSZ(symbol) (sim_address *)symbol##_ptsz

const struct sim_row sim_rows[SIM_FUNCTION_COUNT] = {
#define SIM_FUNCTION(base_, symbol_, since_, variant, traits_, parameters, ...)                                        \
    {.base = #base_,                                                                                                   \
     .symbol = #symbol_,                                                                                               \
     .since = since_,                                                                                                  \
     .traits = traits_,                                                                                                \
     .address = (sim_address *)symbol_,                                                                                \
     .per_thread = ADDRESS_##variant(symbol_)},
#include "exports.def"
#undef SIM_FUNCTION
};

/* ---- simcuda.h ---- */

EXPORT uint64_t simcuda_now_ns(void)
{
    sim_lock();
    uint64_t now = sim_clock_now();
    sim_unlock();
    return now;
}

EXPORT void simcuda_advance_to_ns(uint64_t ns)
{
    sim_lock();
    sim_clock_wait(ns);
    sim_stream_settle();
    sim_unlock();
}

EXPORT int simcuda_query_device(int ordinal, struct simcuda_device *out)
{
    sim_lock();
    const struct sim_device *device = initialised ? sim_device_at(ordinal) : NULL;
    if (device != NULL) {
        *out = (struct simcuda_device){.capacity = device->capacity,
                                       .in_use = device->in_use,
                                       .in_use_peak = device->in_use_peak,
                                       .handles = device->handles,
                                       .mappings = device->mappings,
                                       .mappings_peak = device->mappings_peak,
                                       .va_bytes = device->va_bytes,
                                       .va_peak = device->va_peak};
    }
    sim_unlock();
    return device == NULL ? -1 : 0;
}

EXPORT size_t simcuda_query_calls(struct simcuda_call *out, size_t max)
{
    sim_lock();
    size_t rows = 0;
    for (size_t i = 0; i < SIM_FUNCTION_COUNT; i++) {
        if (counts[i].calls == 0) {
            continue;
        }
        if (rows < max) {
            out[rows] = (struct simcuda_call){.name = sim_rows[i].symbol, .calls = counts[i].calls, .ns = counts[i].ns};
        }
        rows++;
    }
    sim_unlock();
    return rows;
}

EXPORT void simcuda_reset_counts(void)
{
    sim_lock();
    memset(counts, 0, sizeof counts);
    sim_device_reset_peaks();
    sim_unlock();
}

EXPORT void simcuda_fail(const char *name, unsigned nth, int code)
{
    sim_lock();
    sim_fault_set(name, nth, (CUresult)code);
    sim_unlock();
}

EXPORT unsigned simcuda_violations(void)
{
    sim_lock();
    unsigned count = sim_report_count();
    sim_unlock();
    return count;
}
