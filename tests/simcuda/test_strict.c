/*
 * test_strict.c - misuse is reported: each kind once, by name, and counted; leaks are told at exit.
 */
#include "sim.h"

/* One more violation than before. */
#define violates(call)                                                                                                 \
    do {                                                                                                               \
        unsigned before_ = sim.violations();                                                                           \
        (void)(call);                                                                                                  \
        if (sim.violations() != before_ + 1) {                                                                         \
            sim_fail_at(__FILE__, __LINE__, "%s: %u violations, not 1", #call, sim.violations() - before_);            \
        }                                                                                                              \
    } while (0)

static void misuse(void)
{
    sim_start();
    unsigned char byte = 0;
    CUdeviceptr range = sim_reserve(4 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(2 * PAGE);

    violates(sim.cuMemcpyDtoH_v2(&byte, range, 1)); /* reserved only */
    works(sim.cuMemMap(range, 2 * PAGE, 0, chunk, 0));
    violates(sim.cuMemsetD8_v2(range, 0, 1)); /* no access */
    works(sim_open(range, 2 * PAGE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    violates(sim.cuMemsetD8_v2(range, 0, 3 * PAGE));      /* runs out of the mapping */
    violates(sim.cuMemUnmap(range, PAGE));                /* part of a mapping */
    violates(sim.cuMemUnmap(range + 4096, PAGE));         /* misaligned */
    violates(sim.cuMemMap(range, 2 * PAGE, 0, chunk, 0)); /* on top of another */
    violates(sim.cuMemAddressFree(range, 4 * PAGE));      /* still mapped */
    violates(sim.cuMemAddressFree(range, 2 * PAGE));      /* not as it was made */
    works(sim.cuMemRelease(chunk));
    violates(sim.cuMemRelease(chunk));                               /* twice */
    violates(sim.cuMemMap(range + 2 * PAGE, 2 * PAGE, 0, chunk, 0)); /* after release */
    works(sim.cuMemUnmap(range, 2 * PAGE));
    violates(sim.cuMemcpyDtoH_v2(&byte, range, 1)); /* after unmap */
    violates(sim.cuMemUnmap(range, 2 * PAGE));      /* twice */
    works(sim.cuMemAddressFree(range, 4 * PAGE));
    violates(sim.cuMemcpyDtoH_v2(&byte, range, 1)); /* after all of it */

    CUdeviceptr plain = sim_alloc(100);
    violates(sim.cuMemsetD8_v2(plain, 0, 101)); /* past the end */
    works(sim.cuMemFree_v2(plain));
    violates(sim.cuMemFree_v2(plain));        /* twice */
    violates(sim.cuMemsetD8_v2(plain, 0, 1)); /* after free */

    CUevent event = sim_event();
    CUstream stream = sim_stream(0);
    works(sim.cuEventDestroy_v2(event));
    violates(sim.cuEventDestroy_v2(event));
    works(sim.cuStreamDestroy_v2(stream));
    violates(sim.cuStreamDestroy_v2(stream));
}

static void test_misuse(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(misuse, &outcome, NULL);
    const char *const said[] = {
        "cuMemcpyDtoH_v2: read of",
        "reserved, but nothing is mapped there",
        "without the access",
        "cuMemUnmap:",
        "cuts the mapping",
        "something is mapped there already",
        "1 mappings are still in the reservation",
        "not a reservation as it was made",
        "is not a handle, or was released",
        "no device memory there",
        "past the end",
        "freed twice?",
        "cuEventDestroy_v2:",
        "is not a stream that can be destroyed",
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(said); i++) {
        if (strstr(outcome.errors, said[i]) == NULL) {
            fail_msg("\"%s\" is not in:\n%s", said[i], outcome.errors);
        }
    }
    if (strstr(outcome.errors, "held at exit") != NULL) {
        fail_msg("nothing is held:\n%s", outcome.errors);
    }
}

/* Unmapping under queued work is told at once, and the work then hits nothing: the context has an error. */
static void unmapped_under_pending_work(void)
{
    sim_start();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr range = sim_reserve(2 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    sim_map(range, PAGE, chunk);
    sim_map(range + PAGE, PAGE, chunk);
    works(sim.cuMemsetD8Async(range, 1, 100, stream));
    works(sim.cuMemUnmap(range + PAGE, PAGE));
    check_number(0, sim.violations());
    violates(sim.cuMemUnmap(range, PAGE));
    violates(sim.cuStreamSynchronize(stream));
    gives(CUDA_ERROR_ILLEGAL_ADDRESS, sim.cuStreamSynchronize(stream));
    gives(CUDA_ERROR_ILLEGAL_ADDRESS, sim.cuCtxSynchronize());
    CUdeviceptr address;
    gives(CUDA_ERROR_ILLEGAL_ADDRESS, sim.cuMemAlloc_v2(&address, 1));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, 2 * PAGE));
}

/* What the stream has come past may be unmapped. */
static void unmapped_after_the_work(void)
{
    sim_start();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr range = sim_reserve(PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    CUevent event = sim_event();
    sim_map(range, PAGE, chunk);
    works(sim.cuMemsetD8Async(range, 1, PAGE, stream));
    works(sim.cuEventRecord(event, stream));
    works(sim.cuEventSynchronize(event));
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, PAGE));
    check_number(0, sim.violations());
}

/* Freed by stream order: later work may not use it, earlier work may. */
static void used_after_a_queued_free(void)
{
    sim_start();
    CUdeviceptr pooled;
    works(sim.cuMemAllocAsync(&pooled, PAGE, NULL));
    CUdeviceptr plain = sim_alloc(PAGE);
    works(sim.cuMemsetD8Async(pooled, 1, PAGE, NULL));
    works(sim.cuMemsetD8Async(plain, 1, PAGE, NULL));
    works(sim.cuMemFreeAsync(pooled, NULL));
    works(sim.cuMemFreeAsync(plain, NULL));
    violates(sim.cuMemsetD8Async(pooled, 2, 1, NULL));
    violates(sim.cuMemsetD8Async(plain, 2, 1, NULL));
    violates(sim.cuMemFreeAsync(plain, NULL));
    works(sim.cuCtxSynchronize());
    check_number(3, sim.violations());
}

static void leak_one_of_each(void)
{
    sim_start();
    CUdeviceptr range = sim_reserve(4 * PAGE);
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    sim_map(range, PAGE, chunk);
    sim_map(range + PAGE, PAGE, chunk);
    sim_alloc(1000);
    CUdeviceptr pooled;
    works(sim.cuMemAllocAsync(&pooled, 3000, NULL));
}

static void test_leaks(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(leak_one_of_each, &outcome, NULL);
    const char *wanted = "held at exit: 1 handles (2097152 bytes), 2 mappings, 1 reservations (8388608 bytes), "
                         "1 allocations (1000 bytes), 1 stream-ordered ones (3000 bytes)";
    if (strstr(outcome.errors, wanted) == NULL) {
        fail_msg("the summary is not \"%s\" but:\n%s", wanted, outcome.errors);
    }
    sim_run(leak_one_of_each, &outcome, "SIMCUDA_LEAKS=0", NULL);
    if (strstr(outcome.errors, "held at exit") != NULL) {
        fail_msg("SIMCUDA_LEAKS=0, yet:\n%s", outcome.errors);
    }
}

static void many_violations(void)
{
    sim_start();
    for (int i = 0; i < 500; i++) {
        gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(512));
    }
    check_number(500, sim.violations());
}

/* A loop of misuse does not flood the terminal. */
static void test_many(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(many_violations, &outcome, NULL);
    int lines = 0;
    for (const char *at = outcome.errors; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    if (lines < 100 || lines > 110) {
        fail_msg("%d lines for 500 violations", lines);
    }
}

#define LATE "SIMCUDA_COST=0", "SIMCUDA_STREAM_DELAY_US=100", NULL
SIM_TEST(unmapped_under_pending_work, LATE)
SIM_TEST(unmapped_after_the_work, LATE)
SIM_TEST(used_after_a_queued_free, LATE)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_unmapped_under_pending_work),
        cmocka_unit_test(test_unmapped_after_the_work),
        cmocka_unit_test(test_used_after_a_queued_free),
        cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_many),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
