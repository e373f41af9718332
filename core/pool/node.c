/*
 * node.c - boundary tags: carving blocks out of gaps, giving them back, and which pages that makes busy or free.
 *
 * This is the hot path's own file: an allocation that finds a gap runs gm_range_carve(), a free gm_range_release();
 * neither calls the driver nor takes memory beyond a reserved node.
 */
#include "node.h"

#include "access.h"
#include "bits.h"
#include "chunk.h"
#include "index.h"
#include "range.h"
#include "stream.h"

#include <errno.h>
#include <string.h>

int gm_node_reserve(struct gm_pool *pool, uint32_t count)
{
    if (pool->nodes.capacity - pool->nodes.count >= count) {
        return 0;
    }
    uint32_t have = 0;
    for (uint32_t i = pool->node_free; i != GM_NONE && have < count; i = gm_node(pool, i)->next) {
        have++;
    }
    return have >= count ? 0 : gm_array_reserve(&pool->nodes, pool->nodes.count + count, sizeof(struct gm_node));
}

/* Never fails after gm_node_reserve(). */
static uint32_t take_node(struct gm_pool *pool)
{
    uint32_t index = pool->node_free;
    if (index != GM_NONE) {
        pool->node_free = gm_node(pool, index)->next;
    } else {
        index = pool->nodes.count++;
    }
    return index;
}

static void return_node(struct gm_pool *pool, uint32_t index)
{
    struct gm_node *node = gm_node(pool, index);
    node->state = GM_NODE_UNUSED;
    node->next = pool->node_free;
    pool->node_free = index;
}

/* Links @node, whose start, size and state are set, into its range behind @prev (GM_NONE: at the start). */
static void link_node(struct gm_pool *pool, struct gm_range *range, uint32_t index, uint32_t prev, uint32_t next)
{
    struct gm_node *node = gm_node(pool, index);
    node->range = (uint16_t)gm_range_id(pool, range);
    node->prev = prev;
    node->next = next;
    if (prev != GM_NONE) {
        gm_node(pool, prev)->next = index;
    }
    if (next != GM_NONE) {
        gm_node(pool, next)->prev = index;
    } else {
        range->last = index;
    }
}

static void unlink_node(struct gm_pool *pool, struct gm_range *range, uint32_t index)
{
    struct gm_node *node = gm_node(pool, index);
    if (node->prev != GM_NONE) {
        gm_node(pool, node->prev)->next = node->next;
    }
    if (node->next != GM_NONE) {
        gm_node(pool, node->next)->prev = node->prev;
    } else {
        range->last = node->prev;
    }
    return_node(pool, index);
}

/* What taking or dropping pages adds up to, kept in registers while it goes over the slots. */
struct tally {
    uint64_t pages;       /* that became busy, or free */
    uint64_t alias_pages; /* those of them in aliases */
    uint64_t chunk_pages; /* of chunks that stopped being free, or became it */
};

/* Marks pages @first to @last of @slot busy; some may be busy already, with neighbours at the block's borders. */
static inline __attribute__((always_inline)) void take_part(struct gm_pool *pool, const struct gm_slot *slot,
                                                            uint32_t first, uint32_t last, struct tally *tally)
{
    struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
    uint64_t mask = gm_page_mask(first - slot->page, last - slot->page);
    uint64_t shared = mask & chunk->busy;
    uint64_t pages = last - first + 1;
    if (shared != 0) {
        pages -= (shared & (shared - 1)) == 0 ? 1 : 2; /* one at each border at most */
    }
    uint8_t *free_pages = &gm_free_pages(pool)[slot->chunk];
    tally->chunk_pages += *free_pages;
    *free_pages = 0;
    chunk->busy |= mask;
    tally->pages += pages;
    tally->alias_pages += slot->alias ? pages : 0;
}

