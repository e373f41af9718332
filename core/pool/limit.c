/*
 * limit.c - see limit.h.
 */
#include "limit.h"

#include "access.h"
#include "account.h"
#include "cut.h"
#include "errors.h"
#include "evict.h"
#include "node.h"
#include "range.h"
#include "slab.h"
#include "stitch.h"
#include "stream.h"
#include "tunables.h"

#include <errno.h>

/* Operations between two tries to get back within a limit when work on the device stands in the way. */
#define RELIEVE_EVERY 64u

/* Waits of one request at the limit while other threads free and take memory. */
#define WAITS_MOST 8u

/* The context was found capturing: a synchronisation now would break the capture. */
static bool context_is_capturing(const struct gm_pool *pool)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (pool->vmm.cu->stream_is_capturing(NULL, &status) != CUDA_SUCCESS) {
        return true;
    }
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        CUstream handle;
        if (gm_stream_name(&pool->streams[i], &handle) &&
            pool->vmm.cu->stream_is_capturing(handle, &status) == CUDA_SUCCESS &&
            status != CU_STREAM_CAPTURE_STATUS_NONE) {
            return true;
        }
    }
    return false;
}

/*
 * Of a context that has ended no work is left. What was freed since then may be in use under any other context of the
 * device, for all of which the current one stands.
 */
static CUresult synchronise(const struct gm_pool *pool)
{
    CUcontext ignored;
    if (pool->context == NULL) {
        return pool->vmm.cu->ctx_synchronize();
    }
    CUresult code = pool->vmm.cu->ctx_push_current(pool->context);
    if (code == CUDA_SUCCESS) {
        code = pool->vmm.cu->ctx_synchronize();
        pool->vmm.cu->ctx_pop_current(&ignored);
    }
    return code;
}

/* Releases all nodes of the list but the @newer newest, which were freed after the synchronisation began. */
static void release_settled(struct gm_pool *pool, uint64_t newer, uint64_t stamp)
{
    uint32_t *link = &pool->sync_pending;
    while (*link != GM_NONE && newer-- > 0) {
        link = &gm_node(pool, *link)->link_next;
    }
    uint32_t index = *link;
    *link = GM_NONE;
    while (index != GM_NONE) {
        const struct gm_node *node = gm_node(pool, index);
        uint32_t next = node->link_next;
        pool->sync_pending_bytes -= (uint64_t)node->size << GM_UNIT_SHIFT;
        gm_range_release(pool, index, stamp);
        index = next;
    }
}

int gm_limit_settle(struct gm_pool *pool)
{
    if (context_is_capturing(pool)) {
        return -EBUSY;
    }
    uint64_t until = pool->sequence;
    uint64_t freed = pool->sync_freed;
    pool->counts.host_waits++;
    gm_lock_drop(&pool->lock);
    CUresult code = synchronise(pool);
    gm_pool_enter(pool);
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    pool->all_done = until > pool->all_done ? until : pool->all_done;
    release_settled(pool, pool->sync_freed - freed, until);
    gm_slab_collect(pool);
    return 0;
}

void gm_limit_end_context(struct gm_pool *pool)
{
    gm_stream_end_all(pool);
    pool->all_done = pool->sequence;
    release_settled(pool, 0, pool->sequence);
    gm_slab_collect(pool);
}

/* Streams whose pending frees hide free pages from @stream get waited for on the GPU. */
static bool wait_for_hidden(struct gm_pool *pool, uint32_t stream)
{
    bool wanted[GM_STREAMS_MAX] = {false};
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        const struct gm_chunk *chunk = gm_chunk(pool, i);
        bool has_none = chunk->pages == 0 || chunk->busy == gm_page_mask(0, chunk->pages - 1u);
        if (has_none || gm_stream_sees(pool, chunk->stamp, stream)) {
            continue;
        }
        uint32_t last = (uint32_t)(chunk->stamp >> GM_STAMP_SHIFT);
        for (uint32_t k = 0; k < pool->stream_count; k++) {
            wanted[k] |= k == last || last == GM_STREAM_MIXED;
        }
    }
    bool waited = false;
    for (uint32_t k = 0; k < pool->stream_count; k++) {
        waited |= wanted[k] && k != stream && gm_stream_wait(pool, stream, k);
    }
    return waited;
}

/* Rather than grow beyond the bound while other streams' free memory would do, let this stream wait for them. */
static bool wait_instead_of_growing(struct gm_pool *pool, const struct gm_request *request)
{
    if (pool->stream_count <= 1 || !gm_tunable(GMLAKE_TUNABLE_cross_stream_wait)) {
        return false;
    }
    uint64_t visible = gm_plan_free_pages(pool, request->stream);
    uint64_t pages = gm_pages_of_units(request->units);
    uint64_t reserved = pool->vmm.reserved >> GM_PAGE_SHIFT;
    if (visible >= pages || reserved + pages - visible <= gm_plan_bound(pool)) {
        return false;
    }
    return wait_for_hidden(pool, request->stream);
}

/* Bytes that the device has left, as far as it says, and the process under its limit. */
static uint64_t bytes_left(const struct gm_pool *pool)
{
    size_t left;
    size_t total;
    uint64_t allowed = gm_account_left();
    if (pool->vmm.cu->mem_get_info(&left, &total) != CUDA_SUCCESS) {
        return 0;
    }
    return left < allowed ? left : allowed;
}

