/*
 * node.h - boundary tags: the storage of nodes, and the moves of range.h that range.c needs from node.c.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_NODE_H
#define GM_NODE_H

#include "block.h"

/* Makes sure the next @count nodes can be taken without failure. -ENOMEM. */
int gm_node_reserve(struct gm_pool *pool, uint32_t count);

/* @units more are mapped at the end of @range: the gap there grows, or a new one begins. One node was reserved. */
void gm_node_grow_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units);

/* Takes @units off the gap at the end of @range; false, and nothing changed: they are not all in a gap. */
bool gm_node_shrink_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units);

#endif
