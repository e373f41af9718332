/*
 * spoil.c - see spoil.h. A function for each thing that can be wrong, and the table of them.
 */
#include "spoil.h"

#include "access.h"
#include "allocator.h"
#include "node.h"
#include "slab.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- looking for something of a kind ----------------------------------------------------------------------------- */

/* The first node in @state whose next one is in @next_state (GM_NODE_UNUSED: any); 0: there is none. */
static uint32_t node_before(const struct gm_pool *pool, enum gm_node_state state, enum gm_node_state next_state)
{
    for (uint32_t i = 1; i < pool->nodes.count; i++) {
        const struct gm_node *node = gm_node(pool, i);
        bool fits =
            next_state == GM_NODE_UNUSED || (node->next != GM_NONE && gm_node(pool, node->next)->state == next_state);
        if (node->state == state && fits) {
            return i;
        }
    }
    return 0;
}

static uint32_t node_in(const struct gm_pool *pool, enum gm_node_state state)
{
    return node_before(pool, state, GM_NODE_UNUSED);
}

/* The gap with the most room; 0: there is none. */
static uint32_t widest_gap(const struct gm_pool *pool)
{
    uint32_t widest = 0;
    for (uint32_t i = 1; i < pool->nodes.count; i++) {
        if (gm_node(pool, i)->state == GM_NODE_GAP &&
            (widest == 0 || gm_node(pool, i)->bound > gm_node(pool, widest)->bound)) {
            widest = i;
        }
    }
    return widest;
}

/* A chunk of one place, in use or free. */
static struct gm_chunk *chunk_that(const struct gm_pool *pool, bool busy)
{
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        struct gm_chunk *chunk = gm_chunk(pool, i);
        if (chunk->pages > 1 && chunk->pages < GM_CHUNK_PAGES && chunk->place_count == 1 &&
            (chunk->busy != 0) == busy) {
            return chunk;
        }
    }
    return NULL;
}

enum slot_kind { HOME, ALIAS, DEAD };

/* A slot of that kind; *@range is where. */
static struct gm_slot *slot_that(const struct gm_pool *pool, enum slot_kind kind, struct gm_range **range)
{
    for (uint32_t i = 0; i < pool->ranges.count; i++) {
        *range = gm_range(pool, i);
        for (uint32_t s = 0; (*range)->size != 0 && s < (*range)->slots.count; s++) {
            struct gm_slot *slot = gm_slots(*range) + s;
            enum slot_kind its = slot->chunk == GM_NONE ? DEAD : slot->alias != 0 ? ALIAS : HOME;
            if (its == kind && slot->pages > 1) {
                return slot;
            }
        }
    }
    return NULL;
}

static struct gm_slab *slab_with_room(const struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->slabs.count; i++) {
        if (gm_slab(pool, i)->node != GM_NONE && gm_slab(pool, i)->free != 0) {
            return gm_slab(pool, i);
        }
    }
    return NULL;
}

static struct gm_range *range_of(const struct gm_pool *pool, uint32_t node)
{
    return gm_range(pool, gm_node(pool, node)->range);
}

/* ---- chunks and their places --------------------------------------------------------------------------------------- */

static bool block_nowhere(struct gm_pool *pool)
{
    struct gm_chunk *chunk = chunk_that(pool, true);
    return chunk != NULL && (chunk->blocked |= 1u << 9);
}

static bool place_beyond(struct gm_pool *pool)
{
    struct gm_chunk *chunk = chunk_that(pool, true);
    return chunk != NULL && (chunk->inline_places[0].page = gm_range(pool, chunk->inline_places[0].range)->mapped + 3);
}

static bool slot_of_another_place(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, HOME, &range);
    return slot != NULL && ++slot->place;
}

static bool alias_as_home(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, ALIAS, &range);
    if (slot != NULL) {
        slot->alias = 0;
    }
    return slot != NULL;
}

static bool held_unknown(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, HOME, &range);
    if (slot != NULL) {
        ((uint64_t *)range->held.data)[slot->chunk / 64] &= ~((uint64_t)1 << slot->chunk % 64);
    }
    return slot != NULL;
}

static bool held_too_many(struct gm_pool *pool)
{
    struct gm_range *range;
    return slot_that(pool, HOME, &range) != NULL && (((uint64_t *)range->held.data)[0] |= (uint64_t)1 << 63);
}

static bool free_pages_off(struct gm_pool *pool)
{
    struct gm_chunk *chunk = chunk_that(pool, false);
    return chunk != NULL && ++gm_free_pages(pool)[gm_chunk_id(pool, chunk)];
}

static bool busy_beyond(struct gm_pool *pool)
{
    struct gm_chunk *chunk = chunk_that(pool, true);
    return chunk != NULL && (chunk->busy |= (uint64_t)1 << 63);
}