/* Marks the pages under [start, start + units) busy. Returns whether one of them lies in an alias. */
static inline __attribute__((always_inline)) bool take_pages(struct gm_pool *pool, const struct gm_range *range,
                                                             uint32_t start, uint32_t units)
{
    uint32_t first = start / GM_PAGE_UNITS;
    uint32_t last = (start + units - 1) / GM_PAGE_UNITS;
    const struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, first);
    const struct gm_slot *end = gm_slots(range) + gm_range_slot(range, last);
    struct tally tally = {0};
    bool alias = (slot->alias | end->alias) != 0;
    if (slot == end) {
        take_part(pool, slot, first, last, &tally);
    } else {
        take_part(pool, slot, first, slot->page + slot->pages - 1, &tally);
        take_part(pool, end, end->page, last, &tally);
        /* Slots that the block covers from end to end: their chunks were free as a whole. */
        struct gm_chunk *chunks = pool->chunks.data;
        uint8_t *free_pages = gm_free_pages(pool);
        uint64_t pages = end->page - (slot->page + slot->pages);
        uint64_t alias_pages = 0;
        for (slot++; slot < end; slot++) {
            chunks[slot->chunk].busy = gm_page_all(slot->pages);
            free_pages[slot->chunk] = 0;
            alias_pages += slot->alias;
        }
        tally.pages += pages;
        tally.chunk_pages += pages;
        tally.alias_pages += alias_pages;
        alias |= alias_pages != 0;
    }
    pool->busy_pages += tally.pages;
    pool->free_chunk_pages -= tally.chunk_pages;
    pool->alias_busy_pages += tally.alias_pages;
    return alias;
}

/* @pages of a chunk are free again, which a search in the range of @place may have found busy. */
static inline void tell_range(struct gm_pool *pool, struct gm_place place, uint64_t pages)
{
    struct gm_range *range = gm_range(pool, place.range);
    if (gm_bits_set(range->usable, place.page, pages)) {
        gm_range_mark_dirty(range, gm_slots(range) + gm_range_slot(range, place.page));
    }
}

/* @pages of the chunk are free again, which searches of its other ranges had found busy: they have to look again. */
static void tell_other_ranges(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t pages)
{
    const struct gm_place *places = gm_places(chunk);
    for (uint32_t left = chunk->blocked; left != 0; left &= left - 1) {
        tell_range(pool, places[__builtin_ctz(left)], pages);
    }
    if (__builtin_expect(chunk->blocked >> GM_PLACES_APART, 0)) {
        for (uint32_t i = GM_PLACES_APART + 1; i < chunk->place_count; i++) {
            tell_range(pool, places[i], pages);
        }
    }
    chunk->blocked = chunk->busy != 0 ? chunk->blocked : 0;
}

/* Frees pages [first, past) of @slot, if any, and notes when its chunk was used last. */
static inline __attribute__((always_inline)) void drop_part(struct gm_pool *pool, struct gm_slot *slot, uint32_t first,
                                                            uint32_t past, uint64_t stamp, struct tally *tally)
{
    struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
    slot->last_used = pool->sequence;
    gm_stream_stamp(pool, chunk, stamp);
    if (first >= past) {
        return;
    }
    uint64_t freed = gm_page_mask(first - slot->page, past - 1 - slot->page);
    chunk->busy &= ~freed;
    tally->pages += past - first;
    tally->alias_pages += slot->alias ? past - first : 0;
    if (chunk->busy == 0) {
        gm_free_pages(pool)[slot->chunk] = (uint8_t)chunk->pages;
        tally->chunk_pages += chunk->pages;
    }
    if (chunk->blocked != 0) {
        tell_other_ranges(pool, chunk, freed);
    }
}

