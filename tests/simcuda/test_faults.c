/*
 * test_faults.c - calls that fail on demand, call counts and the log.
 */
#include "sim.h"

static void faults_from_the_environment(void)
{
    sim_start();
    CUdeviceptr address;
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&address, PAGE));
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuMemAddressReserve(&address, PAGE, 0, 0, 0));
    works(sim.cuMemAddressFree(sim_reserve(PAGE), PAGE));
}

static void faults_by_call(void)
{
    sim_start();
    CUdeviceptr address;
    sim.fail_call("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY);
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));
    gives(CUDA_ERROR_OUT_OF_MEMORY, sim.cuMemAlloc_v2(&address, PAGE));
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));

    sim.fail_call("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    sim.fail_call("cuMemAlloc", 0, 0);
    works(sim.cuMemFree_v2(sim_alloc(PAGE)));

    /* A call that is failed has no effect. */
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    CUdeviceptr range = sim_reserve(PAGE);
    sim.fail_call("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
    gives(CUDA_ERROR_UNKNOWN, sim.cuMemMap(range, PAGE, 0, chunk, 0));
    check_number(0, sim_device(0).mappings);
    sim_map(range, PAGE, chunk);
    sim.fail_call("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
    gives(CUDA_ERROR_UNKNOWN, sim.cuMemUnmap(range, PAGE));
    check_number(1, sim_device(0).mappings);
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    works(sim.cuMemAddressFree(range, PAGE));
}

/* Of any function that can fail: what gives back is passed by, and look-ups are. */
static void faults_of_any(void)
{
    sim_start();
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    CUdeviceptr range = sim_reserve(PAGE);
    int version;
    sim.fail_call(NULL, 2, CUDA_ERROR_UNKNOWN);
    works(sim.cuDriverGetVersion(&version));
    works(sim.cuMemMap(range, PAGE, 0, chunk, 0));
    works(sim.cuMemUnmap(range, PAGE));
    works(sim.cuMemRelease(chunk));
    CUmemGenericAllocationHandle never = 0;
    CUmemAllocationProp properties = sim_properties(0);
    gives(CUDA_ERROR_UNKNOWN, sim.cuMemCreate(&never, PAGE, &properties, 0));
    check_number(0, never);
    works(sim.cuMemAddressFree(range, PAGE));
}

static const struct simcuda_call *find_call(const struct simcuda_call *calls, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(calls[i].name, name) == 0) {
            return &calls[i];
        }
    }
    return NULL;
}

static void calls_are_counted(void)
{
    sim_start();
    sim.reset_counts();
    check_number(0, sim.query_calls(NULL, 0));
    CUmemGenericAllocationHandle chunks[3];
    for (int i = 0; i < 3; i++) {
        chunks[i] = sim_chunk(PAGE);
    }
    CUdeviceptr address;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAlloc_v2(&address, 0));
    struct simcuda_call calls[8];
    check_number(2, sim.query_calls(calls, 8));
    check_number(3, find_call(calls, 2, "cuMemCreate")->calls);
    check_number(36000, find_call(calls, 2, "cuMemCreate")->ns);
    check_number(1, find_call(calls, 2, "cuMemAlloc_v2")->calls);
    check_number(2, sim.query_calls(calls, 1));

    check_number(3 * PAGE, sim_device(0).in_use_peak);
    check_number(3, sim_device(0).handles);
    for (int i = 0; i < 3; i++) {
        works(sim.cuMemRelease(chunks[i]));
    }
    check_number(3 * PAGE, sim_device(0).in_use_peak);
    sim.reset_counts();
    check_number(0, sim_device(0).in_use_peak);
    CUdeviceptr range = sim_reserve(64 * PAGE);
    works(sim.cuMemAddressFree(range, 64 * PAGE));
    check_number(64 * PAGE, sim_device(0).va_peak);
    check_number(0, sim_device(0).va_bytes);
}

static void log_some(void)
{
    sim_start();
    CUdeviceptr address = 0;
    works(sim.cuMemAlloc_v2(&address, 4096));
    works(sim.cuMemFree_v2(address));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemAlloc_v2(&address, 0));
    works(sim.cuCtxSynchronize());
}

static void test_log(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(log_some, &outcome, "SIMCUDA_LOG=-", NULL);
    const char *const lines[] = {" cuInit(0) = 0\n", ", 0x1000) = 0 -> 0x", " cuMemAlloc_v2(", ", 0) = 1\n",
                                 " cuCtxSynchronize() = 0\n"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(lines); i++) {
        if (strstr(outcome.errors, lines[i]) == NULL) {
            fail_msg("\"%s\" is not in the log:\n%s", lines[i], outcome.errors);
        }
    }
}

SIM_TEST(faults_from_the_environment, "SIMCUDA_FAIL=cuMemAlloc:2:2,cuMemAddressReserve:1:801", NULL)
SIM_TEST(faults_by_call, NULL)
SIM_TEST(faults_of_any, NULL)
SIM_TEST(calls_are_counted, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_from_the_environment),
        cmocka_unit_test(test_faults_by_call),
        cmocka_unit_test(test_faults_of_any),
        cmocka_unit_test(test_calls_are_counted),
        cmocka_unit_test(test_log),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
