/*
 * walk.c - see walk.h.
 */
#include "walk.h"

#include "access.h"
#include "index.h"
#include "range.h"
#include "stream.h"

/* A walk over the slots under a gap. */
struct walk {
    const struct gm_pool *pool;
    const struct gm_slot *slot;
    uint32_t start, end; /* of the gap, units */
    uint32_t at;         /* units before it have been looked at */
};

static void begin(struct walk *walk, const struct gm_pool *pool, const struct gm_node *gap)
{
    const struct gm_range *range = gm_range(pool, gap->range);
    walk->pool = pool;
    walk->slot = gm_slots(range) + gm_range_slot(range, gap->start / GM_PAGE_UNITS);
    walk->start = gap->start;
    walk->end = gap->start + gap->size;
    walk->at = gap->start;
}

/*
 * The pages of the current slot's chunk that are in use elsewhere, as far as they lie under the gap. A page that the
 * gap shares with a block of this range is in use here, and so its rest is usable here.
 */
static uint64_t busy_elsewhere(const struct walk *walk, const struct gm_chunk *chunk)
{
    uint32_t page = walk->slot->page;
    uint32_t first = walk->at / GM_PAGE_UNITS;
    uint32_t last = gm_min((walk->end - 1) / GM_PAGE_UNITS, page + walk->slot->pages - 1);
    uint64_t busy = chunk->busy & gm_page_mask(first - page, last - page);
    if (busy == 0) {
        return 0;
    }
    if (walk->start % GM_PAGE_UNITS != 0 && first == walk->start / GM_PAGE_UNITS) {
        busy &= ~((uint64_t)1 << (first - page));
    }
    if (walk->end % GM_PAGE_UNITS != 0 && last == (walk->end - 1) / GM_PAGE_UNITS) {
        busy &= ~((uint64_t)1 << (last - page));
    }
    return busy;
}

static uint32_t slot_end(const struct walk *walk)
{
    return gm_min((walk->slot->page + walk->slot->pages) * GM_PAGE_UNITS, walk->end);
}

/* A run of usable units that grows as the walk goes on. */
struct run {
    uint32_t start;
    uint32_t longest;
};

/* Ends the run at @end and begins a new one at @next. */
static void break_run(struct run *run, uint32_t end, uint32_t next)
{
    if (end > run->start) {
        run->longest = gm_max(run->longest, end - run->start);
    }
    run->start = gm_max(next, run->start);
}

/* Takes the current slot, of which pages @busy are used elsewhere, into @run; true: it is @units long now. */
static bool pass_slot(const struct walk *walk, uint64_t busy, uint32_t units, struct run *run)
{
    uint32_t base = walk->slot->page * GM_PAGE_UNITS;
    while (busy != 0) {
        uint32_t bit = (uint32_t)__builtin_ctzll(busy);
        uint64_t rest = ~(busy >> bit);
        uint32_t count = rest == 0 ? 64 : (uint32_t)__builtin_ctzll(rest);
        uint32_t blocked = base + bit * GM_PAGE_UNITS;
        if (blocked > run->start && blocked - run->start >= units) {
            return true;
        }
        break_run(run, blocked, blocked + count * GM_PAGE_UNITS);
        busy &= bit + count >= 64 ? 0 : UINT64_MAX << (bit + count);
    }
    uint32_t end = slot_end(walk);
    return end > run->start && end - run->start >= units;
}

static bool fit_shared(struct gm_pool *pool, uint32_t index, uint32_t units, uint32_t stream, uint32_t *start)
{
    struct gm_node *gap = gm_node(pool, index);
    struct walk walk;
    begin(&walk, pool, gap);
    struct run usable = {gap->start, 0};  /* by @stream */
    struct run possible = {gap->start, 0}; /* by some stream, now or later: what the bound has to cover */
    bool one_stream = pool->stream_count <= 1;
    for (; walk.at < walk.end; walk.at = slot_end(&walk), walk.slot++) {
        if (pool->walk_left == 0) {
            return false;
        }
        pool->walk_left--;
        uint32_t end = slot_end(&walk);
        if (walk.slot->chunk == GM_NONE) {
            break_run(&usable, walk.at, end);
            break_run(&possible, walk.at, end);
            continue;
        }
        struct gm_chunk *chunk = gm_chunk(pool, walk.slot->chunk);
        uint64_t busy = busy_elsewhere(&walk, chunk);
        if (busy != 0) {
            chunk->blocked = true;
        }
        if (one_stream) {
            if (pass_slot(&walk, busy, units, &usable)) {
                *start = usable.start;
                return true;
            }
            continue;
        }
        pass_slot(&walk, busy, UINT32_MAX, &possible);
        if (!gm_stream_sees(pool, chunk->stamp, stream)) {
            break_run(&usable, walk.at, end);
        } else if (pass_slot(&walk, busy, units, &usable)) {
            *start = usable.start;
            return true;
        }
    }
    struct run *all = one_stream ? &usable : &possible;
    break_run(all, walk.end, walk.end);
    gap->bound = gm_min(gap->bound, all->longest);
    return false;
}

