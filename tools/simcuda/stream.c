/*
 * stream.c - queues of work and the order in which it runs.
 */
#include "stream.h"

#include "clock.h"
#include "config.h"
#include "context.h"
#include "objects.h"

#include <stdlib.h>
#include <string.h>

static struct sim_stream *busy_streams;
static struct sim_stream *spare_streams;
static struct sim_op *spare_ops;
static struct sim_op *memory_ops;
static uint64_t next_seq = 1;
static uint64_t next_due = UINT64_MAX; /* not above the due time of any queued operation */

struct sim_op *sim_op_new(void)
{
    struct sim_op *op = spare_ops;
    if (op != NULL) {
        spare_ops = op->next;
    } else {
        op = malloc(sizeof *op);
    }
    if (op != NULL) {
        memset(op, 0, sizeof *op);
    }
    return op;
}

void sim_op_drop(struct sim_op *op)
{
    free(op->copy.staged);
    op->next = spare_ops;
    spare_ops = op;
}

/* ---- queueing ---- */

static uint64_t delay(uint64_t seq)
{
    uint64_t span = sim_config.delay_high_ns - sim_config.delay_low_ns;
    if (span == 0) {
        return sim_config.delay_low_ns;
    }
    uint64_t mixed = seq * 0x9e3779b97f4a7c15ull;
    mixed ^= mixed >> 29;
    return sim_config.delay_low_ns + mixed % (span + 1);
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What the rules of the legacy default stream put before new work on @stream. */
static uint64_t legacy_due(const struct sim_stream *stream)
{
    const struct sim_context *context = stream->context;
    if (stream->kind != SIM_STREAM_LEGACY) {
        return stream->blocking ? context->legacy->last_due : 0;
    }
    uint64_t due = 0;
    for (const struct sim_stream *other = context->streams; other != NULL; other = other->next) {
        due = other->blocking ? latest(due, other->last_due) : due;
    }
    return due;
}

static void link_memory(struct sim_op *op)
{
    op->next_memory = memory_ops;
    op->previous_memory = NULL;
    if (memory_ops != NULL) {
        memory_ops->previous_memory = op;
    }
    memory_ops = op;
}

static void unlink_memory(struct sim_op *op)
{
    if (op->next_memory != NULL) {
        op->next_memory->previous_memory = op->previous_memory;
    }
    if (op->previous_memory != NULL) {
        op->previous_memory->next_memory = op->next_memory;
    } else {
        memory_ops = op->next_memory;
    }
}

static bool touches_memory(const struct sim_op *op)
{
    return op->touches[0].size > 0 || op->touches[1].size > 0;
}

static void append(struct sim_stream *stream, struct sim_op *op)
{
    op->next = NULL;
    if (stream->head == NULL) {
        stream->head = op;
    } else {
        stream->tail->next = op;
    }
    stream->tail = op;
    if (!stream->busy) {
        stream->busy = true;
        stream->next_busy = busy_streams;
        busy_streams = stream;
    }
    if (touches_memory(op)) {
        link_memory(op);
    }
}

/* Runs one operation that is on no queue any more. */
static void run(struct sim_op *op)
{
    if (op->run != NULL) {
        op->run(op);
    }
    op->stream->done_seq = op->seq;
    sim_op_drop(op);
}

void sim_stream_push(struct sim_stream *stream, struct sim_op *op)
{
    op->stream = stream;
    op->seq = next_seq++;
    op->due = latest(latest(sim_clock_now() + delay(op->seq), stream->last_due), legacy_due(stream));
    if (!sim_point_past(&op->after)) {
        op->due = latest(op->due, op->after.due);
    }
    stream->last_due = op->due;
    stream->last_seq = op->seq;
    if (busy_streams == NULL && op->due <= sim_clock_now()) {
        run(op);
        return;
    }
    append(stream, op);
    next_due = op->due < next_due ? op->due : next_due;
    sim_stream_settle();
}

bool sim_stream_mark(struct sim_stream *stream, struct sim_point *out)
{
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return false;
    }
    sim_stream_push(stream, op);
    *out = (struct sim_point){.stream = stream, .seq = stream->last_seq, .due = stream->last_due};
    return true;
}

