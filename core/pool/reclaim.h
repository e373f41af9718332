/*
 * reclaim.h - giving memory back while the program goes on, as a thread beside it does.
 *
 * CONCURRENCY  the functions take the pool's lock themselves, for a slice of the work at a time: the program waits for
 *              some milliseconds at most. A context of the device is current and the thread in RELAXED capture mode.
 */
#ifndef GM_RECLAIM_H
#define GM_RECLAIM_H

#include "block.h"

/*
 * Gives back free chunks of about @bytes as far as the work that used them is done; waits for nothing. Returns the
 * bytes given back. *pending: more may be free once work on the device is done.
 */
uint64_t gm_pool_reclaim(struct gm_pool *pool, uint64_t bytes, bool *pending);

/* Waits for the work behind every free so far, where no event tells of it. The lock is not held meanwhile. */
void gm_pool_settle(struct gm_pool *pool);

/* Brings an idle pool within release_threshold and stitch_cache_max. */
void gm_pool_tend(struct gm_pool *pool);

#endif
