/*
 * host.c - page-locked host memory. Its device address is its own address.
 */
#include "entry.h"

#include "context.h"
#include "host.h"
#include "report.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Invariant: in the space; @mapped: the bytes are the driver's own. */
struct host {
    struct sim_range range;
    struct sim_context *context;
    unsigned flags;
    bool mapped;
};

#define HOST_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                                 \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |                        \
     CU_MEMHOSTREGISTER_READ_ONLY)

static struct host *find(const void *address, bool start)
{
    uint64_t number = (uint64_t)(uintptr_t)address;
    struct sim_range *range = sim_space_find(number);
    if (range == NULL || range->kind != SIM_HOST || (start && range->node.key != number)) {
        return NULL;
    }
    return SIM_OWNER(range, struct host, range);
}

CUcontext sim_host_context(struct sim_range *range)
{
    return sim_context_handle(SIM_OWNER(range, struct host, range)->context);
}

static CUresult enter(void *address, size_t bytes, unsigned flags, bool mapped)
{
    struct host *host = calloc(1, sizeof *host);
    if (host == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    host->context = sim_context_current();
    host->flags = flags;
    host->mapped = mapped;
    host->range.kind = SIM_HOST;
    host->range.size = bytes;
    host->range.device = host->context->device;
    sim_space_add(&host->range, (uint64_t)(uintptr_t)address);
    return CUDA_SUCCESS;
}

static void drop(struct host *host)
{
    sim_space_remove(&host->range);
    if (host->mapped) {
        munmap((void *)(uintptr_t)host->range.node.key, host->range.size);
    }
    free(host);
}

CUresult sim_cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    if (address == NULL || (flags & ~(unsigned)HOST_FLAGS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes == 0) {
        *address = NULL;
        return CUDA_SUCCESS;
    }
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = enter(place, bytes, flags, true);
    if (result != CUDA_SUCCESS) {
        munmap(place, bytes);
        return result;
    }
    *address = place;
    sim_log_output((uint64_t)(uintptr_t)place);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **address, size_t bytes)
{
    return sim_cuMemHostAlloc(address, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult sim_cuMemFreeHost(void *address)
{
    struct host *host = find(address, true);
    if (address == NULL) {
        return CUDA_SUCCESS;
    }
    if (host == NULL || !host->mapped) {
        sim_report("%p is not allocated host memory", address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_device_wait(host->range.device);
    drop(host);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
    uint64_t start = (uint64_t)(uintptr_t)address;
    if (address == NULL || bytes == 0 || start + bytes < start || (flags & ~(unsigned)REGISTER_FLAGS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sim_range *next = sim_space_next(start);
    if (sim_space_find(start) != NULL || (next != NULL && next->node.key < start + bytes)) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return enter(address, bytes, flags, false);
}

CUresult sim_cuMemHostUnregister(void *address)
{
    struct host *host = find(address, true);
    if (host == NULL || host->mapped) {
        return address == NULL || host != NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    sim_device_wait(host->range.device);
    drop(host);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned int flags)
{
    if (device == NULL || flags != 0 || find(address, false) == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned int *flags, void *address)
{
    const struct host *host = find(address, false);
    if (flags == NULL || host == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = host->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