/* A page in use is said to be free. */
static bool busy_forgotten(struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        struct gm_chunk *chunk = gm_chunk(pool, i);
        if (chunk->pages != 0 && chunk->place_count == 1 && (chunk->busy & (chunk->busy - 1)) != 0) {
            chunk->busy &= chunk->busy - 1;
            return true;
        }
    }
    return false;
}

/* ---- slots ------------------------------------------------------------------------------------------------------------ */

static bool dead_usable(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, DEAD, &range);
    if (slot != NULL) {
        range->usable[slot->page / 64] |= (uint64_t)1 << slot->page % 64;
    }
    return slot != NULL;
}

static bool free_unusable(struct gm_pool *pool)
{
    struct gm_chunk *chunk = chunk_that(pool, false);
    if (chunk != NULL) {
        const struct gm_place *home = chunk->inline_places;
        gm_range(pool, home->range)->usable[home->page / 64] &= ~((uint64_t)1 << home->page % 64);
    }
    return chunk != NULL;
}

static bool slot_moved(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, DEAD, &range);
    return slot != NULL && ++slot->page;
}

static bool page_astray(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, HOME, &range);
    if (slot != NULL) {
        range->slot_of_page[slot->page + 1]++;
    }
    return slot != NULL;
}

static bool dirty_unlisted(struct gm_pool *pool)
{
    struct gm_range *range;
    struct gm_slot *slot = slot_that(pool, HOME, &range);
    return slot != NULL && ++slot->dirty;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

static bool block_not_found(struct gm_pool *pool)
{
    uint32_t live = node_in(pool, GM_NODE_LIVE);
    if (live != 0) {
        range_of(pool, live)->starts[gm_node(pool, live)->start >> range_of(pool, live)->start_shift] = 0;
    }
    return live != 0;
}

static bool slab_not_found(struct gm_pool *pool)
{
    uint32_t slab = node_in(pool, GM_NODE_SLAB);
    if (slab == 0) {
        return false;
    }
    const struct gm_node *node = gm_node(pool, slab);
    uint32_t second = (node->start >> range_of(pool, slab)->start_shift) + 1;
    range_of(pool, slab)->starts[second] = GM_START_SLAB | (node->slab + 1);
    return node->start + node->size > second << range_of(pool, slab)->start_shift;
}

static bool slab_elsewhere(struct gm_pool *pool)
{
    struct gm_slab *slab = slab_with_room(pool);
    return slab != NULL && (slab->base += GM_UNIT_SIZE);
}

static bool kept_not_newest(struct gm_pool *pool)
{
    return node_in(pool, GM_NODE_KEPT) != 0 && (pool->newest = node_in(pool, GM_NODE_LIVE));
}

static bool newest_a_gap(struct gm_pool *pool)
{
    gm_node_forget_newest(pool);
    return (pool->newest = widest_gap(pool));
}

static bool bound_too_low(struct gm_pool *pool)
{
    uint32_t gap = widest_gap(pool);
    if (gap != 0) {
        gm_node(pool, gap)->bound = 0;
        range_of(pool, gap)->dirty.count = 0;
    }
    return gap != 0;
}

static bool gap_unlisted(struct gm_pool *pool)
{
    uint32_t gap = widest_gap(pool);
    if (gap != 0) {
        const struct gm_node *node = gm_node(pool, gap);
        range_of(pool, gap)->granule_head[(node->start + node->size - 1) >> range_of(pool, gap)->granule_shift] = 0;
    }
    return gap != 0;
}

static bool fit_beyond(struct gm_pool *pool)
{
    uint32_t gap = widest_gap(pool);
    if (gap != 0) {
        range_of(pool, gap)->fit_gap = GM_NONE;
        range_of(pool, gap)->fit_units = 0;
        range_of(pool, gap)->fit_start = UINT32_MAX;
    }
    return gap != 0;
}

static bool fit_no_gap(struct gm_pool *pool)
{
    uint32_t live = node_in(pool, GM_NODE_LIVE);
    if (live != 0) {
        range_of(pool, live)->fit_start = 0;
        range_of(pool, live)->fit_gap = live;
    }
    return live != 0;
}

static bool node_too_short(struct gm_pool *pool)
{
    uint32_t live = node_in(pool, GM_NODE_LIVE);
    return live != 0 && --gm_node(pool, live)->size;
}

static bool gap_beside_gap(struct gm_pool *pool)
{
    uint32_t live = node_before(pool, GM_NODE_LIVE, GM_NODE_GAP);
    return live != 0 && (gm_node(pool, live)->state = GM_NODE_GAP);
}

static bool start_uncovered(struct gm_pool *pool)
{
    uint32_t live = node_in(pool, GM_NODE_LIVE);
    while (live != 0 && gm_node(pool, live)->prev == GM_NONE) {
        live = gm_node(pool, live)->next;
    }
    return live != 0 && (gm_node(pool, live)->prev = GM_NONE);
}

/* ---- lists, streams and totals ------------------------------------------------------------------------------------------ */

static bool slab_of_another_list(struct gm_pool *pool)
{
    struct gm_slab *slab = slab_with_room(pool);
    return slab != NULL && ++slab->stream;
}

static bool slab_unlisted(struct gm_pool *pool)
{
    struct gm_slab *slab = slab_with_room(pool);
    return slab != NULL && (pool->slab_lists[slab->size_class][slab->stream] = GM_NONE);
}

/* An object that awaits the end of work is said to be in use. */
static bool awaiting_forgotten(struct gm_pool *pool)
{
    const struct gm_slab_pending *pending = pool->slab_pending.data;
    struct gm_slab_notes *notes = pool->slab_notes.data;
    if (pool->slab_pending.count != 0) {
        notes[pending[0].slab].of[pending[0].object] = 0;
        pool->counts.allocs++;
        pool->counts.requested += gm_slab_bytes(pool, pending[0].slab, pending[0].object);
        pool->counts.allocated += gm_slab_object_size(gm_slab(pool, pending[0].slab));
    }
    return pool->slab_pending.count != 0;
}

static bool one_chunk_more(struct gm_pool *pool)
{
    return ++pool->chunk_count;
}

static bool another_stream(struct gm_pool *pool)
{
    return (pool->last_stream = (pool->last_stream + 1) % pool->stream_count) + 1;
}

static const struct {
    const char *says;
    bool (*spoil)(struct gm_pool *pool); /* NULL: the total at this offset is one more */
    size_t total;
} table[] = {
    {"blocked in more than its", block_nowhere, 0},
    {"which has no such page", place_beyond, 0},
    {"is another slot's", slot_of_another_place, 0},
    {"pages as an alias", alias_as_home, 0},
    {"which does not know that it holds it", held_unknown, 0},
    {"known to hold", held_too_many, 0},
    {"free pages as a whole, the table says", free_pages_off, 0},
    {"pages beyond its end are busy", busy_beyond, 0},
    {"blocks lie on", busy_forgotten, 0},
    {"is marked usable", dead_usable, 0},
    {"is marked unusable, and nothing will mark it again", free_unusable, 0},
    {"begins at page", slot_moved, 0},
    {"leads to slot", page_astray, 0},
    {"dirty, slots say", dirty_unlisted, 0},
    {"cannot be found by its start", block_not_found, 0},
    {"leads elsewhere", slab_not_found, 0},
    {"contradicts itself", slab_elsewhere, 0},
    {"is kept and not the newest", kept_not_newest, 0},
    {"the newest block is node", newest_a_gap, 0},
    {"above its bound of 0", bound_too_low, 0},
    {"is not where searches look for it", gap_unlisted, 0},
    {"none before unit", fit_beyond, 0},
    {"which is no gap", fit_no_gap, 0},
    {"where the next begins", node_too_short, 0},
    {"two gaps in a row", gap_beside_gap, 0},
    {"no node covers its first", start_uncovered, 0},
    {"where it does not belong", slab_of_another_list, 0},
    {"slabs have a free object", slab_unlisted, 0},
    {"the stream of plain calls", another_stream, 0},
    {"objects freed on another stream: ", awaiting_forgotten, 0},
    {"chunks: ", one_chunk_more, 0},
    {"busy pages: ", NULL, offsetof(struct gm_pool, busy_pages)},
    {"alias pages: ", NULL, offsetof(struct gm_pool, alias_pages)},
    {"busy alias pages: ", NULL, offsetof(struct gm_pool, alias_busy_pages)},
    {"pages of free chunks: ", NULL, offsetof(struct gm_pool, free_chunk_pages)},
    {"mappings: ", NULL, offsetof(struct gm_pool, vmm.mappings)},
    {"reserved bytes: ", NULL, offsetof(struct gm_pool, vmm.reserved)},
    {"requested bytes: ", NULL, offsetof(struct gm_pool, counts.requested)},
    {"allocated bytes: ", NULL, offsetof(struct gm_pool, counts.allocated)},
    {"blocks: ", NULL, offsetof(struct gm_pool, counts.allocs)},
    {"stitched blocks: ", NULL, offsetof(struct gm_pool, counts.stitched_blocks)},
    {"stitched bytes: ", NULL, offsetof(struct gm_pool, counts.stitched_bytes)},
    {"bytes awaiting a synchronisation: ", NULL, offsetof(struct gm_pool, sync_pending_bytes)},
};

const char *spoil_says(unsigned number)
{
    return number < sizeof table / sizeof table[0] ? table[number].says : NULL;
}

bool spoil(struct gmlake *allocator, unsigned number)
{
    struct gm_pool *pool = &allocator->pool;
    if (table[number].spoil != NULL) {
        return table[number].spoil(pool);
    }
    uint64_t *total = (uint64_t *)(void *)((char *)pool + table[number].total);
    (*total)++;
    return true;
}
