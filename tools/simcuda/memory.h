/*
 * memory.h - a span of addresses with device memory of its own behind it.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "address.h"
#include "device.h"

/* Takes @size bytes (whole pages) of @device and makes them readable and writable; false: there is not that much. */
bool sim_memory_open(struct sim_device *device, uint64_t size, struct sim_span *span, uint64_t *offset);
void sim_memory_close(struct sim_device *device, const struct sim_span *span, uint64_t offset);

#endif
