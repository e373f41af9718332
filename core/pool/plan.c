/*
 * plan.c - see plan.h.
 */
#include "plan.h"

#include "access.h"
#include "chunk.h"
#include "range.h"
#include "stream.h"
#include "tunables.h"
#include "walk.h"

#include <errno.h>
#include <string.h>

/* Driver time of an H200 (driver 580): map and make accessible; create, map and make accessible; reserve a range. */
#define ALIAS_NS  32400u
#define CREATE_NS 45000u
#define RANGE_NS  10000u
/* What a page of growth is worth in driver time: a stitch of 30 chunks. */
#define GROWTH_NS 1000000u
/* What a page of a whole chunk is worth that a request of so many pages leaves to others: a mapping for 16 of them. */
#define SPARED_NS    (ALIAS_NS / 16)
#define SPARED_PAGES 256u

/* Driver time that goes into finer chunks first; and the share of the time, in thousandths, beyond which it is much. */
#define FINE_NS          60000000u
#define MUCH_THOUSANDTHS 7u

#define GIB              ((uint64_t)1 << 30)
/* No chunk is a larger part of the device: free pages of a chunk that is partly in use serve its own pool alone. */
#define DEVICE_SHARE 128u

bool gm_plan_is_loading(const struct gm_pool *pool)
{
    return pool->freed_bytes < pool->counts.requested / 5;
}

uint64_t gm_plan_bound(const struct gm_pool *pool)
{
    uint64_t peak = pool->counts.requested_peak;
    uint64_t slack = peak / 1000000 * gm_tunable(GMLAKE_TUNABLE_growth_slack);
    return (peak + slack) >> GM_PAGE_SHIFT;
}

/*
 * Large requests get chunks half as large while the pool has spent little time in the driver: the chunks of a program's
 * first iterations are those that its later blocks, of other sizes, pin. Where much of the time goes into the driver,
 * twice as large ones halve what the next stitch costs.
 */
static uint64_t cap_by_time(const struct gm_pool *pool, uint64_t cap)
{
    uint64_t spent = pool->vmm.ns;
    if (spent < FINE_NS) {
        return cap / 2;
    }
    uint64_t elapsed = pool->vmm.cu->now_ns() - pool->begun_ns;
    return spent * 1000 < elapsed * MUCH_THOUSANDTHS ? cap : cap * 2;
}

static uint64_t class_cap(const struct gm_pool *pool, enum gm_class class)
{
    switch (class) {
    case GM_CLASS_SMALL:
        return gm_tunable(GMLAKE_TUNABLE_chunk_max_small);
    case GM_CLASS_MEDIUM:
    case GM_CLASS_MEDIUM_ALIGNED:
        return gm_tunable(GMLAKE_TUNABLE_chunk_max_medium);
    case GM_CLASS_LARGE:
    case GM_CLASS_LARGE_ALIGNED:
    case GM_CLASS_COUNT:
        break;
    }
    return cap_by_time(pool, gm_tunable(GMLAKE_TUNABLE_chunk_max_large));
}

/*
 * Large chunks cost less to make and to map, small ones waste less when one block pins them. Weights, which come
 * first and stay, get coarse ones; later the cap grows with the request (a sixteenth of it) and, above 30 GB, with
 * the pool. Powers of two keep leftovers useful to other sizes.
 */
uint32_t gm_plan_chunk_pages(const struct gm_pool *pool, uint32_t units, enum gm_class class)
{
    uint64_t reserved = pool->vmm.reserved;
    uint64_t most = gm_power_below(pool->vmm.capacity / DEVICE_SHARE);
    uint64_t cap;
    most = most < (uint64_t)GM_CHUNK_PAGES << GM_PAGE_SHIFT ? most : (uint64_t)GM_CHUNK_PAGES << GM_PAGE_SHIFT;
    if (gm_plan_is_loading(pool)) {
        cap = reserved / 250;
        cap = cap < 32u << 20 ? 32u << 20 : cap;
    } else {
        cap = class_cap(pool, class);
        uint64_t sixteenth = gm_power_below(((uint64_t)units << GM_UNIT_SHIFT) / 16);
        cap = cap < sixteenth ? sixteenth : cap;
        for (uint64_t scaled = reserved; scaled >= 30 * GIB; scaled /= 2) {
            cap *= 2;
        }
    }
    cap = cap > most ? most : cap;
    return (uint32_t)((cap + GM_PAGE_SIZE - 1) >> GM_PAGE_SHIFT);
}