bool gm_walk_fit(struct gm_pool *pool, uint32_t index, uint32_t units, uint32_t stream, uint32_t *start)
{
    const struct gm_node *gap = gm_node(pool, index);
    if (!gm_range(pool, gap->range)->shared && pool->stream_count <= 1) {
        *start = gap->start;
        return true;
    }
    return fit_shared(pool, index, units, stream, start);
}

/* Whole free slots in a row, from @index on in direction @step, within [from, past); marks what ends the row. */
static uint32_t free_beside(struct gm_pool *pool, const struct gm_range *range, uint32_t index, int step,
                            uint32_t from, uint32_t past)
{
    uint32_t units = 0;
    for (;;) {
        index = (uint32_t)((int64_t)index + step);
        if (index >= range->slots.count) {
            return units;
        }
        const struct gm_slot *slot = gm_slots(range) + index;
        uint32_t start = slot->page * GM_PAGE_UNITS;
        uint32_t end = start + slot->pages * GM_PAGE_UNITS;
        if (end <= from || start >= past || slot->chunk == GM_NONE) {
            return units;
        }
        struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        uint32_t overlap = gm_min(end, past) - gm_max(start, from);
        units += overlap; /* of a partly busy slot too: a bound may be too high */
        if (chunk->busy != 0) {
            chunk->blocked = true;
            return units;
        }
        if (pool->walk_left > 0) {
            pool->walk_left--;
        } else {
            return past - from;
        }
    }
}

/* Raises the bounds of the gaps over the slot at @page. */
static void refresh_slot(struct gm_pool *pool, struct gm_range *range, uint32_t page)
{
    uint32_t index = gm_range_slot(range, page);
    struct gm_slot *slot = gm_slots(range) + index;
    uint32_t start = page * GM_PAGE_UNITS;
    uint32_t end = start + slot->pages * GM_PAGE_UNITS;
    slot->dirty = 0;
    for (uint32_t i = gm_index_after(pool, range, start); i != GM_NONE; i = gm_node(pool, i)->next) {
        struct gm_node *gap = gm_node(pool, i);
        if (gap->start >= end) {
            return;
        }
        if (gap->state != GM_NODE_GAP) {
            continue;
        }
        uint32_t past = gap->start + gap->size;
        uint32_t run = gm_min(end, past) - gm_max(start, gap->start);
        if (gap->start < start) {
            run += free_beside(pool, range, index, -1, gap->start, past);
        }
        if (past > end) {
            run += free_beside(pool, range, index, 1, gap->start, past);
        }
        run = gm_min(run, gap->size);
        if (run > gap->bound) {
            gap->bound = run;
            gm_index_raise(pool, range, i);
        }
    }
}

void gm_walk_refresh(struct gm_pool *pool, struct gm_range *range)
{
    const uint32_t *pages = range->dirty.data;
    for (uint32_t i = 0; i < range->dirty.count; i++) {
        refresh_slot(pool, range, pages[i]);
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
    uint32_t units = 0;
    for (uint32_t i = range->slots.count; i-- > 0;) {
        const struct gm_slot *slot = gm_slots(range) + i;
        uint32_t start = gm_max(slot->page * GM_PAGE_UNITS, gap->start);
        uint32_t end = (slot->page + slot->pages) * GM_PAGE_UNITS;
        if (end <= gap->start || slot->chunk == GM_NONE) {
            break;
        }
        struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        if (!gm_stream_sees(pool, chunk->stamp, stream)) {
            break;
        }
        struct walk walk = {pool, slot, gap->start, gap->start + gap->size, start};
        uint64_t busy = busy_elsewhere(&walk, chunk);
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
    struct gm_node *gap = gm_node(pool, index);
    struct walk walk;
    begin(&walk, pool, gap);
    struct run run = {gap->start, 0};
    uint64_t busy_units = 0;
    for (; walk.at < walk.end; walk.at = slot_end(&walk), walk.slot++) {
        if (walk.slot->chunk == GM_NONE) {
            busy_units += slot_end(&walk) - walk.at;
            break_run(&run, walk.at, slot_end(&walk));
            continue;
        }
        uint64_t busy = busy_elsewhere(&walk, gm_chunk(pool, walk.slot->chunk));
        busy_units += (uint64_t)__builtin_popcountll(busy) * GM_PAGE_UNITS;
        pass_slot(&walk, busy, UINT32_MAX, &run);
    }
    break_run(&run, walk.end, walk.end);
    *total = gap->size - busy_units;
    return run.longest;
}
