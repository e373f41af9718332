/*
 * cut.h - cutting a free chunk in two, and the budget for it.
 *
 * A mapping covers a whole chunk (the driver's rule), so a chunk of which a block takes the first part has its rest
 * pinned. Cutting means to unmap it everywhere, release it, and create and map two: some 90 us a mapping. It pays
 * only where memory is short, so it waits until the pool has grown beyond its bound lately, and draws on a budget of
 * time: cut_budget, plus 1 ms for each GB the pool grew, at most 25 ms saved up. On a device that has refused memory
 * lately the budget does not count: a cut costs less than a job that dies.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_CUT_H
#define GM_CUT_H

#include "block.h"

/*
 * Cuts free chunk @index behind its first @head pages if that is worth it and affordable, when a block is about to
 * take @taken pages of free chunks, @index's included. Returns the chunk that stands where @index's first pages were:
 * @index itself if it was not cut; GM_NONE: there is none, because the driver failed half-way.
 */
uint32_t gm_cut_if_worth(struct gm_pool *pool, uint32_t index, uint32_t head, uint32_t taken);

/*
 * Looks whether memory still counts as short. Called for every block placed while it does: a fall of live memory that
 * nobody looks at is not counted, and then blocks go on asking for cuts, and for events, iteration after iteration.
 */
void gm_cut_watch(struct gm_pool *pool);

/* The pool has outgrown its bound: memory is short for a while. */
void gm_cut_note_over(struct gm_pool *pool);

/* Bytes served for which the device counts as full after it has refused memory. */
uint64_t gm_cut_window(const struct gm_pool *pool);

/* Whether gm_cut_if_worth() would do anything at all these days. */
static inline bool gm_cut_is_possible(const struct gm_pool *pool)
{
    return pool->served_bytes < pool->short_until || pool->served_bytes < pool->full_until;
}

/* Whether the device has refused memory lately. */
bool gm_cut_is_pressed(const struct gm_pool *pool);

#endif
