/*
 * stream.h - streams and their work.
 *
 * STRUCTURE    An operation gets its due time when it is queued: the latest of now + delay, the one before it on its
 *              stream, and what it depends on (an event of another stream; the legacy default stream and the blocking
 *              streams depend on one another). It runs when the clock has passed that, or when something waits for
 *              it: then its stream runs first, with what it depends on and nothing more, so that work which only
 *              happened to be queued earlier on another stream is seen to be unordered.
 *              A point of a stream is (stream, sequence number); it is past once done_seq has reached the number.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "point.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_context;
struct sim_capture;
struct sim_device;
struct sim_op;

enum sim_stream_kind { SIM_STREAM_LEGACY, SIM_STREAM_PER_THREAD, SIM_STREAM_CREATED };

/*
 * Invariant: due and sequence numbers rise along the queue; done_seq <= last_seq, equal exactly while it is empty.
 * Never freed: the record of a destroyed stream is used again once it is drained, and its old points stay past.
 */
struct sim_stream {
    struct sim_stream *next; /* in its context, then among the spare ones */
    struct sim_stream *next_busy;
    bool busy; /* on the list of streams with queued work */
    bool destroyed;
    struct sim_context *context;
    uint64_t handle; /* 0 for the two default kinds */
    uint64_t id;
    enum sim_stream_kind kind;
    uint64_t thread; /* owner of a per-thread stream */
    bool blocking;   /* ordered with the legacy stream */
    int priority;
    unsigned flags;
    struct sim_op *head;
    struct sim_op *tail;
    uint64_t last_due;
    uint64_t last_seq;
    uint64_t done_seq;
    struct sim_capture *capture; /* NULL unless capturing */
    uint64_t captured_ops;       /* capturing: on this stream so far */
    uint64_t joined_ops;         /* and how many of them another stream of the capture waits for */
};

/* A stretch of memory that queued work will touch. */
struct sim_touch {
    uint64_t address;
    uint64_t size;
};

struct sim_copy {
    uint64_t to, from;    /* first bytes */
    size_t width, height; /* bytes of a row, rows */
    size_t to_pitch, from_pitch;
    uint32_t value; /* of a fill */
    unsigned unit;  /* bytes of the value; 0: a copy */
    void *staged;   /* the source's bytes, taken when it was queued; freed after the run */
};

struct sim_op {
    struct sim_op *next;
    struct sim_op *next_memory; /* list of queued work that touches memory */
    struct sim_op *previous_memory;
    void (*run)(struct sim_op *op); /* NULL: nothing to do but be past */
    struct sim_stream *stream;
    uint64_t seq;
    uint64_t due;
    struct sim_point after;      /* depends on it */
    struct sim_touch touches[2]; /* size 0: unused */
    struct sim_copy copy;
    void *object; /* for run() */
    CUhostFn function;
};

/* NULL: no host memory. */
struct sim_stream *sim_stream_create(struct sim_context *context, enum sim_stream_kind kind, bool blocking);

/* Ends the handle; what is queued still runs. */
void sim_stream_destroy(struct sim_stream *stream);

/* Takes all streams of a context, which has been waited for. */
void sim_stream_destroy_all(struct sim_context *context);

/* The stream a caller means, 0, 1 and 2 included, in the current context. INVALID_HANDLE, or the context's error. */
CUresult sim_stream_find(CUstream handle, struct sim_stream **out);

/* A blank operation to be filled in and pushed; NULL: no host memory. */
struct sim_op *sim_op_new(void);
void sim_op_drop(struct sim_op *op);

/* Queues @op, which runs at once if it is due. */
void sim_stream_push(struct sim_stream *stream, struct sim_op *op);

/* Queues a marker, the moment an event recorded now stands for. false: no host memory. */
bool sim_stream_mark(struct sim_stream *stream, struct sim_point *out);

/* Waits: runs what is needed and moves the clock. */
void sim_stream_wait(struct sim_stream *stream);
void sim_context_wait(struct sim_context *context);
void sim_device_wait(const struct sim_device *device);

/* All of the stream's work is past. */
bool sim_stream_idle(const struct sim_stream *stream);

/* Runs everything that is due by now. */
void sim_stream_settle(void);

/* Queued work that touches any of [address, address + size); NULL none. */
const struct sim_op *sim_stream_pending_on(uint64_t address, uint64_t size);

#endif
