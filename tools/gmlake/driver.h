/*
 * driver.h - a CUDA driver as a replay uses it: one device, its primary context, one stream for each of the trace's.
 *
 * STRUCTURE    One pointer a row of driver.def, then what only the simulated driver offers. The driver is whatever
 *              libcuda.so.1 the process finds, or the one at a given path; both by dlopen() and dlsym(), which are
 *              what a preload library redirects.
 * CONCURRENCY  one thread, the one that opened it.
 */
#ifndef GM_DRIVER_H
#define GM_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../simcuda/simcuda.h"

struct gm_driver {
#define GM_DRIVER_SYMBOL(need, field, name, parameters) CUresult(CUDAAPI *field) parameters;
#include "driver.def"
#undef GM_DRIVER_SYMBOL
    /* The simulated driver only; all NULL on a real one. */
    uint64_t (*sim_now_ns)(void);
    void (*sim_advance_to_ns)(uint64_t ns);
    int (*sim_query_device)(int ordinal, struct simcuda_device *out);
    size_t (*sim_query_calls)(struct simcuda_call *out, size_t max);
    void (*sim_reset_counts)(void);
    unsigned (*sim_violations)(void);

    const char *path; /* what it was opened by */
    int ordinal;
    CUdevice device;
    CUcontext context;
    CUstream *streams; /* by stream number; [0] is NULL, the default stream */
    uint32_t stream_count;
    bool retained; /* @context is held */
};

enum { GM_DRIVER_MESSAGE = 256 };

/*
 * Opens the driver (@path NULL: the process's libcuda.so.1), makes the primary context of device @ordinal current
 * and creates @streams streams. -ENODEV or -EIO with the reason in @message; nothing stays open then.
 */
int gm_driver_open(const char *path, int ordinal, uint32_t streams, struct gm_driver *out,
                   char message[GM_DRIVER_MESSAGE]);

/* Waits for the device, destroys the streams and gives the context back. The library stays loaded. */
void gm_driver_close(struct gm_driver *driver);

/* Whether it is the simulated one. */
static inline bool gm_driver_simulated(const struct gm_driver *driver)
{
    return driver->sim_query_device != NULL;
}

/*
 * Sums over all functions: driver calls made, those of them that manage memory (cuMem...), and their modelled time.
 * Simulated driver only.
 */
void gm_driver_sum_calls(const struct gm_driver *driver, uint64_t *calls, uint64_t *memory_calls, uint64_t *ns);

#endif
