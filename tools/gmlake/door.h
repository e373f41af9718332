/*
 * door.h - a way by which a replay gets device memory.
 *
 * STRUCTURE    Two functions and whatever state follows the struct. There are three: the core's C API, the driver's
 *              stream-ordered allocator (whatever answers under its name), and one that does nothing, by which the
 *              cost of the replay loop itself is found. verify.h puts a fourth around any of them.
 * CONCURRENCY  one thread.
 */
#ifndef GM_DOOR_H
#define GM_DOOR_H

#include "driver.h"
#include "trace.h"

#include <stdint.h>

struct gm_door {
    /* Allocates the block of @op: its address in *address. -ENOMEM no room, else a -errno that ends the replay. */
    int (*alloc)(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address);
    /* Frees the block of @op at @address. A -errno ends the replay. */
    int (*free)(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address);
};

/* The core's C API; needs a context to be current. -errno as gmlake_create(). */
int gm_door_core_open(int device, struct gm_door **out);
void gm_door_core_close(struct gm_door *door);

/* cuMemAllocAsync() and cuMemFreeAsync() of @driver, which must outlive the door; NULL: it has none. */
struct gm_door *gm_door_driver(const struct gm_driver *driver);

/* Answers at once; addresses mean nothing. */
extern struct gm_door gm_door_nothing;

#endif