/* Frees the pages under @block that the gap [gap_start, gap_end) around it has for itself. */
static inline __attribute__((always_inline)) void drop_pages(struct gm_pool *pool, struct gm_range *range,
                                                             const struct gm_node *block, uint32_t gap_start,
                                                             uint32_t gap_end, uint64_t stamp)
{
    uint32_t first = block->start / GM_PAGE_UNITS;
    uint32_t last = (block->start + block->size - 1) / GM_PAGE_UNITS;
    struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, first);
    struct gm_slot *end = gm_slots(range) + gm_range_slot(range, last);
    /* Border pages that a neighbour still uses stay busy. first_free may reach past_free: then none is freed. */
    uint32_t first_free = first * GM_PAGE_UNITS >= gap_start ? first : first + 1;
    uint32_t past_free = (last + 1) * GM_PAGE_UNITS <= gap_end ? last + 1 : last;
    struct tally tally = {0};
    if (slot == end) {
        drop_part(pool, slot, first_free, past_free, stamp, &tally);
    } else {
        drop_part(pool, slot, first_free, slot->page + slot->pages, stamp, &tally);
        drop_part(pool, end, end->page, past_free, stamp, &tally);
        /* Slots that the block covers from end to end: their chunks are free as a whole. */
        struct gm_chunk *chunks = pool->chunks.data;
        uint8_t *free_pages = gm_free_pages(pool);
        uint64_t sequence = pool->sequence;
        uint64_t pages = end->page - (slot->page + slot->pages);
        for (slot++; slot < end; slot++) {
            struct gm_chunk *chunk = &chunks[slot->chunk];
            slot->last_used = sequence;
            gm_stream_stamp(pool, chunk, stamp);
            chunk->busy = 0;
            free_pages[slot->chunk] = (uint8_t)slot->pages;
            tally.alias_pages += slot->alias;
            if (chunk->blocked != 0) {
                tell_other_ranges(pool, chunk, gm_page_all(slot->pages));
            }
        }
        tally.pages += pages;
        tally.chunk_pages += pages;
    }
    pool->busy_pages -= tally.pages;
    pool->free_chunk_pages += tally.chunk_pages;
    pool->alias_busy_pages -= tally.alias_pages;
}

void gm_node_grow_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units)
{
    uint32_t tail = range->last;
    if (tail != GM_NONE && gm_node(pool, tail)->state == GM_NODE_GAP) {
        gm_index_remove(pool, range, tail);
        gm_node(pool, tail)->size += units;
        gm_node(pool, tail)->bound += units;
        gm_index_insert(pool, range, tail);
        return;
    }
    uint32_t index = take_node(pool);
    struct gm_node *gap = gm_node(pool, index);
    gap->start = range->mapped * GM_PAGE_UNITS - units;
    gap->size = units;
    gap->bound = units;
    gap->state = GM_NODE_GAP;
    link_node(pool, range, index, tail, GM_NONE);
    gm_index_insert(pool, range, index);
}

bool gm_node_shrink_tail(struct gm_pool *pool, struct gm_range *range, uint32_t units)
{
    uint32_t tail = gm_range_tail(pool, gm_range_id(pool, range));
    if (tail == GM_NONE || gm_node(pool, tail)->size < units) {
        return false;
    }
    struct gm_node *gap = gm_node(pool, tail);
    gm_index_remove(pool, range, tail);
    gap->size -= units;
    if (gap->size == 0) {
        unlink_node(pool, range, tail);
        return true;
    }
    gap->bound = gm_min(gap->bound, gap->size);
    gm_index_insert(pool, range, tail);
    return true;
}

uint32_t gm_range_tail(const struct gm_pool *pool, uint32_t index)
{
    uint32_t last = gm_range(pool, index)->last;
    return last != GM_NONE && gm_node(pool, last)->state == GM_NODE_GAP ? last : GM_NONE;
}

/* Leaves of gap @gap what lies before @start and after @end; returns the node that is to be the block. */
static inline __attribute__((always_inline)) uint32_t divide_gap(struct gm_pool *pool, struct gm_range *range,
                                                                 uint32_t gap_index, uint32_t start, uint32_t end)
{
    struct gm_node *gap = gm_node(pool, gap_index);
    uint32_t gap_end = gap->start + gap->size;
    if (gap->start == start && gap_end == end) {
        gm_index_remove(pool, range, gap_index);
        return gap_index;
    }
    uint32_t index = take_node(pool);
    gap = gm_node(pool, gap_index);
    if (gap_end == end) {
        gm_index_remove(pool, range, gap_index);
        gap->size = start - gap->start;
        gap->bound = gm_min(gm_min(gap->bound, pool->walk_before), gap->size);
        gm_index_insert(pool, range, gap_index);
        link_node(pool, range, index, gap_index, gap->next);
        return index;
    }
    uint32_t before = gap->prev;
    if (gap->start < start) {
        uint32_t left_index = take_node(pool);
        gap = gm_node(pool, gap_index);
        struct gm_node *left = gm_node(pool, left_index);
        left->start = gap->start;
        left->size = start - gap->start;
        left->bound = gm_min(gm_min(gap->bound, pool->walk_before), left->size);
        left->state = GM_NODE_GAP;
        link_node(pool, range, left_index, before, gap_index);
        gm_index_insert(pool, range, left_index);
        before = left_index;
    }
    /* The rest keeps its end, and with it its place in the index. */
    gap->start = end;
    gap->size = gap_end - end;
    gap->bound = gm_min(gap->bound, gap->size);
    gm_index_move(range, gap_index, end);
    link_node(pool, range, index, before, gap_index);
    return index;
}