/* Free chunks in order of size, then index: where each size begins. */
struct candidates {
    const uint32_t *chunks;
    uint32_t largest;                   /* pages of the last; 1 if there is none */
    uint32_t begin[GM_CHUNK_PAGES + 2]; /* by pages; begin[p + 1] is past the last chunk of p pages */
};

static int gather(struct gm_pool *pool, uint32_t stream, struct candidates *out)
{
    uint32_t counts[GM_CHUNK_PAGES + 1] = {0};
    uint32_t total = 0;
    int rc = gm_array_reserve(&pool->candidates, 2 * pool->chunks.count + 2, sizeof(uint32_t));
    if (rc < 0) {
        return rc;
    }
    uint32_t *seen = (uint32_t *)pool->candidates.data + pool->chunks.count;
    const uint8_t *sizes = gm_free_pages(pool);
    bool one_stream = pool->stream_count <= 1;
    uint64_t horizon = gm_stream_horizon(pool, stream);
    for (uint32_t i = gm_chunk_next_free(pool, 0); i != GM_NONE; i = gm_chunk_next_free(pool, i + 1)) {
        if (one_stream || gm_stream_sees_chunk(pool, gm_chunk(pool, i), stream, horizon)) {
            counts[sizes[i]]++;
            seen[total++] = i;
        }
    }
    uint32_t at = 0;
    for (uint32_t pages = 0; pages <= GM_CHUNK_PAGES; pages++) {
        out->begin[pages] = at;
        at += counts[pages];
        counts[pages] = out->begin[pages];
    }
    out->begin[GM_CHUNK_PAGES + 1] = at;
    out->largest = GM_CHUNK_PAGES;
    while (out->largest > 1 && out->begin[out->largest] == at) {
        out->largest--;
    }
    uint32_t *sorted = pool->candidates.data;
    for (uint32_t i = 0; i < total; i++) {
        sorted[counts[sizes[seen[i]]]++] = seen[i];
    }
    out->chunks = sorted;
    return 0;
}

/* What all candidates of at most @most pages have together. */
static uint32_t pages_of_candidates(const struct candidates *candidates, uint32_t most)
{
    uint32_t sum = 0;
    for (uint32_t pages = 1; pages <= gm_min(most, GM_CHUNK_PAGES); pages++) {
        sum += pages * (candidates->begin[pages + 1] - candidates->begin[pages]);
    }
    return sum;
}

uint64_t gm_plan_free_pages(struct gm_pool *pool, uint32_t stream)
{
    if (pool->stream_count <= 1) {
        return pool->free_chunk_pages;
    }
    uint64_t pages = 0;
    uint64_t horizon = gm_stream_horizon(pool, stream);
    for (uint32_t i = gm_chunk_next_free(pool, 0); i != GM_NONE; i = gm_chunk_next_free(pool, i + 1)) {
        const struct gm_chunk *chunk = gm_chunk(pool, i);
        pages += gm_stream_sees_chunk(pool, chunk, stream, horizon) ? chunk->pages : 0;
    }
    return pages;
}

/* Whether chunk @chunk may be mapped in @range (GM_NONE: a new one): not a second time. */
static bool may_take(const struct gm_pool *pool, uint32_t chunk, uint32_t range)
{
    return range == GM_NONE || !gm_range_holds(gm_range(pool, range), chunk);
}

/* Free pages at the start and the end of a partly used chunk, and the longest run of them anywhere. */
struct part {
    uint32_t chunk;
    uint8_t prefix, suffix, hole;
};

