/*
 * pool.c - cuMemPool* and the pools of a device.
 */
#include "pool.h"

#include "entry.h"
#include "report.h"

static CUmemoryPool pool_handle(const struct sim_pool *pool)
{
    return (CUmemoryPool)(uintptr_t)pool->handle;
}

static struct sim_pool *find_pool(CUmemoryPool handle)
{
    struct sim_pool *pool = sim_pool_get(handle);
    if (pool == NULL) {
        sim_report("%p is not a pool, or was destroyed", (void *)handle);
    }
    return pool;
}

static struct sim_device *device_of(const CUmemLocation *location)
{
    return location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE ? NULL : sim_device_at(location->id);
}

/* ---- life ---- */

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (pool == NULL || properties == NULL || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_device *device = device_of(&properties->location);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (((unsigned)properties->handleTypes & ~known) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_pool *made = sim_pool_create(device);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->handle_types = (unsigned)properties->handleTypes;
    made->most = properties->maxSize;
    *pool = pool_handle(made);
    sim_log_output(made->handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
    struct sim_pool *found = find_pool(pool);
    if (found == NULL || found == found->device->default_pool) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_pool_destroy(found);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    struct sim_pool *found = find_pool(pool);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_pool_trim(found, keep);
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

static int *reuse_switch(struct sim_pool *pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        return &pool->reuse[0];
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        return &pool->reuse[1];
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return &pool->reuse[2];
    default:
        return NULL;
    }
}

static uint64_t *amount(struct sim_pool *pool, CUmemPool_attribute attribute)
{
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    struct sim_pool *found = find_pool(pool);
    if (found == NULL || value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const int *flag = reuse_switch(found, attribute);
    const uint64_t *bytes = amount(found, attribute);
    if (flag != NULL) {
        *(int *)value = *flag;
    } else if (bytes != NULL) {
        *(cuuint64_t *)value = *bytes;
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* A high mark can only be set to 0, and starts again at its figure. */
static CUresult reset_high(uint64_t *high, uint64_t current, const void *value)
{
    if (*(const cuuint64_t *)value != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *high = current;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    struct sim_pool *found = find_pool(pool);
    if (found == NULL || value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int *flag = reuse_switch(found, attribute);
    if (flag != NULL) {
        *flag = *(const int *)value;
        return CUDA_SUCCESS;
    }
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        found->threshold = *(const cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return reset_high(&found->reserved_high, found->reserved, value);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return reset_high(&found->used_high, found->used, value);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- access ---- */

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    struct sim_pool *found = find_pool(pool);
    if (found == NULL || access == NULL || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sim_device *device = device_of(&access[i].location);
        bool none = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        bool known = none || access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                     access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (device == NULL || !known) {
            return device == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
        }
        if (none && device == found->device) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        found->access[device->ordinal] = (uint8_t)access[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    const struct sim_pool *found = find_pool(pool);
    const struct sim_device *device = device_of(location);
    if (found == NULL || flags == NULL || device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = (CUmemAccess_flags)found->access[device->ordinal];
    return CUDA_SUCCESS;
}

/* ---- the pools of a device ---- */

static CUresult answer(CUmemoryPool *out, const struct sim_device *device, bool standard)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *out = pool_handle(standard ? device->default_pool : device->current_pool);
    sim_log_output((uint64_t)(uintptr_t)*out);
    return CUDA_SUCCESS;
}

static CUresult make_current(struct sim_device *device, CUmemoryPool pool)
{
    struct sim_pool *found = find_pool(pool);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (found == NULL || found->device != device) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    device->current_pool = found;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return answer(pool, sim_device_at(device), true);
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return answer(pool, sim_device_at(device), false);
}

CUresult sim_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    return make_current(sim_device_at(device), pool);
}

static bool pinned_device(const CUmemLocation *location, CUmemAllocationType type)
{
    return location != NULL && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return pinned_device(location, type) ? answer(pool, device_of(location), true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return pinned_device(location, type) ? answer(pool, device_of(location), false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    return pinned_device(location, type) ? make_current(device_of(location), pool) : CUDA_ERROR_INVALID_VALUE;
}
