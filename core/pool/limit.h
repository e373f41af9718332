/*
 * limit.h - serving a request that no gap can, step by step up to the limit of the device; and giving memory back.
 *
 * The ladder: pay the synchronisation owed for plain frees; wait for other streams on the GPU; stitch, or grow by what
 * is missing; when the device refuses: stitch and grow within what it has left, in smaller chunks; give up empty slabs;
 * wait for pending frees on the host with the lock dropped; drop idle mappings; out of memory.
 *
 * CONCURRENCY  the pool's lock is held; steps that wait drop it and say so by -EAGAIN.
 */
#ifndef GM_LIMIT_H
#define GM_LIMIT_H

#include "plan.h"

enum gm_step {
    GM_STEP_SYNC,
    GM_STEP_WAIT,
    GM_STEP_PLAN,
    GM_STEP_SLABS,
    GM_STEP_WAIT_ALL,
    GM_STEP_DRAIN,
    GM_STEP_EVICT,
    GM_STEP_OUT
};

/*
 * Takes the next step from *step on. 0: the request fits into *gap at *start. -EAGAIN: something has changed, search
 * again, then call again. Other errors are final. Each call moves *step on, so a loop ends.
 */
int gm_limit_step(struct gm_pool *pool, const struct gm_request *request, enum gm_step *step, uint32_t *gap,
                  uint32_t *start);

/* Keeps the pool within release_threshold and stitch_cache_max, as far as work on the device allows now. */
void gm_limit_relieve(struct gm_pool *pool);

/* Whether gm_limit_relieve() has anything to do. */
bool gm_limit_is_exceeded(const struct gm_pool *pool);

/* Gives free chunks, largest first, back to the device until at most @keep bytes of them are left. */
uint64_t gm_limit_trim(struct gm_pool *pool, uint64_t keep);

/* Pays the context synchronisation owed for gm_pool_free_sync(), with the lock dropped. 0 or -errno. */
int gm_limit_settle(struct gm_pool *pool);

/* What gm_limit_settle() does after the wait, when the context has ended: its streams are no more, nothing is pending.
 */
void gm_limit_end_context(struct gm_pool *pool);

#endif
