/*
 * device.h - the simulated driver as the stress programs use it: functions the core does not call, faults, leaks.
 *
 * CONCURRENCY  the table is fixed once gm_device_open() has returned; every function may be called from any thread.
 */
#ifndef GM_STRESS_DEVICE_H
#define GM_STRESS_DEVICE_H

#include "simcuda.h"

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* STRESS_SYMBOL(field, "exported name", result, parameters) */
#define STRESS_SYMBOLS                                                                                                 \
    STRESS_SYMBOL(init, "cuInit", CUresult, (unsigned flags))                                                          \
    STRESS_SYMBOL(retain, "cuDevicePrimaryCtxRetain", CUresult, (CUcontext * context, CUdevice device))                \
    STRESS_SYMBOL(set_current, "cuCtxSetCurrent", CUresult, (CUcontext context))                                       \
    STRESS_SYMBOL(synchronise, "cuCtxSynchronize", CUresult, (void))                                                   \
    STRESS_SYMBOL(memory_info, "cuMemGetInfo_v2", CUresult, (size_t * left, size_t * total))                           \
    STRESS_SYMBOL(stream_create, "cuStreamCreate", CUresult, (CUstream * stream, unsigned flags))                      \
    STRESS_SYMBOL(stream_destroy, "cuStreamDestroy_v2", CUresult, (CUstream stream))                                   \
    STRESS_SYMBOL(stream_synchronise, "cuStreamSynchronize", CUresult, (CUstream stream))                              \
    STRESS_SYMBOL(stream_wait, "cuStreamWaitEvent", CUresult, (CUstream stream, CUevent event, unsigned flags))        \
    STRESS_SYMBOL(event_create, "cuEventCreate", CUresult, (CUevent * event, unsigned flags))                          \
    STRESS_SYMBOL(event_destroy, "cuEventDestroy_v2", CUresult, (CUevent event))                                       \
    STRESS_SYMBOL(event_record, "cuEventRecordWithFlags", CUresult, (CUevent event, CUstream stream, unsigned flags))  \
    STRESS_SYMBOL(fill_words, "cuMemsetD32Async", CUresult,                                                            \
                  (CUdeviceptr to, unsigned value, size_t count, CUstream stream))                                     \
    STRESS_SYMBOL(fill_bytes, "cuMemsetD8Async", CUresult,                                                             \
                  (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                                \
    STRESS_SYMBOL(now_ns, "simcuda_now_ns", uint64_t, (void))                                                          \
    STRESS_SYMBOL(advance_to_ns, "simcuda_advance_to_ns", void, (uint64_t ns))                                         \
    STRESS_SYMBOL(query_device, "simcuda_query_device", int, (int ordinal, struct simcuda_device *out))                \
    STRESS_SYMBOL(query_calls, "simcuda_query_calls", size_t, (struct simcuda_call * out, size_t most))                \
    STRESS_SYMBOL(reset_counts, "simcuda_reset_counts", void, (void))                                                  \
    STRESS_SYMBOL(fail_call, "simcuda_fail", void, (const char *name, unsigned nth, int code))                         \
    STRESS_SYMBOL(violations, "simcuda_violations", unsigned, (void))

struct gm_device {
#define STRESS_SYMBOL(field, name, result, parameters) result(*field) parameters;
    STRESS_SYMBOLS
#undef STRESS_SYMBOL
    CUcontext context;
};

extern struct gm_device device;

/* Prints what the arguments say, where, and how to come here again; ends the process with 1. */
_Noreturn void gm_device_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What gm_device_fail() prints as the way to come here again. */
extern char gm_device_recipe[256];

#define fail(...) gm_device_fail(__FILE__, __LINE__, __VA_ARGS__)

/* The driver call works: for calls of the test itself. */
#define works(call)                                                                                                    \
    do {                                                                                                               \
        int code_ = (int)(call);                                                                                       \
        if (code_ != 0) {                                                                                              \
            fail("%s gives %d", #call, code_);                                                                         \
        }                                                                                                              \
    } while (0)

/*
 * Loads the simulated driver at @path with @memory bytes and work that completes up to @delay_us late, makes it the
 * core's driver, and makes a context of device 0 current.
 */
void gm_device_open(const char *path, uint64_t memory, unsigned delay_us);

/* The path of the simulated driver of this build; NULL: GMLAKE_TEST_SIMCUDA_DIR is not set. */
const char *gm_device_path(void);

/* Nothing is held on the device, and no call misused it. */
void gm_device_expect_empty(void);
void gm_device_expect_no_violation(void);

/* A fast generator, the same sequence for the same seed (xorshift64*). */
uint64_t gm_random(uint64_t *state);

static inline uint64_t gm_random_below(uint64_t *state, uint64_t bound)
{
    return bound == 0 ? 0 : gm_random(state) % bound;
}

#endif
