/*
 * evict.c - see evict.h and gm_limit_trim() in limit.h.
 */
#include "evict.h"

#include "access.h"
#include "chunk.h"
#include "index.h"
#include "limit.h"
#include "range.h"
#include "stream.h"
#include "tunables.h"

#include <stdlib.h>

/* An idle alias, by when it was last used. */
struct victim {
    uint64_t last_used;
    uint32_t range;
    uint32_t page;
    uint32_t pages;
};

/* No block touches the slot: one gap covers it. */
static bool is_idle(struct gm_pool *pool, const struct gm_range *range, const struct gm_slot *slot)
{
    uint32_t start = slot->page * GM_PAGE_UNITS;
    uint32_t index = gm_index_after(pool, range, start);
    if (index == GM_NONE) {
        return false;
    }
    const struct gm_node *gap = gm_node(pool, index);
    return gap->start <= start && gap->start + gap->size >= start + slot->pages * GM_PAGE_UNITS;
}

static bool is_done(struct gm_pool *pool, uint64_t sequence)
{
    return gm_stream_is_done(pool, (uint64_t)GM_STREAM_MIXED << GM_STAMP_SHIFT | sequence);
}

static int by_last_used(const void *a, const void *b)
{
    uint64_t x = ((const struct victim *)a)->last_used;
    uint64_t y = ((const struct victim *)b)->last_used;
    return (x > y) - (x < y);
}

static uint32_t gather(struct gm_pool *pool, struct gm_array *victims)
{
    for (uint32_t r = 0; r < pool->ranges.count; r++) {
        const struct gm_range *range = gm_range(pool, r);
        for (uint32_t i = 0; range->size != 0 && i < range->slots.count; i++) {
            const struct gm_slot *slot = gm_slots(range) + i;
            if (slot->alias == 0 || slot->chunk == GM_NONE || !is_idle(pool, range, slot) ||
                !is_done(pool, slot->last_used)) {
                continue;
            }
            if (gm_array_reserve(victims, victims->count + 1, sizeof(struct victim)) < 0) {
                return victims->count;
            }
            ((struct victim *)victims->data)[victims->count++] =
                (struct victim){slot->last_used, r, slot->page, slot->pages};
        }
    }
    if (victims->count > 1) {
        qsort(victims->data, victims->count, sizeof(struct victim), by_last_used);
    }
    return victims->count;
}

/* Unmaps idle aliases, oldest first, until at least @pages and @mappings of them are gone. Returns whether any is. */
static bool evict(struct gm_pool *pool, uint64_t pages, uint64_t mappings)
{
    struct gm_array victims = {0};
    gm_stream_mark(pool);
    uint32_t count = gather(pool, &victims);
    const struct victim *list = victims.data;
    uint64_t gone = 0;
    for (uint32_t i = 0; i < count && (gone < pages || i < mappings); i++) {
        gone += list[i].pages;
        gm_range_unmap(pool, list[i].range, list[i].page);
        pool->counts.evict++;
    }
    gm_array_finish(&victims);
    return gone > 0;
}

/* Ranges in which nothing is mapped any more. */
static void destroy_empty_ranges(struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->ranges.count; i++) {
        const struct gm_range *range = gm_range(pool, i);
        if (range->size != 0 && range->slots.count == 0) {
            gm_range_destroy(pool, i);
        }
    }
}

void gm_evict_idle(struct gm_pool *pool, uint64_t keep)
{
    uint64_t idle = pool->alias_pages - pool->alias_busy_pages;
    uint64_t kept = keep >> GM_PAGE_SHIFT;
    if (idle > kept) {
        (void)evict(pool, idle - kept, 0);
        destroy_empty_ranges(pool);
    }
}

bool gm_evict_for(struct gm_pool *pool, uint32_t count)
{
    uint64_t most = gm_tunable(GMLAKE_TUNABLE_mappings_max);
    if (pool->vmm.mappings + count <= most || pool->alias_pages <= pool->alias_busy_pages) {
        return false;
    }
    /* A sixteenth more than needed, so that not every call has to look. */
    return evict(pool, 0, pool->vmm.mappings + count - most + most / 16);
}

void gm_evict_all(struct gm_pool *pool)
{
    (void)evict(pool, UINT64_MAX, 0);
    destroy_empty_ranges(pool);
}

/* The largest free chunk that nothing on the device uses any more. */
static uint32_t largest_done(struct gm_pool *pool)
{
    uint32_t best = GM_NONE;
    for (uint32_t i = gm_chunk_next_free(pool, 0); i != GM_NONE; i = gm_chunk_next_free(pool, i + 1)) {
        const struct gm_chunk *chunk = gm_chunk(pool, i);
        if ((best == GM_NONE || chunk->pages > gm_chunk(pool, best)->pages) && gm_stream_is_done(pool, chunk->stamp)) {
            best = i;
        }
    }
    return best;
}

uint64_t gm_limit_trim(struct gm_pool *pool, uint64_t keep)
{
    uint64_t released = 0;
    while ((pool->free_chunk_pages << GM_PAGE_SHIFT) > keep) {
        uint32_t index = largest_done(pool);
        if (index == GM_NONE) {
            break;
        }
        struct gm_chunk *chunk = gm_chunk(pool, index);
        while (chunk->place_count > 0) {
            struct gm_place place = gm_places(chunk)[chunk->place_count - 1u];
            gm_range_unmap(pool, place.range, place.page);
        }
        released += gm_chunk_size(chunk);
        gm_chunk_destroy(pool, index);
        pool->counts.trim++;
    }
    if (released > 0) {
        destroy_empty_ranges(pool);
    }
    return released;
}
