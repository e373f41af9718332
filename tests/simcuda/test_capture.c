/*
 * test_capture.c - stream capture: the table of what is forbidden, what breaks, and graphs that run.
 */
#include "sim.h"

#include <pthread.h>

static CUstream capturing(CUstreamCaptureMode mode)
{
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    works(sim.cuStreamBeginCapture_v2(stream, mode));
    return stream;
}

/* Ends the capture with the expected result and drops the graph. */
static void end(CUstream stream, CUresult expected)
{
    CUgraph graph = NULL;
    gives(expected, sim.cuStreamEndCapture(stream, &graph));
    check((graph != NULL) == (expected == CUDA_SUCCESS));
    if (graph != NULL) {
        works(sim.cuGraphDestroy(graph));
    }
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status;
    works(sim.cuStreamIsCapturing(stream, &status));
    return status;
}

static void allowed_calls(CUstream stream)
{
    size_t free_bytes;
    works(sim.cuMemGetInfo_v2(&free_bytes, NULL));
    CUdeviceptr range = sim_reserve(PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    sim_map(range, PAGE, chunk);
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, PAGE));
    check_number(CU_STREAM_CAPTURE_STATUS_ACTIVE, status_of(stream));
}

static void the_table(void)
{
    sim_start();
    CUevent event = sim_event();
    const CUstreamCaptureMode strict[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL};
    for (int i = 0; i < 2; i++) {
        CUdeviceptr address = 0;
        CUstream stream = capturing(strict[i]);
        allowed_calls(stream);
        gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuMemAlloc_v2(&address, PAGE));
        check_number(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status_of(stream));
        gives(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, sim.cuMemAllocAsync(&address, 1, stream));
        end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        check_number(CU_STREAM_CAPTURE_STATUS_NONE, status_of(stream));

        stream = capturing(strict[i]);
        gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuEventQuery(event));
        end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        stream = capturing(strict[i]);
        gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuCtxSynchronize());
        end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }

    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    allowed_calls(stream);
    CUdeviceptr address = sim_alloc(PAGE);
    works(sim.cuEventQuery(event));
    works(sim.cuMemFree_v2(address));
    end(stream, CUDA_SUCCESS);
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuCtxSynchronize());
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void an_exchanged_mode_is_respected(void)
{
    sim_start();
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    works(sim.cuThreadExchangeStreamCaptureMode(&mode));
    check_number(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));
    works(sim.cuThreadExchangeStreamCaptureMode(&mode));
    check_number(CU_STREAM_CAPTURE_MODE_RELAXED, mode);
    end(stream, CUDA_SUCCESS);
    mode = (CUstreamCaptureMode)7;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuThreadExchangeStreamCaptureMode(&mode));
}

struct attempt {
    CUstreamCaptureMode mode; /* of the thread */
    CUresult result;
};

static void *allocate_elsewhere(void *argument)
{
    struct attempt *attempt = argument;
    CUdeviceptr address = 0;
    sim_use(0);
    works(sim.cuThreadExchangeStreamCaptureMode(&attempt->mode));
    attempt->result = sim.cuMemAlloc_v2(&address, PAGE);
    if (attempt->result == CUDA_SUCCESS) {
        works(sim.cuMemFree_v2(address));
    }
    return NULL;
}

static CUresult in_another_thread(CUstreamCaptureMode mode)
{
    struct attempt attempt = {.mode = mode};
    pthread_t thread;
    check(pthread_create(&thread, NULL, allocate_elsewhere, &attempt) == 0);
    pthread_join(thread, NULL);
    return attempt.result;
}

static void other_threads_are_bound_by_global_captures_only(void)
{
    sim_start();
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    works(in_another_thread(CU_STREAM_CAPTURE_MODE_GLOBAL));
    end(stream, CUDA_SUCCESS);
    stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    works(in_another_thread(CU_STREAM_CAPTURE_MODE_RELAXED));
    works(in_another_thread(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, in_another_thread(CU_STREAM_CAPTURE_MODE_GLOBAL));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void captured_work_runs_when_launched(void)
{
    sim_start();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(16);
    works(sim.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    works(sim.cuMemsetD8Async(memory, 5, 8, stream));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 8, memory, 8, stream));
    CUgraph graph;
    works(sim.cuStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    works(sim.cuGraphGetNodes(graph, NULL, &nodes));
    check_number(2, nodes);
    check_number(0, sim_byte(memory + 8));

    CUgraphExec executable;
    works(sim.cuGraphInstantiateWithFlags(&executable, graph, 0));
    works(sim.cuGraphDestroy(graph));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        works(sim.cuMemsetD8_v2(memory, 0, 16));
        works(sim.cuGraphLaunch(executable, stream));
        works(sim.cuStreamSynchronize(stream));
        check_number(5, sim_byte(memory + 15));
    }
    works(sim.cuGraphExecDestroy(executable));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGraphLaunch(executable, stream));
    works(sim.cuMemFree_v2(memory));
}

static void captured_memory_belongs_to_the_graph(void)
{
    sim_start();
    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr kept;
    CUdeviceptr freed;
    works(sim.cuMemAllocAsync(&kept, MIB, stream));
    works(sim.cuMemAllocAsync(&freed, MIB, stream));
    check(kept != freed);
    works(sim.cuMemsetD8Async(kept, 1, MIB, stream));
    works(sim.cuMemFreeAsync(freed, stream));
    CUgraph graph;
    works(sim.cuStreamEndCapture(stream, &graph));
    CUgraphExec executable;
    works(sim.cuGraphInstantiateWithFlags(&executable, graph, 0));
    works(sim.cuGraphLaunch(executable, stream));
    check_number(1, sim_byte(kept));
    check_number(32 * MIB, sim_device(0).in_use);
    works(sim.cuGraphExecDestroy(executable));
    check_number(1, sim_byte(kept));
    works(sim.cuGraphDestroy(graph));
    works(sim.cuStreamSynchronize(stream));
    check_number(0, sim_device(0).in_use);

    /* A graph may not free what it did not allocate. */
    CUdeviceptr outside;
    works(sim.cuMemAllocAsync(&outside, MIB, stream));
    works(sim.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFreeAsync(outside, stream));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    works(sim.cuMemFreeAsync(outside, stream));
}

