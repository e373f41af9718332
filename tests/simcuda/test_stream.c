/*
 * test_stream.c - virtual time, streams that run late, events, and the orders that do and do not hold.
 */
#include "sim.h"

#define DELAY_NS 100000u /* SIMCUDA_STREAM_DELAY_US=100 */

static void costs_pass_virtual_time(void)
{
    sim_start();
    check_number(0, sim.now_ns());
    CUmemGenericAllocationHandle small = sim_chunk(PAGE);
    check_number(12000, sim.now_ns());
    CUmemGenericAllocationHandle large = sim_chunk(2048 * MIB);
    check_number(92000, sim.now_ns());
    CUdeviceptr range = sim_reserve(2048 * MIB);
    check_number(102000, sim.now_ns());
    works(sim.cuMemMap(range, 2048 * MIB, 0, large, 0));
    check_number(103400, sim.now_ns());
    works(sim_open(range, 2048 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    check_number(223400, sim.now_ns());
    works(sim.cuMemUnmap(range, 2048 * MIB));
    check_number(268400, sim.now_ns());
    works(sim.cuMemRelease(large));
    check_number(268400 + 830200, sim.now_ns());
    works(sim.cuMemRelease(small));
    works(sim.cuMemAddressFree(range, 2048 * MIB));

    uint64_t before = sim.now_ns();
    CUevent event = sim_event();
    works(sim.cuEventRecord(event, NULL));
    works(sim.cuEventQuery(event));
    check_number(before + 400, sim.now_ns());
    sim.advance_to_ns(before);
    check_number(before + 400, sim.now_ns());
    sim.advance_to_ns(5000000000u);
    check_number(5000000000u, sim.now_ns());
    works(sim.cuEventDestroy_v2(event));
}

/* An access over n chunks costs n times one; the scale halves everything. */
static void access_costs_by_the_chunk(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(8 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    for (size_t i = 0; i < 8; i++) {
        works(sim.cuMemMap(range + i * PAGE, PAGE, 0, chunk, 0));
    }
    uint64_t before = sim.now_ns();
    works(sim_open(range, 8 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    check_number(before + 8 * 15500, sim.now_ns());
    works(sim.cuMemUnmap(range, 8 * PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, 8 * PAGE));
}

static void nothing_costs_when_off(void)
{
    sim_start();
    works(sim.cuMemRelease(sim_chunk(64 * MIB)));
    works(sim.cuMemFree_v2(sim_alloc(64 * MIB)));
    check_number(0, sim.now_ns());
}

static void without_delay_work_is_done_at_once(void)
{
    sim_start();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(100);
    CUevent event = sim_event();
    works(sim.cuEventQuery(event));
    works(sim.cuMemsetD8Async(memory, 3, 100, stream));
    works(sim.cuEventRecord(event, stream));
    works(sim.cuEventQuery(event));
    works(sim.cuStreamQuery(stream));
    check_number(3, *(volatile unsigned char *)(uintptr_t)(memory + 99));
    works(sim.cuMemFree_v2(memory));
}

static void events_complete_when_their_time_comes(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    CUevent start = sim_event();
    CUevent end = sim_event();
    works(sim.cuEventRecord(start, stream));
    gives(CUDA_ERROR_NOT_READY, sim.cuEventQuery(start));
    gives(CUDA_ERROR_NOT_READY, sim.cuStreamQuery(stream));
    sim.advance_to_ns(DELAY_NS - 1);
    gives(CUDA_ERROR_NOT_READY, sim.cuEventQuery(start));
    sim.advance_to_ns(DELAY_NS);
    works(sim.cuEventQuery(start));
    works(sim.cuStreamQuery(stream));

    sim.advance_to_ns(2 * DELAY_NS);
    works(sim.cuEventRecord(end, stream));
    float milliseconds = -1;
    gives(CUDA_ERROR_NOT_READY, sim.cuEventElapsedTime(&milliseconds, start, end));
    works(sim.cuEventSynchronize(end));
    check_number(3 * DELAY_NS, sim.now_ns());
    works(sim.cuEventElapsedTime_v2(&milliseconds, start, end));
    check(milliseconds > 0.1999f && milliseconds < 0.2001f);

    CUevent silent;
    works(sim.cuEventCreate(&silent, CU_EVENT_DISABLE_TIMING));
    works(sim.cuEventRecord(silent, stream));
    works(sim.cuStreamSynchronize(stream));
    gives(CUDA_ERROR_INVALID_HANDLE, sim.cuEventElapsedTime(&milliseconds, start, silent));
}

/* The newest record counts, also while an older one is still on its way. */
static void an_event_can_be_recorded_again(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    CUevent event = sim_event();
    works(sim.cuEventRecord(event, stream));
    sim.advance_to_ns(DELAY_NS / 2);
    works(sim.cuEventRecord(event, stream));
    sim.advance_to_ns(DELAY_NS);
    gives(CUDA_ERROR_NOT_READY, sim.cuEventQuery(event));
    sim.advance_to_ns(DELAY_NS + DELAY_NS / 2);
    works(sim.cuEventQuery(event));
}

static unsigned char read_now(CUdeviceptr address)
{
    return *(volatile unsigned char *)(uintptr_t)address;
}

/* A reader on another stream that waits for nothing reads what was there before. */
static void a_missing_wait_shows(void)
{
    sim_start();
    CUstream writer = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream reader = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr source = sim_alloc(PAGE);
    CUdeviceptr wrong = sim_alloc(PAGE);
    CUdeviceptr right = sim_alloc(PAGE);
    CUevent written = sim_event();

    works(sim.cuMemsetD8Async(source, 5, PAGE, writer));
    works(sim.cuEventRecord(written, writer));
    works(sim.cuMemcpyDtoDAsync_v2(wrong, source, PAGE, reader));
    works(sim.cuStreamSynchronize(reader));
    check_number(0, read_now(wrong));

    works(sim.cuMemsetD8Async(source, 6, PAGE, writer));
    works(sim.cuEventRecord(written, writer));
    works(sim.cuStreamWaitEvent(reader, written, 0));
    works(sim.cuMemcpyDtoDAsync_v2(right, source, PAGE, reader));
    works(sim.cuStreamSynchronize(reader));
    check_number(6, read_now(right));
    check_number(0, sim.violations());
    works(sim.cuMemFree_v2(source));
    works(sim.cuMemFree_v2(wrong));
    works(sim.cuMemFree_v2(right));
}

/* A chain of waits over three streams runs in its order, whoever is waited for. */
static void waits_are_transitive(void)
{
    sim_start();
    CUstream streams[3];
    CUevent events[3];
    CUdeviceptr memory = sim_alloc(3);
    for (int i = 0; i < 3; i++) {
        streams[i] = sim_stream(CU_STREAM_NON_BLOCKING);
        events[i] = sim_event();
    }
    works(sim.cuMemsetD8Async(memory, 1, 1, streams[0]));
    works(sim.cuEventRecord(events[0], streams[0]));
    works(sim.cuStreamWaitEvent(streams[1], events[0], 0));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 1, memory, 1, streams[1]));
    works(sim.cuEventRecord(events[1], streams[1]));
    works(sim.cuStreamWaitEvent(streams[2], events[1], 0));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 2, memory + 1, 1, streams[2]));
    works(sim.cuStreamSynchronize(streams[2]));
    check_number(1, read_now(memory + 2));
    works(sim.cuMemFree_v2(memory));
}

static void the_legacy_stream_waits_and_is_waited_for(void)
{
    sim_start();
    CUstream blocking = sim_stream(CU_STREAM_DEFAULT);
    CUstream free_running = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(4);

    /* before it: the blocking stream's work */
    works(sim.cuMemsetD8Async(memory, 1, 1, blocking));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 1, memory, 1, NULL));
    works(sim.cuStreamSynchronize(CU_STREAM_LEGACY));
    check_number(1, read_now(memory + 1));

    /* after it: the blocking stream's work, not that of the other */
    works(sim.cuMemsetD8Async(memory, 2, 1, NULL));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 2, memory, 1, free_running));
    works(sim.cuStreamSynchronize(free_running));
    check_number(1, read_now(memory + 2));
    works(sim.cuMemcpyDtoDAsync_v2(memory + 3, memory, 1, blocking));
    works(sim.cuStreamSynchronize(blocking));
    check_number(2, read_now(memory + 3));

    /* a wait for it waits for the blocking ones */
    works(sim.cuMemsetD8Async(memory, 9, 1, blocking));
    works(sim.cuStreamSynchronize(NULL));
    check_number(9, read_now(memory));
    works(sim.cuMemFree_v2(memory));
}

