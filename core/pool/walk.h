/*
 * walk.h - what of a gap can really be used: steps over pages that other mappings use.
 *
 * STRUCTURE    A gap's bound says how long a usable run in it may be. A walk goes over the range's usable bits, 64
 *              pages a step, and looks at chunks only under a run that is long enough; pages it finds in use elsewhere
 *              lose their bit, and the gap its bound. Freeing such a page sets bits again and leaves the slot in the
 *              range's dirty list, from which gm_walk_refresh() raises bounds when a search comes by.
 *              pool->walk_left limits the chunks one allocation looks at; when it is used up the search ends, and the
 *              allocation stitches instead: bounded time, at the price of a mapping that a longer walk might have
 *              spared.
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_WALK_H
#define GM_WALK_H

#include "access.h"
#include "stream.h"

/* What gm_walk_fit() is to be told of @stream: gm_stream_horizon(), which one stream alone has no need of. */
static inline uint64_t gm_walk_horizon(const struct gm_pool *pool, uint32_t stream)
{
    return pool->stream_count <= 1 ? UINT64_MAX : gm_stream_horizon(pool, stream);
}

/* gm_walk_fit() where pages may be in use elsewhere, or not done with on another stream. */
bool gm_walk_fit_slow(struct gm_pool *pool, uint32_t node, uint32_t units, uint32_t stream, uint64_t horizon,
                      uint32_t *start);

/* Finds the first @units in gap @node that @stream may use, which sees all up to @horizon: true and *start. */
static inline bool gm_walk_fit(struct gm_pool *pool, uint32_t node, uint32_t units, uint32_t stream, uint64_t horizon,
                               uint32_t *start)
{
    const struct gm_node *gap = gm_node(pool, node);
    if (!gm_range(pool, gap->range)->shared && pool->stream_count <= 1) {
        *start = gap->start;
        return gap->size >= units;
    }
    return gm_walk_fit_slow(pool, node, units, stream, horizon, start);
}

/* Raises the bounds of gaps whose chunks have gained free pages. */
void gm_walk_refresh(struct gm_pool *pool, struct gm_range *range);

/* Units at the end of range @index that @stream may use. */
uint32_t gm_walk_tail(struct gm_pool *pool, uint32_t index, uint32_t stream);

/* The longest run of usable units in gap @index, for any stream; what it sums up to goes to *total. For reports. */
uint32_t gm_walk_longest(struct gm_pool *pool, uint32_t index, uint64_t *total);

#endif
