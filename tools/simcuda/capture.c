/*
 * capture.c - captures in progress.
 */
#include "capture.h"

#include "context.h"
#include "graph.h"

#include <stdlib.h>

/* Invariant: @origin->capture is this capture; it is on the list from begin to end. */
struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    struct sim_stream *origin; /* NULL: destroyed meanwhile */
    uint64_t thread;
    CUstreamCaptureMode mode;
    bool broken;
    struct sim_graph *graph;
};

static struct sim_capture *captures;

static struct sim_capture *find(uint64_t id)
{
    struct sim_capture *capture = captures;
    while (capture != NULL && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

/* ---- legality ---- */

CUresult sim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool offended = capture->thread == sim_thread_number()
                            ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                                  sim_thread.capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED
                            : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                  sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (offended) {
            capture->broken = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult sim_capture_forbids_wait(const struct sim_context *context)
{
    CUresult result = CUDA_SUCCESS;
    for (struct sim_capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->origin != NULL && capture->origin->context == context) {
            capture->broken = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* The legacy stream would wait for all blocking streams: not while one of them captures. */
static CUresult check_legacy(const struct sim_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (stream->kind != SIM_STREAM_LEGACY || captures == NULL) {
        return result;
    }
    for (struct sim_stream *other = stream->context->streams; other != NULL; other = other->next) {
        if (other->blocking && other->capture != NULL) {
            other->capture->broken = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

CUresult sim_capture_forbids_stream(struct sim_stream *stream)
{
    if (stream->capture == NULL) {
        return check_legacy(stream);
    }
    stream->capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Asking about a captured event breaks its capture; once that has ended, there is nothing to ask about. */
CUresult sim_capture_forbids_event(const struct sim_event *event)
{
    struct sim_capture *capture = find(event->captured);
    if (capture == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    capture->broken = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- work ---- */

CUresult sim_capture_or_push(struct sim_stream *stream, struct sim_op *op)
{
    CUresult result = check_legacy(stream);
    struct sim_capture *capture = stream->capture;
    if (result == CUDA_SUCCESS && capture != NULL && capture->broken) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result != CUDA_SUCCESS) {
        sim_op_drop(op);
        return result;
    }
    if (capture == NULL) {
        sim_stream_push(stream, op);
        return CUDA_SUCCESS;
    }
    stream->captured_ops++;
    sim_graph_append(capture->graph, op);
    return CUDA_SUCCESS;
}

/* Takes the stream into the capture, with nothing captured on it yet. */
static void join(struct sim_stream *stream, struct sim_capture *capture)
{
    stream->capture = capture;
    stream->captured_ops = 0;
    stream->joined_ops = 0;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
    event->recorded = true;
    event->captured = stream->capture->id;
    event->point = (struct sim_point){.stream = stream, .seq = stream->captured_ops};
    return stream->capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *capture = find(event->captured);
    if (capture == NULL && event->captured != 0) {
        return CUDA_ERROR_INVALID_VALUE; /* of a capture that has ended */
    }
    if (capture == NULL) {
        stream->capture->broken = true; /* recorded outside: a capture may only depend on itself */
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture != NULL && stream->capture != capture) {
        stream->capture->broken = true;
        capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (capture->broken) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (stream->capture == NULL) {
        join(stream, capture);
    }
    if (event->point.stream != stream && event->point.seq > event->point.stream->joined_ops) {
        event->point.stream->joined_ops = event->point.seq;
    }
    return CUDA_SUCCESS;
}

/* ---- memory of graphs ---- */

CUresult sim_capture_allocate(struct sim_stream *stream, struct sim_pool *pool, uint64_t size, struct sim_pooled **out)
{
    if (stream->capture->broken) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUresult result = sim_pool_allocate(pool, size, NULL, out);
    if (result == CUDA_SUCCESS) {
        sim_graph_own(stream->capture->graph, *out);
        stream->captured_ops++;
    }
    return result;
}

/* A graph frees only what it allocated; the memory itself stays with the graph, which may run again. */
CUresult sim_capture_free(struct sim_stream *stream, struct sim_range *range)
{
    struct sim_capture *capture = stream->capture;
    if (capture->broken) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (range->kind != SIM_POOLED || sim_pooled_of(range)->graph != capture->graph) {
        capture->broken = true;
        return CUDA_ERROR_INVALID_VALUE;
    }
    range->freed = true;
    stream->captured_ops++;
    capture->graph->nodes++;
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode)
{
    static uint64_t next_id = 1;
    if (stream->kind == SIM_STREAM_LEGACY) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    struct sim_capture *capture = calloc(1, sizeof *capture);
    struct sim_graph *graph = capture == NULL ? NULL : sim_graph_create(stream->context);
    if (graph == NULL) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct sim_capture){.next = captures,
                                    .id = next_id++,
                                    .origin = stream,
                                    .thread = sim_thread_number(),
                                    .mode = mode,
                                    .graph = graph};
    captures = capture;
    join(stream, capture);
    return CUDA_SUCCESS;
}

/* Takes the capture off its streams and the list; true: a forked stream was not joined. */
static bool finish(struct sim_capture *capture, const struct sim_context *context)
{
    bool unjoined = false;
    for (struct sim_stream *stream = context->streams; stream != NULL; stream = stream->next) {
        if (stream->capture == capture) {
            unjoined |= stream->joined_ops < stream->captured_ops && stream != capture->origin;
            stream->capture = NULL;
        }
    }
    struct sim_capture **place = &captures;
    while (*place != capture) {
        place = &(*place)->next;
    }
    *place = capture->next;
    return unjoined;
}

CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out)
{
    struct sim_capture *capture = stream->capture;
    if (capture == NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->thread != sim_thread_number() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    bool unjoined = finish(capture, stream->context);
    CUresult result = capture->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : unjoined      ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                      : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        *out = capture->graph;
    } else {
        sim_graph_destroy(capture->graph);
    }
    free(capture);
    return result;
}

CUstreamCaptureStatus sim_capture_status(const struct sim_stream *stream, uint64_t *id)
{
    if (stream->capture == NULL) {
        return CU_STREAM_CAPTURE_STATUS_NONE;
    }
    *id = stream->capture->id;
    return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct sim_graph *sim_capture_graph(const struct sim_stream *stream)
{
    return stream->capture == NULL ? NULL : stream->capture->graph;
}

void sim_capture_abandon(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->capture;
    if (capture == NULL) {
        return;
    }
    if (capture->origin != stream) {
        capture->broken = true;
        stream->capture = NULL;
        return;
    }
    (void)finish(capture, stream->context);
    sim_graph_destroy(capture->graph);
    free(capture);
}
