/*
 * walk.c - see walk.h.
 */
#include "walk.h"

#include "access.h"
#include "bits.h"
#include "chunk.h"
#include "index.h"
#include "range.h"
#include "stream.h"

/*
 * The pages of @slot's chunk that are in use elsewhere, among those of [start, end) units of gap @gap. A page that
 * the gap shares with a block of this range is in use here, and so its rest is usable here.
 */
static inline uint64_t busy_elsewhere(const struct gm_node *gap, const struct gm_slot *slot,
                                      const struct gm_chunk *chunk, uint32_t start, uint32_t end)
{
    if (slot->page * GM_PAGE_UNITS >= start && (slot->page + slot->pages) * GM_PAGE_UNITS <= end) {
        return chunk->busy; /* all of it, and no border */
    }
    uint32_t first = gm_max(start / GM_PAGE_UNITS, slot->page);
    uint32_t last = gm_min((end - 1) / GM_PAGE_UNITS, slot->page + slot->pages - 1);
    uint64_t busy = chunk->busy & gm_page_mask(first - slot->page, last - slot->page);
    if (busy == 0) {
        return 0;
    }
    uint32_t gap_end = gap->start + gap->size;
    if (gap->start % GM_PAGE_UNITS != 0 && first == gap->start / GM_PAGE_UNITS) {
        busy &= ~((uint64_t)1 << (first - slot->page));
    }
    if (gap_end % GM_PAGE_UNITS != 0 && last == gap_end / GM_PAGE_UNITS) {
        busy &= ~((uint64_t)1 << (last - slot->page));
    }
    return busy;
}

/* A walk that came to nothing has looked at @chunks chunks and one more. */
static void spend(struct gm_pool *pool, ptrdiff_t chunks)
{
    pool->walk_left -= gm_min(pool->walk_left, (uint32_t)chunks + 1);
}

/* Takes the usable bits of pages in use elsewhere from @slot and those behind it in a row. Returns the last of these.
 */
static const struct gm_slot *mark_in_use(struct gm_pool *pool, struct gm_range *range, const struct gm_node *gap,
                                         const struct gm_slot *slot, uint32_t end)
{
    for (;; slot++) {
        struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        uint32_t at = gm_max(slot->page * GM_PAGE_UNITS, gap->start);
        uint64_t busy = at < end ? busy_elsewhere(gap, slot, chunk, at, end) : 0;
        if (busy == 0) {
            return slot - 1;
        }
        gm_bits_clear(range->usable, slot->page, busy);
        gm_chunk_block(chunk, slot->place);
        if ((slot->page + slot->pages) * GM_PAGE_UNITS >= end) {
            return slot;
        }
    }
}

enum verdict { USABLE, IN_USE, NOT_YET };

/* What a walk is for: a place of @units for @stream, which sees all chunks stamped up to @horizon. */
struct wanted {
    uint32_t units;
    uint32_t stream;
    uint64_t horizon;
};

/* The first of the slots from @slot to @last whose chunk is not plainly usable: free, and seen by the stream. */
static inline const struct gm_slot *first_in_doubt(const struct gm_pool *pool, const struct gm_slot *slot,
                                                   const struct gm_slot *last, uint64_t horizon)
{
    if (pool->stream_count <= 1) {
        while (slot <= last && gm_chunk_is_free(pool, slot->chunk)) {
            slot++;
        }
        return slot;
    }
    while (slot <= last && gm_chunk_is_free(pool, slot->chunk) &&
           (gm_chunk(pool, slot->chunk)->stamp & GM_SEQUENCE_MASK) <= horizon) {
        slot++;
    }
    return slot;
}

/* The last of the slots from @slot to @last in a row whose chunks are free since one and the same moment. */
static inline const struct gm_slot *last_alike(const struct gm_pool *pool, const struct gm_slot *slot,
                                               const struct gm_slot *last)
{
    uint64_t stamp = gm_chunk(pool, slot->chunk)->stamp;
    while (slot < last && gm_chunk_is_free(pool, slot[1].chunk) && gm_chunk(pool, slot[1].chunk)->stamp == stamp) {
        slot++;
    }
    return slot;
}

/*
 * Looks at the chunks under the units of @gap from @start on. IN_USE: pages were in use elsewhere and are now marked
 * so; NOT_YET: work on another stream has to complete first. *page is where to go on.
 */