static void frees_and_synchronous_calls_wait(void)
{
    sim_start();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = sim_alloc(PAGE);
    CUdeviceptr other = sim_alloc(PAGE);
    works(sim.cuMemsetD8Async(memory, 1, PAGE, stream));
    check_number(0, read_now(memory));
    works(sim.cuMemFree_v2(other));
    check_number(1, read_now(memory));
    check_number(DELAY_NS, sim.now_ns());

    works(sim.cuMemsetD8Async(memory, 2, PAGE, stream));
    works(sim.cuCtxSynchronize());
    check_number(2, read_now(memory));

    /* To pageable memory the call returns with the bytes, from it the bytes are taken at once. */
    unsigned char bytes[4] = {3, 3, 3, 3};
    works(sim.cuMemcpyHtoDAsync_v2(memory, bytes, 4, stream));
    memset(bytes, 0, sizeof bytes);
    works(sim.cuMemcpyDtoHAsync_v2(bytes, memory, 4, stream));
    check_number(3, bytes[2]);
    works(sim.cuMemFree_v2(memory));
}

/* Page-locked memory is read and written when the stream comes to it. */
static void pinned_memory_is_used_late(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    CUdeviceptr memory = sim_alloc(1);
    void *pinned;
    works(sim.cuMemAllocHost_v2(&pinned, 4096));
    *(volatile unsigned char *)pinned = 1;
    works(sim.cuMemcpyHtoDAsync_v2(memory, pinned, 1, stream));
    *(volatile unsigned char *)pinned = 2;
    works(sim.cuMemcpyDtoHAsync_v2((char *)pinned + 1, memory, 1, stream));
    check_number(0, ((volatile unsigned char *)pinned)[1]);
    works(sim.cuStreamSynchronize(stream));
    check_number(2, ((volatile unsigned char *)pinned)[1]);
    works(sim.cuMemFreeHost(pinned));
    works(sim.cuMemFree_v2(memory));
}

