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

/* Pages [first, past). */
struct span {
    uint32_t first, past;
};

/*
 * The pages under units [start, end) of @gap that no block of its range has a part of. A page shared with a block is in
 * use here, and so its rest is usable here.
 */
static inline struct span pages_alone(const struct gm_node *gap, uint32_t start, uint32_t end)
{
    uint32_t first = gm_max(start / GM_PAGE_UNITS, gm_pages_of_units(gap->start));
    uint32_t past = gm_min(gm_pages_of_units(end), (gap->start + gap->size) / GM_PAGE_UNITS);
    return (struct span){first, past};
}

/* The pages of @slot's chunk in @span that are in use, elsewhere. */
static inline uint64_t busy_elsewhere(const struct gm_slot *slot, const struct gm_chunk *chunk, struct span span)
{
    uint32_t first = gm_max(span.first, slot->page);
    uint32_t past = gm_min(span.past, slot->page + slot->pages);
    return first < past ? chunk->busy & gm_page_mask(first - slot->page, past - 1 - slot->page) : 0;
}

/* A walk that came to nothing has looked at @chunks chunks and one more. */
static void spend(struct gm_pool *pool, ptrdiff_t chunks)
{
    pool->walk_left -= gm_min(pool->walk_left, (uint32_t)chunks + 1);
}

/* Takes the usable bits of pages in use elsewhere from @slot and those behind it in a row. Returns the last of these.
 */
static const struct gm_slot *mark_in_use(struct gm_pool *pool, struct gm_range *range, const struct gm_slot *slot,
                                         struct span span)
{
    for (;; slot++) {
        struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        uint64_t busy = busy_elsewhere(slot, chunk, span);
        if (busy == 0) {
            return slot - 1;
        }
        gm_bits_clear(range->usable, slot->page, busy);
        gm_chunk_block(chunk, slot->place);
        if (slot->page + slot->pages >= span.past) {
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
    struct span alone = pages_alone(gap, start, end);
    const struct gm_slot *slot = first_in_doubt(pool, first, last, wanted->horizon);
    while (slot <= last) {
        const struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        uint64_t busy = busy_elsewhere(slot, chunk, alone);
        if (busy != 0) {
            *page = slot->page + (uint32_t)__builtin_ctzll(busy);
            alone.first = gm_pages_of_units(gap->start);
            spend(pool, mark_in_use(pool, range, slot, alone) - first);
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

/* A search of a gap for places on pages that are all marked usable. */
struct places {
    uint32_t from;    /* unit of the one found */
    uint32_t page;    /* where to go on */
    uint32_t longest; /* no more pages in a row before that are marked usable */
};

/* Whether there is a place for @units at the start of @gap, which may be inside a page. Most gaps have one. */
static inline bool first_place(const struct gm_range *range, const struct gm_node *gap, uint32_t units,
                               struct places *out)
{
    uint32_t first = gap->start / GM_PAGE_UNITS;
    uint32_t past = gm_pages_of_units(gap->start + units);
    out->from = gap->start;
    out->page = gm_bits_next(range->usable, first, past, UINT64_MAX);
    bool found = out->page == past;
    out->longest = found ? 0 : out->page - first;
    return found;
}

/* Whether there is another place for @units of @gap. */
static __attribute__((noinline)) bool next_place(const struct gm_range *range, const struct gm_node *gap,
                                                 uint32_t units, struct places *places)
{
    uint32_t pages = gm_pages_of_units(units);
    uint32_t end = gap->start + gap->size;
    uint32_t past = gm_pages_of_units(end);
    uint32_t page = gm_bits_find(range->usable, places->page, past, pages, &places->longest);
    places->page = page;
    places->from = page * GM_PAGE_UNITS;
    if (page < past && places->from + units > end) { /* the last page is not all of the gap's */
        places->longest = pages;
        return false;
    }
    return page < past;
}

bool gm_walk_fit_slow(struct gm_pool *pool, uint32_t node, uint32_t units, uint32_t stream, uint64_t horizon,
                      uint32_t *start)
{
    struct gm_node *gap = gm_node(pool, node);
    struct gm_range *range = gm_range(pool, gap->range);
    struct wanted wanted = {units, stream, horizon};
    struct places places;
    if (gap->size < units) {
        return false;
    }
    bool found = first_place(range, gap, units, &places);
    bool bound_is_known = true;
    for (; found || next_place(range, gap, units, &places); found = false) {
        if (pool->walk_left == 0) {
            return false;
        }
        switch (verify(pool, range, gap, places.from, &wanted, &places.page)) {
        case USABLE:
            *start = places.from;
            pool->walk_before = bound_is_known ? places.longest * GM_PAGE_UNITS : UINT32_MAX;
            return true;
        case IN_USE: /* what lies before the page in use is too short */
            places.longest = gm_max(places.longest, places.page - places.from / GM_PAGE_UNITS);
            break;
        case NOT_YET:
            bound_is_known = false;
            break;
        }
    }
    if (bound_is_known) {
        gap->bound = gm_min(gap->bound, gm_min(places.longest * GM_PAGE_UNITS, units - 1));
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
        uint64_t busy = busy_elsewhere(slot, chunk, pages_alone(gap, start, gap_end));
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
        struct span alone = pages_alone(gap, start, end);
        bool usable = slot->chunk != GM_NONE && busy_elsewhere(slot, gm_chunk(pool, slot->chunk), alone) == 0;
        run = usable ? run + end - start : 0;
        *total += usable ? end - start : 0;
        longest = gm_max(longest, run);
    }
    return longest;
}