/* ---- running ---- */

static void run_through(struct sim_stream *stream, uint64_t seq);

/*
 * Runs what @op depends on. The recursion visits a stream at most once: whatever it comes back to was queued earlier
 * than what waits there, and has run.
 */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void run_dependencies(const struct sim_op *op)
{
    if (!sim_point_past(&op->after)) {
        run_through(op->after.stream, op->after.seq);
    }
    const struct sim_stream *stream = op->stream;
    struct sim_context *context = stream->context;
    if (stream->kind == SIM_STREAM_LEGACY) {
        for (struct sim_stream *other = context->streams; other != NULL; other = other->next) {
            if (other->blocking && other != stream) {
                run_through(other, op->seq);
            }
        }
    } else if (stream->blocking) {
        run_through(context->legacy, op->seq);
    }
}

/* Runs the stream's queue up to and with sequence number @seq. */
/* NOLINTNEXTLINE(misc-no-recursion): see run_dependencies() */
static void run_through(struct sim_stream *stream, uint64_t seq)
{
    while (stream->head != NULL && stream->head->seq <= seq) {
        struct sim_op *op = stream->head;
        run_dependencies(op);
        stream->head = op->next;
        if (touches_memory(op)) {
            unlink_memory(op);
        }
        run(op);
    }
}

/* The busy stream whose next operation is due first; drained ones leave the list on the way. */
static struct sim_stream *first_due(void)
{
    struct sim_stream *best = NULL;
    struct sim_stream **place = &busy_streams;
    while (*place != NULL) {
        struct sim_stream *stream = *place;
        if (stream->head == NULL) {
            stream->busy = false;
            *place = stream->next_busy;
            continue;
        }
        if (best == NULL || stream->head->due < best->head->due ||
            (stream->head->due == best->head->due && stream->head->seq < best->head->seq)) {
            best = stream;
        }
        place = &stream->next_busy;
    }
    return best;
}

void sim_stream_settle(void)
{
    while (next_due <= sim_clock_now()) {
        struct sim_stream *stream = first_due();
        if (stream == NULL) {
            next_due = UINT64_MAX;
            return;
        }
        next_due = stream->head->due;
        if (next_due <= sim_clock_now()) {
            run_through(stream, stream->head->seq);
        }
    }
}

/* ---- waiting ---- */

bool sim_point_past(const struct sim_point *point)
{
    return point->stream == NULL || point->stream->done_seq >= point->seq;
}

void sim_point_wait(const struct sim_point *point)
{
    if (point->stream == NULL) {
        return;
    }
    run_through(point->stream, point->seq);
    sim_clock_wait(point->due);
    sim_stream_settle();
}

static void wait_newest(struct sim_stream *stream)
{
    sim_point_wait(&(struct sim_point){.stream = stream, .seq = stream->last_seq, .due = stream->last_due});
}

void sim_stream_wait(struct sim_stream *stream)
{
    wait_newest(stream);
    if (stream->kind == SIM_STREAM_LEGACY) {
        for (struct sim_stream *other = stream->context->streams; other != NULL; other = other->next) {
            if (other->blocking) {
                wait_newest(other);
            }
        }
    }
}

void sim_context_wait(struct sim_context *context)
{
    for (struct sim_stream *stream = context->streams; stream != NULL; stream = stream->next) {
        wait_newest(stream);
    }
}

void sim_device_wait(const struct sim_device *device)
{
    /* Running one stream may drain others, never add to the list. */
    for (struct sim_stream *stream = busy_streams; stream != NULL;) {
        struct sim_stream *next = stream->next_busy;
        if (stream->context->device == device) {
            run_through(stream, stream->last_seq);
            sim_clock_wait(stream->last_due);
        }
        stream = next;
    }
    sim_stream_settle();
}

