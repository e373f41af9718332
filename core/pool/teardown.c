/*
 * teardown.c - the end of a pool or of its context, captures ahead, and giving memory back on request.
 */
#include "access.h"
#include "account.h"
#include "chunk.h"
#include "errors.h"
#include "evict.h"
#include "limit.h"
#include "node.h"
#include "pool.h"
#include "range.h"
#include "slab.h"
#include "stream.h"

#include <stdlib.h>

int gm_pool_trim(struct gm_pool *pool, uint64_t keep, uint64_t *released)
{
    int rc = 0;
    gm_pool_enter(pool);
    if (pool->sync_pending_bytes > 0) {
        rc = gm_limit_settle(pool);
    }
    if (rc == 0) {
        rc = gm_stream_drain(pool);
    }
    gm_slab_release_empty(pool);
    uint64_t bytes = gm_limit_trim(pool, keep);
    gm_lock_drop(&pool->lock);
    if (rc == 0) {
        *released = bytes;
    }
    return rc;
}

void gm_pool_orphan(struct gm_pool *pool)
{
    gm_pool_enter(pool);
    pool->context = NULL;
    gm_limit_end_context(pool);
    gm_slab_release_empty(pool);
    gm_evict_all(pool);
    (void)gm_limit_trim(pool, 0);
    gm_lock_drop(&pool->lock);
}

void gm_pool_expect_capture(struct gm_pool *pool)
{
    gm_pool_enter(pool);
    gm_stream_mark(pool);
    if (pool->sync_pending_bytes > 0) {
        (void)gm_limit_settle(pool); /* unless another capture forbids it */
    }
    gm_lock_drop(&pool->lock);
}

void gm_pool_adopt(struct gm_pool *pool, CUcontext context)
{
    gm_pool_enter(pool);
    pool->context = context;
    gm_lock_drop(&pool->lock);
}

/* Unmaps and releases without a look at what is in use: the device has been waited for, and all is to go. */
static void release_everything(struct gm_pool *pool)
{
    for (uint32_t r = 0; r < pool->ranges.count; r++) {
        struct gm_range *range = gm_range(pool, r);
        for (uint32_t i = 0; range->size != 0 && i < range->slots.count; i++) {
            if (gm_slots(range)[i].chunk != GM_NONE) {
                gm_range_detach(pool, r, gm_slots(range)[i].page);
            }
        }
    }
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        if (gm_chunk(pool, i)->pages != 0) {
            gm_chunk_discard(pool, i);
        }
    }
    for (uint32_t r = 0; r < pool->ranges.count; r++) {
        if (gm_range(pool, r)->size != 0) {
            gm_range_discard(pool, r);
        }
    }
}

void gm_pool_finish(struct gm_pool *pool)
{
    CUcontext ignored;
    if (pool->vmm.cu->ctx_push_current(pool->context) == CUDA_SUCCESS) {
        (void)pool->vmm.cu->ctx_synchronize();
        release_everything(pool);
        gm_stream_finish(pool);
        (void)pool->vmm.cu->ctx_pop_current(&ignored);
    }
    gm_account_uncharge(pool->vmm.reserved); /* what went with a context that is no more */
    struct gm_array *arrays[] = {&pool->nodes,      &pool->chunks,       &pool->ranges,     &pool->slabs,
                                 &pool->free_pages, &pool->slab_pending, &pool->candidates, &pool->picking,
                                 &pool->picked,     &pool->parts,        &pool->slab_notes};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        gm_array_finish(arrays[i]);
    }
    for (uint32_t c = 0; c < GM_CLASS_COUNT; c++) {
        gm_array_finish(&pool->class_ranges[c]);
    }
    gm_lock_finish(&pool->lock);
}
