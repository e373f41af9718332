/*
 * capture.h - stream capture: which calls it forbids, and what it breaks.
 *
 * STRUCTURE    a capture begins on one stream and takes in others that wait for its events; the work queued meanwhile
 *              becomes a graph and does not run. An unsafe call during a capture fails and breaks the captures it
 *              offends: they end with STREAM_CAPTURE_INVALIDATED.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "event.h"
#include "pool.h"
#include "stream.h"

#include <cuda.h>

struct sim_graph;

/* For a call that capture makes unsafe: STREAM_CAPTURE_UNSUPPORTED, and the captures it offends are broken. */
CUresult sim_capture_forbids(void);

/* For a wait for all of a context: no stream of it may be capturing, in any mode. */
CUresult sim_capture_forbids_wait(const struct sim_context *context);

/* For a wait for one stream, or a query of it. */
CUresult sim_capture_forbids_stream(struct sim_stream *stream);

/* For a question about an event that was recorded last in a capture. */
CUresult sim_capture_forbids_event(const struct sim_event *event);

/* Queues @op, or makes it a node of the graph that the stream is capturing. */
CUresult sim_capture_or_push(struct sim_stream *stream, struct sim_op *op);

/* cuEventRecord and cuStreamWaitEvent where a capture is involved. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);

/* cuMemAllocAsync and cuMemFreeAsync on a capturing stream: the memory belongs to the graph. */
CUresult sim_capture_allocate(struct sim_stream *stream, struct sim_pool *pool, uint64_t size, struct sim_pooled **out);
CUresult sim_capture_free(struct sim_stream *stream, struct sim_range *range);

/* cuStreamBeginCapture and cuStreamEndCapture. After an end that fails there is no graph. */
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode);
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out);

/* *id is set unless the status is NONE. */
CUstreamCaptureStatus sim_capture_status(const struct sim_stream *stream, uint64_t *id);

/* The graph being captured on the stream; NULL: none. */
struct sim_graph *sim_capture_graph(const struct sim_stream *stream);

/* The stream is going away. */
void sim_capture_abandon(struct sim_stream *stream);

#endif
