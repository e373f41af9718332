/*
 * facts.c - asks the driver questions and prints the answers, one a line, without addresses or times.
 *
 * facts.txt holds what an H200 answered (driver 580, CUDA 13.0). The simulated driver must print the same; on a machine
 * with a GPU the real one must still do so. Usage: facts [LIBCUDA]
 */
#include "facts.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

struct facts_driver cu;

static bool load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        return false;
    }
    void *address;
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...)                                            \
    address = dlsym(library, #symbol);                                                                                 \
    memcpy(&cu.symbol, &address, sizeof address);
#include "exports.def"
#undef SIM_FUNCTION
    return true;
}

static void before_init(void)
{
    CUdeviceptr address;
    CUcontext context;
    int count;
    facts_heading("before cuInit");
    FACT(cuMemAlloc_v2(&address, 1));
    FACT(cuMemFree_v2(0));
    FACT(cuCtxGetCurrent(&context));
    FACT(cuDeviceGetCount(&count));
    FACT(cuInit(1));
    FACT(cuInit(0));
    facts_heading("without a context");
    FACT(cuMemAlloc_v2(&address, 1));
    FACT(cuMemFree_v2(0));
    FACT(cuCtxSynchronize());
    FACT(cuCtxPopCurrent_v2(&context));
    FACT(cuCtxSetCurrent(NULL));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
    FACT(cuDeviceGet(&count, 99));
    FACT(cuDeviceGetAttribute(&count, (CUdevice_attribute)0, 0));
    FACT(cuDeviceGetAttribute(&count, (CUdevice_attribute)100000, 0));
}

static void look_ups(void)
{
    void *address;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    facts_heading("look-ups");
    FACT(cuGetProcAddress_v2("", &address, 0, 0, NULL));
    NUMBER("found", address != NULL);
    FACT(cuGetProcAddress_v2("cuFrobnicate", &address, 13000, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress("cuFrobnicate", &address, 13000, 0));
    FACT(cuGetProcAddress_v2("cuMemAllocAsync", &address, 11010, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress("cuMemAllocAsync", &address, 11010, 0));
    FACT(cuGetProcAddress_v2("cuMemAllocAsync", &address, 11020, 2, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress_v2("cuMemAlloc_v2", &address, 13000, 0, &status));
    NUMBER("status", status);
    FACT(cuGetProcAddress_v2("cuInit", &address, 99000, 0, &status));
    FACT(cuGetProcAddress_v2("cuInit", &address, 13000, 3, &status));
    FACT(cuGetProcAddress_v2("cuInit", &address, 13000, 8, &status));
}

static void streams_and_events(void)
{
    CUstream stream;
    CUevent event;
    CUevent other;
    float milliseconds;
    unsigned long long id;
    facts_heading("streams and events");
    FACT(cuStreamCreate(&stream, 64));
    FACT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    FACT(cuEventCreate(&event, 0x100));
    FACT(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    FACT(cuEventCreate(&event, CU_EVENT_DEFAULT));
    FACT(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    FACT(cuEventQuery(event));
    FACT(cuEventSynchronize(event));
    FACT(cuStreamWaitEvent(stream, event, 0));
    FACT(cuStreamWaitEvent(stream, event, 2));
    FACT(cuEventElapsedTime(&milliseconds, event, event));
    FACT(cuEventRecord(event, stream));
    FACT(cuEventRecord(other, stream));
    FACT(cuStreamSynchronize(stream));
    FACT(cuEventElapsedTime(&milliseconds, event, event));
    FACT(cuEventElapsedTime(&milliseconds, event, other));
    FACT(cuStreamGetId(NULL, &id));
    FACT(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
    FACT(cuEventDestroy_v2(event));
    FACT(cuEventDestroy_v2(other));
    FACT(cuStreamDestroy_v2(CU_STREAM_LEGACY));
    FACT(cuStreamDestroy_v2(NULL));
    FACT(cuStreamDestroy_v2(stream));
}

static void contexts(void)
{
    CUcontext primary;
    CUcontext context;
    CUcontext popped;
    CUdeviceptr address;
    CUdevice device;
    unsigned version;
    facts_heading("contexts");
    cu.cuCtxGetCurrent(&primary);
    FACT(cuCtxDestroy_v2(primary));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuCtxSetCurrent(NULL));
    FACT(cuMemGetAddressRange_v2(NULL, NULL, address));
    FACT(cuMemsetD8_v2(address, 1, 1));
    FACT(cuMemFree_v2(address));
    FACT(cuCtxSetCurrent(primary));
    FACT(cuCtxCreate_v2(&context, 0, 99));
    FACT(cuCtxCreate_v2(&context, 0, 0));
    FACT(cuCtxGetApiVersion(context, &version));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuCtxPushCurrent_v2(context));
    FACT(cuCtxEnablePeerAccess(context, 0));
    FACT(cuCtxEnablePeerAccess(primary, 0));
    FACT(cuCtxDisablePeerAccess(primary));
    FACT(cuCtxDestroy_v2(context));
    FACT(cuCtxGetDevice(&device));
    FACT(cuMemFree_v2(address));
    FACT(cuCtxPopCurrent_v2(&popped));
    FACT(cuCtxSetCurrent(primary));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
    FACT(cuMemAlloc_v2(&address, PAGE));
    FACT(cuDevicePrimaryCtxRelease_v2(0));
}

/* Every section has a process of its own: what one breaks does not colour the next. */
static const struct section {
    void (*ask)(void);
    bool started; /* with the primary context of device 0 current */
} sections[] = {
    {look_ups, false},           {before_init, false},       {facts_plain_memory, true},
    {facts_memory_taken, true},  {facts_host_memory, true},  {facts_virtual_memory, true},
    {facts_pooled_memory, true}, {streams_and_events, true}, {facts_pointers, true},
    {facts_capture, true},       {contexts, true},
};

static int run_section(const struct section *section, const char *path)
{
    CUcontext primary;
    if (!load(path)) {
        return 77;
    }
    if (section->started) {
        if (cu.cuInit(0) != CUDA_SUCCESS || cu.cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS) {
            fprintf(stderr, "skipped: no device\n");
            return 77;
        }
        cu.cuCtxSetCurrent(primary);
    }
    section->ask();
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "libcuda.so.1";
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(run_section(&sections[i], path));
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
            printf("section %zu was ended by signal %d\n", i, WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
            return WEXITSTATUS(status);
        }
    }
    return 0;
}
