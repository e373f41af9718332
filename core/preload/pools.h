/*
 * pools.h - pools whose memory the driver must give out itself: those that other processes can open, or whose other
 * properties we do not reproduce.
 *
 * STRUCTURE    The pools that may be served are known: the device's default pool, and those the program has created
 *              with no property but their device. All others are the driver's: exportable, imported, bounded, unknown.
 *              A device whose current pool is not among the known ones is not served on streams at all.
 * CONCURRENCY  atomics.
 */
#ifndef GM_POOLS_H
#define GM_POOLS_H

#include <cuda.h>
#include <stdbool.h>

/* Whether an allocation from @pool on @device's stream may be served. */
bool gm_pools_serve(CUmemoryPool pool, CUdevice device);

/* The same for an allocation that names no pool: from the device's current one. */
bool gm_pools_serve_current(CUdevice device);

/* The device's current pool; NULL: unknown. */
CUmemoryPool gm_pools_current(CUdevice device);

/* The device of a pool that may be served; -1: it is another pool. */
int gm_pools_device_of(CUmemoryPool pool);

#endif
