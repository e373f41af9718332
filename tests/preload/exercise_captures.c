/*
 * exercise_captures.c - what is allowed while a stream is captured, and what breaks the capture.
 */
#include "exercise.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static CUstream new_stream(void)
{
    CUstream stream;
    need("cuStreamCreate", cu.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void end_capture(CUstream stream)
{
    CUgraph graph = NULL;
    say("cuStreamEndCapture", cu.cuStreamEndCapture_(stream, &graph));
    say_if("there is a graph", graph != NULL);
}

static void capture_on(const char *what, CUstreamCaptureMode mode)
{
    CUdeviceptr kept;
    CUdeviceptr inside;
    CUdeviceptr beside;
    CUresult rc;
    printf("%s\n", what);
    CUstream captured = new_stream();
    CUstream other = new_stream();
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&kept, 4 * MIB, captured));
    need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(captured, mode));
    say("allocate in the graph", cu.cuMemAllocAsync_(&inside, 4 * MIB, captured));
    say("free in the graph", cu.cuMemFreeAsync_(inside, captured));
    rc = cu.cuMemAllocAsync_(&beside, 4 * MIB, other);
    say("allocate beside it", rc);
    if (rc == CUDA_SUCCESS) {
        say("free beside it", cu.cuMemFreeAsync_(beside, other));
    }
    rc = cu.cuMemAlloc_(&beside, 4 * MIB);
    say("plain allocation", rc);
    if (rc == CUDA_SUCCESS) {
        say("plain free", cu.cuMemFree_(beside));
    }
    end_capture(captured);
    say("cuMemFreeAsync", cu.cuMemFreeAsync_(kept, other));
    say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    say("cuStreamDestroy", cu.cuStreamDestroy_(captured));
    say("cuStreamDestroy", cu.cuStreamDestroy_(other));
}

void scenario_captures(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr address;
    start(0);
    capture_on("thread-local capture", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    capture_on("global capture", CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_on("relaxed capture", CU_STREAM_CAPTURE_MODE_RELAXED);
    say("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    printf("mode before: %d\n", (int)mode);
    capture_on("global capture, relaxed thread", CU_STREAM_CAPTURE_MODE_GLOBAL);
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 4 * MIB));
    say("cuMemFree", cu.cuMemFree_(address));
}

/* --- another thread's capture ------------------------------------------------------------------------------------- */

static struct {
    CUstreamCaptureMode own; /* of the thread that calls */
    CUdeviceptr before;      /* allocated before the capture */
} beside;

static void *call_beside(void *arg)
{
    CUstreamCaptureMode mode = beside.own;
    CUdeviceptr address = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    (void)arg;
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
    need("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    CUresult rc = cu.cuMemAlloc_(&address, 4 * MIB);
    say("  cuMemAlloc", rc);
    if (rc == CUDA_SUCCESS) {
        say("  cuMemGetAddressRange", cu.cuMemGetAddressRange_(&base, &size, address));
        say("  cuMemFree of it", cu.cuMemFree_(address));
    }
    say("  cuMemGetInfo", cu.cuMemGetInfo_(&size, &size));
    mode = beside.own;
    need("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    say_if("  the thread's mode is as it was", mode == beside.own);
    return NULL;
}

static void *free_beside(void *arg)
{
    CUstreamCaptureMode mode = beside.own;
    (void)arg;
    need("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    say("  cuMemFree without a context", cu.cuMemFree_(beside.before));
    return NULL;
}

static void on_a_thread(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        exit(1);
    }
}

/* Every mode of the capture with every mode of a thread beside it: the same calls are forbidden, and break the same. */
void scenario_captures_beside(void)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    start(0);
    for (int captured = 0; captured <= CU_STREAM_CAPTURE_MODE_RELAXED; captured++) {
        for (int own = 0; own <= CU_STREAM_CAPTURE_MODE_RELAXED; own++) {
            printf("%s capture, %s thread\n", modes[captured], modes[own]);
            beside.own = (CUstreamCaptureMode)own;
            CUstream stream = new_stream();
            need("cuMemAlloc", cu.cuMemAlloc_(&beside.before, 4 * MIB));
            need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(stream, (CUstreamCaptureMode)captured));
            on_a_thread(call_beside);
            end_capture(stream);
            need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(stream, (CUstreamCaptureMode)captured));
            on_a_thread(free_beside);
            end_capture(stream);
            cu.cuMemFree_(beside.before);
            say("cuStreamDestroy", cu.cuStreamDestroy_(stream));
        }
    }
}