static enum verdict verify(struct gm_pool *pool, struct gm_range *range, const struct gm_node *gap, uint32_t start,
                           const struct wanted *wanted, uint32_t *page)
{
    uint32_t end = start + wanted->units;
    const struct gm_slot *slots = gm_slots(range);
    const struct gm_slot *first = slots + gm_range_slot(range, start / GM_PAGE_UNITS);
    const struct gm_slot *last = slots + gm_range_slot(range, (end - 1) / GM_PAGE_UNITS);
    const struct gm_slot *slot = first_in_doubt(pool, first, last, wanted->horizon);
    while (slot <= last) {
        const struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        uint64_t busy = busy_elsewhere(gap, slot, chunk, gm_max(slot->page * GM_PAGE_UNITS, start), end);
        if (busy != 0) {
            *page = slot->page + (uint32_t)__builtin_ctzll(busy);
            spend(pool, mark_in_use(pool, range, gap, slot, end) - first);
            return IN_USE;
        }
        if (!gm_stream_sees_chunk(pool, chunk, wanted->stream, wanted->horizon)) {
            slot = last_alike(pool, slot, last);
            spend(pool, slot - first);
            *page = slot->page + slot->pages;
            return NOT_YET;
        }
        slot = first_in_doubt(pool, slot + 1, last, wanted->horizon);
    }
    return USABLE;
}

/*
 * The next place for @units of @gap on pages that are all marked usable, at or after *page: true, and its first unit in
 * *from and page in *page.
 */
static inline bool next_place(const struct gm_range *range, const struct gm_node *gap, uint32_t units, uint32_t *page,
                              uint32_t *from)
{
    if (gap->size < units) {
        return false;
    }
    if (*page == gap->start / GM_PAGE_UNITS) { /* most gaps are usable from their start, which may be inside a page */
        uint32_t past = gm_pages_of_units(gap->start + units);
        *page = gm_bits_next(range->usable, *page, past, UINT64_MAX);
        if (*page == past) {
            *page = gap->start / GM_PAGE_UNITS;
            *from = gap->start;
            return true;
        }
    }
    uint32_t pages = gm_pages_of_units(units);
    uint32_t past = (gap->start + gap->size - units) / GM_PAGE_UNITS + pages;
    *page = gm_bits_find(range->usable, *page, past, pages);
    *from = *page * GM_PAGE_UNITS;
    return *page < past;
}

/* No place for @units was found in @gap, and no page of a chunk that is in use elsewhere was in the way of one. */
static void lower_bound(const struct gm_range *range, struct gm_node *gap, uint32_t units)
{
    uint32_t past = (gap->start + gap->size - 1) / GM_PAGE_UNITS + 1;
    uint32_t longest = gm_bits_longest(range->usable, gap->start / GM_PAGE_UNITS, past) * GM_PAGE_UNITS;
    gap->bound = gm_min(gap->bound, gm_min(longest, units - 1));
}

bool gm_walk_fit_slow(struct gm_pool *pool, uint32_t node, uint32_t units, uint32_t stream, uint64_t horizon,
                      uint32_t *start)
{
    struct gm_node *gap = gm_node(pool, node);
    struct gm_range *range = gm_range(pool, gap->range);
    uint32_t page = gap->start / GM_PAGE_UNITS;
    uint32_t from;
    bool bound_is_known = true;
    struct wanted wanted = {units, stream, horizon};
    while (next_place(range, gap, units, &page, &from)) {
        if (pool->walk_left == 0) {
            return false;
        }
        switch (verify(pool, range, gap, from, &wanted, &page)) {
        case USABLE:
            *start = from;
            return true;
        case IN_USE:
            break;
        case NOT_YET:
            bound_is_known = false;
            break;
        }
    }
    if (bound_is_known) {
        lower_bound(range, gap, units);
    }
    return false;
}

/* Pages [first, past) of a gap, in which all runs are known to be within its bound. */
struct seen {
    uint32_t gap;
    uint32_t first, past;
};

