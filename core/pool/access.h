/*
 * access.h - short ways to the elements of the pool's arrays, and the few bit tricks all of the pool uses.
 *
 * CONCURRENCY  the pool's lock is held. A pointer is good until the next element of its kind is made.
 */
#ifndef GM_ACCESS_H
#define GM_ACCESS_H

#include "block.h"

static inline struct gm_node *gm_node(const struct gm_pool *pool, uint32_t index)
{
    return (struct gm_node *)pool->nodes.data + index;
}

static inline struct gm_chunk *gm_chunk(const struct gm_pool *pool, uint32_t index)
{
    return (struct gm_chunk *)pool->chunks.data + index;
}

static inline struct gm_range *gm_range(const struct gm_pool *pool, uint32_t index)
{
    return (struct gm_range *)pool->ranges.data + index;
}

static inline struct gm_slab *gm_slab(const struct gm_pool *pool, uint32_t index)
{
    return (struct gm_slab *)pool->slabs.data + index;
}

/* To be called while the slab itself has yet to come from memory: which note is needed is not known before. */
static inline void gm_slab_prefetch_notes(const struct gm_pool *pool, uint32_t index)
{
    const struct gm_slab_notes *notes = (const struct gm_slab_notes *)pool->slab_notes.data + index;
    __builtin_prefetch(notes->of);
    __builtin_prefetch(notes->of + GM_SLAB_OBJECTS / 2);
}

/* The note of an object of slab @index that is not free. */
static inline uint32_t gm_slab_note(const struct gm_pool *pool, uint32_t index, uint32_t object)
{
    return gm_slab(pool, index)->noted ? ((const struct gm_slab_notes *)pool->slab_notes.data)[index].of[object] : 0;
}

/* The node that @entry of a range's table of starts leads to; 0: none. */
static inline uint32_t gm_start_node(const struct gm_pool *pool, uint32_t entry)
{
    return entry & GM_START_SLAB ? gm_slab(pool, entry & ~GM_START_SLAB)->node : entry;
}

static inline struct gm_slot *gm_slots(const struct gm_range *range)
{
    return range->slots.data;
}

static inline uint32_t gm_range_id(const struct gm_pool *pool, const struct gm_range *range)
{
    return (uint32_t)(range - (const struct gm_range *)pool->ranges.data);
}

static inline uint32_t gm_chunk_id(const struct gm_pool *pool, const struct gm_chunk *chunk)
{
    return (uint32_t)(chunk - (const struct gm_chunk *)pool->chunks.data);
}

static inline const struct gm_place *gm_places(const struct gm_chunk *chunk)
{
    return chunk->place_capacity > GM_PLACES_INLINE ? chunk->places : chunk->inline_places;
}

static inline uint64_t gm_chunk_size(const struct gm_chunk *chunk)
{
    return (uint64_t)chunk->pages << GM_PAGE_SHIFT;
}

/* The pages of chunk i where it exists and nothing of it is busy, else 0. The sum of them is the caller's to keep. */
static inline uint8_t *gm_free_pages(const struct gm_pool *pool)
{
    return pool->free_pages.data;
}

static inline bool gm_chunk_is_free(const struct gm_pool *pool, uint32_t index)
{
    return gm_free_pages(pool)[index] != 0;
}

/* Bits @first to @last of 64, both included. */
static inline uint64_t gm_page_mask(uint32_t first, uint32_t last)
{
    return (UINT64_MAX << first) & (UINT64_MAX >> (63 - last) % 64);
}

/* The pages of a chunk of @pages, 1 to 64. */
static inline uint64_t gm_page_all(uint32_t pages)
{
    return UINT64_MAX >> -pages % 64;
}

static inline uint32_t gm_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t gm_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Units to whole pages, rounded up. */
static inline uint32_t gm_pages_of_units(uint32_t units)
{
    return (units + GM_PAGE_UNITS - 1) / GM_PAGE_UNITS;
}

/* The largest power of two not above @x; 0 for 0. */
static inline uint64_t gm_power_below(uint64_t x)
{
    return x == 0 ? 0 : (uint64_t)1 << (63 - __builtin_clzll(x));
}

#endif
