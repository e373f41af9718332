/*
 * walk.h - what of a gap can really be used: steps over pages that other mappings use.
 *
 * STRUCTURE    A gap's bound says how long a usable run in it may be. A walk over the slots under the gap finds the
 *              first run that is long enough, or lowers the bound to what it found and marks the chunks in its way,
 *              so that freeing one of them brings the gap back into play (gm_walk_refresh()).
 *              pool->walk_left limits the slots one allocation looks at; when it is used up the search ends, and the
 *              allocation stitches instead: bounded time, at the price of a mapping that a longer walk might have
 *              spared.
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_WALK_H
#define GM_WALK_H

#include "block.h"

/* Finds the first @units in gap @node that @stream may use: true and *start. */
bool gm_walk_fit(struct gm_pool *pool, uint32_t node, uint32_t units, uint32_t stream, uint32_t *start);

/* Raises the bounds of gaps whose chunks have gained free pages. */
void gm_walk_refresh(struct gm_pool *pool, struct gm_range *range);

/* Units at the end of @range that @stream may use. */
uint32_t gm_walk_tail(struct gm_pool *pool, uint32_t range, uint32_t stream);

/* The longest run of usable units in gap @node, for any stream; what it sums up to goes to *total. For reports. */
uint32_t gm_walk_longest(struct gm_pool *pool, uint32_t node, uint64_t *total);

#endif
