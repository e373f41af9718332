/*
 * pools.h - memory that the driver must give out itself: from pools that other processes can open or whose other
 * properties we do not reproduce, and once GPUs see one another's memory.
 *
 * STRUCTURE    The pools that may be served are known: the device's default pool, and those the program has created
 * with no property but their device. All others are the driver's: exportable, imported, bounded, unknown. A device
 * whose current pool is not among the known ones is not served on streams at all. Access of one GPU to another's
 * allocations is not carried over to ours; from the moment a program enables it, new memory is the driver's.
 * CONCURRENCY  atomics.
 */
#ifndef GM_POOLS_H
#define GM_POOLS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Set when some GPU is given access to another one's allocations. Written by pools.c alone. */
extern atomic_bool gm_pools_peers;

/* Whether an allocation from @pool on @device's stream may be served. */
bool gm_pools_serve(CUmemoryPool pool, CUdevice device);

/* The same for an allocation that names no pool: from the device's current one. */
bool gm_pools_serve_current(CUdevice device);

/* The device's current pool; NULL: unknown. */
CUmemoryPool gm_pools_current(CUdevice device);

static inline bool gm_pools_have_peers(void)
{
    return atomic_load_explicit(&gm_pools_peers, memory_order_relaxed);
}

#endif
