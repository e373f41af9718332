/*
 * graph.c - the calls of capture and of the graphs it makes.
 */
#include "capture.h"

#include "context.h"
#include "entry.h"
#include "graph.h"
#include "objects.h"
#include "report.h"

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

CUresult sim_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    struct sim_stream *found;
    CUresult result = status == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    uint64_t number = 0;
    *status = sim_capture_status(found, &number);
    if (id != NULL && *status != CU_STREAM_CAPTURE_STATUS_NONE) {
        *id = number;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                       /* NOLINTNEXTLINE(readability-non-const-parameter): the driver's signature */
                                       const CUgraphNode **dependencies, size_t *count)
{
    struct sim_stream *found;
    CUresult result = sim_cuStreamGetCaptureInfo(stream, status, id);
    if (result != CUDA_SUCCESS || *status == CU_STREAM_CAPTURE_STATUS_NONE) {
        return result;
    }
    if (dependencies != NULL || count != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED; /* nodes have no handles here */
    }
    result = sim_stream_find(stream, &found);
    if (result == CUDA_SUCCESS && graph != NULL) {
        *graph = (CUgraph)(uintptr_t)sim_capture_graph(found)->handle;
    }
    return result;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                       const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    return edges != NULL ? CUDA_ERROR_NOT_SUPPORTED
                         : sim_cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
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

CUresult sim_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    struct sim_stream *found;
    CUresult result =
        (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    return result != CUDA_SUCCESS ? result : sim_capture_begin(found, mode);
}

CUresult sim_cuStreamBeginCapture(CUstream stream)
{
    return sim_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    struct sim_stream *found;
    struct sim_graph *made;
    CUresult result = graph == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &found);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *graph = NULL;
    result = sim_capture_end(found, &made);
    if (result == CUDA_SUCCESS) {
        *graph = (CUgraph)(uintptr_t)made->handle;
        sim_log_output(made->handle);
    }
    return result;
}

/* ---- graphs ---- */

static struct sim_graph *find_graph(CUgraph graph)
{
    return sim_object_get(SIM_GRAPH, (uint64_t)(uintptr_t)graph);
}

static struct sim_graph *find_executable(CUgraphExec executable)
{
    return sim_object_get(SIM_EXECUTABLE, (uint64_t)(uintptr_t)executable);
}

CUresult sim_cuGraphDestroy(CUgraph graph)
{
    struct sim_graph *found = find_graph(graph);
    if (found == NULL) {
        sim_report("%p is not a graph, or was destroyed", (void *)graph);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_graph_destroy(found);
    return CUDA_SUCCESS;
}

/* Nodes have no handles here: only their number can be asked for. */
CUresult sim_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    const struct sim_graph *found = find_graph(graph);
    if (found == NULL || count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (nodes != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *count = found->nodes;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    struct sim_graph *found = find_graph(graph);
    if (executable == NULL || found == NULL || (flags & ~1ull) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t handle = sim_object_add(SIM_EXECUTABLE, found);
    if (handle == 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    found->users++;
    *executable = (CUgraphExec)(uintptr_t)handle;
    sim_log_output(handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec executable)
{
    struct sim_graph *found = find_executable(executable);
    if (found == NULL) {
        sim_report("%p is not an executable graph, or was destroyed", (void *)executable);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_object_remove((uint64_t)(uintptr_t)executable);
    sim_graph_drop_user(found);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    const struct sim_graph *found = find_executable(executable);
    struct sim_stream *on;
    CUresult result = found == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &on);
    if (result == CUDA_SUCCESS && on->capture != NULL) {
        result = CUDA_ERROR_NOT_SUPPORTED; /* child graphs */
    }
    for (const struct sim_op *node = result == CUDA_SUCCESS ? found->first : NULL; node != NULL; node = node->next) {
        struct sim_op *op = sim_op_new();
        if (op == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        sim_graph_instance(node, op);
        sim_stream_push(on, op);
    }
    return result;
}
