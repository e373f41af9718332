/*
 * capture.h - stream captures that are open, and what they forbid.
 *
 * While any stream of the process is captured into a graph, the driver refuses some calls, or answers them by breaking
 * the capture. An allocation on a captured stream belongs into the graph: it is the driver's. Any other one is allowed
 * or not as the driver says, unless the thread is in RELAXED mode, where it always is. Our own calls run in the RELAXED
 * mode, in which all but one are allowed; that one, cuCtxSynchronize(), fails here without reaching the driver, and
 * what it would be needed for is done before a capture begins.
 *
 * STRUCTURE    The captures are counted where they begin and end, so that a process without one, nearly always, pays
 *              one load; with one, the driver is asked about the stream at hand. A capture also ends with its stream or
 *              context, for which the first of those open are noted.
 * CONCURRENCY  atomics, and a scope on the caller's stack.
 */
#ifndef GM_CAPTURE_H
#define GM_CAPTURE_H

#include "cu.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Captures begun and not ended, as far as is known: never fewer than are open. Written by capture.c alone. */
extern atomic_uint gm_capture_count;

struct gm_capture_scope {
    CUstreamCaptureMode before; /* the thread's mode, to be restored; only where changed */
    bool open;                  /* captures were open on entry */
    bool changed;
};

/* Sets and restores the thread's mode where a capture is open. */
void gm_capture_relax(struct gm_capture_scope *scope);
void gm_capture_restore(struct gm_capture_scope *scope);

/* From here on, calls of this thread are made in RELAXED mode where a capture is open. */
static inline void gm_capture_enter(struct gm_capture_scope *scope)
{
    scope->changed = false;
    scope->open = atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0;
    if (__builtin_expect(scope->open, 0)) {
        gm_capture_relax(scope);
    }
}

static inline void gm_capture_leave(struct gm_capture_scope *scope)
{
    if (__builtin_expect(scope->changed, 0)) {
        gm_capture_restore(scope);
    }
}

/* Whether work on @stream goes into a graph, or the driver will not say. */
bool gm_capture_is_in_graph(CUstream stream);

static inline bool gm_capture_holds(const struct gm_capture_scope *scope, CUstream stream)
{
    return __builtin_expect(scope->open, 0) && gm_capture_is_in_graph(stream);
}

/* Whether the driver must judge an allocation made now: this thread might not be allowed one. */
static inline bool gm_capture_judges(const struct gm_capture_scope *scope)
{
    return __builtin_expect(scope->open, 0) && !(scope->changed && scope->before == CU_STREAM_CAPTURE_MODE_RELAXED);
}

/*
 * What the driver says to a plain free made by this thread in its own mode: STREAM_CAPTURE_UNSUPPORTED, and the
 * captures that the free would break are broken, or CUDA_SUCCESS. Another call is asked that is as illegal, and
 * harmless where it is not: reading an attribute of a pool (gpu-measured).
 */
CUresult gm_capture_ask(void);

static inline CUresult gm_capture_verdict(void)
{
    return __builtin_expect(atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0, 0) ? gm_capture_ask()
                                                                                                   : CUDA_SUCCESS;
}

/* A stream, or a context, has been destroyed: so are the captures that began on it. */
void gm_capture_end_stream(CUstream stream);
void gm_capture_end_context(CUcontext context);

/* Makes @table refuse a context synchronisation while a capture is open. */
void gm_capture_guard(struct gm_cu *table);

#endif
