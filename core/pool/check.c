/*
 * check.c - verifies the invariants that block.h states. For tests: it looks at everything, and takes its time.
 */
#include "access.h"
#include "bits.h"
#include "pool.h"
#include "range.h"
#include "slab.h"
#include "stream.h"
#include "walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a walk over the structs sums up to. */
struct sums {
    uint64_t *busy;     /* by chunk: pages under nodes */
    uint32_t *in_range; /* by chunk: the range that uses it + 1, per page */
    uint64_t busy_pages, alias_pages, alias_busy_pages, free_chunk_pages, chunks, mappings, reserved;
    uint64_t requested, allocated, blocks, stitched_blocks, stitched_bytes, pending_bytes, awaiting;
    uint32_t nodes, slabs_with_room;
};

/* Says what is broken; as a value, the error. */
#define BROKEN(...)                                                                                                    \
    (fputs("gmlake: broken invariant: ", stderr), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), -EUCLEAN)

static int check_places(const struct gm_pool *pool, uint32_t index, struct sums *sums)
{
    const struct gm_chunk *chunk = gm_chunk(pool, index);
    const struct gm_place *places = gm_places(chunk);
    if (chunk->blocked >> gm_min(chunk->place_count, GM_PLACES_APART + 1) != 0) {
        return BROKEN("chunk %u: blocked in more than its %u places", index, chunk->place_count);
    }
    for (uint32_t i = 0; i < chunk->place_count; i++) {
        const struct gm_range *range = gm_range(pool, places[i].range);
        if (places[i].range >= pool->ranges.count || range->size == 0 || places[i].page >= range->mapped) {
            return BROKEN("chunk %u is mapped in range %u, which has no such page", index, places[i].range);
        }
        const struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, places[i].page);
        if (slot->chunk != index || slot->page != places[i].page || slot->pages != chunk->pages || slot->place != i) {
            return BROKEN("chunk %u: its place in range %u is another slot's", index, places[i].range);
        }
        if (slot->alias != (i == 0 ? 0 : chunk->pages)) {
            return BROKEN("chunk %u: place %u has %u pages as an alias", index, i, slot->alias);
        }
        if (!gm_range_holds(range, index)) {
            return BROKEN("chunk %u is mapped in range %u, which does not know that it holds it", index,
                          places[i].range);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (places[k].range == places[i].range) {
                return BROKEN("chunk %u is mapped twice in range %u", index, places[i].range);
            }
        }
    }
    sums->mappings += chunk->place_count;
    return 0;
}

