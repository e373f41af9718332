/*
 * peers.c - who may use the memory of which device.
 */
#include "peers.h"

#include "hooks.h"
#include "pools.h"
#include "process.h"
#include "target.h"

#include <stddef.h>

#define DEVICES 64

atomic_bool gm_peers_failed;

/* Bit p of admitted[d]: device p may use the memory of device d. */
static _Atomic uint64_t admitted[DEVICES];

void gm_peers_apply(CUdevice device, struct gmlake *allocator)
{
    uint64_t set = atomic_load(&admitted[device]);
    for (int peer = 0; peer < DEVICES; peer++) {
        if ((set >> peer & 1) != 0 && gmlake_admit(allocator, peer) != 0) {
            atomic_store(&gm_peers_failed, true);
        }
    }
}

static void admit(CUdevice device, CUdevice peer)
{
    if (device < 0 || device >= DEVICES || peer < 0 || peer >= DEVICES) {
        atomic_store(&gm_peers_failed, true);
        return;
    }
    if (device == peer) {
        return;
    }
    atomic_fetch_or(&admitted[device], (uint64_t)1 << peer);
    struct gmlake *allocator;
    for (unsigned i = 0; (allocator = gm_target_allocator(device, i)) != NULL && gm_process_enter(); i++) {
        gm_peers_apply(device, allocator);
        gm_process_leave();
    }
}

/* The device of @context; -1: unknown. */
static CUdevice device_of(CUcontext context)
{
    CUdevice device = -1;
    CUcontext popped;
    if (gm_driver_ctx_push_current(context) == CUDA_SUCCESS) {
        if (gm_driver_ctx_get_device(&device) != CUDA_SUCCESS) {
            device = -1;
        }
        gm_driver_ctx_pop_current(&popped);
    }
    return device;
}

/* The current context's device may use the memory of @peer's. */
CUresult gm_hook_ctx_enable_peer_access(CUcontext peer, unsigned int flags)
{
    CUdevice current = -1;
    CUresult rc = gm_driver_ctx_enable_peer_access(peer, flags);
    if (rc == CUDA_SUCCESS && gm_driver_ctx_get_device(&current) == CUDA_SUCCESS) {
        admit(device_of(peer), current);
    }
    return rc;
}

CUresult gm_hook_mem_pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    CUresult rc = gm_driver_mem_pool_set_access(pool, access, count);
    int device = rc == CUDA_SUCCESS ? gm_pools_device_of(pool) : -1;
    for (size_t i = 0; device >= 0 && i < count; i++) {
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
            continue;
        }
        admit(device, access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? access[i].location.id : -1);
    }
    return rc;
}
