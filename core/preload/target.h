/*
 * target.h - the device that a call means, and its allocator.
 *
 * STRUCTURE    A device is served for one context: the one that was current at its first allocation, nearly always the
 *              primary one. The core waits for that context when it must wait for everything, so calls under another
 *              context of the device are the driver's. Plain calls mean the current context; one driver call tells it.
 *              Calls on a stream mean the stream's context: the current one too, as long as there is one device and no
 *              second context was seen; else the driver is asked, and the context made current meanwhile.
 *              When the context ends, the device is the driver's from then on.
 * CONCURRENCY  atomics, and the caller's stack.
 */
#ifndef GM_TARGET_H
#define GM_TARGET_H

#include <cuda.h>
#include <gmlake/gmlake.h>
#include <stdbool.h>

struct gm_target {
    struct gmlake *allocator;
    CUdevice device;
    bool pushed; /* a context was made current for it */
};

/* Counts the devices, once, before anything else here. */
bool gm_target_start(void);

/*
 * The device of the current context, or of @stream; its allocator is made at first use. False: there is none, or it
 * cannot be served; nothing is to be undone then. Else gm_target_leave() must follow.
 */
bool gm_target_current(struct gm_target *out);
bool gm_target_of_stream(CUstream stream, struct gm_target *out);
void gm_target_leave(const struct gm_target *target);

/* The allocator of @device; NULL: it is not served. */
struct gmlake *gm_target_allocator(CUdevice device);

/* As gm_target_current(), for a device that is served already. */
bool gm_target_current_served(struct gm_target *out);

#endif
