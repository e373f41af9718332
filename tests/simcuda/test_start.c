/*
 * test_start.c - before and after cuInit, the look-up of functions, devices and contexts.
 */
#include "sim.h"

#include <dlfcn.h>

static void nothing_works_before_init(void)
{
    CUdeviceptr address;
    CUcontext context;
    int count;
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuMemAlloc_v2(&address, 1));
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuCtxGetCurrent(&context));
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuDeviceGetCount(&count));
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuMemFree_v2(0));
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuMemRelease(1));
    int version = 0;
    works(sim.cuDriverGetVersion(&version));
    check_number(13000, version);
    struct simcuda_device device;
    check(sim.query_device(0, &device) == -1);

    gives(CUDA_ERROR_INVALID_VALUE, sim.cuInit(1));
    works(sim.cuInit(0));
    works(sim.cuInit(0));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuMemAlloc_v2(&address, 1));
    works(sim.cuCtxGetCurrent(&context));
    check(context == NULL);
    check(sim.query_device(0, &device) == 0 && sim.query_device(1, &device) == -1);
}

static void *look_up(const char *name, int version, cuuint64_t flags, int expected)
{
    void *address = &address;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
    works(sim.cuGetProcAddress_v2(name, &address, version, flags, &status));
    check_number(expected, status);
    void *same = &same;
    works(sim.cuGetProcAddress_v2(name, &same, version, flags, NULL));
    check(same == address);
    check((address != NULL) == (expected == CU_GET_PROC_ADDRESS_SUCCESS));
    CUresult old = sim.cuGetProcAddress(name, &same, version, flags);
    gives(address != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, old);
    check(same == address);
    return address;
}

#define FOUND      CU_GET_PROC_ADDRESS_SUCCESS
#define TOO_OLD    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
#define UNKNOWN    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
#define LEGACY     CU_GET_PROC_ADDRESS_LEGACY_STREAM

static void *export(const char *name)
{
    return dlsym(sim.library, name);
}

static void look_ups_follow_version_and_stream(void)
{
    check(look_up("cuMemAlloc", 3020, 0, FOUND) == export("cuMemAlloc_v2"));
    check(look_up("cuMemAlloc", 13000, PER_THREAD, FOUND) == export("cuMemAlloc_v2"));
    look_up("cuMemAlloc", 2000, 0, TOO_OLD);
    look_up("cuMemAlloc_v2", 13000, 0, UNKNOWN);
    look_up("cuFrobnicate", 13000, 0, UNKNOWN);
    look_up("", 0, 0, UNKNOWN);

    check(look_up("cuMemAllocAsync", 11020, 0, FOUND) == export("cuMemAllocAsync"));
    check(look_up("cuMemAllocAsync", 11020, LEGACY, FOUND) == export("cuMemAllocAsync"));
    check(look_up("cuMemAllocAsync", 11020, PER_THREAD, FOUND) == export("cuMemAllocAsync_ptsz"));
    check(look_up("cuMemcpyHtoD", 7000, PER_THREAD, FOUND) == export("cuMemcpyHtoD_v2_ptds"));
    look_up("cuMemAllocAsync", 11010, 0, TOO_OLD);

    check(look_up("cuDevicePrimaryCtxRelease", 7000, 0, FOUND) == export("cuDevicePrimaryCtxRelease"));
    check(look_up("cuDevicePrimaryCtxRelease", 11000, 0, FOUND) == export("cuDevicePrimaryCtxRelease_v2"));
    check(look_up("cuStreamBeginCapture", 10000, 0, FOUND) == export("cuStreamBeginCapture"));
    check(look_up("cuStreamBeginCapture", 10010, 0, FOUND) == export("cuStreamBeginCapture_v2"));
    check(look_up("cuGetProcAddress", 11030, 0, FOUND) == export("cuGetProcAddress"));
    check(look_up("cuGetProcAddress", 12000, 0, FOUND) == export("cuGetProcAddress_v2"));
    check(look_up("cuCtxCreate", 11040, 0, FOUND) == export("cuCtxCreate_v3"));

    void *address;
    CUdriverProcAddressQueryResult status;
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetProcAddress_v2(NULL, &address, 13000, 0, &status));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &status));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetProcAddress_v2("cuInit", &address, 13010, 0, &status));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetProcAddress_v2("cuInit", &address, 13000, 8, &status));

    /* Looking up started nothing. */
    int count;
    gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuDeviceGetCount(&count));
}

