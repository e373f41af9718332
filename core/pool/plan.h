/*
 * plan.h - decides how to serve a request that no gap can: which free chunks to stitch, where, and what to grow by.
 *
 * STRUCTURE    A plan appends to the end of one range: what is usable there already, free pages at the end of a
 *              partly used chunk, whole free chunks, new chunks, free pages at the start of a partly used chunk; or
 *              one partly used chunk with a hole that is large enough. The cheapest plan in modelled driver time
 *              wins, where growth beyond the bound costs most of all, and a large block saves what whole chunks it
 *              spares by beginning and ending in partly used ones.
 *              Deciding changes nothing: stitch.h carries a plan out.
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_PLAN_H
#define GM_PLAN_H

#include "block.h"

struct gm_request {
    uint32_t units;
    uint32_t stream; /* index of handle; found anew whenever the lock was dropped */
    CUstream handle;
    enum gm_class class;
    bool may_stitch;      /* not below stitch_min */
    bool for_slab;        /* the node has to be of this size exactly */
    uint64_t limit_pages; /* no growth beyond this many pages of chunks */
};

struct gm_plan {
    uint32_t range; /* GM_NONE: a new one */
    uint32_t have;  /* units at the end of the range that are used as they are */
    uint32_t hole;  /* chunks; GM_NONE: none */
    uint32_t suffix, suffix_pages;
    uint32_t prefix;
    uint32_t picked;     /* whole chunks, in pool->picked */
    uint32_t grow_pages; /* new memory */
    bool over_bound;     /* the growth is more than the bound allows */
    uint64_t cost_ns;
};

/* Decides for @request. -ENOMEM: nothing within the limit serves it. */
int gm_plan_make(struct gm_pool *pool, const struct gm_request *request, struct gm_plan *out);

/* The largest chunk that growth for a request of @units makes, pages. */
uint32_t gm_plan_chunk_pages(const struct gm_pool *pool, uint32_t units, enum gm_class class);

/* Whether little has been freed yet: a program that loads its weights. */
bool gm_plan_is_loading(const struct gm_pool *pool);

/* Pages of chunks allowed before stitching is preferred to growing. */
uint64_t gm_plan_bound(const struct gm_pool *pool);

/* Whole free chunks that @stream may use now, pages. */
uint64_t gm_plan_free_pages(struct gm_pool *pool, uint32_t stream);

#endif
