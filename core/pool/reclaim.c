/*
 * reclaim.c - see reclaim.h.
 */
#include "reclaim.h"

#include "limit.h"
#include "node.h"
#include "slab.h"
#include "stream.h"

/* Given back in one go: up to 32 chunks of the smallest size, some 60 us each. */
#define SLICE ((uint64_t)64 << 20)

/* One slice of @bytes; @first: nothing was given back yet, so that what is now is an event. */
static uint64_t reclaim_slice(struct gm_pool *pool, uint64_t bytes, bool first, bool *pending)
{
    gm_pool_enter(pool);
    gm_stream_look(pool);
    gm_slab_release_empty(pool);
    uint64_t free = pool->free_chunk_pages << GM_PAGE_SHIFT;
    uint64_t wanted = bytes < SLICE ? bytes : SLICE;
    uint64_t released = gm_limit_trim(pool, free > wanted ? free - wanted : 0);
    pool->counts.reclaimed += released;
    pool->counts.reclaim_events += first && released > 0;
    *pending = pool->free_chunk_pages > 0 || pool->sync_pending_bytes > 0 || gm_stream_is_pending(pool);
    gm_lock_drop(&pool->lock);
    return released;
}

uint64_t gm_pool_reclaim(struct gm_pool *pool, uint64_t bytes, bool *pending)
{
    uint64_t released = 0;
    uint64_t slice;
    do {
        slice = reclaim_slice(pool, bytes - released, released == 0, pending);
        released += slice;
    } while (slice > 0 && released < bytes);
    return released;
}

void gm_pool_settle(struct gm_pool *pool)
{
    gm_pool_enter(pool);
    if (pool->sync_pending_bytes > 0 || gm_stream_is_pending(pool)) {
        (void)gm_limit_settle(pool); /* unless a capture forbids it */
    }
    gm_lock_drop(&pool->lock);
}

void gm_pool_tend(struct gm_pool *pool)
{
    gm_pool_enter(pool);
    if (gm_limit_is_exceeded(pool)) {
        gm_stream_look(pool);
        pool->relieved = 0;
        gm_limit_relieve(pool);
    }
    gm_lock_drop(&pool->lock);
}
