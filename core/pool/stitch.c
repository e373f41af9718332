/*
 * stitch.c - see stitch.h.
 */
#include "stitch.h"

#include "access.h"
#include "chunk.h"
#include "cut.h"
#include "range.h"
#include "tunables.h"
#include "walk.h"

#include <errno.h>

static uint32_t range_end(const struct gm_pool *pool, uint32_t range)
{
    return gm_range(pool, range)->mapped * GM_PAGE_UNITS;
}

/*
 * Creates @pages of chunks at the end of @range, each at most @cap pages. Where the device refuses a chunk, smaller
 * ones are tried: what little is left may still do.
 */
static int grow(struct gm_pool *pool, uint32_t range, uint32_t pages, uint32_t cap)
{
    while (pages > 0) {
        uint32_t size = gm_min(pages, cap);
        uint32_t chunk;
        int rc = gm_chunk_create(pool, size, &chunk);
        if (rc == -ENOMEM && size > 1) {
            cap = (size + 1) / 2;
            continue;
        }
        if (rc < 0) {
            return rc;
        }
        rc = gm_range_extend(pool, range, chunk);
        if (rc < 0) {
            gm_chunk_destroy(pool, chunk);
            return rc;
        }
        pages -= size;
    }
    return 0;
}

/*
 * Small requests share chunks: one as large as the tunable says is created for them, if the device has it. Returns
 * whether the growth that @plan asks for is done.
 */
static bool grow_shared(struct gm_pool *pool, uint32_t range, const struct gm_request *request,
                        const struct gm_plan *plan)
{
    uint32_t pages = (uint32_t)(gm_tunable(GMLAKE_TUNABLE_chunk_max_small) >> GM_PAGE_SHIFT);
    uint64_t reserved = pool->vmm.reserved >> GM_PAGE_SHIFT;
    uint32_t chunk;
    if (request->class != GM_CLASS_SMALL || plan->prefix != GM_NONE || pages <= plan->grow_pages ||
        reserved + pages > request->limit_pages || gm_chunk_create(pool, pages, &chunk) < 0) {
        return false;
    }
    if (gm_range_extend(pool, range, chunk) < 0) {
        gm_chunk_destroy(pool, chunk);
        return false;
    }
    return true;
}

/* The last chunk picked may be larger than what is needed of it: cut it, so that the rest stays a free chunk. */
static void cut_last_picked(struct gm_pool *pool, const struct gm_request *request, const struct gm_plan *plan)
{
    uint32_t *picked = pool->picked.data;
    uint32_t got = 0;
    for (uint32_t i = 0; i < plan->picked; i++) {
        got += gm_chunk(pool, picked[i])->pages;
    }
    uint32_t needed = gm_pages_of_units(request->units - plan->have);
    uint32_t last = picked[plan->picked - 1];
    uint32_t pages = gm_chunk(pool, last)->pages;
    if (got > needed && got - needed < pages) {
        picked[plan->picked - 1] = gm_cut_if_worth(pool, last, pages - (got - needed), got);
    }
}

static int append_picked(struct gm_pool *pool, uint32_t range, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk = ((uint32_t *)pool->picked.data)[i];
        int rc = chunk == GM_NONE ? -ENOMEM : gm_range_extend(pool, range, chunk);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Maps a partly used chunk with a hole large enough. */
static int run_hole(struct gm_pool *pool, const struct gm_request *request, const struct gm_plan *plan, uint32_t range,
                    uint32_t *gap, uint32_t *start)
{
    int rc = gm_range_extend(pool, range, plan->hole);
    if (rc < 0) {
        return rc;
    }
    *gap = gm_range_tail(pool, range);
    pool->walk_left += GM_CHUNK_PAGES;
    uint64_t horizon = gm_walk_horizon(pool, request->stream);
    return gm_walk_fit(pool, *gap, request->units, request->stream, horizon, start) ? 0 : -EAGAIN;
}

int gm_stitch_run(struct gm_pool *pool, const struct gm_request *request, const struct gm_plan *plan, uint32_t *gap,
                  uint32_t *start)
{
    uint32_t range = plan->range;
    int rc = 0;
    if (range == GM_NONE) {
        rc = gm_range_create(pool, request->class, request->units, &range);
        if (rc < 0) {
            return rc;
        }
    }
    if (plan->hole != GM_NONE) {
        pool->counts.stitch++;
        return run_hole(pool, request, plan, range, gap, start);
    }
    uint32_t at = range_end(pool, range) - plan->have;
    if (plan->suffix != GM_NONE) {
        rc = gm_range_extend(pool, range, plan->suffix);
        at = range_end(pool, range) - plan->suffix_pages * GM_PAGE_UNITS;
    }
    if (rc == 0 && plan->picked > 0) {
        if (plan->grow_pages == 0 && plan->prefix == GM_NONE) {
            cut_last_picked(pool, request, plan);
        }
        rc = append_picked(pool, range, plan->picked);
    }
    if (rc == 0 && plan->grow_pages > 0 && !grow_shared(pool, range, request, plan)) {
        rc = grow(pool, range, plan->grow_pages, gm_plan_chunk_pages(pool, request->units, request->class));
    }
    if (rc == 0 && plan->prefix != GM_NONE) {
        rc = gm_range_extend(pool, range, plan->prefix);
    }
    if (rc < 0) {
        return rc;
    }
    if (plan->over_bound) {
        gm_cut_note_over(pool);
    }
    pool->counts.grow += plan->grow_pages > 0;
    pool->counts.stitch += plan->picked > 0 || plan->suffix != GM_NONE || plan->prefix != GM_NONE;
    *gap = gm_range_tail(pool, range);
    *start = at;
    const struct gm_node *tail = gm_node(pool, *gap);
    return at >= tail->start && at + request->units <= tail->start + tail->size ? 0 : -EAGAIN;
}

bool gm_stitch_cut_at_end(struct gm_pool *pool, uint32_t gap, uint32_t start, uint32_t units)
{
    gm_cut_watch(pool);
    const struct gm_range *range = gm_range(pool, gm_node(pool, gap)->range);
    uint32_t last = (start + units - 1) / GM_PAGE_UNITS;
    const struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, last);
    uint32_t head = last + 1 - slot->page;
    if (head >= slot->pages || gm_chunk(pool, slot->chunk)->busy != 0) {
        return true;
    }
    uint32_t taken = 0; /* pages that stop being free chunks if nothing is cut */
    uint32_t page = start / GM_PAGE_UNITS;
    for (const struct gm_slot *each = gm_slots(range) + gm_range_slot(range, page); each <= slot; each++) {
        const struct gm_chunk *chunk = gm_chunk(pool, each->chunk);
        taken += chunk->busy == 0 ? chunk->pages : 0u;
    }
    uint32_t page_of_chunk = slot->page;
    if (gm_cut_if_worth(pool, slot->chunk, head, taken) == GM_NONE) {
        return false;
    }
    return gm_slots(range)[gm_range_slot(range, page_of_chunk)].chunk != GM_NONE;
}
