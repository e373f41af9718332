/*
 * evict.h - giving up idle mappings, least recently used first, and free chunks.
 *
 * Unmapping acts at once, not in stream order: only what no work on the device can still be using is touched.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_EVICT_H
#define GM_EVICT_H

#include "block.h"

/* Unmaps idle stitched mappings until at most @keep bytes of them are left. */
void gm_evict_idle(struct gm_pool *pool, uint64_t keep);

/* Makes room for @count mappings under mappings_max, as far as idle ones allow. Returns whether any was unmapped. */
bool gm_evict_for(struct gm_pool *pool, uint32_t count);

/* Unmaps every idle stitched mapping and gives ranges without blocks back. */
void gm_evict_all(struct gm_pool *pool);

#endif
