/*
 * range.h - address ranges: mapping chunks into them, and the blocks and gaps they are divided into.
 *
 * STRUCTURE    A range grows at its end, a chunk at a time. Its nodes are boundary tags in address order. Taking a
 *              block marks its pages busy in the chunks; other slots of these chunks learn of it when a search looks
 *              there. Dropping a block frees the pages it had alone; only chunks that a search found blocked tell
 *              their other ranges.
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_RANGE_H
#define GM_RANGE_H

#include "block.h"

/* The class that serves requests of @units. */
enum gm_class gm_class_of(uint32_t units);

/* Reserves a range of @class with room for @units and more. *out is its index. -ENOMEM. */
int gm_range_create(struct gm_pool *pool, enum gm_class class, uint32_t units, uint32_t *out);

/* Gives the addresses of a range with nothing mapped back. */
void gm_range_destroy(struct gm_pool *pool, uint32_t index);

/* The same at the end of a pool, when blocks may still be live in it. */
void gm_range_discard(struct gm_pool *pool, uint32_t index);

/* Maps chunk @chunk_index at the end of range @index, which is not full and does not hold it yet. */
int gm_range_extend(struct gm_pool *pool, uint32_t index, uint32_t chunk_index);

/* Unmaps the slot that begins at @page, which no live block touches; its addresses are dead from then on. */
void gm_range_detach(struct gm_pool *pool, uint32_t index, uint32_t page);

/* The same, and gives dead addresses at the range's end back to it. */
void gm_range_unmap(struct gm_pool *pool, uint32_t index, uint32_t page);

/* Splits the dead slot over @page in two at that page. -ENOMEM. */
int gm_range_split_dead(struct gm_pool *pool, uint32_t index, uint32_t page);

/* Maps chunk @chunk_index into the dead slot that begins at @page and is as long. On an error the slot stays dead. */
int gm_range_attach(struct gm_pool *pool, uint32_t index, uint32_t page, uint32_t chunk_index);

/* The gap at the end of range @index; GM_NONE: the end is in use, or nothing is mapped. */
uint32_t gm_range_tail(const struct gm_pool *pool, uint32_t index);

/* Makes a live block of @units at unit @start of gap @gap_index. *out is its node. -ENOMEM (host), nothing changed. */
int gm_range_carve(struct gm_pool *pool, uint32_t gap_index, uint32_t start, uint32_t units, uint32_t *out);

/* Makes a live block part of the gap around it; @stamp says until when it was used. */
void gm_range_release(struct gm_pool *pool, uint32_t index, uint64_t stamp);

/* The live, slab or pending node over unit @at; GM_NONE: a gap, or nothing. */
uint32_t gm_range_find(const struct gm_pool *pool, const struct gm_range *range, uint32_t at);

/* The index of the slot over @page. */
static inline uint32_t gm_range_slot(const struct gm_range *range, uint32_t page)
{
    return range->slot_of_page[page];
}

/* Whether chunk @chunk is mapped in @range. */
static inline bool gm_range_holds(const struct gm_range *range, uint32_t chunk)
{
    return chunk / 64 < range->held.count && ((const uint64_t *)range->held.data)[chunk / 64] >> chunk % 64 & 1;
}

/* Notes that the slot has usable pages that bounds do not know of. */
static inline void gm_range_mark_dirty(struct gm_range *range, struct gm_slot *slot)
{
    if (!slot->dirty) {
        slot->dirty = 1;
        ((uint32_t *)range->dirty.data)[range->dirty.count++] = slot->page;
    }
}

/* The range and pool of a device address, by a table without locks; NULL: not ours. */
struct gm_pool *gm_range_owner(CUdeviceptr address, uint32_t *range);

#endif
