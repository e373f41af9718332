/*
 * test_threads.c - many threads in the driver at once, and random operations against a model of the bytes.
 */
#include "sim.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS  (GM_TEST_SANITIZED ? 60 : 300)

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Each thread maps, writes, reads back and unmaps memory of its own, plain, pooled and mapped in turn. */
static void *work(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument;
    unsigned char mark = (unsigned char)state;
    sim_use(0);
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = sim_event();
    for (int round = 0; round < ROUNDS; round++) {
        unsigned kind = next_random(&state) % 3;
        size_t size = kind == 2 ? PAGE : next_random(&state) % (MIB / 4) + 1;
        CUdeviceptr address = 0;
        CUmemGenericAllocationHandle chunk = 0;
        if (kind == 0) {
            address = sim_alloc(size);
        } else if (kind == 1) {
            works(sim.cuMemAllocAsync(&address, size, CU_STREAM_PER_THREAD));
        } else {
            address = sim_reserve(PAGE);
            chunk = sim_chunk(PAGE);
            sim_map(address, PAGE, chunk);
        }
        works(sim.cuMemsetD8Async(address, mark, size, kind == 1 ? CU_STREAM_PER_THREAD : stream));
        works(sim.cuEventRecord(event, kind == 1 ? CU_STREAM_PER_THREAD : stream));
        works(sim.cuEventSynchronize(event));
        check_number(mark, *(volatile unsigned char *)(uintptr_t)(address + size - 1));
        if (kind == 0) {
            works(sim.cuMemFree_v2(address));
        } else if (kind == 1) {
            works(sim.cuMemFreeAsync(address, CU_STREAM_PER_THREAD));
        } else {
            works(sim.cuMemUnmap(address, PAGE));
            works(sim.cuMemRelease(chunk));
            works(sim.cuMemAddressFree(address, PAGE));
        }
    }
    works(sim.cuEventDestroy_v2(event));
    works(sim.cuStreamDestroy_v2(stream));
    return NULL;
}

static void threads_do_not_disturb_one_another(void)
{
    sim_start();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    works(sim.cuCtxSynchronize());
    check_number(0, sim_device(0).in_use);
    check_number(0, sim_device(0).mappings);
    check_number(0, sim_device(0).va_bytes);
    check_number(0, sim.violations());
}

static void *identify(void *argument)
{
    unsigned long long *id = argument;
    CUcontext context;
    works(sim.cuCtxGetCurrent(&context));
    check(context == NULL);
    sim_use(0);
    works(sim.cuStreamGetId(CU_STREAM_PER_THREAD, id));
    CUstream stream = NULL;
    unsigned long long legacy = 0;
    works(sim.cuStreamGetId(stream, &legacy));
    check(legacy != *id);
    return NULL;
}

static void each_thread_has_its_own_stream(void)
{
    sim_start();
    unsigned long long mine = 0;
    unsigned long long other = 0;
    works(sim.cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    pthread_t thread;
    check(pthread_create(&thread, NULL, identify, &other) == 0);
    pthread_join(thread, NULL);
    check(mine != other);
    /* The per-thread door means it by stream 0. */
    CUresult(CUDAAPI * per_thread)(CUstream, unsigned long long *);
    void *address;
    works(
        sim.cuGetProcAddress_v2("cuStreamGetId", &address, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    memcpy(&per_thread, &address, sizeof address);
    works(per_thread(NULL, &other));
    check_number(mine, other);
}

/* Random remapping of a few chunks into a few slots; a model says which byte each slot must read. */
static void random_remaps_keep_their_bytes(void)
{
    enum { CHUNKS = 12, SLOTS = 24 };
    CUmemGenericAllocationHandle chunks[CHUNKS];
    int mapped[SLOTS];
    unsigned char holds[CHUNKS] = {0};
    unsigned state = 7;
    sim_start();
    CUdeviceptr range = sim_reserve(SLOTS * PAGE);
    for (int i = 0; i < CHUNKS; i++) {
        chunks[i] = sim_chunk(PAGE);
    }
    for (int i = 0; i < SLOTS; i++) {
        mapped[i] = -1;
    }
    for (int step = 0; step < 4000; step++) {
        size_t slot = next_random(&state) % SLOTS;
        CUdeviceptr address = range + slot * PAGE;
        if (mapped[slot] < 0) {
            mapped[slot] = (int)(next_random(&state) % CHUNKS);
            sim_map(address, PAGE, chunks[mapped[slot]]);
        } else if (next_random(&state) % 3 == 0) {
            works(sim.cuMemUnmap(address, PAGE));
            mapped[slot] = -1;
            continue;
        } else {
            holds[mapped[slot]] = (unsigned char)step;
            works(sim.cuMemsetD8_v2(address, (unsigned char)step, PAGE / 64));
        }
        check_number(holds[mapped[slot]], *(volatile unsigned char *)(uintptr_t)(address + PAGE / 64 - 1));
    }
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (mapped[slot] >= 0) {
            works(sim.cuMemUnmap(range + slot * PAGE, PAGE));
        }
    }
    for (int i = 0; i < CHUNKS; i++) {
        works(sim.cuMemRelease(chunks[i]));
    }
    works(sim.cuMemAddressFree(range, SLOTS * PAGE));
    check_number(0, sim.violations());
}

SIM_TEST(threads_do_not_disturb_one_another, NULL)
static void test_threads_late(void **state)
{
    (void)state;
    sim_run(threads_do_not_disturb_one_another, NULL, "SIMCUDA_STREAM_DELAY_US=5-50", NULL);
}
SIM_TEST(each_thread_has_its_own_stream, NULL)
SIM_TEST(random_remaps_keep_their_bytes, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_do_not_disturb_one_another),
        cmocka_unit_test(test_threads_late),
        cmocka_unit_test(test_each_thread_has_its_own_stream),
        cmocka_unit_test(test_random_remaps_keep_their_bytes),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