static struct part measure_part(uint32_t index, const struct gm_chunk *chunk)
{
    struct part part = {index, 0, 0, 0};
    uint64_t free = ~chunk->busy & gm_page_mask(0, chunk->pages - 1u);
    part.prefix = (uint8_t)__builtin_ctzll(chunk->busy);
    part.suffix = (uint8_t)(__builtin_clzll(chunk->busy) - (int)(64 - chunk->pages));
    while (free != 0) { /* each step shortens every run by one page */
        free &= free << 1;
        part.hole++;
    }
    return part;
}

static int gather_parts(struct gm_pool *pool, uint32_t stream, uint32_t *largest_hole)
{
    int rc = gm_array_reserve(&pool->parts, pool->chunks.count + 1, sizeof(struct part));
    if (rc < 0) {
        return rc;
    }
    struct part *parts = pool->parts.data;
    uint64_t horizon = gm_stream_horizon(pool, stream);
    pool->parts.count = 0;
    *largest_hole = 0;
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        const struct gm_chunk *chunk = gm_chunk(pool, i);
        if (chunk->busy == 0 || chunk->busy == UINT64_MAX >> (64 - chunk->pages)) {
            continue;
        }
        if (gm_stream_sees_chunk(pool, chunk, stream, horizon)) {
            struct part *part = &parts[pool->parts.count++];
            *part = measure_part(i, chunk);
            *largest_hole = gm_max(*largest_hole, part->hole);
        }
    }
    return 0;
}

enum side { PREFIX, SUFFIX, HOLE };

static uint32_t pages_of(const struct part *part, enum side side)
{
    return side == PREFIX ? part->prefix : side == SUFFIX ? part->suffix : part->hole;
}

/* The part not in @range whose free pages on @side are the fewest that reach @pages, else the most; not @except. */
static const struct part *best_part(const struct gm_pool *pool, enum side side, uint32_t pages, uint32_t range,
                                    uint32_t except)
{
    const struct part *parts = pool->parts.data;
    const struct part *best = NULL;
    for (uint32_t i = 0; i < pool->parts.count; i++) {
        uint32_t size = pages_of(&parts[i], side);
        if (size == 0 || parts[i].chunk == except) {
            continue;
        }
        uint32_t best_size = best == NULL ? 0 : pages_of(best, side);
        bool better = size >= pages ? best_size < pages || size < best_size : best_size < pages && size > best_size;
        if (better && may_take(pool, parts[i].chunk, range)) {
            best = &parts[i];
        }
    }
    return best;
}

/* Everything gm_plan_make() knows while it compares plans. */
struct planner {
    struct gm_pool *pool;
    const struct gm_request *request;
    struct candidates candidates;
    uint32_t cap;                   /* pages of a new chunk */
    uint64_t bound_pages;           /* growth up to here is preferred to stitching */
    bool has_candidates, has_parts; /* gathered when first needed */
    uint32_t largest_hole;          /* pages, of parts */
    uint32_t fine_pages;            /* of candidates no larger than twice the cap, all together */
    struct gm_plan best;
};

/* Whether a plan that costs @cost_ns at least and has @have units would be better than the best one. */
static bool may_win(const struct planner *planner, uint64_t cost_ns, uint32_t have)
{
    const struct gm_plan *best = &planner->best;
    return cost_ns < best->cost_ns || (cost_ns == best->cost_ns && have > best->have);
}

/* The first of candidates [from, past) that may be mapped in @range; @past: none. */
static uint32_t first_to_take(const struct planner *planner, uint32_t range, uint32_t from, uint32_t past)
{
    while (from < past && !may_take(planner->pool, planner->candidates.chunks[from], range)) {
        from++;
    }
    return gm_min(from, past);
}

/*
 * Picks whole free chunks of at most @most pages that are not in @range: one of just what is left, else the largest
 * below it, and again; when there is none below, the smallest that reaches, for its rest gets pinned. It only ever goes
 * down in size: a last bit that no smaller chunk has left is better taken from a partly used chunk. Gives the pages
 * got; the chunks are listed in pool->picking. Ends early with more than @enough chunks, which are too many.
 */
