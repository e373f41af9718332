/*
 * stream.c - cuStream*, cuEvent* and host functions.
 */
#include "stream.h"

#include "capture.h"
#include "clock.h"
#include "context.h"
#include "entry.h"
#include "event.h"
#include "objects.h"
#include "pool.h"
#include "report.h"

#include <stdlib.h>

static CUstream stream_handle(const struct sim_stream *stream)
{
    return (CUstream)(uintptr_t)stream->handle;
}

/* ---- streams ---- */

CUresult sim_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    if (stream == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_stream *made =
        sim_stream_create(sim_context_current(), SIM_STREAM_CREATED, (flags & CU_STREAM_NON_BLOCKING) == 0);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->flags = flags;
    made->priority = priority;
    *stream = stream_handle(made);
    sim_log_output(made->handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return sim_cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream stream)
{
    struct sim_stream *found = sim_object_get(SIM_STREAM, (uint64_t)(uintptr_t)stream);
    if (found == NULL) {
        sim_report("%p is not a stream that can be destroyed", (void *)stream);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_capture_abandon(found);
    sim_stream_destroy(found);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamSynchronize(CUstream stream)
{
    struct sim_stream *found;
    CUresult result = sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        result = sim_capture_forbids_stream(found);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_stream_wait(found);
    sim_pool_settle(found->context->device);
    return found->context->error;
}

CUresult sim_cuStreamQuery(CUstream stream)
{
    struct sim_stream *found;
    CUresult result = sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        result = sim_capture_forbids_stream(found);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_clock_charge(SIM_COST_EVENT, 0);
    sim_stream_settle();
    return sim_stream_idle(found) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    struct sim_stream *found;
    CUresult result = flags == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        *flags = found->flags;
    }
    return result;
}

CUresult sim_cuStreamGetPriority(CUstream stream, int *priority)
{
    struct sim_stream *found;
    CUresult result = priority == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        *priority = found->priority;
    }
    return result;
}

CUresult sim_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    struct sim_stream *found;
    CUresult result = context == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        *context = sim_context_handle(found->context);
    }
    return result;
}

CUresult sim_cuStreamGetId(CUstream stream, unsigned long long *id)
{
    struct sim_stream *found;
    CUresult result = id == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        *id = found->id;
    }
    return result;
}

static void run_host_function(struct sim_op *op)
{
    sim_set_callback(true);
    op->function(op->object);
    sim_set_callback(false);
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct sim_stream *found;
    CUresult result = function == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->run = run_host_function;
    op->function = function;
    op->object = data;
    return sim_capture_or_push(found, op);
}

/* What cuStreamAddCallback needs beside the operation; freed once it was called. */
struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static void run_callback(struct sim_op *op)
{
    struct callback *callback = op->object;
    sim_set_callback(true);
    callback->function(callback->stream, op->stream->context->error, callback->data);
    sim_set_callback(false);
    free(callback);
}

CUresult sim_cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data, unsigned int flags)
{
    struct sim_stream *found;
    CUresult result = function == NULL || flags != 0 ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS) {
        result = sim_capture_forbids_stream(found);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct sim_op *op = sim_op_new();
    struct callback *callback = op == NULL ? NULL : malloc(sizeof *callback);
    if (callback == NULL) {
        if (op != NULL) {
            sim_op_drop(op);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *callback = (struct callback){.function = function, .stream = stream, .data = data};
    op->run = run_callback;
    op->object = callback;
    sim_stream_push(found, op);
    return CUDA_SUCCESS;
}

/* ---- events ---- */

static struct sim_event *find_event(CUevent event)
{
    return sim_object_get(SIM_EVENT, (uint64_t)(uintptr_t)event);
}

CUresult sim_cuEventCreate(CUevent *event, unsigned int flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    bool timed_share = (flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (event == NULL || (flags & ~known) != 0 || timed_share) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_event *made = sim_event_create(sim_context_current(), flags);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *event = (CUevent)(uintptr_t)made->handle;
    sim_log_output(made->handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent event)
{
    struct sim_event *found = find_event(event);
    if (found == NULL) {
        sim_report("%p is not an event, or was destroyed", (void *)event);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_event_destroy(found);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent event, CUstream stream)
{
    struct sim_event *found = find_event(event);
    struct sim_stream *on;
    CUresult result = found == NULL ? CUDA_ERROR_INVALID_HANDLE : sim_stream_find(stream, &on);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (on->context != found->context) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_clock_charge(SIM_COST_EVENT, 0);
    if (on->capture != NULL) {
        return sim_capture_record(on, found);
    }
    struct sim_point point;
    if (!sim_stream_mark(on, &point)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    found->captured = 0;
    found->recorded = true;
    found->point = point;
    return CUDA_SUCCESS;
}

CUresult sim_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) != 0 ? CUDA_ERROR_INVALID_VALUE
                                                              : sim_cuEventRecord(event, stream);
}

CUresult sim_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    struct sim_event *found = find_event(event);
    struct sim_stream *waiting;
    CUresult result = (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) != 0 ? CUDA_ERROR_INVALID_VALUE
                      : found == NULL                                  ? CUDA_ERROR_INVALID_HANDLE
                                                                       : sim_stream_find(stream, &waiting);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_clock_charge(SIM_COST_EVENT, 0);
    if (found->captured != 0 || waiting->capture != NULL) {
        return sim_capture_wait(waiting, found);
    }
    if (sim_point_past(&found->point)) {
        return CUDA_SUCCESS;
    }
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->after = found->point;
    sim_stream_push(waiting, op);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventQuery(CUevent event)
{
    const struct sim_event *found = find_event(event);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (found->captured != 0) {
        return sim_capture_forbids_event(found);
    }
    sim_clock_charge(SIM_COST_EVENT, 0);
    sim_stream_settle();
    if (found->context->error != CUDA_SUCCESS) {
        return found->context->error;
    }
    return sim_point_past(&found->point) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent event)
{
    const struct sim_event *found = find_event(event);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (found->captured != 0) {
        return sim_capture_forbids_event(found);
    }
    sim_point_wait(&found->point);
    sim_pool_settle(found->context->device);
    return found->context->error;
}

CUresult sim_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    const struct sim_event *from = find_event(start);
    const struct sim_event *to = find_event(end);
    if (milliseconds == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (from == NULL || to == NULL || !from->recorded || !to->recorded ||
        ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!sim_point_past(&from->point) || !sim_point_past(&to->point)) {
        return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = (float)(((double)to->point.due - (double)from->point.due) / 1e6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return sim_cuEventElapsedTime(milliseconds, start, end);
}
