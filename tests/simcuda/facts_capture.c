/*
 * facts_capture.c - questions during stream capture, and about its borders.
 */
#include "facts.h"

/* The result of a capture's end; the graph goes. */
static CUresult end_capture(CUstream stream)
{
    CUgraph graph = NULL;
    CUresult result = cu.cuStreamEndCapture(stream, &graph);
    if (graph != NULL) {
        cu.cuGraphDestroy(graph);
    }
    return result;
}

#define END(stream) printf("%-92s %d\n", "end of the capture", (int)end_capture(stream))

static void capture_in_mode(CUstreamCaptureMode mode, CUstream stream, CUevent event)
{
    CUdeviceptr address = 0;
    CUdeviceptr range = 0;
    size_t bytes;
    CUmemoryPool pool;
    cuuint64_t value;
    CUmemGenericAllocationHandle chunk;
    CUmemAllocationProp properties = facts_pinned(0);
    CUmemAccessDesc write = facts_open_for(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    static const char *const names[] = {"capture, global", "capture, thread-local", "capture, relaxed"};
    facts_heading(names[mode]);
#define DURING(call)                                                                                                   \
    do {                                                                                                               \
        cu.cuStreamBeginCapture_v2(stream, mode);                                                                      \
        FACT(call);                                                                                                    \
        END(stream);                                                                                                   \
    } while (0)
    cu.cuDeviceGetDefaultMemPool(&pool, 0);
    DURING(cuMemGetInfo_v2(&bytes, &bytes));
    DURING(cuMemAddressReserve(&range, PAGE, 0, 0, 0));
    DURING(cuMemCreate(&chunk, PAGE, &properties, 0));
    DURING(cuMemMap(range, PAGE, 0, chunk, 0));
    DURING(cuMemSetAccess(range, PAGE, &write, 1));
    DURING(cuMemUnmap(range, PAGE));
    DURING(cuMemRelease(chunk));
    DURING(cuMemAddressFree(range, PAGE));
    DURING(cuMemAlloc_v2(&address, PAGE));
    if (address == 0) {
        cu.cuMemAlloc_v2(&address, PAGE);
    }
    DURING(cuMemsetD8_v2(address, 1, 1));
    DURING(cuMemFree_v2(address));
    DURING(cuEventQuery(event));
    DURING(cuEventSynchronize(event));
    DURING(cuStreamSynchronize(stream));
    DURING(cuStreamQuery(stream));
    DURING(cuCtxSynchronize());
    DURING(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    DURING(cuMemPoolTrimTo(pool, 0));
    DURING(cuStreamWaitEvent(stream, event, 0));
    DURING(cuStreamBeginCapture_v2(stream, mode));
    DURING(cuMemAllocAsync(&range, PAGE, stream));
    DURING(cuMemFreeAsync(0x1000, stream));
    cu.cuMemFree_v2(address);
#undef DURING
}

void facts_capture(void)
{
    CUstream stream;
    CUstream other;
    CUevent event;
    CUgraph graph;
    CUdeviceptr memory;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cu.cuMemAlloc_v2(&memory, 1);
    cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cu.cuEventRecord(event, other);
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        capture_in_mode((CUstreamCaptureMode)mode, stream, event);
    }
    facts_heading("capture, borders");
    FACT(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FACT(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)9));
    FACT(cuStreamEndCapture(stream, &graph));
#define BEGIN() cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)
    BEGIN();
    FACT(cuEventRecord(event, stream));
    FACT(cuEventQuery(event));
    END(stream);
    FACT(cuEventQuery(event));
    BEGIN();
    FACT(cuEventRecord(event, stream));
    END(stream);
    FACT(cuEventQuery(event));
    FACT(cuEventSynchronize(event));
    FACT(cuStreamWaitEvent(other, event, 0));
    FACT(cuEventRecord(event, other));
    FACT(cuEventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cu.cuEventSynchronize(event));
    BEGIN();
    FACT(cuEventRecord(event, stream));
    FACT(cuStreamWaitEvent(other, event, 0));
    FACT(cuStreamEndCapture(other, &graph));
    END(stream);
    facts_heading("capture, a fork without work");
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    END(stream);
    BEGIN();
    cu.cuMemsetD8Async(memory, 1, 1, stream);
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    END(stream);
    facts_heading("capture, a fork with work");
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    END(stream);
    FACT(cuStreamIsCapturing(other, &status));
    NUMBER("status", status);
    BEGIN();
    cu.cuEventRecord(event, stream);
    cu.cuStreamWaitEvent(other, event, 0);
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    FACT(cuEventRecord(event, other));
    FACT(cuMemsetD8Async(memory, 1, 1, other));
    FACT(cuStreamWaitEvent(stream, event, 0));
    END(stream);
    facts_heading("capture, merged");
    BEGIN();
    cu.cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED);
    cu.cuEventRecord(event, other);
    FACT(cuStreamWaitEvent(stream, event, 0));
    END(stream);
    END(other);
    FACT(cuEventQuery(event));
    FACT(cuStreamWaitEvent(stream, event, 0));
#undef BEGIN
    cu.cuMemFree_v2(memory);
    cu.cuEventDestroy_v2(event);
    cu.cuStreamDestroy_v2(other);
    cu.cuStreamDestroy_v2(stream);
}