static void forks_must_be_joined(void)
{
    sim_start();
    CUstream origin = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream fork = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(2);
    CUevent event = sim_event();
    for (int join = 0; join < 2; join++) {
        works(sim.cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
        works(sim.cuMemsetD8Async(memory, 1, 1, origin));
        works(sim.cuEventRecord(event, origin));
        works(sim.cuStreamWaitEvent(fork, event, 0));
        check_number(CU_STREAM_CAPTURE_STATUS_ACTIVE, status_of(fork));
        works(sim.cuMemsetD8Async(memory + 1, 1, 1, fork));
        if (join) {
            works(sim.cuEventRecord(event, fork));
            works(sim.cuStreamWaitEvent(origin, event, 0));
        }
        CUgraph graph;
        gives(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, sim.cuStreamEndCapture(fork, &graph));
        /* ending it on the wrong stream broke it */
        end(origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        check_number(CU_STREAM_CAPTURE_STATUS_NONE, status_of(fork));

        works(sim.cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
        works(sim.cuEventRecord(event, origin));
        works(sim.cuStreamWaitEvent(fork, event, 0));
        works(sim.cuMemsetD8Async(memory + 1, 1, 1, fork));
        if (join) {
            works(sim.cuEventRecord(event, fork));
            works(sim.cuStreamWaitEvent(origin, event, 0));
        }
        end(origin, join ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuEventSynchronize(event)); /* its capture has ended */
    works(sim.cuMemFree_v2(memory));
}

/* A fork counts as joined up to where the event was recorded that is waited for. */
static void forks_are_joined_up_to_the_event(void)
{
    sim_start();
    CUstream origin = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream fork = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(1);
    CUevent event = sim_event();
    for (int more = 0; more < 2; more++) {
        works(sim.cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
        works(sim.cuEventRecord(event, origin));
        works(sim.cuStreamWaitEvent(fork, event, 0));
        works(sim.cuMemsetD8Async(memory, 1, 1, fork));
        works(sim.cuEventRecord(event, fork));
        if (more) {
            works(sim.cuMemsetD8Async(memory, 1, 1, fork));
        }
        works(sim.cuStreamWaitEvent(origin, event, 0));
        end(origin, more ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED : CUDA_SUCCESS);
    }
    works(sim.cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    works(sim.cuEventRecord(event, origin));
    gives(CUDA_ERROR_CAPTURED_EVENT, sim.cuEventQuery(event));
    end(origin, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    works(sim.cuMemFree_v2(memory));
}

static void borders_are_kept(void)
{
    sim_start();
    CUstream outside = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream blocking = sim_stream(CU_STREAM_DEFAULT);
    CUdeviceptr memory = sim_alloc(1);
    CUevent event = sim_event();
    gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(CUDA_ERROR_ILLEGAL_STATE, sim.cuStreamEndCapture(outside, &(CUgraph){NULL}));

    CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    gives(CUDA_ERROR_ILLEGAL_STATE, sim.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, sim.cuStreamSynchronize(stream));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    /* an event from outside */
    works(sim.cuEventRecord(event, outside));
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    gives(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, sim.cuStreamWaitEvent(stream, event, 0));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    /* two captures */
    stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream second = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    works(sim.cuEventRecord(event, second));
    gives(CUDA_ERROR_STREAM_CAPTURE_MERGE, sim.cuStreamWaitEvent(stream, event, 0));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end(second, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    /* the legacy stream would wait for a blocking one that captures */
    works(sim.cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, sim.cuMemsetD8Async(memory, 1, 1, NULL));
    end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    /* a stream that goes takes its capture along */
    stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    works(sim.cuStreamDestroy_v2(stream));
    works(sim.cuMemFree_v2(memory));

    cuuint64_t id = 0;
    CUstreamCaptureStatus status;
    CUgraph graph = NULL;
    stream = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    works(sim.cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, NULL, NULL, NULL));
    check(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && graph != NULL);
    end(stream, CUDA_SUCCESS);
    works(sim.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, NULL));
    check_number(CU_STREAM_CAPTURE_STATUS_NONE, status);
}

SIM_TEST(the_table, NULL)
SIM_TEST(an_exchanged_mode_is_respected, NULL)
SIM_TEST(other_threads_are_bound_by_global_captures_only, NULL)
SIM_TEST(captured_work_runs_when_launched, NULL)
SIM_TEST(captured_memory_belongs_to_the_graph, NULL)
SIM_TEST(forks_must_be_joined, NULL)
SIM_TEST(forks_are_joined_up_to_the_event, NULL)
SIM_TEST(borders_are_kept, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table),
        cmocka_unit_test(test_an_exchanged_mode_is_respected),
        cmocka_unit_test(test_other_threads_are_bound_by_global_captures_only),
        cmocka_unit_test(test_captured_work_runs_when_launched),
        cmocka_unit_test(test_captured_memory_belongs_to_the_graph),
        cmocka_unit_test(test_forks_must_be_joined),
        cmocka_unit_test(test_forks_are_joined_up_to_the_event),
        cmocka_unit_test(test_borders_are_kept),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
