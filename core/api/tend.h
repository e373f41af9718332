/*
 * tend.h - what is done to the allocators from aside: memory given back, idle ones kept within their bounds, a map.
 *
 * CONCURRENCY  any thread that holds none of our locks. It makes driver calls under the allocators' own contexts, in
 *              RELAXED capture mode, and leaves the thread as it was.
 */
#ifndef GM_TEND_H
#define GM_TEND_H

#include <gmlake/ctl_abi.h>
#include <gmlake/gmlake.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Gives back about @bytes of idle memory (UINT64_MAX: all) from all devices; waits for work on the device until
 * @deadline_ns (CLOCK_MONOTONIC) if need be. *released gets the bytes given back. -EAGAIN: it is less than @bytes, or
 * with UINT64_MAX some idle memory is still in use by the device.
 */
int gm_tend_reclaim(uint64_t bytes, uint64_t deadline_ns, uint64_t *released);

/* Brings idle pools within release_threshold and stitch_cache_max. */
void gm_tend_idle(void);

/* Tells every pool that a trace has begun or ended. */
void gm_tend_watch(void);

/* Describes the first @room blocks of all devices in @out; gives how many there are. */
uint64_t gm_tend_map(struct gmlake_ctl_block *out, uint64_t room);

/*
 * At the limit of the process: gives back what allocators other than @allocator have free, @bytes at most, without
 * waiting. Returns whether there was any. NULL: of every allocator.
 */
bool gm_tend_make_room(const struct gmlake *allocator, uint64_t bytes);

#endif
