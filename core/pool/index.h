/*
 * index.h - the gaps of a range by address: finds the first one that may hold a request.
 *
 * STRUCTURE    A range is divided into granules; a gap is listed in the granule its end lies in, so carving from its
 *              low side and freeing into it from the left leave the lists alone. Two levels of upper bounds (one a
 *              granule, one for each 32 granules) lead to the first granule worth a look. Bounds rise at once and
 *              are lowered when a search finds them stale.
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_INDEX_H
#define GM_INDEX_H

#include "access.h"

/* Allocates the index of a range whose pages, class and shifts are set. -ENOMEM. */
int gm_index_init(struct gm_range *range);
void gm_index_finish(struct gm_range *range);

/* Lists gap @node, whose bound is set. */
void gm_index_insert(struct gm_pool *pool, struct gm_range *range, uint32_t node);
void gm_index_remove(struct gm_pool *pool, struct gm_range *range, uint32_t node);

/* Tells the bounds that @node's bound has risen. */
void gm_index_raise(struct gm_pool *pool, struct gm_range *range, uint32_t node);

/* Tells that gap @node begins at unit @start now, its end and granule being the same. */
static inline void gm_index_move(struct gm_range *range, uint32_t node, uint32_t start)
{
    if (node == range->fit_gap) {
        range->fit_start = start;
    }
}

/* The first gap by address at or after unit @from with a bound of at least @units; GM_NONE: there is none. */
uint32_t gm_index_find(struct gm_pool *pool, struct gm_range *range, uint32_t units, uint32_t from);

/* The first gap that ends after unit @at; GM_NONE: there is none. */
uint32_t gm_index_after(struct gm_pool *pool, const struct gm_range *range, uint32_t at);

/* The first gap by address with a bound of at least @units; GM_NONE: there is none. */
static inline uint32_t gm_index_first(struct gm_pool *pool, struct gm_range *range, uint32_t units)
{
    bool known = units >= range->fit_units;
    if (known && range->fit_gap != GM_NONE && gm_node(pool, range->fit_gap)->bound >= units) {
        return range->fit_gap;
    }
    uint32_t node = gm_index_find(pool, range, units, known ? range->fit_start : 0);
    if (node != GM_NONE) {
        range->fit_units = units;
        range->fit_start = gm_node(pool, node)->start;
        range->fit_gap = node;
    }
    return node;
}

/* Lowers range->bound to what the groups say. */
void gm_index_settle(struct gm_range *range);

#endif
