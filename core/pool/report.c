/*
 * report.c - what the pool says of itself: statistics, and a walk over its blocks.
 */
#include "access.h"
#include "node.h"
#include "pool.h"
#include "range.h"
#include "slab.h"
#include "walk.h"

#include <errno.h>
#include <string.h>

/* The counts of the pool go to the statistics of the same names. */
static void copy_counts(const struct gm_pool_counts *counts, struct gmlake_stats *stats)
{
    stats->requested = counts->requested;
    stats->requested_peak = counts->requested_peak;
    stats->allocated = counts->allocated;
    stats->blocks = counts->allocs - counts->frees;
    stats->stitched_blocks = counts->stitched_blocks;
    stats->stitched_bytes = counts->stitched_bytes;
    stats->allocs = counts->allocs;
    stats->frees = counts->frees;
    stats->exact = counts->exact;
    stats->split = counts->split;
    stats->stitch = counts->stitch;
    stats->grow = counts->grow;
    stats->cut = counts->cut;
    stats->stream_waits = counts->stream_waits;
    stats->host_waits = counts->host_waits;
    stats->evict = counts->evict;
    stats->trim = counts->trim;
    stats->oom = counts->oom;
    stats->reclaimed = counts->reclaimed;
    stats->low_events = counts->low_events;
    stats->stitch_fails = counts->stitch_fails;
    stats->reclaim_events = counts->reclaim_events;
}

void gm_pool_stats(struct gm_pool *pool, struct gmlake_stats *out)
{
    gm_pool_enter(pool);
    const struct gm_vmm *vmm = &pool->vmm;
    copy_counts(&pool->counts, out);
    out->primitive_blocks = out->blocks - out->stitched_blocks;
    out->primitive_bytes = out->allocated - out->stitched_bytes;
    out->reserved = vmm->reserved;
    out->reserved_peak = vmm->reserved_peak;
    out->free = vmm->reserved - (pool->busy_pages << GM_PAGE_SHIFT);
    out->primitive_free = out->free;
    out->free_chunks = pool->free_chunk_pages << GM_PAGE_SHIFT;
    out->largest_free = out->free_chunks;
    out->stitched_mapped = pool->alias_pages << GM_PAGE_SHIFT;
    out->stitched_idle = (pool->alias_pages - pool->alias_busy_pages) << GM_PAGE_SHIFT;
    out->mappings = vmm->mappings;
    out->mappings_peak = vmm->mappings_peak;
    out->va_bytes = vmm->va_bytes;
    out->streams = pool->stream_count;
    out->driver_calls = vmm->calls;
    out->driver_ns = vmm->ns;
    out->high_events = vmm->high_events;
    out->max_events = vmm->max_events;
    out->chunks = pool->chunk_count;
    gm_lock_drop(&pool->lock);
}

static uint32_t chunks_under(const struct gm_range *range, const struct gm_node *node)
{
    uint32_t first = gm_range_slot(range, node->start / GM_PAGE_UNITS);
    uint32_t last = gm_range_slot(range, (node->start + node->size - 1) / GM_PAGE_UNITS);
    return last - first + 1;
}

static void describe_node(struct gm_pool *pool, const struct gm_range *range, uint32_t index,
                          struct gmlake_block *block)
{
    const struct gm_node *node = gm_node(pool, index);
    uint64_t usable = 0;
    memset(block, 0, sizeof *block);
    block->address = range->base + ((CUdeviceptr)node->start << GM_UNIT_SHIFT);
    block->size = (uint64_t)node->size << GM_UNIT_SHIFT;
    block->chunks = chunks_under(range, node);
    if (node->state == GM_NODE_GAP) {
        (void)gm_walk_longest(pool, index, &usable);
        block->usable = usable << GM_UNIT_SHIFT;
        block->kind = GMLAKE_BLOCK_FREE;
    } else if (node->state == GM_NODE_PENDING) {
        block->kind = GMLAKE_BLOCK_FREE;
    } else {
        block->requested = block->size - node->slack;
        block->kind = node->stitched ? GMLAKE_BLOCK_STITCHED : GMLAKE_BLOCK_PRIMITIVE;
    }
}