/* --- what is owed when a capture begins --------------------------------------------------------------------------- */

/*
 * Plain frees and frees on the stream, with work behind them; then a capture on a stream that nothing was allocated on,
 * or on that one. Meanwhile all the memory is needed: the next allocation has to wait for the work, but may not break
 * the capture. The device holds 46 MiB.
 */
void scenario_captures_owed(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr address;
    start(0);
    need("cuThreadExchangeStreamCaptureMode", cu.cuThreadExchangeStreamCaptureMode_(&mode));
    for (int round = 0; round < 4; round++) {
        CUstream user = new_stream();
        CUstream other = new_stream();
        CUstream captured = round % 2 == 0 ? new_stream() : user;
        printf("%s, capture on a stream %s\n", round < 2 ? "plain" : "ordered",
               captured == user ? "that had memory" : "never seen");
        need("allocate",
             round < 2 ? cu.cuMemAlloc_(&address, 30 * MIB) : cu.cuMemAllocAsync_(&address, 30 * MIB, user));
        need("cuMemsetD8Async", cu.cuMemsetD8Async_(address, 0xbb, 30 * MIB, user));
        need("free", round < 2 ? cu.cuMemFree_(address) : cu.cuMemFreeAsync_(address, user));
        need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CUresult rc = round < 2 ? cu.cuMemAlloc_(&address, 30 * MIB) : cu.cuMemAllocAsync_(&address, 30 * MIB, other);
        say("the same again", rc);
        if (rc == CUDA_SUCCESS) {
            say("cuMemsetD8Async", cu.cuMemsetD8Async_(address, 0x11, 30 * MIB, other));
        }
        end_capture(captured);
        say("cuCtxSynchronize", cu.cuCtxSynchronize_());
        if (rc == CUDA_SUCCESS) {
            unsigned char byte = 0;
            say("cuMemcpyDtoH", cu.cuMemcpyDtoH_(&byte, address + 15 * MIB, 1));
            printf("byte: %x\n", byte);
            say("cuMemFree", cu.cuMemFree_(address));
        }
        say("cuCtxSynchronize", cu.cuCtxSynchronize_());
    }
}

/* A capture ends with its stream, or with its context; afterwards what plain frees owe can be paid again. */
void scenario_captures_dropped(void)
{
    CUdeviceptr address;
    CUdevice device;
    CUcontext made;
    start(0);
    need("cuDeviceGet", cu.cuDeviceGet_(&device, 0));
    need("cuMemAlloc", cu.cuMemAlloc_(&address, 30 * MIB));
    for (int round = 0; round < 4; round++) {
        printf("%s is destroyed\n", round % 2 == 0 ? "the stream" : "the context");
        if (round % 2 != 0) {
            need("cuCtxCreate", cu.cuCtxCreate_(&made, NULL, 0, device));
        }
        CUstream stream = new_stream();
        need("cuStreamBeginCapture", cu.cuStreamBeginCapture_(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        say("destroy", round % 2 == 0 ? cu.cuStreamDestroy_(stream) : cu.cuCtxDestroy_(made));
        need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
        for (int i = 0; i < 3; i++) {
            say("cuMemFree", cu.cuMemFree_(address));
            say("cuMemAlloc", cu.cuMemAlloc_(&address, 30 * MIB));
        }
        use("holds its bytes", address, 30 * MIB);
    }
    say("cuMemFree", cu.cuMemFree_(address));
}
