/*
 * node.h - boundary tags: the storage of nodes, and the moves of range.h that range.c needs from node.c.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_NODE_H
#define GM_NODE_H

#include "block.h"
#include "lock.h"

/* Makes sure the next @count nodes can be taken without failure. -ENOMEM. */
int gm_node_reserve(struct gm_pool *pool, uint32_t count);

/* @units more are mapped at the end of @range: the gap there grows, or a new one begins. One node was reserved. */
void gm_node_grow_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units);

/*
 * Gives back the newest block if it is kept. A program that frees the block it was given last often asks for as much
 * again, and its place is then the first that holds it, as it was before: so nothing is given back until something else
 * happens. Whoever looks for free memory, or counts it, has to call this first.
 */
void gm_node_forget_newest(struct gm_pool *pool);

/* Takes the pool's lock for anything but an allocation or a free: nothing is kept then. */
static inline void gm_pool_enter(struct gm_pool *pool)
{
    gm_lock_take(&pool->lock);
    gm_node_forget_newest(pool);
}

/* Takes @units off the gap at the end of @range; false, and nothing changed: they are not all in a gap. */
bool gm_node_shrink_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units);

#endif
