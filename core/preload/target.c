/*
 * target.c - from contexts and streams to devices and allocators.
 */
#include "target.h"

#include "hooks.h"
#include "process.h"
#include "registry.h"

#include <stdatomic.h>
#include <stddef.h>

#define DEVICES 64

/* Devices beyond DEVICES are the driver's. An entry is written once. */
static _Atomic(struct gmlake *) allocators[DEVICES];

static int device_count;

bool gm_target_start(void)
{
    return gm_driver_device_get_count(&device_count) == CUDA_SUCCESS;
}

static bool current_device(CUdevice *out)
{
    return gm_driver_ctx_get_device(out) == CUDA_SUCCESS && *out >= 0 && *out < DEVICES;
}

static struct gmlake *allocator_of(CUdevice device)
{
    struct gmlake *allocator = atomic_load_explicit(&allocators[device], memory_order_acquire);
    if (__builtin_expect(allocator == NULL, 0) && gm_registry_get(device, &allocator) == 0) {
        atomic_store_explicit(&allocators[device], allocator, memory_order_release);
    }
    return allocator;
}

bool gm_target_current(struct gm_target *out)
{
    CUdevice device;
    if (!current_device(&device)) {
        return false;
    }
    struct gmlake *allocator = allocator_of(device);
    if (allocator == NULL) {
        return false;
    }
    *out = (struct gm_target){.allocator = allocator, .device = device, .pushed = false};
    return true;
}

bool gm_target_of_stream(CUstream stream, struct gm_target *out)
{
    CUcontext owner;
    CUcontext current;
    if (device_count == 1 || stream == NULL) {
        return gm_target_current(out);
    }
    if (gm_driver_stream_get_ctx(stream, &owner) != CUDA_SUCCESS ||
        gm_driver_ctx_get_current(&current) != CUDA_SUCCESS) {
        return false;
    }
    if (owner == current) {
        return gm_target_current(out);
    }
    if (gm_driver_ctx_push_current(owner) != CUDA_SUCCESS) {
        return false;
    }
    if (!gm_target_current(out)) {
        gm_driver_ctx_pop_current(&owner);
        return false;
    }
    out->pushed = true;
    return true;
}

void gm_target_leave(const struct gm_target *target)
{
    CUcontext popped;
    if (target->pushed) {
        gm_driver_ctx_pop_current(&popped);
    }
}

/* A later stream may get the same handle. The default streams have no end. */
static void forget_stream(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !gm_process_is_served() ||
        !gm_process_enter()) {
        return;
    }
    for (size_t i = 0; i < DEVICES; i++) {
        struct gmlake *allocator = atomic_load_explicit(&allocators[i], memory_order_acquire);
        if (allocator != NULL) {
            (void)gmlake_forget_stream(allocator, stream);
        }
    }
    gm_process_leave();
}

CUresult gm_hook_stream_destroy(CUstream stream)
{
    forget_stream(stream);
    return gm_driver_stream_destroy(stream);
}

CUresult gm_hook_stream_destroy_v2(CUstream stream)
{
    forget_stream(stream);
    return gm_driver_stream_destroy_v2(stream);
}

bool gm_target_current_served(struct gm_target *out)
{
    CUdevice device;
    if (!current_device(&device)) {
        return false;
    }
    struct gmlake *allocator = atomic_load_explicit(&allocators[device], memory_order_acquire);
    if (allocator == NULL) {
        return false;
    }
    *out = (struct gm_target){.allocator = allocator, .device = device, .pushed = false};
    return true;
}
