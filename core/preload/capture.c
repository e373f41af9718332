/*
 * capture.c - counts captures, asks about streams, exchanges the thread's capture mode.
 */
#include "capture.h"

#include "hooks.h"
#include "process.h"
#include "target.h"

#include <stddef.h>

#define ORIGINS 64

atomic_uint gm_capture_count;

bool gm_capture_is_in_graph(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gm_driver_stream_is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void gm_capture_relax(struct gm_capture_scope *scope)
{
    scope->before = CU_STREAM_CAPTURE_MODE_RELAXED;
    scope->changed = gm_driver_thread_exchange_capture_mode(&scope->before) == CUDA_SUCCESS;
}

void gm_capture_restore(struct gm_capture_scope *scope)
{
    gm_driver_thread_exchange_capture_mode(&scope->before);
}

/* The wait that a plain free owes: for every context that can have used the block. */
static CUresult CUDAAPI synchronize_unless_capturing(void)
{
    if (atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult rc = gm_driver_ctx_synchronize();
    return rc == CUDA_SUCCESS ? gm_target_synchronize_others() : rc;
}

void gm_capture_guard(struct gm_cu *table)
{
    table->ctx_synchronize = synchronize_unless_capturing;
}

CUresult gm_capture_ask(void)
{
    CUmemoryPool pool;
    cuuint64_t ignored;
    CUresult rc = gm_driver_device_get_default_mem_pool(&pool, 0);
    if (rc == CUDA_SUCCESS) {
        rc = gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &ignored);
    }
    return rc == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? rc : CUDA_SUCCESS;
}

/*
 * Readies the allocators for a capture, and counts it before the driver begins it; begun() uncounts one that did not
 * begin.
 */
static void expect_capture(void)
{
    if (gm_process_is_served() && gm_process_enter()) {
        gm_target_expect_capture();
        gm_process_leave();
    }
    atomic_fetch_add_explicit(&gm_capture_count, 1, memory_order_relaxed);
}

static void uncount(void)
{
    atomic_fetch_sub_explicit(&gm_capture_count, 1, memory_order_relaxed);
}

/* Begun and not ended, as far as there is room: a stream that is destroyed takes its capture with it. */
static struct {
    _Atomic(CUstream) stream; /* NULL: unused */
    _Atomic(CUcontext) context;
} origins[ORIGINS];

static CUresult begun(CUstream stream, CUresult rc)
{
    CUcontext context = NULL;
    if (rc != CUDA_SUCCESS) {
        uncount();
        return rc;
    }
    (void)gm_driver_stream_get_ctx(stream, &context);
    for (size_t i = 0; i < ORIGINS; i++) {
        CUstream unused = NULL;
        if (atomic_compare_exchange_strong(&origins[i].stream, &unused, stream)) {
            atomic_store(&origins[i].context, context);
            break;
        }
    }
    return rc;
}

/* Whether a capture on @stream was noted; it is not any more. */
static bool drop_origin(CUstream stream)
{
    for (size_t i = 0; i < ORIGINS; i++) {
        CUstream noted = stream;
        if (atomic_compare_exchange_strong(&origins[i].stream, &noted, NULL)) {
            return true;
        }
    }
    return false;
}

void gm_capture_end_stream(CUstream stream)
{
    if (atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0 && drop_origin(stream)) {
        uncount();
    }
}

void gm_capture_end_context(CUcontext context)
{
    bool any = context != NULL && atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0;
    for (size_t i = 0; any && i < ORIGINS; i++) {
        CUstream stream = atomic_load(&origins[i].stream);
        if (stream != NULL && atomic_load(&origins[i].context) == context &&
            atomic_compare_exchange_strong(&origins[i].stream, &stream, NULL)) {
            uncount();
        }
    }
}

/* An end that fails may or may not have ended the capture: what the stream said before and says now decides. */
static CUresult ended(CUstream stream, bool was_captured, CUresult rc)
{
    if (was_captured && !gm_capture_is_in_graph(stream)) {
        (void)drop_origin(stream);
        uncount();
    }
    return rc;
}

/* What stream 0 means to the calls whose names end in _ptsz. */
static CUstream thread_stream(CUstream stream)
{
    return stream == NULL ? CU_STREAM_PER_THREAD : stream;
}

CUresult gm_hook_stream_begin_capture(CUstream stream)
{
    expect_capture();
    return begun(stream, gm_driver_stream_begin_capture(stream));
}

CUresult gm_hook_stream_begin_capture_ptsz(CUstream stream)
{
    expect_capture();
    return begun(thread_stream(stream), gm_driver_stream_begin_capture_ptsz(stream));
}

CUresult gm_hook_stream_begin_capture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    expect_capture();
    return begun(stream, gm_driver_stream_begin_capture_v2(stream, mode));
}

CUresult gm_hook_stream_begin_capture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    expect_capture();
    return begun(thread_stream(stream), gm_driver_stream_begin_capture_v2_ptsz(stream, mode));
}

CUresult gm_hook_stream_begin_capture_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                               const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    expect_capture();
    return begun(stream, gm_driver_stream_begin_capture_to_graph(stream, graph, dependencies, edges, count, mode));
}

CUresult gm_hook_stream_begin_capture_to_graph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                                    const CUgraphEdgeData *edges, size_t count,
                                                    CUstreamCaptureMode mode)
{
    expect_capture();
    return begun(thread_stream(stream),
                 gm_driver_stream_begin_capture_to_graph_ptsz(stream, graph, dependencies, edges, count, mode));
}

CUresult gm_hook_stream_end_capture(CUstream stream, CUgraph *graph)
{
    bool was_captured = gm_capture_is_in_graph(stream);
    return ended(stream, was_captured, gm_driver_stream_end_capture(stream, graph));
}

CUresult gm_hook_stream_end_capture_ptsz(CUstream stream, CUgraph *graph)
{
    CUstream meant = thread_stream(stream);
    bool was_captured = gm_capture_is_in_graph(meant);
    return ended(meant, was_captured, gm_driver_stream_end_capture_ptsz(stream, graph));
}
