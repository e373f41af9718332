/*
 * device_memory.h - how much memory of a device is in use, by an account that no allocator in this process can colour.
 *
 * STRUCTURE    The driver's: simcuda's own figures, cuMemGetInfo() on a real one. Where the preload library answers
 *              cuMemGetInfo(), with what it holds idle counted as free: NVML's (libnvidia-ml.so.1), which counts the
 *              whole device; without NVML nothing is known then.
 * CONCURRENCY  one thread.
 */
#ifndef GM_DEVICE_MEMORY_H
#define GM_DEVICE_MEMORY_H

#include "driver.h"

/* Invariant: at most one source is set: @device (NVML's), or @driver; neither: not known. */
struct gm_device_memory {
    const struct gm_driver *driver;
    void *device;
    int (*nvml_memory)(void *device, unsigned long long total_free_used[3]);
};

/* Finds the account for the device of @driver, which must outlive *out. */
void gm_device_memory_open(const struct gm_driver *driver, struct gm_device_memory *out);

/* Bytes in use; -ENODATA: not known. */
int gm_device_memory_used(const struct gm_device_memory *memory, uint64_t *out);

#endif