/* Each exported form can be found by its base name at the version that brought it. */
static void every_function_can_be_looked_up(void)
{
    void *found;
#define SIM_FUNCTION(base, symbol, since, ...)                                                                         \
    found = look_up(#base, since, 0, FOUND);                                                                           \
    check(memcmp(&found, &sim.symbol, sizeof found) == 0);
#include "exports.def"
#undef SIM_FUNCTION
}

static void private_tables_are_refused(void)
{
    const void *table = &table;
    CUuuid id = {{0}};
    gives(CUDA_ERROR_NOT_FOUND, sim.cuGetExportTable(&table, &id));
    check(table == NULL);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetExportTable(NULL, NULL));
}

static void errors_have_names(void)
{
    const char *text = NULL;
    works(sim.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    check(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    works(sim.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    check(strcmp(text, "out of memory") == 0);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuGetErrorName((CUresult)12345, &text));
    check(text == NULL);
}

static void devices_are_told_apart(void)
{
    works(sim.cuInit(0));
    int count = 0;
    works(sim.cuDeviceGetCount(&count));
    check_number(3, count);
    CUdevice device;
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuDeviceGet(&device, 3));
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuDeviceGet(&device, -1));
    CUuuid first;
    CUuuid second;
    works(sim.cuDeviceGetUuid_v2(&first, 0));
    works(sim.cuDeviceGetUuid_v2(&second, 1));
    check(memcmp(&first, &second, sizeof first) != 0);
    char bus[32];
    works(sim.cuDeviceGetPCIBusId(bus, sizeof bus, 2));
    works(sim.cuDeviceGetByPCIBusId(&device, bus));
    check_number(2, device);
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuDeviceGetByPCIBusId(&device, "0000:ff:00.0"));
    char name[64];
    works(sim.cuDeviceGetName(name, sizeof name, 1));
    check(strstr(name, "H200") != NULL);

    size_t total = 0;
    works(sim.cuDeviceTotalMem_v2(&total, 1));
    check_number((size_t)1536 * MIB, total);
    int value = 0;
    works(sim.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    check_number(9, value);
    works(sim.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    check_number(1, value);
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0));
    gives(CUDA_ERROR_INVALID_DEVICE, sim.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7));

    /* Memory is counted where it is. */
    sim_use(2);
    CUdeviceptr address = sim_alloc(PAGE);
    check_number(PAGE, sim_device(2).in_use);
    check_number(0, sim_device(0).in_use);
    sim_use(0);
    works(sim.cuMemFree_v2(address));
    check_number(0, sim_device(2).in_use);
}