static int check_chunks(const struct gm_pool *pool, struct sums *sums)
{
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        const struct gm_chunk *chunk = gm_chunk(pool, i);
        uint32_t free_pages = chunk->busy == 0 ? chunk->pages : 0;
        if (gm_free_pages(pool)[i] != free_pages) {
            return BROKEN("chunk %u has %u free pages as a whole, the table says %u", i, free_pages,
                          gm_free_pages(pool)[i]);
        }
        if (chunk->pages == 0) {
            continue;
        }
        if (chunk->busy & ~gm_page_mask(0, chunk->pages - 1u)) {
            return BROKEN("chunk %u: pages beyond its end are busy", i);
        }
        sums->chunks++;
        sums->reserved += gm_chunk_size(chunk);
        sums->free_chunk_pages += chunk->busy == 0 ? chunk->pages : 0u;
        sums->busy_pages += (uint64_t)__builtin_popcountll(chunk->busy);
        int rc = check_places(pool, i, sums);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* The chunk will tell range @index when pages of it are free again. */
static bool is_blocked_in(const struct gm_chunk *chunk, uint32_t index)
{
    const struct gm_place *places = gm_places(chunk);
    for (uint32_t i = 0; i < chunk->place_count; i++) {
        if (places[i].range == index) {
            return chunk->blocked >> gm_min(i, GM_PLACES_APART) & 1;
        }
    }
    return false;
}

/* A free page has its bit; a page without it belongs to a chunk that will tell, or to none. */
static int check_usable(const struct gm_pool *pool, uint32_t index, const struct gm_slot *slot)
{
    const struct gm_range *range = gm_range(pool, index);
    for (uint32_t i = 0; i < slot->pages; i++) {
        bool usable = gm_bits_has(range->usable, slot->page + i);
        if (slot->chunk == GM_NONE) {
            if (usable) {
                return BROKEN("range %u: dead page %u is marked usable", index, slot->page + i);
            }
            continue;
        }
        const struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
        bool busy = chunk->busy >> i & 1;
        if (!usable && (!busy || !is_blocked_in(chunk, index))) {
            return BROKEN("range %u: page %u of chunk %u is marked unusable, and nothing will mark it again", index,
                          slot->page + i, slot->chunk);
        }
    }
    return 0;
}

/* Every chunk with a slot is known to be held (check_places()): as many as there are slots are all. */
static int check_held(const struct gm_pool *pool, uint32_t index)
{
    const struct gm_range *range = gm_range(pool, index);
    const uint64_t *held = range->held.data;
    uint32_t count = 0;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < range->held.count; i++) {
        count += (uint32_t)__builtin_popcountll(held[i]);
    }
    for (uint32_t i = 0; i < range->slots.count; i++) {
        slots += gm_slots(range)[i].chunk != GM_NONE;
    }
    return count == slots ? 0 : BROKEN("range %u: %u chunks mapped, known to hold %u", index, slots, count);
}

static int check_slots(const struct gm_pool *pool, uint32_t index, struct sums *sums)
{
    const struct gm_range *range = gm_range(pool, index);
    uint32_t page = 0;
    uint32_t dirty = 0;
    for (uint32_t i = 0; i < range->slots.count; i++) {
        const struct gm_slot *slot = gm_slots(range) + i;
        if (slot->page != page || slot->pages == 0) {
            return BROKEN("range %u: slot %u begins at page %u, not %u", index, i, slot->page, page);
        }
        for (uint32_t p = page; p < page + slot->pages; p++) {
            if (gm_range_slot(range, p) != i) {
                return BROKEN("range %u: page %u leads to slot %u, not %u", index, p, gm_range_slot(range, p), i);
            }
        }
        int rc = check_usable(pool, index, slot);
        if (rc < 0) {
            return rc;
        }
        page += slot->pages;
        dirty += slot->dirty;
        sums->alias_pages += slot->chunk != GM_NONE && slot->alias ? slot->pages : 0u;
    }
    if (page != range->mapped || dirty != range->dirty.count) {
        return BROKEN("range %u: %u pages mapped, slots say %u; %u dirty, slots say %u", index, range->mapped, page,
                      range->dirty.count, dirty);
    }
    return 0;
}

/* Adds a live node's pages to what its chunks have to say busy. */
static int use_pages(const struct gm_pool *pool, uint32_t index, const struct gm_node *node, struct sums *sums,
                     bool *stitched)
{
    const struct gm_range *range = gm_range(pool, index);
    uint32_t last = (node->start + node->size - 1) / GM_PAGE_UNITS;
    for (uint32_t page = node->start / GM_PAGE_UNITS; page <= last; page++) {
        const struct gm_slot *slot = gm_slots(range) + gm_range_slot(range, page);
        if (slot->chunk == GM_NONE) {
            return BROKEN("range %u: a live block lies on dead addresses at page %u", index, page);
        }
        *stitched |= slot->alias != 0;
        uint64_t bit = (uint64_t)1 << (page - slot->page);
        uint32_t *user = &sums->in_range[slot->chunk * GM_CHUNK_PAGES + (page - slot->page)];
        if (*user != 0 && *user != index + 1) {
            return BROKEN("chunk %u page %u is in use in ranges %u and %u", slot->chunk, page - slot->page, *user - 1,
                          index);
        }
        if (*user == 0) {
            sums->alias_busy_pages += slot->alias != 0;
        }
        *user = index + 1;
        sums->busy[slot->chunk] |= bit;
    }
    return 0;
}

