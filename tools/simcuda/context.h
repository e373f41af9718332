/*
 * context.h - contexts, and what each thread has current.
 *
 * STRUCTURE    a device has one primary context, which exists for good and is alive while retained; others come and go.
 *              A context owns its streams, its events and its plain allocations: its end is theirs.
 * CONCURRENCY  the driver's lock; struct sim_thread belongs to its thread.
 */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "device.h"
#include "stream.h"

#include <cuda.h>

struct sim_plain;

#define SIM_LIMITS (CU_LIMIT_PERSISTING_L2_CACHE_SIZE + 1)

struct sim_context {
    uint64_t handle;
    uint64_t id;
    struct sim_device *device;
    unsigned flags;
    bool primary;
    unsigned retained; /* primary only: alive while above 0 */
    bool alive;
    CUresult error;             /* sticky: what an operation on a stream ran into; 0 none */
    uint32_t peers;             /* bit for each device whose memory cuCtxEnablePeerAccess opened */
    struct sim_stream *legacy;  /* stream 0 */
    struct sim_stream *streams; /* all of the context's, the legacy one too */
    struct sim_event *events;
    struct sim_plain *plain;
    size_t limits[SIM_LIMITS]; /* as set; 0: the default */
    struct sim_context *next_buried;
};

#define SIM_STACK_DEPTH 64

struct sim_thread {
    int depth;
    struct sim_context *stack[SIM_STACK_DEPTH];
    uint64_t number; /* of the thread; 0 until it needs one */
    bool per_thread; /* the call being served came through a _ptds or _ptsz door */
    CUstreamCaptureMode capture_mode;
};

extern __thread struct sim_thread sim_thread;

/* A number for the calling thread, never 0 and never used twice. */
uint64_t sim_thread_number(void);

/* Makes the primary contexts, not alive; false: no host memory. */
bool sim_context_start(void);

struct sim_context *sim_context_create(struct sim_device *device, unsigned flags);
/* Frees all that the context owns. */
void sim_context_destroy(struct sim_context *context);
/* false: no host memory. */
bool sim_context_revive_primary(struct sim_context *context);

/* The thread's current context: NULL none. It may be one that is no longer alive. */
struct sim_context *sim_context_current(void);

/* The context behind a handle; NULL: none, or destroyed. */
struct sim_context *sim_context_get(CUcontext handle);

static inline CUcontext sim_context_handle(const struct sim_context *context)
{
    return context == NULL ? NULL : (CUcontext)(uintptr_t)context->handle;
}

#endif
