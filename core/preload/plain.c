/*
 * plain.c - a stream handle that is nobody's, and what the core hears when it uses it.
 */
#include "plain.h"

#include <stddef.h>

/* Some address that no stream of the driver's can have. */
static char handle;
const CUstream gm_plain_stream = (CUstream)(void *)&handle;

/* The driver's own, for all other streams. Written before the table is put to use, then fixed. */
static CUresult(CUDAAPI *wait_event)(CUstream stream, CUevent event, unsigned int flags);
static CUresult(CUDAAPI *record_event)(CUevent event, CUstream stream);
static CUresult(CUDAAPI *is_capturing)(CUstream stream, CUstreamCaptureStatus *status);

static CUresult CUDAAPI wait_unless_plain(CUstream stream, CUevent event, unsigned int flags)
{
    return stream == gm_plain_stream ? CUDA_ERROR_NOT_READY : wait_event(stream, event, flags);
}

static CUresult CUDAAPI record_unless_plain(CUevent event, CUstream stream)
{
    return stream == gm_plain_stream ? CUDA_ERROR_INVALID_HANDLE : record_event(event, stream);
}

static CUresult CUDAAPI is_capturing_unless_plain(CUstream stream, CUstreamCaptureStatus *status)
{
    if (stream != gm_plain_stream) {
        return is_capturing(stream, status);
    }
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

void gm_plain_stream_guard(struct gm_cu *table)
{
    wait_event = table->stream_wait_event;
    record_event = table->event_record;
    is_capturing = table->stream_is_capturing;
    table->stream_wait_event = wait_unless_plain;
    table->event_record = record_unless_plain;
    table->stream_is_capturing = is_capturing_unless_plain;
}