bool sim_stream_idle(const struct sim_stream *stream)
{
    return stream->head == NULL;
}

const struct sim_op *sim_stream_pending_on(uint64_t address, uint64_t size)
{
    for (const struct sim_op *op = memory_ops; op != NULL; op = op->next_memory) {
        for (int i = 0; i < 2; i++) {
            const struct sim_touch *touch = &op->touches[i];
            if (touch->size > 0 && touch->address < address + size && address < touch->address + touch->size) {
                return op;
            }
        }
    }
    return NULL;
}

/* ---- creation and look-up ---- */

/* A record to use (again): one of the context that is drained, a spare one, or a new one. */
static struct sim_stream *take_record(struct sim_context *context)
{
    for (struct sim_stream **place = &context->streams; *place != NULL; place = &(*place)->next) {
        struct sim_stream *stream = *place;
        if (stream->destroyed && stream->head == NULL && !stream->busy) {
            *place = stream->next;
            return stream;
        }
    }
    struct sim_stream *stream = spare_streams;
    if (stream != NULL) {
        spare_streams = stream->next;
        return stream;
    }
    return calloc(1, sizeof *stream);
}

struct sim_stream *sim_stream_create(struct sim_context *context, enum sim_stream_kind kind, bool blocking)
{
    static uint64_t next_id = 1;
    struct sim_stream *stream = take_record(context);
    if (stream == NULL) {
        return NULL;
    }
    *stream = (struct sim_stream){.next = context->streams,
                                  .context = context,
                                  .kind = kind,
                                  .blocking = blocking,
                                  .id = next_id++,
                                  .last_due = stream->last_due,
                                  .last_seq = stream->last_seq,
                                  .done_seq = stream->done_seq};
    if (kind == SIM_STREAM_CREATED) {
        stream->handle = sim_object_add(SIM_STREAM, stream);
    }
    context->streams = stream;
    return stream;
}

void sim_stream_destroy(struct sim_stream *stream)
{
    sim_object_remove(stream->handle);
    stream->handle = 0;
    stream->destroyed = true;
}

void sim_stream_destroy_all(struct sim_context *context)
{
    sim_stream_settle();
    (void)first_due(); /* takes the drained ones off the busy list */
    while (context->streams != NULL) {
        struct sim_stream *stream = context->streams;
        context->streams = stream->next;
        if (stream->handle != 0) {
            sim_object_remove(stream->handle);
        }
        stream->next = spare_streams;
        spare_streams = stream;
    }
    context->legacy = NULL;
}

/* The calling thread's own default stream in @context. */
static struct sim_stream *thread_stream(struct sim_context *context)
{
    uint64_t thread = sim_thread_number();
    for (struct sim_stream *stream = context->streams; stream != NULL; stream = stream->next) {
        if (stream->kind == SIM_STREAM_PER_THREAD && stream->thread == thread) {
            return stream;
        }
    }
    struct sim_stream *stream = sim_stream_create(context, SIM_STREAM_PER_THREAD, true);
    if (stream != NULL) {
        stream->thread = thread;
    }
    return stream;
}

CUresult sim_stream_find(CUstream handle, struct sim_stream **out)
{
    bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == NULL && sim_thread.per_thread);
    if (handle != NULL && !per_thread && handle != CU_STREAM_LEGACY) {
        struct sim_stream *stream = sim_object_get(SIM_STREAM, (uint64_t)(uintptr_t)handle);
        if (stream == NULL) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        *out = stream;
        return stream->context->error;
    }
    struct sim_context *context = sim_context_current();
    if (context == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!context->alive) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    struct sim_stream *stream = per_thread ? thread_stream(context) : context->legacy;
    if (stream == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = stream;
    return context->error;
}
