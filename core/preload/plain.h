/*
 * plain.h - the stream that plain allocations (cuMemAlloc) are made on, as the core sees it.
 *
 * The core hands memory out in the order of a stream, but what cuMemAlloc() returns may be used at once by every
 * stream, also by those that do not wait for the default stream. So plain allocations use a stream of their own that
 * exists for the core alone: nothing is ever freed on it, and making it wait for another stream's work fails. What it
 * is given is memory whose last use has completed, or new memory.
 */
#ifndef GM_PLAIN_H
#define GM_PLAIN_H

#include "cu.h"

extern const CUstream gm_plain_stream;

/* Makes @table answer for gm_plain_stream, which the driver does not know. */
void gm_plain_stream_guard(struct gm_cu *table);

#endif