/* Addresses in a slab lead to it, but for those in a granule that another node begins in, or began in. */
static int check_slab_starts(const struct gm_pool *pool, const struct gm_node *node)
{
    const struct gm_range *range = gm_range(pool, node->range);
    uint32_t first = node->start >> range->start_shift;
    uint32_t last = (node->start + node->size - 1) >> range->start_shift;
    for (uint32_t granule = first; granule <= last; granule++) {
        uint32_t entry = range->starts[granule];
        if (entry != (node->slab | GM_START_SLAB) &&
            (granule < last || (entry != 0 && gm_node(pool, gm_start_node(pool, entry))->start < node->start))) {
            return BROKEN("slab %u: start granule %u of range %u leads elsewhere", node->slab, granule, node->range);
        }
    }
    return 0;
}

static int check_slab(const struct gm_pool *pool, uint32_t index, struct sums *sums)
{
    const struct gm_node *node = gm_node(pool, index);
    const struct gm_slab *slab = gm_slab(pool, node->slab);
    uint64_t size = gm_slab_object_size(slab);
    uint32_t objects = gm_slab_class_objects(slab->size_class);
    if (slab->node != index || size * objects > (uint64_t)node->size << GM_UNIT_SHIFT ||
        slab->base != gm_range(pool, node->range)->base + node->start * GM_UNIT_SIZE) {
        return BROKEN("slab %u at node %u contradicts itself", node->slab, index);
    }
    int rc = check_slab_starts(pool, node);
    if (rc < 0) {
        return rc;
    }
    sums->slabs_with_room += slab->free != 0;
    for (uint32_t i = 0; i < objects; i++) {
        if (slab->free >> i & 1) {
            continue;
        }
        if (gm_slab_note(pool, node->slab, i) & GM_NOTE_AWAITING) {
            sums->awaiting++;
        } else {
            sums->blocks++;
            sums->allocated += size;
            sums->requested += gm_slab_bytes(pool, node->slab, i);
        }
    }
    return 0;
}

static int check_block(const struct gm_pool *pool, uint32_t range_index, uint32_t index, struct sums *sums)
{
    const struct gm_node *node = gm_node(pool, index);
    const struct gm_range *range = gm_range(pool, range_index);
    uint64_t size = (uint64_t)node->size << GM_UNIT_SHIFT;
    bool stitched = false;
    int rc = use_pages(pool, range_index, node, sums, &stitched);
    if (rc < 0) {
        return rc;
    }
    if (gm_start_node(pool, range->starts[node->start >> range->start_shift]) != index) {
        return BROKEN("range %u: the block at unit %u cannot be found by its start", range_index, node->start);
    }
    if (node->state == GM_NODE_SLAB) {
        return check_slab(pool, index, sums);
    }
    if (node->state == GM_NODE_PENDING) {
        sums->pending_bytes += size;
        return 0;
    }
    if (node->state == GM_NODE_KEPT) {
        return index == pool->newest ? 0 : BROKEN("the block at node %u is kept and not the newest", index);
    }
    sums->blocks++;
    sums->allocated += size;
    sums->requested += size - node->slack;
    sums->stitched_blocks += node->stitched;
    sums->stitched_bytes += node->stitched ? size : 0;
    return 0;
}