static uint32_t pick(const struct planner *planner, uint32_t range, uint32_t pages, uint32_t most, uint64_t enough,
                     uint32_t *count)
{
    const struct candidates *candidates = &planner->candidates;
    const struct gm_pool *pool = planner->pool;
    const uint8_t *sizes = gm_free_pages(pool);
    uint32_t *picked = pool->picking.data;
    uint32_t past = candidates->begin[gm_min(most, GM_CHUNK_PAGES) + 1];
    uint32_t got = 0;
    *count = 0;
    while (got < pages && *count <= enough) {
        uint32_t left = gm_min(pages - got, GM_CHUNK_PAGES + 1);
        uint32_t below = gm_min(past, candidates->begin[left]);
        uint32_t larger = gm_min(past, candidates->begin[gm_min(left, GM_CHUNK_PAGES) + 1]);
        uint32_t at = first_to_take(planner, range, below, larger);
        if (at == larger) {
            while (below > 0 && !may_take(pool, candidates->chunks[below - 1], range)) {
                below--;
            }
            if (below > 0) {
                past = below - 1;
                at = past;
            } else {
                at = first_to_take(planner, range, larger, past);
                if (at == past) {
                    return got;
                }
            }
        }
        picked[(*count)++] = candidates->chunks[at];
        got += sizes[candidates->chunks[at]];
    }
    return got;
}

/* Whether a hole for all of the request would be a better plan than the best one, and there may be one. */
static bool may_find_hole(const struct planner *planner)
{
    uint32_t all = gm_pages_of_units(planner->request->units);
    uint32_t largest = planner->has_parts ? planner->largest_hole : GM_CHUNK_PAGES - 1;
    return all <= largest && may_win(planner, ALIAS_NS, 0);
}

/* Picks chunks that are no larger than twice the cap, unless these do not reach. */
static uint32_t pick_chunks(const struct planner *planner, uint32_t range, uint32_t pages, uint32_t *count)
{
    const struct candidates *candidates = &planner->candidates;
    uint64_t enough = may_find_hole(planner) ? UINT64_MAX : planner->best.cost_ns / ALIAS_NS;
    uint32_t fine = gm_min(2 * planner->cap, GM_CHUNK_PAGES);
    if (candidates->largest > fine && planner->fine_pages >= pages) {
        uint32_t got = pick(planner, range, pages, fine, UINT64_MAX, count);
        if (got >= pages) {
            return got;
        }
    }
    return pick(planner, range, pages, GM_CHUNK_PAGES, enough, count);
}

/*
 * Where neither parts nor growth may make up for the @pages that pick() left: adds the smallest chunk that reaches,
 * which pick() passed over as too large. False: all free chunks together are too little.
 */
static bool pick_larger(const struct planner *planner, uint32_t range, uint32_t pages, uint32_t *count)
{
    const struct candidates *candidates = &planner->candidates;
    uint32_t *picked = planner->pool->picking.data;
    uint32_t at = candidates->begin[gm_min(pages, GM_CHUNK_PAGES + 1)];
    for (; at < candidates->begin[GM_CHUNK_PAGES + 1]; at++) {
        uint32_t chunk = candidates->chunks[at];
        uint32_t i = 0;
        while (i < *count && picked[i] != chunk) {
            i++;
        }
        if (i == *count && may_take(planner->pool, chunk, range)) {
            picked[(*count)++] = chunk;
            return true;
        }
    }
    return false;
}

static void want_parts(struct planner *planner)
{
    if (!planner->has_parts) {
        planner->has_parts = gather_parts(planner->pool, planner->request->stream, &planner->largest_hole) == 0;
    }
}

/* Adds to @plan the free end of a partly used chunk, the best on @side for @pages. Returns the pages it is good for. */
static uint32_t add_end(const struct planner *planner, struct gm_plan *plan, enum side side, uint32_t pages)
{
    const struct part *part = best_part(planner->pool, side, pages, plan->range, plan->prefix);
    if (part == NULL) {
        return 0;
    }
    if (side == PREFIX) {
        plan->prefix = part->chunk;
    } else {
        plan->suffix = part->chunk;
        plan->suffix_pages = part->suffix;
    }
    plan->cost_ns += ALIAS_NS;
    return gm_min(pages, pages_of(part, side));
}

