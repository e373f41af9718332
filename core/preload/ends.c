/*
 * ends.c - contexts and streams that begin and end, and contexts that are made current.
 *
 * CONCURRENCY  atomics; the rest is target.h's.
 */
#include "capture.h"
#include "charged.h"
#include "hooks.h"
#include "process.h"
#include "target.h"

#include <stdbool.h>
#include <stddef.h>

#define DEVICES 64

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* A later stream may get the same handle. The default streams have no end. */
static void forget_stream(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !gm_process_is_served() ||
        !gm_process_enter()) {
        return;
    }
    gm_target_forget_stream(stream);
    gm_process_leave();
}

static CUresult forgotten(CUstream stream, CUresult rc)
{
    if (rc == CUDA_SUCCESS) {
        gm_capture_end_stream(stream);
    }
    return rc;
}

CUresult gm_hook_stream_destroy(CUstream stream)
{
    forget_stream(stream);
    return forgotten(stream, gm_driver_stream_destroy(stream));
}

CUresult gm_hook_stream_destroy_v2(CUstream stream)
{
    forget_stream(stream);
    return forgotten(stream, gm_driver_stream_destroy_v2(stream));
}

/* --- the current context ------------------------------------------------------------------------------------------ */

CUresult gm_hook_ctx_set_current(CUcontext context)
{
    gm_target_forget_current();
    return gm_driver_ctx_set_current(context);
}

CUresult gm_hook_ctx_push_current(CUcontext context)
{
    gm_target_forget_current();
    return gm_driver_ctx_push_current(context);
}

CUresult gm_hook_ctx_push_current_v1(CUcontext context)
{
    gm_target_forget_current();
    return gm_driver_ctx_push_current_v1(context);
}

CUresult gm_hook_ctx_pop_current(CUcontext *context)
{
    gm_target_forget_current();
    return gm_driver_ctx_pop_current(context);
}

CUresult gm_hook_ctx_pop_current_v1(CUcontext *context)
{
    gm_target_forget_current();
    return gm_driver_ctx_pop_current_v1(context);
}

/* --- contexts that begin ------------------------------------------------------------------------------------------ */

static CUresult created(CUresult rc)
{
    if (rc == CUDA_SUCCESS) {
        gm_target_expect_contexts();
    }
    return rc;
}

CUresult gm_hook_ctx_create(CUcontext *out, unsigned int flags, CUdevice device)
{
    return created(gm_driver_ctx_create(out, flags, device));
}

CUresult gm_hook_ctx_create_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return created(gm_driver_ctx_create_v2(out, flags, device));
}

CUresult gm_hook_ctx_create_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned int flags,
                               CUdevice device)
{
    return created(gm_driver_ctx_create_v3(out, affinity, count, flags, device));
}

CUresult gm_hook_ctx_create_v4(CUcontext *out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    return created(gm_driver_ctx_create_v4(out, parameters, flags, device));
}

/* A part of a device under a context of its own: the driver's. */
CUresult gm_hook_green_ctx_create(CUgreenCtx *out, CUdevResourceDesc resources, CUdevice device, unsigned int flags)
{
    CUcontext context = NULL;
    CUresult rc = created(gm_driver_green_ctx_create(out, resources, device, flags));
    if (rc == CUDA_SUCCESS && gm_driver_ctx_from_green_ctx(&context, *out) == CUDA_SUCCESS && context != NULL) {
        gm_target_exclude(context);
    }
    return rc;
}

/* The devices' primary contexts, as far as the program has asked for them. */
static _Atomic(CUcontext) primaries[DEVICES];

CUresult gm_hook_device_primary_ctx_retain(CUcontext *out, CUdevice device)
{
    CUresult rc = gm_driver_device_primary_ctx_retain(out, device);
    if (rc == CUDA_SUCCESS && device >= 0 && device < DEVICES) {
        atomic_store_explicit(&primaries[device], *out, memory_order_relaxed);
    }
    return rc;
}

/* --- contexts that end -------------------------------------------------------------------------------------------- */

static CUcontext primary_of(CUdevice device)
{
    return device >= 0 && device < DEVICES ? atomic_load_explicit(&primaries[device], memory_order_relaxed) : NULL;
}

/* The process can be served, and its context is about to end. True: end() must follow. */
static bool is_to_end(CUcontext context)
{
    if (context == NULL || !gm_process_is_served() || !gm_process_enter()) {
        return false;
    }
    gm_target_suspend(context);
    gm_process_leave();
    return true;
}

static void end(CUcontext context, bool has_ended)
{
    if (!gm_process_enter()) {
        return;
    }
    if (has_ended) {
        gm_charged_forget(context);
        gm_target_end(context);
    } else {
        gm_target_resume(context);
    }
    gm_process_leave();
}

static CUresult destroyed(CUcontext context, bool is_ours, CUresult rc)
{
    if (rc == CUDA_SUCCESS) {
        gm_target_note_end();
        gm_capture_end_context(context);
    }
    if (is_ours) {
        end(context, rc == CUDA_SUCCESS);
    }
    return rc;
}

CUresult gm_hook_ctx_destroy(CUcontext context)
{
    bool is_ours = is_to_end(context);
    return destroyed(context, is_ours, gm_driver_ctx_destroy(context));
}

CUresult gm_hook_ctx_destroy_v2(CUcontext context)
{
    bool is_ours = is_to_end(context);
    return destroyed(context, is_ours, gm_driver_ctx_destroy_v2(context));
}

/* It was the last release if the context is not active any more. */
static CUresult released(CUdevice device, CUresult rc)
{
    unsigned int flags;
    int active = 0;
    CUcontext context = primary_of(device);
    if (rc == CUDA_SUCCESS && gm_driver_device_primary_ctx_get_state(device, &flags, &active) == CUDA_SUCCESS &&
        active == 0) {
        gm_target_note_end();
        gm_capture_end_context(context);
        if (is_to_end(context)) {
            end(context, true);
        }
    }
    return rc;
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
    CUcontext context = primary_of(device);
    bool is_ours = is_to_end(context);
    return destroyed(context, is_ours, gm_driver_device_primary_ctx_reset(device));
}

CUresult gm_hook_device_primary_ctx_reset_v2(CUdevice device)
{
    CUcontext context = primary_of(device);
    bool is_ours = is_to_end(context);
    return destroyed(context, is_ours, gm_driver_device_primary_ctx_reset_v2(device));
}
