/*
 * recorder.h - writes allocations and frees into a ring that gmlaked reads, while a trace is on.
 *
 * STRUCTURE    The ring (ctl_abi.h) is the daemon's file. A place in it is taken by an atomic addition, so any number
 *              of pools write to it; who is too late to read loses the oldest events. While no trace is on, a pool's
 *              hot path does not even look: a trace that begins turns it off in each pool (gm_pool_watch).
 * CONCURRENCY  events are noted under the lock of the pool that served, so that their order in the ring is the one in
 *              which addresses changed hands. Starting and stopping is the agent's; before the ring is unmapped, each
 *              pool's lock is taken once: nobody is in it any more.
 */
#ifndef GM_RECORDER_H
#define GM_RECORDER_H

#include <gmlake/ctl_abi.h>
#include <stddef.h>

/* The ring in use; NULL: no trace is on. Written by recorder.c alone. */
extern _Atomic(struct gmlake_ctl_ring *) gm_recorder_ring;

/* Whether events are wanted. */
#ifdef GM_WITHOUT_CONTROL_PLANE /* see tunables.h */
#define GM_RECORDER_IS_ON() 0
#else
#define GM_RECORDER_IS_ON() __builtin_expect(atomic_load_explicit(&gm_recorder_ring, memory_order_relaxed) != NULL, 0)
#endif

/* Writes one event, if a trace is still on. */
void gm_recorder_note(const struct gmlake_ctl_event *event);

/*
 * Records into the file @fd of @size bytes from now on, in place of what was before; the descriptor stays the caller's.
 * -EINVAL: too short to be a ring; -EPROTO, -ENOMEM as gm_connection_map(). @watch is struct gm_agent_ops's.
 */
int gm_recorder_start(int fd, size_t size, void (*watch)(void));

/* Stops recording. */
void gm_recorder_stop(void (*watch)(void));

/* In a child made by fork(): nothing is recorded there. */
void gm_recorder_forget(void);

#endif