static void note(void *data)
{
    CUdevice device;
    gives(CUDA_ERROR_NOT_PERMITTED, sim.cuCtxGetDevice(&device));
    (*(int *)data)++;
}

static void note_status(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    check(status == CUDA_SUCCESS);
    note(data);
}

static void host_functions_run_in_their_turn(void)
{
    sim_start();
    CUstream stream = sim_stream(0);
    int calls = 0;
    works(sim.cuLaunchHostFunc(stream, note, &calls));
    works(sim.cuStreamAddCallback(stream, note_status, &calls, 0));
    check_number(0, calls);
    works(sim.cuStreamSynchronize(stream));
    check_number(2, calls);
    CUdevice device;
    works(sim.cuCtxGetDevice(&device));
}

static void a_destroyed_stream_finishes(void)
{
    sim_start();
    CUdeviceptr memory = sim_alloc(1);
    for (int round = 0; round < 5; round++) {
        CUstream stream = sim_stream(0);
        works(sim.cuMemsetD8Async(memory, (unsigned char)(round + 1), 1, stream));
        works(sim.cuStreamDestroy_v2(stream));
        gives(CUDA_ERROR_INVALID_HANDLE, sim.cuStreamSynchronize(stream));
        check_number(round, read_now(memory));
        works(sim.cuCtxSynchronize());
        check_number(round + 1, read_now(memory));
    }
    works(sim.cuMemFree_v2(memory));
}

static void streams_tell_about_themselves(void)
{
    sim_start();
    CUstream stream;
    works(sim.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -3));
    unsigned flags = 0;
    int priority = 0;
    unsigned long long id = 0;
    unsigned long long legacy = 0;
    unsigned long long own = 0;
    CUcontext context;
    CUcontext current;
    works(sim.cuStreamGetFlags(stream, &flags));
    check_number(CU_STREAM_NON_BLOCKING, flags);
    works(sim.cuStreamGetPriority(stream, &priority));
    check(priority == -3);
    works(sim.cuStreamGetCtx(stream, &context));
    works(sim.cuCtxGetCurrent(&current));
    check(context == current);
    works(sim.cuStreamGetId(stream, &id));
    works(sim.cuStreamGetId(NULL, &legacy));
    works(sim.cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    check(id != legacy && legacy != own && own != id);
    works(sim.cuStreamGetId(CU_STREAM_LEGACY, &id));
    check_number(legacy, id);
    gives(CUDA_ERROR_INVALID_HANDLE, sim.cuStreamGetId((CUstream)(uintptr_t)0x1234, &id));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuStreamCreate(&stream, 64));
}