/* Completes @plan, which picks too little, with parts of chunks and growth by what is still missing. */
static void plan_rest(struct planner *planner, struct gm_plan *plan, uint32_t pages)
{
    struct gm_pool *pool = planner->pool;
    want_parts(planner);
    uint32_t all = gm_pages_of_units(planner->request->units);
    const struct part *hole = NULL;
    if (planner->largest_hole >= all) {
        hole = best_part(pool, HOLE, all, plan->range, GM_NONE);
    }
    if (hole != NULL && hole->hole >= all) {
        plan->hole = hole->chunk;
        plan->have = 0;
        plan->picked = 0;
        plan->cost_ns = ALIAS_NS;
        return;
    }
    pages -= add_end(planner, plan, PREFIX, pages);
    if (pages > 0 && plan->have == 0) {
        pages -= add_end(planner, plan, SUFFIX, pages);
    }
    plan->grow_pages = pages;
    plan->over_bound = pages > 0;
    plan->cost_ns += (uint64_t)((pages + planner->cap - 1) / planner->cap) * CREATE_NS + (uint64_t)pages * GROWTH_NS;
}

static bool is_over_limit(const struct planner *planner, const struct gm_plan *plan)
{
    uint64_t reserved = planner->pool->vmm.reserved >> GM_PAGE_SHIFT;
    return plan->grow_pages > 0 && reserved + plan->grow_pages > planner->request->limit_pages;
}

static void keep_if_best(struct planner *planner, struct gm_plan *plan)
{
    struct gm_plan *best = &planner->best;
    plan->cost_ns += plan->range == GM_NONE ? RANGE_NS : 0;
    if (is_over_limit(planner, plan)) {
        return;
    }
    if (may_win(planner, plan->cost_ns, plan->have)) {
        *best = *plan;
        struct gm_array kept = planner->pool->picked;
        planner->pool->picked = planner->pool->picking;
        planner->pool->picking = kept;
    }
}

/* Considers @plan with the free ends of partly used chunks on @sides, if whole chunks fit exactly between them. */
static void consider_ends(struct planner *planner, struct gm_plan plan, unsigned sides, uint32_t pages, uint32_t whole)
{
    uint32_t left = pages;
    plan.cost_ns = 0;
    for (enum side side = PREFIX; side <= SUFFIX; side++) {
        if (sides >> side & 1) {
            uint32_t end = add_end(planner, &plan, side, left);
            if (end == 0 || end == left) {
                return;
            }
            left -= end;
        }
    }
    if (pick_chunks(planner, plan.range, left, &plan.picked) != left) {
        return;
    }
    uint64_t cost_ns = plan.cost_ns + (uint64_t)plan.picked * ALIAS_NS;
    uint64_t spared_ns = (uint64_t)(whole - left) * SPARED_NS;
    plan.cost_ns = cost_ns > spared_ns ? cost_ns - spared_ns : 0;
    keep_if_best(planner, &plan);
}

/*
 * A large block needs whole chunks, but at its ends: where other large ones may follow it, those are what runs out,
 * while free pages of partly used chunks are left over. Considers these in place of some of the @whole pages that @plan
 * picks.
 */
static void spare_chunks(struct planner *planner, const struct gm_plan *plan, uint32_t pages, uint32_t whole)
{
    want_parts(planner);
    if (plan->have == 0) {
        consider_ends(planner, *plan, 1u << PREFIX | 1u << SUFFIX, pages, whole);
        consider_ends(planner, *plan, 1u << SUFFIX, pages, whole);
    }
    consider_ends(planner, *plan, 1u << PREFIX, pages, whole);
}

