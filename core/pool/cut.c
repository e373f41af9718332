/*
 * cut.c - see cut.h.
 */
#include "cut.h"

#include "access.h"
#include "chunk.h"
#include "plan.h"
#include "range.h"
#include "stream.h"
#include "tunables.h"

#define MOST_PLACES      3u       /* a chunk mapped more often costs too much to cut */
#define BURST_NS         25000000 /* budget saved up at most */
#define GROWTH_NS_PER_GB 1000000  /* budget for growing by a GB */
#define WINDOW_PEAKS     10u      /* the device counts as full until this many peaks have been served */
#define SHORT_PEAKS      40u      /* memory counts as short at most until this many have been */
#define SHORT_FALLS      2u       /* or until live memory has fallen this often, by a quarter of the peak */
#define SWING            4u
#define VAIN_MOST        16u /* unless so many such questions in a row had no for an answer */
#define ASKED_PEAKS      4u  /* events are recorded for this many peaks after a cut needed one */

/* Modelled driver time of a cut (H200, driver 580): per place unmap and map twice; release, create twice. */
static int64_t cost_ns(const struct gm_chunk *chunk)
{
    return chunk->place_count * INT64_C(87000) + 35000 + (int64_t)chunk->pages * 800;
}

static bool can_afford(struct gm_pool *pool, int64_t ns)
{
    uint64_t now = pool->vmm.cu->now_ns();
    int64_t share = (int64_t)gm_tunable(GMLAKE_TUNABLE_cut_budget);
    uint64_t peak = pool->vmm.reserved_peak;
    pool->cut_tokens_ns += (int64_t)((peak - pool->cut_peak) >> 20) * GROWTH_NS_PER_GB / 1024;
    pool->cut_peak = peak;
    pool->cut_tokens_ns += (int64_t)((now - pool->cut_tokens_at_ns) / 1000) * share / 1000;
    pool->cut_tokens_at_ns = now;
    if (pool->cut_tokens_ns > BURST_NS) {
        pool->cut_tokens_ns = BURST_NS;
    }
    return pool->cut_tokens_ns >= ns;
}

/* Whether nothing on the device uses @chunk any more. Having been asked, the pool records events for a while. */
static bool is_done(struct gm_pool *pool, const struct gm_chunk *chunk)
{
    if (pool->asked_in_vain < VAIN_MOST) {
        pool->asked_until = pool->served_bytes + ASKED_PEAKS * pool->counts.requested_peak;
    }
    bool done = gm_stream_is_done(pool, chunk->stamp);
    pool->asked_in_vain = done ? 0 : pool->asked_in_vain + 1;
    return done;
}

uint64_t gm_cut_window(const struct gm_pool *pool)
{
    return WINDOW_PEAKS * pool->counts.requested_peak;
}

bool gm_cut_is_pressed(const struct gm_pool *pool)
{
    return pool->served_bytes < pool->full_until;
}

/*
 * Counts how often live memory falls by a quarter of its peak after it rose by as much: once an iteration in nearly all
 * programs, whatever an iteration serves. A pool that stayed within its bound for a whole iteration has enough for the
 * next.
 */
void gm_cut_watch(struct gm_pool *pool)
{
    uint64_t live = pool->counts.requested;
    uint64_t swing = pool->counts.requested_peak / SWING;
    if (pool->short_rising ? live > pool->short_turn : live < pool->short_turn) {
        pool->short_turn = live;
    } else if (pool->short_rising ? live + swing < pool->short_turn : live > pool->short_turn + swing) {
        pool->short_falls += pool->short_rising;
        pool->short_rising = !pool->short_rising;
        pool->short_turn = live;
        if (pool->short_falls == SHORT_FALLS) {
            pool->short_until = pool->served_bytes;
            pool->asked_until = gm_cut_is_pressed(pool) ? pool->asked_until : pool->served_bytes;
        }
    }
}

void gm_cut_note_over(struct gm_pool *pool)
{
    if (gm_plan_is_loading(pool)) {
        return; /* growth by coarse chunks, of memory that stays */
    }
    pool->short_until = pool->served_bytes + SHORT_PEAKS * pool->counts.requested_peak;
    pool->short_turn = pool->counts.requested;
    pool->short_rising = true;
    pool->short_falls = 0;
    pool->asked_in_vain = 0;
}

/*
 * Memory is short: the pool outgrew its bound lately, is used to a third of its peak at least (what is placed earlier
 * seldom stays until then), and pins more than 0.3 % of it for nothing.
 */
static bool is_short(const struct gm_pool *pool, uint32_t taken)
{
    uint64_t peak = pool->counts.requested_peak;
    uint64_t reserved = pool->vmm.reserved;
    if (pool->served_bytes >= pool->short_until || pool->counts.requested < peak / 3) {
        return false;
    }
    uint64_t used = pool->counts.requested + (pool->free_chunk_pages << GM_PAGE_SHIFT);
    uint64_t pinned = reserved + ((uint64_t)taken << GM_PAGE_SHIFT);
    return pinned > used && pinned - used >= peak / 1000 * 3;
}

/* Maps what a place of the old chunk becomes: @first at its start, @rest behind it. What fails stays dead. */
static void map_again(struct gm_pool *pool, struct gm_place place, uint32_t head, uint32_t first, uint32_t rest)
{
    if (gm_range_split_dead(pool, place.range, place.page + head) < 0) {
        return;
    }
    if (first != GM_NONE) {
        (void)gm_range_attach(pool, place.range, place.page, first);
    }
    if (rest != GM_NONE) {
        (void)gm_range_attach(pool, place.range, place.page + head, rest);
    }
}

/* Returns the first part; GM_NONE: the driver did not give the memory back to us. */
static uint32_t cut(struct gm_pool *pool, uint32_t index, uint32_t head)
{
    struct gm_place places[MOST_PLACES];
    uint32_t pages = gm_chunk(pool, index)->pages;
    uint32_t count = gm_chunk(pool, index)->place_count;
    for (uint32_t i = 0; i < count; i++) {
        places[i] = gm_places(gm_chunk(pool, index))[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        gm_range_detach(pool, places[i].range, places[i].page);
    }
    gm_chunk_destroy(pool, index);
    uint32_t first = GM_NONE;
    uint32_t rest = GM_NONE;
    (void)gm_chunk_create(pool, head, &first);
    (void)gm_chunk_create(pool, pages - head, &rest);
    for (uint32_t i = 0; i < count; i++) {
        map_again(pool, places[i], head, first, rest);
    }
    pool->counts.cut++;
    return first;
}

uint32_t gm_cut_if_worth(struct gm_pool *pool, uint32_t index, uint32_t head, uint32_t taken)
{
    const struct gm_chunk *chunk = gm_chunk(pool, index);
    uint64_t rest = (uint64_t)(chunk->pages - head) << GM_PAGE_SHIFT;
    if (rest < gm_tunable(GMLAKE_TUNABLE_cut_min) || gm_tunable(GMLAKE_TUNABLE_cut_budget) == 0 ||
        chunk->place_count > MOST_PLACES || gm_plan_is_loading(pool)) {
        return index;
    }
    bool pressed = gm_cut_is_pressed(pool);
    int64_t ns = cost_ns(chunk);
    if (!pressed && (!is_short(pool, taken) || !can_afford(pool, ns))) {
        return index;
    }
    if (!is_done(pool, chunk)) {
        return index;
    }
    pool->cut_tokens_ns -= pressed ? 0 : ns;
    return cut(pool, index, head);
}
