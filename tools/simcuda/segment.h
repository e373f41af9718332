/*
 * segment.h - the steps of pools: 32 MB of device memory each, somewhere in a segment of addresses.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_SEGMENT_H
#define SIM_SEGMENT_H

#include "pool.h"

/*
 * Adds a segment for @size bytes to the pool's heap, from its free steps as far as they go and new ones; false: the
 * device or the pool's limit does not allow for it (free steps that were taken for it are then the device's).
 */
bool sim_segment_add(struct sim_pool *pool, uint64_t size);

/* Gives one free step back to the device; false: the pool has none that no stream is at work on. */
bool sim_segment_release_step(struct sim_pool *pool);

#endif
