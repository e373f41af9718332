/*
 * pools.c - follows the program's pools.
 */
#include "pools.h"

#include "hooks.h"

#include <stddef.h>

#define KNOWN   64 /* pools beyond that are the driver's */
#define DEVICES 64

/* Pools that may be served. Invariant: device is that of pool while pool is not NULL. */
static struct {
    atomic_bool taken;
    atomic_int device;
    _Atomic(CUmemoryPool) pool;
} known[KNOWN];

/* The default pools, NULL until asked for. They live as long as the process. */
static _Atomic(CUmemoryPool) defaults[DEVICES];

/* The current pools; NULL: the default one. */
static _Atomic(CUmemoryPool) currents[DEVICES];

static bool in_range(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

static CUmemoryPool default_pool(CUdevice device)
{
    CUmemoryPool found = atomic_load_explicit(&defaults[device], memory_order_relaxed);
    if (found == NULL && gm_driver_device_get_default_mem_pool(&found, device) == CUDA_SUCCESS) {
        atomic_store_explicit(&defaults[device], found, memory_order_relaxed);
    }
    return found;
}

bool gm_pools_serve(CUmemoryPool pool, CUdevice device)
{
    if (pool == NULL || !in_range(device)) {
        return false;
    }
    if (pool == default_pool(device)) {
        return true;
    }
    for (size_t i = 0; i < KNOWN; i++) {
        if (atomic_load_explicit(&known[i].pool, memory_order_acquire) == pool) {
            return atomic_load_explicit(&known[i].device, memory_order_relaxed) == device;
        }
    }
    return false;
}

bool gm_pools_serve_current(CUdevice device)
{
    CUmemoryPool current = atomic_load_explicit(&currents[device], memory_order_relaxed);
    return current == NULL || gm_pools_serve(current, device);
}

CUmemoryPool gm_pools_current(CUdevice device)
{
    if (!in_range(device)) {
        return NULL;
    }
    CUmemoryPool current = atomic_load_explicit(&currents[device], memory_order_relaxed);
    return current != NULL ? current : default_pool(device);
}

/*
 * Device memory with no property but its device. What later versions of the driver have put, or will put, behind the
 * fields known here (a bound, a usage) is not ours to reproduce either.
 */
static bool is_simple(const CUmemPoolProps *properties)
{
    const unsigned char *bytes = (const unsigned char *)properties;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return false;
    }
    for (size_t i = offsetof(CUmemPoolProps, win32SecurityAttributes); i < sizeof *properties; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void learn(CUmemoryPool pool, int device)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (!atomic_exchange_explicit(&known[i].taken, true, memory_order_acquire)) {
            atomic_store_explicit(&known[i].device, device, memory_order_relaxed);
            atomic_store_explicit(&known[i].pool, pool, memory_order_release);
            return;
        }
    }
}

static void forget(CUmemoryPool pool)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (atomic_load_explicit(&known[i].pool, memory_order_relaxed) == pool) {
            atomic_store_explicit(&known[i].pool, NULL, memory_order_relaxed);
            atomic_store_explicit(&known[i].taken, false, memory_order_release);
        }
    }
    for (size_t i = 0; i < DEVICES; i++) {
        CUmemoryPool current = pool; /* destroying the current pool makes the default one current */
        atomic_compare_exchange_strong(&currents[i], &current, NULL);
    }
}

CUresult gm_hook_mem_pool_create(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    CUresult rc = gm_driver_mem_pool_create(out, properties);
    if (rc == CUDA_SUCCESS && is_simple(properties)) {
        learn(*out, properties->location.id);
    }
    return rc;
}

CUresult gm_hook_mem_pool_destroy(CUmemoryPool pool)
{
    if (pool != NULL) {
        forget(pool); /* before the call: another thread may be given the handle right after it */
    }
    return gm_driver_mem_pool_destroy(pool);
}

int gm_pools_device_of(CUmemoryPool pool)
{
    int count = 0;
    if (gm_driver_device_get_count(&count) != CUDA_SUCCESS) {
        return -1;
    }
    for (CUdevice device = 0; device < count; device++) {
        if (gm_pools_serve(pool, device)) {
            return device;
        }
    }
    return -1;
}

CUresult gm_hook_device_set_mem_pool(CUdevice device, CUmemoryPool pool)
{
    CUresult rc = gm_driver_device_set_mem_pool(device, pool);
    if (rc == CUDA_SUCCESS && in_range(device)) {
        atomic_store_explicit(&currents[device], pool, memory_order_relaxed);
    }
    return rc;
}

CUresult gm_hook_mem_set_mem_pool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult rc = gm_driver_mem_set_mem_pool(location, type, pool);
    if (rc == CUDA_SUCCESS && type == CU_MEM_ALLOCATION_TYPE_PINNED && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
        in_range(location->id)) {
        atomic_store_explicit(&currents[location->id], pool, memory_order_relaxed);
    }
    return rc;
}
