/*
 * trace.h - a recorded sequence of allocations and frees, read and checked as a whole.
 *
 * FORMAT       Text, plain or gzip, one event a line:
 *                  a ID BYTES STREAM US     allocate
 *                  f ID STREAM US           free: the memory may be reused on its stream from here on
 *                  i N                      iteration N has ended
 *                  # ...                    comment
 *              An ID names one block and is never used again. Streams are small numbers, 0 the default stream.
 *              US are microseconds since the first event. Traces recorded from several threads are only nearly
 *              sorted, so a time before the latest one seen counts as that one.
 * STRUCTURE    Events become 24-byte records; IDs become dense block indices in order of allocation, so a replay
 *              needs no lookups. Iteration marks are kept apart as positions between operations.
 * CONCURRENCY  fixed after reading.
 */
#ifndef GM_TRACE_H
#define GM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of what a line may say; beyond them a file is refused. */
#define GM_TRACE_BYTES_MAX   (1ull << 47)
#define GM_TRACE_US_MAX      (1ull << 50)
#define GM_TRACE_STREAMS_MAX 4096u

struct gm_trace_op {
    uint64_t bytes; /* of the block, for frees too */
    uint64_t time_ns;
    uint32_t block; /* dense index */
    uint16_t stream;
    bool frees;
};

/*
 * Invariant: every block index below @blocks is allocated by exactly one operation and freed by at most one later
 * one; stream numbers are below @streams; marks rise and are at most @op_count; times never fall.
 */
struct gm_trace {
    struct gm_trace_op *ops;
    size_t op_count;
    size_t *marks; /* operation count at the end of each iteration */
    size_t mark_count;
    uint32_t blocks;
    uint32_t streams;
    uint64_t peak_bytes; /* highest sum of live bytes */
};

enum { GM_TRACE_REASON = 160 };

/* What is wrong with a trace file. @line is 0 when it concerns the file as a whole. */
struct gm_trace_error {
    size_t line;
    char reason[GM_TRACE_REASON];
};

/* Reads the file at @path into *out. -ENOMEM, -EIO (cannot be read), -EINVAL (malformed), each with *error filled. */
int gm_trace_read(const char *path, struct gm_trace *out, struct gm_trace_error *error);

/* The same from an open file, which stays open. */
int gm_trace_read_fd(int fd, struct gm_trace *out, struct gm_trace_error *error);

/* Multiplies every size by @factor, rounding to the nearest byte; sizes other than 0 stay at least 1. */
void gm_trace_scale(struct gm_trace *trace, double factor);

/* The highest sum of live bytes when the blocks with a bit in @without (may be NULL) are left out. */
uint64_t gm_trace_peak(const struct gm_trace *trace, const bool *without);

/* Frees what a reader allocated; an all-zero trace is allowed. */
void gm_trace_finish(struct gm_trace *trace);

#endif