/* Plans and runs. At the limit, the plan knows what the device has left; for the rest it may stitch. */
static int plan_and_run(struct gm_pool *pool, const struct gm_request *wanted, uint64_t left, uint32_t *gap,
                        uint32_t *start)
{
    struct gm_request request = *wanted;
    if (left != UINT64_MAX) {
        request.limit_pages = (pool->vmm.reserved + left) >> GM_PAGE_SHIFT;
        request.may_stitch = true;
    }
    struct gm_plan plan;
    int rc = gm_plan_make(pool, &request, &plan);
    if (rc == 0 && gm_evict_for(pool, plan.picked + 2)) {
        rc = gm_plan_make(pool, &request, &plan); /* the plan may have counted on what is unmapped now */
    }
    return rc < 0 ? rc : gm_stitch_run(pool, &request, &plan, gap, start);
}

/* The device has refused memory: within what it says it has left, then without any, for it may not give that either. */
static int plan_at_limit(struct gm_pool *pool, const struct gm_request *request, uint32_t *gap, uint32_t *start)
{
    int rc = plan_and_run(pool, request, bytes_left(pool), gap, start);
    return rc == -ENOMEM ? plan_and_run(pool, request, 0, gap, start) : rc;
}

/* Waits for everything that was freed, with the lock dropped meanwhile. Objects of slabs come back too. */
static int wait_for_all(struct gm_pool *pool)
{
    int rc = gm_stream_drain(pool);
    if (rc == 0 && (gm_stream_is_pending(pool) || pool->sync_pending_bytes > 0)) {
        (void)gm_limit_settle(pool); /* unless a capture forbids it */
    }
    gm_slab_release_empty(pool);
    return rc;
}

/* Other threads free and take while this one waits: as long as they do, it waits again, though not for ever. */
static int wait_and_plan(struct gm_pool *pool, const struct gm_request *wanted, uint32_t *gap, uint32_t *start)
{
    struct gm_request request = *wanted;
    for (unsigned i = 0; i < WAITS_MOST; i++) {
        int rc = wait_for_all(pool);
        if (rc == 0) {
            rc = gm_stream_find(pool, request.handle, &request.stream);
        }
        if (rc < 0) {
            return rc;
        }
        if (plan_at_limit(pool, &request, gap, start) == 0) {
            return 0;
        }
        if (!gm_stream_is_pending(pool) && pool->sync_pending_bytes == 0) {
            break;
        }
    }
    return -EAGAIN;
}

/* Beyond memory_high, or with the device full lately, what is free is used up before anything is added. */
static int plan_sparingly(struct gm_pool *pool, const struct gm_request *request, uint32_t *gap, uint32_t *start)
{
    uint64_t to_high = gm_account_left_to_high();
    if (to_high <= gm_pages_of_units(request->units) << GM_PAGE_SHIFT) {
        int rc = plan_and_run(pool, request, to_high, gap, start);
        if (rc != -ENOMEM) {
            return rc;
        }
    }
    return plan_and_run(pool, request, gm_cut_is_pressed(pool) ? bytes_left(pool) : UINT64_MAX, gap, start);
}

int gm_limit_step(struct gm_pool *pool, const struct gm_request *request, enum gm_step *step, uint32_t *gap,
                  uint32_t *start)
{
    int rc;
    switch ((*step)++) {
    case GM_STEP_SYNC:
        gm_stream_mark(pool);
        if (pool->sync_pending_bytes > 0 && gm_limit_settle(pool) == 0) {
            gm_slab_release_empty(pool);
            return -EAGAIN;
        }
        (*step)++;
        __attribute__((fallthrough));
    case GM_STEP_WAIT:
        if (wait_instead_of_growing(pool, request)) {
            return -EAGAIN;
        }
        (*step)++;
        __attribute__((fallthrough));
    case GM_STEP_PLAN:
        rc = plan_sparingly(pool, request, gap, start);
        if (rc != -ENOMEM) {
            return rc;
        }
        /* What the process may have is not the reason, so the device is. */
        pool->counts.low_events += !gm_account_refuses((uint64_t)request->units << GM_UNIT_SHIFT);
        pool->full_until = pool->served_bytes + gm_cut_window(pool);
        rc = plan_at_limit(pool, request, gap, start);
        return rc == -ENOMEM ? -EAGAIN : rc;
    case GM_STEP_SLABS:
        return gm_slab_release_empty(pool) ? plan_at_limit(pool, request, gap, start) == 0 ? 0 : -EAGAIN : -EAGAIN;
    case GM_STEP_WAIT_ALL:
        if (gm_tunable(GMLAKE_TUNABLE_cross_stream_wait) && wait_for_hidden(pool, request->stream) &&
            plan_at_limit(pool, request, gap, start) == 0) {
            return 0;
        }
        return -EAGAIN;
    case GM_STEP_DRAIN:
        return wait_and_plan(pool, request, gap, start);
    case GM_STEP_EVICT:
        gm_evict_all(pool);
        return plan_at_limit(pool, request, gap, start) == 0 ? 0 : -EAGAIN;
    case GM_STEP_OUT:
        break;
    }
    return -ENOMEM;
}

bool gm_limit_is_exceeded(const struct gm_pool *pool)
{
    return (pool->free_chunk_pages << GM_PAGE_SHIFT) > gm_tunable(GMLAKE_TUNABLE_release_threshold) ||
           ((pool->alias_pages - pool->alias_busy_pages) << GM_PAGE_SHIFT) >
               gm_tunable(GMLAKE_TUNABLE_stitch_cache_max);
}

void gm_limit_relieve(struct gm_pool *pool)
{
    if (pool->relieved != 0 && pool->sequence - pool->relieved < RELIEVE_EVERY) {
        return;
    }
    gm_stream_mark(pool);
    gm_limit_trim(pool, gm_tunable(GMLAKE_TUNABLE_release_threshold));
    gm_evict_idle(pool, gm_tunable(GMLAKE_TUNABLE_stitch_cache_max));
    pool->relieved = gm_limit_is_exceeded(pool) ? pool->sequence : 0;
}
