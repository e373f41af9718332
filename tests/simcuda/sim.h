/*
 * sim.h - fixture of the simulated driver's tests: each test body runs in a child process of its own.
 *
 * STRUCTURE    The driver reads its environment once in a process, so sim_run() forks, sets what the test wants, loads
 *              libcuda.so.1, runs the body and leaves by exit(), with the driver's end and its leak summary. What the
 *              child wrote to stderr comes back as text.
 *              In a body, assertions end the child with a message: cmocka's own would jump into the parent's loop.
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include "gmtest.h"
#include "simcuda.h"

#include <cuda.h>
#include <stdbool.h>

/* The functions of exports.def by their exported names; per-thread forms are looked up where needed. */
struct sim_driver {
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) CUresult(CUDAAPI *symbol) parameters;
#include "exports.def"
#undef SIM_FUNCTION
    void *library;
    uint64_t (*now_ns)(void);
    void (*advance_to_ns)(uint64_t ns);
    int (*query_device)(int ordinal, struct simcuda_device *out);
    size_t (*query_calls)(struct simcuda_call *out, size_t max);
    void (*reset_counts)(void);
    void (*fail_call)(const char *name, unsigned nth, int code);
    unsigned (*violations)(void);
};

/* Filled in the child before the body runs. */
extern struct sim_driver sim;

struct sim_outcome {
    int status;        /* exit code, or -signal */
    char errors[8192]; /* the child's stderr */
};

/*
 * Runs @body in a child with NAME=value settings (up to NULL) in its environment. The driver is loaded, nothing more.
 * Fails the test unless the child exits with 0. What it wrote is in *out; with NULL, it may not have leaked anything.
 */
#define sim_run(body, out, ...) sim_run_with(body, out, (const char *const[]){__VA_ARGS__})
void sim_run_with(void (*body)(void), struct sim_outcome *out, const char *const *settings);

/* The test test_BODY: runs it with these settings (up to NULL). */
#define SIM_TEST(body, ...)                                                                                            \
    static void test_##body(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        sim_run(body, NULL, __VA_ARGS__);                                                                              \
    }

/* cuInit, and the primary context of device 0 current. */
void sim_start(void);

/* Makes @ordinal's primary context current. */
CUcontext sim_use(int ordinal);

/* ---- in bodies ---- */

_Noreturn void sim_fail_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define check(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            sim_fail_at(__FILE__, __LINE__, "%s", #condition);                                                         \
        }                                                                                                              \
    } while (0)

/* The call gives exactly this result. */
#define gives(code, call)                                                                                              \
    do {                                                                                                               \
        int got_ = (int)(call);                                                                                        \
        if (got_ != (int)(code)) {                                                                                     \
            sim_fail_at(__FILE__, __LINE__, "%s gives %d, not %d", #call, got_, (int)(code));                          \
        }                                                                                                              \
    } while (0)

#define works(call) gives(CUDA_SUCCESS, call)

#define check_number(expected, actual)                                                                                 \
    do {                                                                                                               \
        unsigned long long wanted_ = (unsigned long long)(expected);                                                   \
        unsigned long long got_ = (unsigned long long)(actual);                                                        \
        if (wanted_ != got_) {                                                                                         \
            sim_fail_at(__FILE__, __LINE__, "%s is %llu, not %llu", #actual, got_, wanted_);                           \
        }                                                                                                              \
    } while (0)

#define MIB  ((size_t)1 << 20)
#define PAGE (2 * MIB)

/* Properties of a pinned chunk on device @ordinal, exportable as a descriptor. */
CUmemAllocationProp sim_properties(int ordinal);

/* A chunk of @size bytes on device 0. */
CUmemGenericAllocationHandle sim_chunk(size_t size);
CUdeviceptr sim_reserve(size_t size);

/* Maps the chunk, open for device 0 to write. */
void sim_map(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
CUresult sim_open(CUdeviceptr address, size_t size, CUmemAccess_flags flags);

CUdeviceptr sim_alloc(size_t size);
CUstream sim_stream(unsigned flags);
CUevent sim_event(void);
struct simcuda_device sim_device(int ordinal);

/* The byte at a device address, by cuMemcpyDtoH (which waits for the legacy stream). */
unsigned char sim_byte(CUdeviceptr address);

#endif
