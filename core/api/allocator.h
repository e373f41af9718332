/*
 * allocator.h - what stands behind the opaque struct gmlake.
 */
#ifndef GM_ALLOCATOR_H
#define GM_ALLOCATOR_H

#include "pool.h"

/* Invariant: it is in the registry's list from gmlake_create() to gmlake_destroy(). */
struct gmlake {
    struct gm_pool pool;
    struct gm_array driver_blocks; /* gmlake_ptr: live blocks that the driver served; guarded by the pool's lock */
    int device;
    unsigned process;    /* gm_registry_process() of the process that made it */
    struct gmlake *next; /* in the registry's list; guarded by its lock */
};

/* Enters @allocator into the list and starts the agent; and takes it out. */
void gm_registry_add(struct gmlake *allocator);
void gm_registry_remove(struct gmlake *allocator);

/* A number that differs between a process and its forked children. */
unsigned gm_registry_process(void);

#endif
