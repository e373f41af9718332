/*
 * peer.c - other devices that use the memory of this one.
 *
 * CONCURRENCY  takes the pool's lock. Access is set without waiting for work on the device.
 */
#include "access.h"
#include "node.h"
#include "pool.h"

static int reopen_range(struct gm_pool *pool, const struct gm_range *range)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < range->slots.count; i++) {
        const struct gm_slot *slot = &gm_slots(range)[i];
        if (slot->chunk != GM_NONE) {
            rc = gm_vmm_reopen(&pool->vmm, range->base + ((CUdeviceptr)slot->page << GM_PAGE_SHIFT),
                               (uint64_t)slot->pages << GM_PAGE_SHIFT);
        }
    }
    return rc;
}

int gm_pool_admit(struct gm_pool *pool, CUdevice peer)
{
    gm_pool_enter(pool);
    uint32_t before = pool->vmm.accessors;
    int rc = gm_vmm_admit(&pool->vmm, peer);
    for (uint32_t i = 0; rc == 0 && pool->vmm.accessors > before && i < pool->ranges.count; i++) {
        const struct gm_range *range = gm_range(pool, i);
        if (range->size != 0) {
            rc = reopen_range(pool, range);
        }
    }
    if (rc < 0) {
        pool->vmm.accessors = before;
    }
    gm_lock_drop(&pool->lock);
    return rc;
}