/* Visits the objects of a slab; free ones as free blocks of their own. */
static int walk_slab(struct gm_pool *pool, const struct gm_range *range, uint32_t index,
                     int (*visit)(void *arg, const struct gmlake_block *block), void *arg)
{
    const struct gm_node *node = gm_node(pool, index);
    const struct gm_slab *slab = gm_slab(pool, node->slab);
    uint64_t size = gm_slab_object_size(slab);
    struct gmlake_block block;
    describe_node(pool, range, index, &block);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < gm_slab_class_objects(slab->size_class); i++) {
        bool live = !(slab->free >> i & 1) && !(gm_slab_note(pool, node->slab, i) & GM_NOTE_AWAITING);
        block.address = slab->base + i * size;
        block.size = size;
        block.requested = live ? gm_slab_bytes(pool, node->slab, i) : 0;
        block.usable = slab->free >> i & 1 ? size : 0;
        block.kind = !live ? GMLAKE_BLOCK_FREE : node->stitched ? GMLAKE_BLOCK_STITCHED : GMLAKE_BLOCK_PRIMITIVE;
        rc = visit(arg, &block);
    }
    return rc;
}

static int walk_range(struct gm_pool *pool, const struct gm_range *range,
                      int (*visit)(void *arg, const struct gmlake_block *block), void *arg)
{
    uint32_t first = range->last;
    while (first != GM_NONE && gm_node(pool, first)->prev != GM_NONE) {
        first = gm_node(pool, first)->prev;
    }
    int rc = 0;
    for (uint32_t i = first; rc == 0 && i != GM_NONE; i = gm_node(pool, i)->next) {
        if (gm_node(pool, i)->state == GM_NODE_SLAB) {
            rc = walk_slab(pool, range, i, visit, arg);
        } else {
            struct gmlake_block block;
            describe_node(pool, range, i, &block);
            rc = visit(arg, &block);
        }
    }
    return rc;
}

/* The range with the lowest base above @above; GM_NONE: no more. */
static uint32_t next_range(const struct gm_pool *pool, CUdeviceptr above)
{
    uint32_t best = GM_NONE;
    for (uint32_t i = 0; i < pool->ranges.count; i++) {
        const struct gm_range *range = gm_range(pool, i);
        if (range->size != 0 && range->base > above && (best == GM_NONE || range->base < gm_range(pool, best)->base)) {
            best = i;
        }
    }
    return best;
}

int gm_pool_map(struct gm_pool *pool, int (*visit)(void *arg, const struct gmlake_block *block), void *arg,
                uint64_t *operations)
{
    int rc = 0;
    gm_pool_enter(pool);
    *operations = pool->sequence;
    for (uint32_t i = next_range(pool, 0); rc == 0 && i != GM_NONE; i = next_range(pool, gm_range(pool, i)->base)) {
        rc = walk_range(pool, gm_range(pool, i), visit, arg);
    }
    gm_lock_drop(&pool->lock);
    return rc;
}

int gm_pool_walk(struct gm_pool *pool, int (*visit)(void *arg, const struct gmlake_block *block), void *arg)
{
    uint64_t operations;
    return gm_pool_map(pool, visit, arg, &operations);
}

static int find_locked(struct gm_pool *pool, CUdeviceptr address, struct gmlake_block *out)
{
    uint32_t range_index;
    if (gm_range_owner(address, &range_index) != pool) {
        return -ENOENT;
    }
    const struct gm_range *range = gm_range(pool, range_index);
    uint32_t at = (uint32_t)((address - range->base) >> GM_UNIT_SHIFT);
    uint32_t index = gm_range_find(pool, range, at);
    if (index == GM_NONE || gm_node(pool, index)->state == GM_NODE_PENDING) {
        return -ENOENT;
    }
    struct gmlake_block block;
    describe_node(pool, range, index, &block);
    if (gm_node(pool, index)->state == GM_NODE_SLAB) {
        uint32_t slab = gm_node(pool, index)->slab;
        uint32_t object;
        if (!gm_slab_find(pool, slab, address, &object)) {
            return -ENOENT;
        }
        block.size = gm_slab_object_size(gm_slab(pool, slab));
        block.address = gm_slab(pool, slab)->base + object * block.size;
        block.requested = gm_slab_bytes(pool, slab, object);
    }
    if (address - block.address >= block.requested) {
        return -ENOENT;
    }
    *out = block;
    return 0;
}

int gm_pool_find(struct gm_pool *pool, CUdeviceptr address, struct gmlake_block *out)
{
    gm_pool_enter(pool);
    int rc = find_locked(pool, address, out);
    gm_lock_drop(&pool->lock);
    return rc;
}