/* The longest run of possibly usable units of the gap that meets pages [first, past); *seen gets the pages it is in. */
static uint32_t longest_at(const struct gm_range *range, const struct gm_node *gap, uint32_t first, uint32_t past,
                           struct seen *seen)
{
    uint32_t gap_end = gap->start + gap->size;
    uint32_t gap_past = (gap_end - 1) / GM_PAGE_UNITS + 1;
    uint32_t page = gm_bits_run_start(range->usable, gap->start / GM_PAGE_UNITS, gm_max(first, 1));
    uint32_t longest = 0;
    past = gm_min(past, gap_past);
    seen->first = page;
    while (page < past) {
        page = gm_bits_next(range->usable, page, gap_past, 0);
        uint32_t run_past = gm_bits_next(range->usable, page, gap_past, UINT64_MAX);
        uint32_t start = gm_max(page * GM_PAGE_UNITS, gap->start);
        uint32_t end = gm_min(run_past * GM_PAGE_UNITS, gap_end);
        longest = gm_max(longest, end > start ? end - start : 0);
        page = gm_max(run_past, page + 1);
    }
    seen->past = page;
    return longest;
}

/* Raises the bounds of the gaps over the slot that begins at @page. */
static void refresh_slot(struct gm_pool *pool, struct gm_range *range, uint32_t page, struct seen *seen)
{
    struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, page);
    uint32_t past = page + slot->pages;
    slot->dirty = 0;
    /* Blocks free chunk after chunk: the next slot is most often in the run that the last one led to. */
    if (seen->gap != GM_NONE && seen->first <= page && past <= seen->past) {
        return;
    }
    for (uint32_t i = gm_index_after(pool, range, page * GM_PAGE_UNITS); i != GM_NONE; i = gm_node(pool, i)->next) {
        struct gm_node *gap = gm_node(pool, i);
        if (gap->start >= past * GM_PAGE_UNITS) {
            return;
        }
        if (gap->state != GM_NODE_GAP) {
            continue;
        }
        uint32_t longest = longest_at(range, gap, page, past, seen);
        seen->gap = i;
        if (longest > gap->bound) {
            gap->bound = longest;
            gm_index_raise(pool, range, i);
        }
    }
}

void gm_walk_refresh(struct gm_pool *pool, struct gm_range *range)
{
    const uint32_t *pages = range->dirty.data;
    struct seen seen = {.gap = GM_NONE};
    for (uint32_t i = 0; i < range->dirty.count; i++) {
        refresh_slot(pool, range, pages[i], &seen);
    }
    range->dirty.count = 0;
}

uint32_t gm_walk_tail(struct gm_pool *pool, uint32_t index, uint32_t stream)
{
    uint32_t tail = gm_range_tail(pool, index);
    if (tail == GM_NONE) {
        return 0;
    }
    const struct gm_range *range = gm_range(pool, index);
    const struct gm_node *gap = gm_node(pool, tail);
    uint32_t gap_end = gap->start + gap->size;
    uint32_t units = 0;
    for (uint32_t i = range->slots.count; i-- > 0;) {
        const struct gm_slot *slot = gm_slots(range) + i;
        uint32_t start = gm_max(slot->page * GM_PAGE_UNITS, gap->start);
        uint32_t end = (slot->page + slot->pages) * GM_PAGE_UNITS;
        if (end <= gap->start || slot->chunk == GM_NONE) {
            break;
        }
        const struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        if (!gm_stream_sees(pool, chunk->stamp, stream)) {
            break;
        }
        uint64_t busy = busy_elsewhere(gap, slot, chunk, start, gap_end);
        if (busy != 0) {
            uint32_t last = 63 - (uint32_t)__builtin_clzll(busy);
            return units + end - (slot->page + last + 1) * GM_PAGE_UNITS;
        }
        units += end - start;
    }
    return units;
}

uint32_t gm_walk_longest(struct gm_pool *pool, uint32_t index, uint64_t *total)
{
    const struct gm_node *gap = gm_node(pool, index);
    const struct gm_range *range = gm_range(pool, gap->range);
    uint32_t gap_end = gap->start + gap->size;
    uint32_t run = 0;
    uint32_t longest = 0;
    *total = 0;
    for (uint32_t page = gap->start / GM_PAGE_UNITS; page * GM_PAGE_UNITS < gap_end; page++) {
        const struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, page);
        uint32_t start = gm_max(page * GM_PAGE_UNITS, gap->start);
        uint32_t end = gm_min((page + 1) * GM_PAGE_UNITS, gap_end);
        bool usable = slot->chunk != GM_NONE && busy_elsewhere(gap, slot, gm_chunk(pool, slot->chunk), start, end) == 0;
        run = usable ? run + end - start : 0;
        *total += usable ? end - start : 0;
        longest = gm_max(longest, run);
    }
    return longest;
}
