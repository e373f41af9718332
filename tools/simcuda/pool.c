/*
 * pool.c - blocks of stream-ordered pools, and which stream may have them when.
 */
#include "pool.h"

#include "clock.h"
#include "context.h"
#include "graph.h"
#include "objects.h"
#include "segment.h"

#include <stdlib.h>

#define ALIGNMENT 512ull

static struct sim_pool *pools; /* all */

/* A step whose neighbours came back on different streams is whole once these are done. */
void sim_pool_trim(struct sim_pool *pool, uint64_t keep)
{
    if (pool->reserved > keep) {
        sim_heap_merge(&pool->heap);
    }
    while (pool->reserved > keep && sim_segment_release_step(pool)) {
    }
}

/* A stream of another device may have given a block back, too. What is waited for may free more. */
static void wait_for_blocks(const struct sim_pool *pool)
{
    sim_device_wait(pool->device);
    const struct sim_block *block = sim_heap_smaller(&pool->heap, NULL);
    while (block != NULL) {
        if (sim_point_past(&block->usable)) {
            block = sim_heap_smaller(&pool->heap, block);
        } else {
            const struct sim_point usable = block->usable;
            sim_point_wait(&usable);
            block = sim_heap_smaller(&pool->heap, NULL);
        }
    }
}

static void trim_device(const struct sim_device *device, bool to_threshold)
{
    for (struct sim_pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->device == device) {
            sim_pool_trim(pool, to_threshold ? pool->threshold : 0);
        }
    }
}

void sim_pool_settle(struct sim_device *device)
{
    trim_device(device, true);
}

/* ---- blocks ---- */

static struct sim_block *take(struct sim_pool *pool, uint64_t size, const struct sim_stream *stream)
{
    struct sim_block *block = sim_heap_take(&pool->heap, size, ALIGNMENT, stream, stream != NULL && pool->reuse[2]);
    pool->blocks += block != NULL;
    return block;
}

static void forget(struct sim_pool *pool)
{
    struct sim_pool **place = &pools;
    while (*place != pool) {
        place = &(*place)->next;
    }
    *place = pool->next;
    sim_heap_finish(&pool->heap);
    free(pool);
}

/* A destroyed pool goes when its last block is back and the streams are done with it. */
static void end_pool(struct sim_pool *pool)
{
    wait_for_blocks(pool);
    sim_pool_trim(pool, 0);
    forget(pool);
}

static void give(struct sim_pool *pool, struct sim_block *block, const struct sim_point *usable)
{
    sim_heap_give(&pool->heap, block, usable);
    if (--pool->blocks == 0 && pool->destroyed) {
        end_pool(pool);
    }
}

CUresult sim_pool_free(struct sim_pooled *pooled, struct sim_stream *stream)
{
    struct sim_point usable = {0};
    if (stream != NULL && !sim_stream_mark(stream, &usable)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_graph_disown(pooled);
    pooled->pool->used -= pooled->range.size;
    sim_space_remove(&pooled->range);
    give(pooled->pool, pooled->block, &usable);
    free(pooled);
    return CUDA_SUCCESS;
}

/* ---- allocation ---- */

static struct sim_block *find_block(struct sim_pool *pool, uint64_t size, const struct sim_stream *stream)
{
    struct sim_block *block = take(pool, size, stream);
    if (block == NULL && pool->heap.unmerged) {
        sim_heap_merge(&pool->heap);
        block = take(pool, size, stream);
    }
    if (block == NULL && sim_segment_add(pool, size)) {
        block = take(pool, size, stream);
    }
    if (block == NULL) {
        /* The device is full: what is on its way back is waited for, then free steps of all pools go. */
        wait_for_blocks(pool);
        sim_heap_merge(&pool->heap);
        block = take(pool, size, stream);
    }
    if (block == NULL) {
        trim_device(pool->device, false);
        block = sim_segment_add(pool, size) ? take(pool, size, stream) : NULL;
    }
    return block;
}

/* Puts a wait into @stream for work of another stream on the block it was given. */
static bool wait_for_block(struct sim_stream *stream, const struct sim_block *block)
{
    if (stream == NULL || block->usable.stream == stream || sim_point_past(&block->usable)) {
        return true;
    }
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return false;
    }
    op->after = block->usable;
    sim_stream_push(stream, op);
    return true;
}

CUresult sim_pool_allocate(struct sim_pool *pool, uint64_t size, struct sim_stream *stream, struct sim_pooled **out)
{
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    struct sim_pooled *pooled = rounded < size ? NULL : calloc(1, sizeof *pooled);
    if (pooled == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pooled->block = find_block(pool, rounded, stream);
    if (pooled->block == NULL) {
        free(pooled);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!wait_for_block(stream, pooled->block)) {
        give(pool, pooled->block, &pooled->block->usable);
        free(pooled);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pooled->pool = pool;
    pooled->range.kind = SIM_POOLED;
    pooled->range.device = pool->device;
    pooled->range.size = size;
    sim_space_add(&pooled->range, pooled->block->address);
    pool->used += size;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    *out = pooled;
    return CUDA_SUCCESS;
}

/* ---- pools ---- */

struct sim_pool *sim_pool_create(struct sim_device *device)
{
    struct sim_pool *pool = calloc(1, sizeof *pool);
    uint64_t handle = pool == NULL ? 0 : sim_object_add(SIM_POOL, pool);
    if (handle == 0) {
        free(pool);
        return NULL;
    }
    pool->handle = handle;
    pool->device = device;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->access[device->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    pool->next = pools;
    pools = pool;
    return pool;
}

void sim_pool_destroy(struct sim_pool *pool)
{
    if (pool->device->current_pool == pool) {
        pool->device->current_pool = pool->device->default_pool;
    }
    sim_object_remove(pool->handle);
    pool->destroyed = true;
    if (pool->blocks == 0) {
        end_pool(pool);
    }
}

struct sim_pool *sim_pool_get(CUmemoryPool handle)
{
    return sim_object_get(SIM_POOL, (uint64_t)(uintptr_t)handle);
}

bool sim_pool_start(void)
{
    for (int i = 0; i < sim_device_count(); i++) {
        struct sim_device *device = sim_device_at(i);
        device->default_pool = sim_pool_create(device);
        device->current_pool = device->default_pool;
        if (device->default_pool == NULL) {
            return false;
        }
    }
    return true;
}