static void settings_have_defaults(void)
{
    size_t value = 0;
    CUfunc_cache cache = CU_FUNC_CACHE_PREFER_L1;
    CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
    int least = -1;
    int greatest = 1;
    sim_start();
    works(sim.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    check_number(1024, value);
    works(sim.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    works(sim.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    check_number(4096, value);
    gives(CUDA_ERROR_UNSUPPORTED_LIMIT, sim.cuCtxGetLimit(&value, (CUlimit)99));
    gives(CUDA_ERROR_UNSUPPORTED_LIMIT, sim.cuCtxSetLimit((CUlimit)99, 1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
    works(sim.cuCtxGetCacheConfig(&cache));
    check_number(CU_FUNC_CACHE_PREFER_NONE, cache);
    works(sim.cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuCtxSetCacheConfig((CUfunc_cache)9));
    works(sim.cuCtxGetStreamPriorityRange(&least, &greatest));
    check(least == 0 && greatest < 0);
    works(sim.cuModuleGetLoadingMode(&mode));
    check_number(CU_MODULE_LAZY_LOADING, mode);
    unsigned version = 0;
    works(sim.cuCtxGetApiVersion(NULL, &version));
    check(version > 0);
    for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; attribute++) {
        int answer = -1;
        works(sim.cuDeviceGetAttribute(&answer, (CUdevice_attribute)attribute, 0));
        check(answer >= 0);
    }
}

static void contexts_stack(void)
{
    works(sim.cuInit(0));
    CUcontext primary;
    CUcontext other;
    CUcontext current;
    CUdevice device;
    works(sim.cuDevicePrimaryCtxRetain(&primary, 0));
    works(sim.cuCtxPushCurrent_v2(primary));
    works(sim.cuCtxCreate_v2(&other, CU_CTX_SCHED_SPIN, 1));
    works(sim.cuCtxGetCurrent(&current));
    check(current == other);
    works(sim.cuCtxGetDevice(&device));
    check_number(1, device);
    unsigned flags = 0;
    works(sim.cuCtxGetFlags(&flags));
    check_number(CU_CTX_SCHED_SPIN, flags);
    unsigned long long a = 0;
    unsigned long long b = 0;
    works(sim.cuCtxGetId(primary, &a));
    works(sim.cuCtxGetId(NULL, &b));
    check(a != b);
    works(sim.cuCtxPopCurrent_v2(&current));
    check(current == other);
    works(sim.cuCtxGetCurrent(&current));
    check(current == primary);
    works(sim.cuCtxSetCurrent(other));
    works(sim.cuCtxDestroy_v2(other));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuCtxPopCurrent_v2(&current));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuCtxSetCurrent(other));
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuCtxDestroy_v2(primary));
    gives(CUDA_ERROR_NOT_SUPPORTED, sim.cuCtxCreate_v4(&other, (CUctxCreateParams *)&flags, 0, 0));
}

/* The end of a context is the end of its plain memory, not of chunks; who still has it current is told. */
static void contexts_own_plain_memory(void)
{
    works(sim.cuInit(0));
    CUcontext context;
    works(sim.cuCtxCreate_v2(&context, 0, 0));
    CUdeviceptr plain = sim_alloc(3 * PAGE);
    sim_alloc(100);
    CUstream stream = sim_stream(0);
    CUevent event = sim_event();
    CUmemGenericAllocationHandle chunk = sim_chunk(PAGE);
    works(sim.cuCtxPushCurrent_v2(context));
    works(sim.cuCtxDestroy_v2(context));
    check_number(PAGE, sim_device(0).in_use);
    CUdeviceptr address;
    gives(CUDA_ERROR_CONTEXT_IS_DESTROYED, sim.cuMemAlloc_v2(&address, 1));
    gives(CUDA_ERROR_CONTEXT_IS_DESTROYED, sim.cuMemFree_v2(plain));
    gives(CUDA_ERROR_INVALID_HANDLE, sim.cuStreamSynchronize(stream));
    gives(CUDA_ERROR_INVALID_HANDLE, sim.cuEventQuery(event));
    works(sim.cuMemRelease(chunk));
    works(sim.cuCtxSetCurrent(NULL));
    gives(CUDA_ERROR_INVALID_VALUE, sim.cuMemFree_v2(plain));
}

static void primary_contexts_count_their_users(void)
{
    works(sim.cuInit(0));
    CUcontext context;
    CUcontext again;
    unsigned flags;
    int active = 1;
    gives(CUDA_ERROR_INVALID_CONTEXT, sim.cuDevicePrimaryCtxRelease(0));
    works(sim.cuDevicePrimaryCtxGetState(0, &flags, &active));
    check_number(0, active);
    works(sim.cuDevicePrimaryCtxRetain(&context, 0));
    works(sim.cuDevicePrimaryCtxRetain(&again, 0));
    check(context == again);
    works(sim.cuCtxSetCurrent(context));
    sim_alloc(PAGE);
    works(sim.cuDevicePrimaryCtxRelease_v2(0));
    check_number(PAGE, sim_device(0).in_use);
    works(sim.cuDevicePrimaryCtxRelease(0));
    check_number(0, sim_device(0).in_use);
    works(sim.cuDevicePrimaryCtxGetState(0, &flags, &active));
    check_number(0, active);

    works(sim.cuDevicePrimaryCtxRetain(&again, 0));
    check(context == again);
    sim_alloc(PAGE);
    works(sim.cuDevicePrimaryCtxReset_v2(0));
    check_number(0, sim_device(0).in_use);
}

/* As with the real driver, a child that was forked after cuInit has no driver. */
static void a_forked_child_has_none(void)
{
    sim_start();
    CUdeviceptr address = sim_alloc(PAGE);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr mine;
        gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuMemAlloc_v2(&mine, 1));
        gives(CUDA_ERROR_NOT_INITIALIZED, sim.cuInit(0));
        exit(0);
    }
    int status = 1;
    check(waitpid(child, &status, 0) == child && status == 0);
    works(sim.cuMemFree_v2(address));
}

