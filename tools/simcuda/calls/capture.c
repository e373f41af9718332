/*
 * capture.c - the calls of stream capture.
 */
#include "capture.h"

#include "context.h"
#include "entry.h"

CUresult sim_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    struct sim_stream *found;
    CUresult result = status == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    uint64_t id;
    if (result == CUDA_SUCCESS) {
        *status = sim_capture_status(found, &id);
    }
    return result;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUstreamCaptureMode before = sim_thread.capture_mode;
    sim_thread.capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
