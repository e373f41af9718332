/*
 * trace_writer.h - from the events of a process (ctl_abi.h) to a trace file (trace.h).
 *
 * Events name blocks by address, traces by numbers that are never used again; streams become small numbers in the order
 * in which they appear, the default one 0. A free of a block from before the recording is left out. Where an address is
 * given out twice, the free between was lost, and is written before the second.
 *
 * CONCURRENCY  one thread.
 */
#ifndef GM_TRACE_WRITER_H
#define GM_TRACE_WRITER_H

#include <gmlake/ctl_abi.h>
#include <stdbool.h>
#include <stddef.h>

struct gm_trace_counts {
    uint64_t allocs;
    uint64_t frees;
    uint64_t lost;    /* events */
    uint64_t unknown; /* frees of blocks that were there before */
};

struct gm_trace_writer;

/*
 * Begins the file @path, compressed if it ends in ".gz". @device: only events of that ordinal; -1: of all. -errno.
 */
int gm_trace_writer_open(const char *path, int device, struct gm_trace_writer **out);

/* Writes @count events. -ENOMEM; -EIO. */
int gm_trace_writer_add(struct gm_trace_writer *writer, const struct gmlake_ctl_event *events, size_t count);

/* Ends the file; *counts (may be NULL) says what is in it. -EIO: not all of it could be written. */
int gm_trace_writer_close(struct gm_trace_writer *writer, struct gm_trace_counts *counts);

#endif