/* The bound may be too high, never too low; dirty slots excuse a low one until the next search. */
static int check_gap(struct gm_pool *pool, uint32_t range_index, uint32_t index)
{
    const struct gm_range *range = gm_range(pool, range_index);
    const struct gm_node *gap = gm_node(pool, index);
    uint64_t total;
    uint32_t longest = gm_walk_longest(pool, index, &total);
    if (range->dirty.count == 0 && longest > gap->bound) {
        return BROKEN("range %u: gap at unit %u has a run of %u units above its bound of %u", range_index, gap->start,
                      longest, gap->bound);
    }
    uint32_t granule = (gap->start + gap->size - 1) >> range->granule_shift;
    uint32_t i = range->granule_head[granule];
    while (i != 0 && i != index) {
        i = gm_node(pool, i)->link_next;
    }
    if (i != index || range->granule_bound[granule] < (int32_t)gap->bound ||
        range->group_bound[granule / GM_GRANULE_FANOUT] < (int32_t)gap->bound || range->bound < gap->bound) {
        return BROKEN("range %u: gap at unit %u is not where searches look for it", range_index, gap->start);
    }
    return 0;
}

/* What the last search of a range found is still true of @gap. */
static int check_fit(const struct gm_range *range, uint32_t range_index, uint32_t index, const struct gm_node *gap)
{
    if (index == range->fit_gap ? gap->start != range->fit_start
                                : gap->start < range->fit_start && gap->bound >= range->fit_units) {
        return BROKEN("range %u: gap at unit %u has a bound of %u; none before unit %u should have %u", range_index,
                      gap->start, gap->bound, range->fit_start, range->fit_units);
    }
    return 0;
}

static int check_nodes(struct gm_pool *pool, uint32_t range_index, struct sums *sums)
{
    const struct gm_range *range = gm_range(pool, range_index);
    uint32_t end = range->mapped * GM_PAGE_UNITS;
    uint32_t next = GM_NONE;
    for (uint32_t i = range->last; i != GM_NONE; next = i, i = gm_node(pool, i)->prev) {
        const struct gm_node *node = gm_node(pool, i);
        if (node->size == 0 || node->start + node->size != end || node->next != next || node->range != range_index) {
            return BROKEN("range %u: node %u does not end at unit %u, where the next begins", range_index, i, end);
        }
        bool gap = node->state == GM_NODE_GAP;
        if (gap && next != GM_NONE && gm_node(pool, next)->state == GM_NODE_GAP) {
            return BROKEN("range %u: two gaps in a row at unit %u", range_index, node->start);
        }
        int rc = gap ? check_gap(pool, range_index, i) : check_block(pool, range_index, i, sums);
        if (gap && rc == 0) {
            rc = check_fit(range, range_index, i, node);
        }
        if (rc < 0) {
            return rc;
        }
        end = node->start;
        sums->nodes++;
    }
    if (range->fit_gap != GM_NONE && gm_node(pool, range->fit_gap)->state != GM_NODE_GAP) {
        return BROKEN("range %u: its last search found node %u, which is no gap", range_index, range->fit_gap);
    }
    return end == 0 ? 0 : BROKEN("range %u: no node covers its first %u units", range_index, end);
}

static int check_ranges(struct gm_pool *pool, struct sums *sums)
{
    for (uint32_t i = 0; i < pool->ranges.count; i++) {
        if (gm_range(pool, i)->size == 0) {
            continue;
        }
        int rc = check_slots(pool, i, sums);
        if (rc == 0) {
            rc = check_held(pool, i);
        }
        if (rc == 0) {
            rc = check_nodes(pool, i, sums);
        }
        if (rc < 0) {
            return rc;
        }
    }
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        if (gm_chunk(pool, i)->pages != 0 && sums->busy[i] != gm_chunk(pool, i)->busy) {
            return BROKEN("chunk %u: pages 0x%llx are busy, blocks lie on 0x%llx", i,
                          (unsigned long long)gm_chunk(pool, i)->busy, (unsigned long long)sums->busy[i]);
        }
    }
    return 0;
}

