/*
 * memory.c - cuMemAlloc and its relatives, and what is free.
 */
#include "entry.h"

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

CUresult sim_cuMemFree_v2(CUdeviceptr address)
{
    if (address == 0) {
        return CUDA_SUCCESS;
    }
    struct sim_range *range = sim_space_find(address);
    if (range == NULL || range->node.key != address || (range->kind != SIM_PLAIN && range->kind != SIM_POOLED)) {
        sim_report("%#llx is not the start of an allocation%s", address, range == NULL ? " (freed twice?)" : "");
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_device_wait(range->device);
    sim_clock_charge(SIM_COST_FREE, range->size);
    if (range->kind == SIM_POOLED) {
        return sim_pool_free(range, NULL);
    }
    sim_plain_drop(SIM_OWNER(range, struct sim_plain, range));
    return CUDA_SUCCESS;
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
        *base = mapping != NULL ? mapping->node.key : range->node.key;
    }
    if (size != NULL) {
        *size = mapping != NULL ? mapping->size : range->size;
    }
    return CUDA_SUCCESS;
}
