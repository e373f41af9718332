/*
 * peers.h - GPUs that see one another's memory: what a program allows of the driver's is allowed of ours.
 *
 * STRUCTURE    For each device a set of others that may use its memory, filled by cuCtxEnablePeerAccess() and
 *              cuMemPoolSetAccess(), and carried over to the device's allocator when either is new. Access is only
 *              ever given, and to all memory of a device: more than was asked for at times, never less.
 *              Where it cannot be given, new memory is the driver's from then on, on all devices.
 * CONCURRENCY  atomics. A device's set is written before its allocator is looked for, and the other way round, so one
 *              of two threads sees both.
 */
#ifndef GM_PEERS_H
#define GM_PEERS_H

#include <cuda.h>
#include <gmlake/gmlake.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Set when some access could not be given. Written by peers.c alone. */
extern atomic_bool gm_peers_failed;

/* Whether new memory must be the driver's, so that peers can use it. */
static inline bool gm_peers_need_driver(void)
{
    return atomic_load_explicit(&gm_peers_failed, memory_order_relaxed);
}

/* Carries the access to memory of @device over to its new allocator. */
void gm_peers_apply(CUdevice device, struct gmlake *allocator);

#endif