/* The lists hold the slabs with a free object, all of them, each in that of its size and stream. */
static int check_slab_lists(const struct gm_pool *pool, const struct sums *sums)
{
    uint32_t listed = 0;
    for (uint32_t i = 0; i < GM_SLAB_CLASSES * GM_STREAMS_MAX; i++) {
        uint32_t prev = GM_NONE;
        uint32_t s = pool->slab_lists[i / GM_STREAMS_MAX][i % GM_STREAMS_MAX];
        while (s != GM_NONE) {
            const struct gm_slab *slab = gm_slab(pool, s);
            if (slab->node == GM_NONE || slab->free == 0 || slab->prev != prev ||
                slab->size_class * GM_STREAMS_MAX + slab->stream != i) {
                return BROKEN("slab %u is in list %u, where it does not belong", s, i);
            }
            listed++;
            prev = s;
            s = slab->next;
        }
    }
    return listed == sums->slabs_with_room
               ? 0
               : BROKEN("%u slabs have a free object, %u are in lists", sums->slabs_with_room, listed);
}

/* Objects of slabs that wait for a synchronisation. */
static uint64_t owed_objects(const struct gm_pool *pool)
{
    const struct gm_slab_pending *pending = pool->slab_pending.data;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pool->slab_pending.count; i++) {
        bool owed = pending[i].stamp >> GM_STAMP_SHIFT == GM_STREAM_ANY;
        bytes += owed ? gm_slab_object_size(gm_slab(pool, pending[i].slab)) : 0;
    }
    return bytes;
}

static int check_totals(const struct gm_pool *pool, const struct sums *sums)
{
    const struct {
        const char *name;
        uint64_t kept, summed;
    } totals[] = {
        {"busy pages", pool->busy_pages, sums->busy_pages},
        {"alias pages", pool->alias_pages, sums->alias_pages},
        {"busy alias pages", pool->alias_busy_pages, sums->alias_busy_pages},
        {"pages of free chunks", pool->free_chunk_pages, sums->free_chunk_pages},
        {"chunks", pool->chunk_count, sums->chunks},
        {"mappings", pool->vmm.mappings, sums->mappings},
        {"reserved bytes", pool->vmm.reserved, sums->reserved},
        {"requested bytes", pool->counts.requested - pool->underway_bytes, sums->requested},
        {"allocated bytes", pool->counts.allocated, sums->allocated},
        {"blocks", pool->counts.allocs - pool->counts.frees, sums->blocks},
        {"stitched blocks", pool->counts.stitched_blocks, sums->stitched_blocks},
        {"stitched bytes", pool->counts.stitched_bytes, sums->stitched_bytes},
        {"objects freed on another stream", pool->slab_pending.count, sums->awaiting},
        {"bytes awaiting a synchronisation", pool->sync_pending_bytes, sums->pending_bytes + owed_objects(pool)},
    };
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        if (totals[i].kept != totals[i].summed) {
            return BROKEN("%s: %llu kept, %llu counted", totals[i].name, (unsigned long long)totals[i].kept,
                          (unsigned long long)totals[i].summed);
        }
    }
    return 0;
}

int gm_pool_check(struct gm_pool *pool)
{
    struct sums sums;
    memset(&sums, 0, sizeof sums);
    gm_lock_take(&pool->lock);
    uint32_t chunks = pool->chunks.count + 1;
    sums.busy = calloc(chunks, sizeof *sums.busy);
    sums.in_range = calloc((size_t)chunks * GM_CHUNK_PAGES, sizeof *sums.in_range);
    int rc = sums.busy == NULL || sums.in_range == NULL ? -ENOMEM : check_chunks(pool, &sums);
    if (rc == 0) {
        rc = check_ranges(pool, &sums);
    }
    if (rc == 0) {
        rc = check_slab_lists(pool, &sums);
    }
    if (rc == 0) {
        rc = check_totals(pool, &sums);
    }
    if (rc == 0 && gm_node(pool, pool->newest)->state == GM_NODE_GAP) {
        rc = BROKEN("the newest block is node %u, a gap", pool->newest);
    }
    if (rc == 0 && !gm_stream_is_sound(pool)) {
        rc = BROKEN("the stream of plain calls is not stream %u, the last one", pool->last_stream);
    }
    free(sums.busy);
    free(sums.in_range);
    gm_lock_drop(&pool->lock);
    return rc;
}