int gm_range_carve(struct gm_pool *pool, uint32_t gap_index, uint32_t start, uint32_t units, uint32_t *out)
{
    if (gm_node_reserve(pool, 2) < 0) {
        return -ENOMEM;
    }
    struct gm_range *range = gm_range(pool, gm_node(pool, gap_index)->range);
    uint32_t index = divide_gap(pool, range, gap_index, start, start + units);
    struct gm_node *block = gm_node(pool, index);
    block->start = start;
    block->size = units;
    block->slack = 0;
    block->state = GM_NODE_LIVE;
    block->stitched = take_pages(pool, range, start, units);
    range->starts[start >> range->start_shift] = index;
    pool->newest = index;
    *out = index;
    return 0;
}

static void release(struct gm_pool *pool, uint32_t index, uint64_t stamp)
{
    struct gm_node *block = gm_node(pool, index);
    struct gm_range *range = gm_range(pool, block->range);
    struct gm_node *prev = block->prev != GM_NONE ? gm_node(pool, block->prev) : NULL;
    struct gm_node *next = block->next != GM_NONE ? gm_node(pool, block->next) : NULL;
    bool gap_before = prev != NULL && prev->state == GM_NODE_GAP;
    bool gap_after = next != NULL && next->state == GM_NODE_GAP;
    uint32_t start = gap_before ? prev->start : block->start;
    uint32_t end = block->start + block->size + (gap_after ? next->size : 0);
    /* No run of the whole is longer than the longest of each part, end to end. */
    uint32_t bound = (gap_before ? prev->bound : 0) + block->size + (gap_after ? next->bound : 0);

    range->starts[block->start >> range->start_shift] = 0;
    drop_pages(pool, range, block, start, end, stamp);
    if (gap_after) {
        uint32_t gap = block->next;
        if (gap_before) {
            gm_index_remove(pool, range, block->prev);
            unlink_node(pool, range, block->prev);
        }
        unlink_node(pool, range, index);
        next->start = start;
        next->size = end - start;
        next->bound = bound;
        gm_index_raise(pool, range, gap);
        return;
    }
    uint32_t gap = index;
    if (gap_before) {
        gap = block->prev;
        gm_index_remove(pool, range, gap);
        unlink_node(pool, range, index);
    }
    struct gm_node *merged = gm_node(pool, gap);
    merged->state = GM_NODE_GAP;
    merged->start = start;
    merged->size = end - start;
    merged->bound = bound;
    gm_index_insert(pool, range, gap);
}

void gm_node_forget_newest(struct gm_pool *pool)
{
    uint32_t index = pool->newest;
    pool->newest = 0;
    if (gm_node(pool, index)->state == GM_NODE_KEPT) {
        release(pool, index, pool->kept_stamp);
    }
}

void gm_range_release(struct gm_pool *pool, uint32_t index, uint64_t stamp)
{
    gm_node_forget_newest(pool);
    release(pool, index, stamp);
}

uint32_t gm_range_find(const struct gm_pool *pool, const struct gm_range *range, uint32_t at)
{
    if (at >= range->mapped * GM_PAGE_UNITS) {
        return GM_NONE;
    }
    uint32_t granule = at >> range->start_shift;
    for (;;) {
        uint32_t index = gm_start_node(pool, range->starts[granule]);
        if (index != 0 && gm_node(pool, index)->start <= at) {
            const struct gm_node *node = gm_node(pool, index);
            return at < node->start + node->size ? index : GM_NONE;
        }
        if (granule-- == 0) {
            return GM_NONE;
        }
    }
}