/* With a span of delays, operations of different streams overtake one another, those of one stream never. */
static void spread_delays_keep_each_stream_in_order(void)
{
    sim_start();
    CUstream streams[4];
    CUdeviceptr memory = sim_alloc(4 * 64);
    int overtaken = 0;
    for (size_t i = 0; i < 4; i++) {
        streams[i] = sim_stream(CU_STREAM_NON_BLOCKING);
    }
    CUevent last = NULL;
    for (int round = 0; round < 50; round++) {
        CUevent events[4];
        for (size_t i = 0; i < 4; i++) {
            events[i] = sim_event();
            works(sim.cuMemsetD8Async(memory + i * 64, (unsigned char)round, 64, streams[i]));
            works(sim.cuEventRecord(events[i], streams[i]));
        }
        for (int step = 0; step < 30; step++) {
            sim.advance_to_ns(sim.now_ns() + 10000);
            overtaken +=
                sim.cuEventQuery(events[3]) == CUDA_SUCCESS && sim.cuEventQuery(events[0]) == CUDA_ERROR_NOT_READY;
        }
        works(sim.cuCtxSynchronize());
        for (size_t i = 0; i < 4; i++) {
            check_number(round, read_now(memory + i * 64));
            works(sim.cuEventDestroy_v2(events[i]));
        }
    }
    check(overtaken > 0);
    (void)last;
    works(sim.cuMemFree_v2(memory));
}

SIM_TEST(costs_pass_virtual_time, NULL)
SIM_TEST(access_costs_by_the_chunk, "SIMCUDA_COST=0.5", NULL)
SIM_TEST(nothing_costs_when_off, "SIMCUDA_COST=0", NULL)
SIM_TEST(without_delay_work_is_done_at_once, NULL)
#define LATE "SIMCUDA_COST=0", "SIMCUDA_STREAM_DELAY_US=100", NULL
SIM_TEST(events_complete_when_their_time_comes, LATE)
SIM_TEST(an_event_can_be_recorded_again, LATE)
SIM_TEST(a_missing_wait_shows, LATE)
SIM_TEST(waits_are_transitive, LATE)
SIM_TEST(the_legacy_stream_waits_and_is_waited_for, LATE)
SIM_TEST(frees_and_synchronous_calls_wait, LATE)
SIM_TEST(pinned_memory_is_used_late, LATE)
SIM_TEST(host_functions_run_in_their_turn, LATE)
SIM_TEST(a_destroyed_stream_finishes, LATE)
SIM_TEST(streams_tell_about_themselves, LATE)
SIM_TEST(spread_delays_keep_each_stream_in_order, "SIMCUDA_COST=0", "SIMCUDA_STREAM_DELAY_US=20-300", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_pass_virtual_time),
        cmocka_unit_test(test_access_costs_by_the_chunk),
        cmocka_unit_test(test_nothing_costs_when_off),
        cmocka_unit_test(test_without_delay_work_is_done_at_once),
        cmocka_unit_test(test_events_complete_when_their_time_comes),
        cmocka_unit_test(test_an_event_can_be_recorded_again),
        cmocka_unit_test(test_a_missing_wait_shows),
        cmocka_unit_test(test_waits_are_transitive),
        cmocka_unit_test(test_the_legacy_stream_waits_and_is_waited_for),
        cmocka_unit_test(test_frees_and_synchronous_calls_wait),
        cmocka_unit_test(test_pinned_memory_is_used_late),
        cmocka_unit_test(test_host_functions_run_in_their_turn),
        cmocka_unit_test(test_a_destroyed_stream_finishes),
        cmocka_unit_test(test_streams_tell_about_themselves),
        cmocka_unit_test(test_spread_delays_keep_each_stream_in_order),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
