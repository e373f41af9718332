/*
 * target.c - from contexts and streams to devices and allocators; and the end of both.
 */
#include "target.h"

#include "hooks.h"
#include "peers.h"
#include "process.h"
#include "registry.h"

#include <stdatomic.h>
#include <stddef.h>

#define DEVICES 64 /* devices beyond that are the driver's */

/* In place of a served context that is no more; no context is it. */
#define GONE ((CUcontext)(uintptr_t)-1)

/* Invariant: where allocator is not NULL, context is not, either: it was current when the allocator was made. */
static struct {
    _Atomic(CUcontext) context; /* NULL, then a context, then perhaps GONE */
    _Atomic(struct gmlake *) allocator;
} served[DEVICES];

/* Fixed after gm_target_start(). */
static int device_count;

/* A second context of a served device has called. */
static atomic_bool several_contexts;

bool gm_target_start(void)
{
    int count;
    if (gm_driver_device_get_count(&count) != CUDA_SUCCESS) {
        return false;
    }
    device_count = count < DEVICES ? count : DEVICES;
    return true;
}

static bool find(CUcontext context, struct gm_target *out)
{
    for (int device = 0; device < device_count; device++) {
        if (atomic_load_explicit(&served[device].context, memory_order_relaxed) == context) {
            *out = (struct gm_target){
                .allocator = atomic_load_explicit(&served[device].allocator, memory_order_acquire),
                .device = device,
                .pushed = false,
            };
            return out->allocator != NULL;
        }
    }
    return false;
}

static bool current_context(CUcontext *out)
{
    return gm_driver_ctx_get_current(out) == CUDA_SUCCESS && *out != NULL;
}

/* The first allocation of a device, or one under a context that is not served. */
static bool begin(CUcontext context, struct gm_target *out)
{
    CUdevice device;
    CUcontext known = NULL;
    struct gmlake *allocator;
    if (gm_driver_ctx_get_device(&device) != CUDA_SUCCESS || device < 0 || device >= device_count) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&served[device].context, &known, context) && known != context) {
        atomic_store_explicit(&several_contexts, true, memory_order_relaxed);
        return false;
    }
    if (gm_registry_get(device, &allocator) != 0) {
        return false;
    }
    atomic_store(&served[device].allocator, allocator);
    gm_peers_apply(device, allocator);
    *out = (struct gm_target){.allocator = allocator, .device = device, .pushed = false};
    return true;
}

struct gmlake *gm_target_allocator(CUdevice device)
{
    return atomic_load(&served[device].allocator);
}

bool gm_target_current(struct gm_target *out)
{
    CUcontext context;
    return current_context(&context) && (find(context, out) || begin(context, out));
}

bool gm_target_current_served(struct gm_target *out)
{
    CUcontext context;
    return current_context(&context) && find(context, out);
}

bool gm_target_of_stream(CUstream stream, struct gm_target *out)
{
    CUcontext owner;
    CUcontext current;
    bool one = device_count == 1 && !atomic_load_explicit(&several_contexts, memory_order_relaxed);
    if (one || stream == NULL || stream == CU_STREAM_PER_THREAD) {
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

/* --- streams that end --------------------------------------------------------------------------------------------- */

/* A later stream may get the same handle. The default streams have no end. */
static void forget_stream(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !gm_process_is_served() ||
        !gm_process_enter()) {
        return;
    }
    for (int device = 0; device < device_count; device++) {
        struct gmlake *allocator = atomic_load_explicit(&served[device].allocator, memory_order_acquire);
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

/* --- contexts that end -------------------------------------------------------------------------------------------- */

static void end_device(CUdevice device)
{
    if (device >= 0 && device < DEVICES && atomic_load(&served[device].context) != NULL) {
        struct gmlake *allocator = atomic_load(&served[device].allocator);
        atomic_store(&served[device].context, GONE);
        if (allocator != NULL) {
            gm_registry_end(allocator);
        }
    }
}

/* Before the context is destroyed: a new one, of any device, may get the same handle at once. */
static void end_context(CUcontext context)
{
    for (int device = 0; context != NULL && device < DEVICES; device++) {
        if (atomic_load(&served[device].context) == context) {
            end_device(device);
        }
    }
}

/* After a release: it was the last one if the primary context is not active any more. */
static CUresult released(CUdevice device, CUresult rc)
{
    unsigned int flags;
    int active = 0;
    if (rc == CUDA_SUCCESS && gm_driver_device_primary_ctx_get_state(device, &flags, &active) == CUDA_SUCCESS &&
        active == 0) {
        end_device(device);
    }
    return rc;
}

CUresult gm_hook_ctx_destroy(CUcontext context)
{
    end_context(context);
    return gm_driver_ctx_destroy(context);
}

CUresult gm_hook_ctx_destroy_v2(CUcontext context)
{
    end_context(context);
    return gm_driver_ctx_destroy_v2(context);
}

CUresult gm_hook_device_primary_ctx_release(CUdevice device)
{
    return released(device, gm_driver_device_primary_ctx_release(device));
}

CUresult gm_hook_device_primary_ctx_release_v2(CUdevice device)
{
    return released(device, gm_driver_device_primary_ctx_release_v2(device));
}

CUresult gm_hook_device_primary_ctx_reset(CUdevice device)
{
    end_device(device);
    return gm_driver_device_primary_ctx_reset(device);
}

CUresult gm_hook_device_primary_ctx_reset_v2(CUdevice device)
{
    end_device(device);
    return gm_driver_device_primary_ctx_reset_v2(device);
}
