/*
 * allocator.h - what stands behind the opaque struct gmlake.
 */
#ifndef GM_ALLOCATOR_H
#define GM_ALLOCATOR_H

#include "pool.h"

#include <stdatomic.h>

/* A block that the driver served, for the tunable enabled was off. */
struct gm_driver_block {
    gmlake_ptr address;
    uint64_t bytes;
};

/* Invariant: it is in the registry's list from gmlake_create() to gmlake_destroy(). */
struct gmlake {
    struct gm_pool pool;
    struct gm_array driver_blocks; /* struct gm_driver_block, live ones; guarded by the pool's lock */
    int device;
    unsigned process;    /* gm_registry_process() of the process that made it */
    struct gmlake *next; /* in the registry's list; guarded by its lock */
    unsigned pins;       /* threads that work on it from aside; guarded by the registry's lock */
    atomic_bool ended;   /* its context is no more: no driver call may be made for it */
};

/* Enters @allocator into the list and starts the agent; and takes it out, once nobody has it pinned. */
void gm_registry_add(struct gmlake *allocator);
void gm_registry_remove(struct gmlake *allocator);

/*
 * Unpins @pinned (NULL: none) and pins the next one in the list (the first), which stays while it is pinned: a walk
 * over the list without its lock. NULL: the end.
 */
struct gmlake *gm_registry_pin_next(struct gmlake *pinned);

/* A number that differs between a process and its forked children. */
unsigned gm_registry_process(void);

#endif
