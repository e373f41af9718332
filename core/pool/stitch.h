/*
 * stitch.h - carries out what plan.h decides: maps free chunks side by side, grows by what is missing, cuts chunks.
 *
 * CONCURRENCY  the pool's lock is held, over driver calls too: none of them waits for the device (vmm.h).
 */
#ifndef GM_STITCH_H
#define GM_STITCH_H

#include "plan.h"

/*
 * Carries out @plan for @request; the pool's picked chunks are those of the plan. *gap and *start say where the
 * request fits now. On failure what was mapped or created stays as free memory. -ENOMEM (the driver's code says
 * whether the device is full), -EIO.
 */
int gm_stitch_run(struct gm_pool *pool, const struct gm_request *request, const struct gm_plan *plan, uint32_t *gap,
                  uint32_t *start);

/*
 * Before a block of @units takes gap @gap at @start: cuts the chunk under its end if the chunk is free, enough of
 * it would be pinned for nothing, and the budget allows. The gap is unchanged; false: the driver failed half-way, and
 * part of the gap is dead now.
 */
bool gm_stitch_cut_at_end(struct gm_pool *pool, uint32_t gap, uint32_t start, uint32_t units);

#endif