/* Considers appending to @range (GM_NONE: a new one), of which the last @have units are usable. */
static void consider(struct planner *planner, uint32_t range, uint32_t have)
{
    struct gm_pool *pool = planner->pool;
    struct gm_plan plan = {.range = range, .have = have, .hole = GM_NONE, .suffix = GM_NONE, .prefix = GM_NONE};
    uint32_t pages = gm_pages_of_units(planner->request->units - have);
    uint64_t reserved = pool->vmm.reserved >> GM_PAGE_SHIFT;
    bool within_bound = reserved + pages <= planner->bound_pages;
    if (within_bound || !planner->request->may_stitch) {
        plan.grow_pages = pages;
        plan.over_bound = !within_bound;
        plan.cost_ns = (uint64_t)((pages + planner->cap - 1) / planner->cap) * CREATE_NS + (uint64_t)pages * GROWTH_NS;
        keep_if_best(planner, &plan);
        return;
    }
    if (!planner->has_candidates) {
        if (gather(pool, planner->request->stream, &planner->candidates) < 0) {
            return;
        }
        planner->has_candidates = true;
        planner->fine_pages = pages_of_candidates(&planner->candidates, 2 * planner->cap);
    }
    /* No way to fill the place takes fewer mappings than with the largest chunk there is. */
    uint32_t least = (pages + planner->candidates.largest - 1) / planner->candidates.largest;
    if ((uint64_t)least * ALIAS_NS > planner->best.cost_ns || !may_win(planner, ALIAS_NS, have)) {
        return;
    }
    uint32_t got = pick_chunks(planner, range, pages, &plan.picked);
    plan.cost_ns = (uint64_t)plan.picked * ALIAS_NS;
    struct gm_plan whole = plan;
    if (got < pages) {
        /* The rest takes one more mapping, or a hole takes the place of all. */
        if (!may_win(planner, plan.cost_ns + ALIAS_NS, have) && !may_find_hole(planner)) {
            return;
        }
        plan_rest(planner, &plan, pages - got);
    }
    if (is_over_limit(planner, &plan) && pick_larger(planner, range, pages - got, &whole.picked)) {
        whole.cost_ns += ALIAS_NS;
        plan = whole;
    }
    keep_if_best(planner, &plan);
    if (got >= pages && gm_pages_of_units(planner->request->units) >= SPARED_PAGES) {
        spare_chunks(planner, &whole, pages, got);
    }
}

static void consider_ranges(struct planner *planner)
{
    struct gm_pool *pool = planner->pool;
    const struct gm_request *request = planner->request;
    const struct gm_array *members = &pool->class_ranges[request->class];
    const uint32_t *ranges = members->data;
    /* Picked chunks may reach beyond the request by most of one. */
    uint32_t room = gm_pages_of_units(request->units) + 2 * GM_CHUNK_PAGES;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct gm_range *range = gm_range(pool, ranges[i]);
        if (range->pages - range->mapped < room) {
            continue;
        }
        uint32_t have = gm_min(gm_walk_tail(pool, ranges[i], request->stream), request->units - 1);
        if (have > 0 && request->may_stitch) {
            consider(planner, ranges[i], 0);
        }
        consider(planner, ranges[i], have);
    }
    consider(planner, GM_NONE, 0);
}

int gm_plan_make(struct gm_pool *pool, const struct gm_request *request, struct gm_plan *out)
{
    struct planner planner = {.pool = pool, .request = request};
    planner.cap = gm_plan_chunk_pages(pool, request->units, request->class);
    planner.bound_pages = gm_plan_bound(pool);
    planner.bound_pages = planner.bound_pages < request->limit_pages ? planner.bound_pages : request->limit_pages;
    planner.best.cost_ns = UINT64_MAX;
    pool->parts.count = 0;
    if (gm_array_reserve(&pool->picked, pool->chunks.count + 1, sizeof(uint32_t)) < 0 ||
        gm_array_reserve(&pool->picking, pool->chunks.count + 1, sizeof(uint32_t)) < 0) {
        return -ENOMEM;
    }
    consider_ranges(&planner);
    if (planner.best.cost_ns == UINT64_MAX) {
        return -ENOMEM;
    }
    *out = planner.best;
    return 0;
}
