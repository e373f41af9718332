/*
 * sim.c - the fixture of sim.h.
 */
#include "sim.h"

#include <dlfcn.h>
#include <sys/mman.h>

struct sim_driver sim;

_Noreturn void sim_fail_at(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

static void *symbol(const char *name)
{
    void *address = dlsym(sim.library, name);
    if (address == NULL) {
        sim_fail_at(__FILE__, __LINE__, "libcuda.so.1 has no %s", name);
    }
    return address;
}

static void load(void)
{
    sim.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (sim.library == NULL) {
        sim_fail_at(__FILE__, __LINE__, "%s", dlerror());
    }
    void *address;
#define LOAD(field, name)                                                                                              \
    address = symbol(name);                                                                                            \
    memcpy(&sim.field, &address, sizeof address);
#define SIM_FUNCTION(base, symbol_, since, variant, traits, parameters, ...) LOAD(symbol_, #symbol_)
#include "exports.def"
#undef SIM_FUNCTION
    LOAD(now_ns, "simcuda_now_ns")
    LOAD(advance_to_ns, "simcuda_advance_to_ns")
    LOAD(query_device, "simcuda_query_device")
    LOAD(query_calls, "simcuda_query_calls")
    LOAD(reset_counts, "simcuda_reset_counts")
    LOAD(fail_call, "simcuda_fail")
    LOAD(violations, "simcuda_violations")
}

static void set_environment(const char *const *settings)
{
    static const char *const names[] = {"SIMCUDA_MEMORY",          "SIMCUDA_DEVICES", "SIMCUDA_COST",
                                        "SIMCUDA_BACKING",         "SIMCUDA_FAIL",    "SIMCUDA_LOG",
                                        "SIMCUDA_STREAM_DELAY_US", "SIMCUDA_VMM",     "SIMCUDA_LEAKS"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(names); i++) {
        unsetenv(names[i]);
    }
    for (; *settings != NULL; settings++) {
        char name[64];
        const char *value = strchr(*settings, '=');
        snprintf(name, sizeof name, "%.*s", (int)(value - *settings), *settings);
        setenv(name, value + 1, 1);
    }
}

void sim_run_with(void (*body)(void), struct sim_outcome *out, const char *const *settings)
{
    struct sim_outcome outcome = {0};
    int errors = memfd_create("errors", MFD_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(errors, STDERR_FILENO);
        set_environment(settings);
        load();
        body();
        exit(0);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ssize_t length = pread(errors, outcome.errors, sizeof outcome.errors - 1, 0);
    outcome.errors[length > 0 ? length : 0] = '\0';
    close(errors);
    if (child < 0 || outcome.status != 0) {
        fail_msg("the test's process ended with %d:\n%s", outcome.status, outcome.errors);
    }
    if (out != NULL) {
        *out = outcome;
    } else if (strstr(outcome.errors, "held at exit") != NULL) {
        fail_msg("the test leaks: %s", outcome.errors);
    }
}

CUcontext sim_use(int ordinal)
{
    CUcontext context;
    works(sim.cuDevicePrimaryCtxRetain(&context, ordinal));
    works(sim.cuCtxSetCurrent(context));
    return context;
}

void sim_start(void)
{
    works(sim.cuInit(0));
    sim_use(0);
}

CUmemAllocationProp sim_properties(int ordinal)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
}

CUmemGenericAllocationHandle sim_chunk(size_t size)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = sim_properties(0);
    works(sim.cuMemCreate(&handle, size, &properties, 0));
    return handle;
}

CUdeviceptr sim_reserve(size_t size)
{
    CUdeviceptr address;
    works(sim.cuMemAddressReserve(&address, size, 0, 0, 0));
    return address;
}

CUresult sim_open(CUdeviceptr address, size_t size, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = flags};
    return sim.cuMemSetAccess(address, size, &access, 1);
}

void sim_map(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
    works(sim.cuMemMap(address, size, 0, handle, 0));
    works(sim_open(address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

CUdeviceptr sim_alloc(size_t size)
{
    CUdeviceptr address;
    works(sim.cuMemAlloc_v2(&address, size));
    return address;
}

CUstream sim_stream(unsigned flags)
{
    CUstream stream;
    works(sim.cuStreamCreate(&stream, flags));
    return stream;
}

CUevent sim_event(void)
{
    CUevent event;
    works(sim.cuEventCreate(&event, CU_EVENT_DEFAULT));
    return event;
}

struct simcuda_device sim_device(int ordinal)
{
    struct simcuda_device device;
    check(sim.query_device(ordinal, &device) == 0);
    return device;
}

unsigned char sim_byte(CUdeviceptr address)
{
    unsigned char value = 0;
    works(sim.cuMemcpyDtoH_v2(&value, address, 1));
    return value;
}
