/*
 * memory.c - allocation and freeing, plain and stream-ordered, and what is free.
 */
#include "entry.h"

#include "capture.h"
#include "clock.h"
#include "context.h"
#include "plain.h"
#include "pool.h"
#include "report.h"
#include "vmm.h"

#define PITCH_ALIGNMENT 512ull

CUresult sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    const struct sim_device *device = sim_context_current()->device;
    if (free_bytes != NULL) {
        *free_bytes = device->capacity - device->in_use;
    }
    if (total_bytes != NULL) {
        *total_bytes = device->capacity;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    if (address == NULL || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_plain *plain;
    CUresult result = sim_plain_allocate(sim_context_current(), bytes, &plain);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_clock_charge(SIM_COST_ALLOC, bytes);
    *address = plain->range.node.key;
    sim_log_output(*address);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    bool known = element == 4 || element == 8 || element == 16;
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || !known) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t row = (width + PITCH_ALIGNMENT - 1) & ~(PITCH_ALIGNMENT - 1);
    if (row < width || row > SIZE_MAX / height) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = sim_cuMemAlloc_v2(address, row * height);
    if (result == CUDA_SUCCESS) {
        *pitch = row;
    }
    return result;
}

/* The allocation that starts at @address; NULL (reported): none, or already given back. */
static struct sim_range *find_allocation(CUdeviceptr address)
{
    struct sim_range *range = sim_space_find(address);
    if (range != NULL && range->node.key == address && (range->kind == SIM_PLAIN || range->kind == SIM_POOLED) &&
        !range->freed) {
        return range;
    }
    sim_report("%#llx is not the start of an allocation%s", address,
               range == NULL || range->freed ? " (freed twice?)" : "");
    return NULL;
}

CUresult sim_cuMemFree_v2(CUdeviceptr address)
{
    const struct sim_context *current = sim_context_current();
    if (current != NULL && !current->alive) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    struct sim_range *range = address == 0 ? NULL : find_allocation(address);
    if (range == NULL) {
        return address == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    sim_device_wait(range->device);
    sim_clock_charge(SIM_COST_FREE, range->size);
    if (range->kind == SIM_POOLED) {
        struct sim_device *device = range->device;
        CUresult result = sim_pool_free(sim_pooled_of(range), NULL);
        sim_pool_settle(device);
        return result;
    }
    sim_plain_drop(SIM_OWNER(range, struct sim_plain, range));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct sim_stream *on;
    CUresult result = sim_stream_find(stream, &on);
    struct sim_range *range = result != CUDA_SUCCESS || address == 0 ? NULL : find_allocation(address);
    if (range == NULL) {
        return result != CUDA_SUCCESS || address == 0 ? result : CUDA_ERROR_INVALID_VALUE;
    }
    sim_clock_charge(SIM_COST_POOL_FREE, range->size);
    if (on->capture != NULL) {
        return sim_capture_free(on, range);
    }
    return range->kind == SIM_POOLED ? sim_pool_free(sim_pooled_of(range), on)
                                     : sim_plain_free_behind(SIM_OWNER(range, struct sim_plain, range), on);
}

/* ---- stream-ordered allocation ---- */

static CUresult allocate_async(CUdeviceptr *address, size_t bytes, struct sim_pool *pool, struct sim_stream *stream)
{
    if (bytes == 0) {
        *address = 0;
        return CUDA_SUCCESS;
    }
    struct sim_pooled *pooled;
    CUresult result = stream->capture != NULL ? sim_capture_allocate(stream, pool, bytes, &pooled)
                                              : sim_pool_allocate(pool, bytes, stream, &pooled);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    sim_clock_charge(SIM_COST_POOL_ALLOC, bytes);
    *address = pooled->range.node.key;
    sim_log_output(*address);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    struct sim_stream *on;
    CUresult result = address == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &on);
    return result != CUDA_SUCCESS ? result : allocate_async(address, bytes, on->context->device->current_pool, on);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    struct sim_pool *found = sim_pool_get(pool);
    struct sim_stream *on;
    CUresult result = address == NULL || found == NULL ? CUDA_ERROR_INVALID_VALUE : sim_stream_find(stream, &on);
    return result != CUDA_SUCCESS ? result : allocate_async(address, bytes, found, on);
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    const struct sim_range *range = sim_space_find(address);
    const struct sim_mapping *mapping =
        range != NULL && range->kind == SIM_RESERVED ? sim_space_mapping(address) : NULL;
    if (range == NULL || (range->kind == SIM_RESERVED && mapping == NULL)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base != NULL) {
        *base = mapping != NULL ? mapping->address : range->node.key;
    }
    if (size != NULL) {
        *size = mapping != NULL ? mapping->size : range->size;
    }
    return CUDA_SUCCESS;
}
