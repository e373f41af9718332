/*
 * capture.h - stream captures that are open, and what they forbid.
 *
 * While any stream of the process is captured into a graph, the driver refuses some calls, or answers them by breaking
 * the capture. An allocation on a captured stream belongs into the graph: it is the driver's. A plain allocation is
 * allowed or not as the driver says. Our own calls run in the RELAXED mode, in which all but one are allowed; that one,
 * cuCtxSynchronize(), fails here without reaching the driver.
 *
 * STRUCTURE    The captures are counted where they begin and end, so that a process without one, nearly always, pays
 *              one load; with one, the driver is asked about the stream at hand. A capture whose stream is destroyed
 *              stays counted: slower, never wrong.
 * CONCURRENCY  one atomic counter, and a scope on the caller's stack.
 */
#ifndef GM_CAPTURE_H
#define GM_CAPTURE_H

#include "cu.h"

#include <stdbool.h>

struct gm_capture_scope {
    CUstreamCaptureMode before; /* the thread's mode, to be restored; only where changed */
    bool open;                  /* captures were open on entry */
    bool changed;
};

/* From here on, calls of this thread are made in RELAXED mode where a capture is open. */
void gm_capture_enter(struct gm_capture_scope *scope);
void gm_capture_leave(struct gm_capture_scope *scope);

/* Whether the driver must judge a plain allocation made now: this thread might not be allowed one. */
bool gm_capture_judges_plain(const struct gm_capture_scope *scope);

/* Whether work on @stream goes into a graph, or the driver will not say. */
bool gm_capture_holds(const struct gm_capture_scope *scope, CUstream stream);

/* Makes @table refuse a context synchronisation while a capture is open. */
void gm_capture_guard(struct gm_cu *table);

#endif