static CUdeviceptr left_over;

static void free_late(void)
{
    CUresult result = sim.cuMemFree_v2(left_over);
    if (result != CUDA_ERROR_DEINITIALIZED) {
        fprintf(stderr, "a call after the end gives %d\n", (int)result);
        _exit(1);
    }
}

static void calls_after_the_end_are_refused(void)
{
    atexit(free_late); /* before cuInit, so it runs after the driver's own */
    sim_start();
    left_over = sim_alloc(100);
}

SIM_TEST(nothing_works_before_init, NULL)
SIM_TEST(look_ups_follow_version_and_stream, NULL)
SIM_TEST(every_function_can_be_looked_up, NULL)
SIM_TEST(private_tables_are_refused, NULL)
SIM_TEST(errors_have_names, NULL)
SIM_TEST(devices_are_told_apart, "SIMCUDA_DEVICES=3", "SIMCUDA_MEMORY=1536M", NULL)
SIM_TEST(settings_have_defaults, NULL)
SIM_TEST(contexts_stack, "SIMCUDA_DEVICES=2", NULL)
SIM_TEST(contexts_own_plain_memory, NULL)
SIM_TEST(primary_contexts_count_their_users, NULL)
SIM_TEST(a_forked_child_has_none, NULL)

SIM_TEST(calls_after_the_end_are_refused, "SIMCUDA_LEAKS=0", NULL)

static void test_bad_settings(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(nothing_works_before_init, &outcome, "SIMCUDA_MEMORY=12X", "SIMCUDA_COST=-1", "SIMCUDA_BACKING=yes",
            "SIMCUDA_STREAM_DELAY_US=5-", "SIMCUDA_FAIL=cuMemAlloc", "SIMCUDA_LOG=/nonexistent/log", NULL);
    const char *const names[] = {"SIMCUDA_MEMORY=12X",         "SIMCUDA_COST=-1", "SIMCUDA_BACKING=yes",
                                 "SIMCUDA_STREAM_DELAY_US=5-", "SIMCUDA_FAIL",    "SIMCUDA_LOG=/nonexistent/log"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(names); i++) {
        if (strstr(outcome.errors, names[i]) == NULL) {
            fail_msg("nothing is said about %s:\n%s", names[i], outcome.errors);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_works_before_init),
        cmocka_unit_test(test_look_ups_follow_version_and_stream),
        cmocka_unit_test(test_every_function_can_be_looked_up),
        cmocka_unit_test(test_private_tables_are_refused),
        cmocka_unit_test(test_errors_have_names),
        cmocka_unit_test(test_devices_are_told_apart),
        cmocka_unit_test(test_settings_have_defaults),
        cmocka_unit_test(test_contexts_stack),
        cmocka_unit_test(test_contexts_own_plain_memory),
        cmocka_unit_test(test_primary_contexts_count_their_users),
        cmocka_unit_test(test_a_forked_child_has_none),
        cmocka_unit_test(test_calls_after_the_end_are_refused),
        cmocka_unit_test(test_bad_settings),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
