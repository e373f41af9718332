/*
 * pools.h - the program's pools: which may be served, and what they contain of ours.
 *
 * The driver's pool stays the program's handle for everything; what we add are the bytes of ours that came from it.
 * Pools whose memory other processes can open, or whose other properties we do not reproduce, are the driver's alone.
 *
 * STRUCTURE    The pools that may be served have a record: the device's default pool, and those the program has created
 *              with no property but their device. All others are the driver's: exportable, imported, bounded, unknown.
 *              A device whose current pool is one of them is not served on streams at all. Those that the program has
 *              created have a record, too: what is idle in them is given back at the limit, and a bounded one is served
 *              what the driver refuses below the bound.
 *              A record counts the bytes of ours in use, and keeps what the driver's part of the pool held when it last
 *              changed, so that the high mark is that of the sum.
 * CONCURRENCY  atomics. A record is used again when its pool is destroyed and its last block freed.
 */
#ifndef GM_POOLS_H
#define GM_POOLS_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct gm_pool_record;

/* The record of a pool of @device that may be served; NULL: it may not. */
struct gm_pool_record *gm_pools_find(CUmemoryPool pool, CUdevice device);

/* The same for an allocation that names no pool: the device's current one. */
struct gm_pool_record *gm_pools_find_current(CUdevice device);

/* The record of a bounded pool; for NULL the current one of @device. NULL: it is none, or has no record. */
struct gm_pool_record *gm_pools_find_bounded(CUmemoryPool pool, CUdevice device);

/*
 * Whether @bytes more are within the bound of that pool: from us or, @in_driver, from the driver, which keeps to the
 * bound by itself as long as nothing of ours is there.
 */
bool gm_pools_have_room(const struct gm_pool_record *record, uint64_t bytes, bool in_driver);

CUdevice gm_pools_device(const struct gm_pool_record *record);

/* The record of the device's default pool; NULL: no such device. */
struct gm_pool_record *gm_pools_default(CUdevice device);

/* The pool's handle, also when it is destroyed. */
CUmemoryPool gm_pools_handle(const struct gm_pool_record *record);

bool gm_pools_is_default(const struct gm_pool_record *record);

/* Counts a block of ours that came from the pool, and one that went back. On the hot path. */
void gm_pools_add(struct gm_pool_record *record, uint64_t bytes);
void gm_pools_remove(struct gm_pool_record *record, uint64_t bytes);

/* To be called when the driver has allocated from a pool, and when it has freed memory that may have come from one. */
void gm_pools_note_driver_alloc(void);
void gm_pools_note_driver_free(void);

/* The driver has ever served an allocation from a pool: it may hold memory for pools. */
bool gm_pools_are_mixed(void);

/*
 * Bytes that the driver's part of the pools of @device holds beyond what it keeps when it next synchronises: for a
 * program without us that was at its last cuMemFree(). In RELAXED capture mode.
 */
uint64_t gm_pools_idle(CUdevice device);

/*
 * At the limit: all that is free there goes back to the device, as it does where the driver is at the limit of a pool.
 * The bytes. In RELAXED capture mode.
 */
uint64_t gm_pools_release_idle(CUdevice device);

/* The device of a pool that may be served; -1: it is another pool. */
int gm_pools_device_of(CUmemoryPool pool);

#endif
