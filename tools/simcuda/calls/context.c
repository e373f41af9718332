/*
 * context.c - cuDevicePrimaryCtx* and cuCtx*.
 */
#include "context.h"

#include "capture.h"
#include "entry.h"
#include "pool.h"
#include "report.h"

#define API_VERSION 3020

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    struct sim_device *found = sim_device_at(device);
    if (context == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!sim_context_revive_primary(found->primary)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    found->primary->retained++;
    *context = sim_context_handle(found->primary);
    sim_log_output(found->primary->handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct sim_device *found = sim_device_at(device);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct sim_context *primary = found->primary;
    if (primary->retained == 0) {
        sim_report("the primary context of device %d is not retained", device);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--primary->retained == 0) {
        sim_context_destroy(primary);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return sim_cuDevicePrimaryCtxRelease(device);
}

/* Drops everything in the context; who retained it keeps it, emptied. */
CUresult sim_cuDevicePrimaryCtxReset(CUdevice device)
{
    struct sim_device *found = sim_device_at(device);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (found->primary->alive) {
        sim_context_destroy(found->primary);
    }
    found->primary->retained = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return sim_cuDevicePrimaryCtxReset(device);
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    struct sim_device *found = sim_device_at(device);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    found->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    return sim_cuDevicePrimaryCtxSetFlags(device, flags);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    const struct sim_device *found = sim_device_at(device);
    if (flags == NULL || active == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *flags = found->primary->flags;
    *active = found->primary->alive;
    return CUDA_SUCCESS;
}

static CUresult push(struct sim_context *context)
{
    if (sim_thread.depth == SIM_STACK_DEPTH) {
        sim_report("more than %d contexts pushed on one thread", SIM_STACK_DEPTH);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_thread.stack[sim_thread.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    struct sim_device *found = sim_device_at(device);
    if (context == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct sim_context *made = sim_context_create(found, flags);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = push(made);
    if (result != CUDA_SUCCESS) {
        sim_context_destroy(made);
        return result;
    }
    *context = sim_context_handle(made);
    sim_log_output(made->handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags,
                            CUdevice device)
{
    return affinity != NULL || count != 0 ? CUDA_ERROR_NOT_SUPPORTED : sim_cuCtxCreate_v2(context, flags, device);
}

CUresult sim_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    return parameters != NULL ? CUDA_ERROR_NOT_SUPPORTED : sim_cuCtxCreate_v2(context, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext context)
{
    struct sim_context *found = sim_context_get(context);
    if (found == NULL || found->primary) {
        sim_report("%p is not a context that can be destroyed", (void *)context);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sim_context_destroy(found);
    if (sim_context_current() == found) {
        sim_thread.depth--;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext context)
{
    struct sim_context *found = sim_context_get(context);
    return found == NULL ? CUDA_ERROR_INVALID_CONTEXT : push(found);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *context)
{
    struct sim_context *current = sim_context_current();
    if (current == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sim_thread.depth--;
    if (context != NULL) {
        *context = sim_context_handle(current);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext context)
{
    struct sim_context *found = sim_context_get(context);
    if (context == NULL) {
        sim_thread.depth -= sim_thread.depth > 0;
        return CUDA_SUCCESS;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (sim_thread.depth == 0) {
        return push(found);
    }
    sim_thread.stack[sim_thread.depth - 1] = found;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *context)
{
    if (context == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *context = sim_context_handle(sim_context_current());
    return CUDA_SUCCESS;
}

/* The context a caller names: NULL means the current one. */
static struct sim_context *named(CUcontext context)
{
    return context == NULL ? sim_context_current() : sim_context_get(context);
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    const struct sim_context *found = named(context);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *device = found->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
    return sim_cuCtxGetDevice_v2(device, NULL);
}

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
    if (flags == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = sim_context_current()->flags;
    return CUDA_SUCCESS;
}

/* Copies are in order with their caller here, so that CU_CTX_SYNC_MEMOPS has nothing to add. */
CUresult sim_cuCtxSetFlags(unsigned int flags)
{
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext context, unsigned long long *id)
{
    const struct sim_context *found = named(context);
    if (id == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *id = found->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    if (version == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (named(context) == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *version = API_VERSION;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSynchronize_v2(CUcontext context)
{
    struct sim_context *found = named(context);
    if (found == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!found->alive) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUresult result = sim_capture_forbids_wait(found);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_context_wait(found);
    sim_pool_settle(found->device);
    return found->error;
}

CUresult sim_cuCtxSynchronize(void)
{
    return sim_cuCtxSynchronize_v2(NULL);
}
