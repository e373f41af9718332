/*
 * target.h - the device that a call means, and its allocator.
 *
 * STRUCTURE    Plain calls mean the device of the current context; one driver call tells it. Nothing is remembered
 *              about contexts: a handle may come back as another device's. Calls on a stream mean the stream's device:
 *              with one device in the system that is the one there is, with several, the stream's context is asked,
 *              and made current meanwhile where it is not.
 *              Allocators live as long as the process and are cached by device.
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
 * The device of the current context, or of @stream. False: there is none, or it cannot be served; nothing is to be
 * undone then. Else gm_target_leave() must follow.
 */
bool gm_target_current(struct gm_target *out);
bool gm_target_of_stream(CUstream stream, struct gm_target *out);
void gm_target_leave(const struct gm_target *target);

/* As gm_target_current(), for a device that is served already. */
bool gm_target_current_served(struct gm_target *out);

#endif
