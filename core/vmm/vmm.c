/*
 * vmm.c - see vmm.h.
 */
#include "vmm.h"

#include "account.h"
#include "errors.h"

#include <errno.h>
#include <string.h>

/* Runs one driver call, counts it and its time, and gives its result as 0 or -errno. */
#define DRIVER_CALL(vmm, call)                                                                                         \
    __extension__({                                                                                                    \
        uint64_t start_ns = (vmm)->cu->now_ns();                                                                       \
        CUresult code = (vmm)->cu->call;                                                                               \
        (vmm)->calls++;                                                                                                \
        (vmm)->ns += (vmm)->cu->now_ns() - start_ns;                                                                   \
        code == CUDA_SUCCESS ? 0 : gm_error_from_driver((int)code);                                                    \
    })

static int attribute(struct gm_vmm *vmm, CUdevice_attribute which)
{
    int value = 0;
    return vmm->cu->device_get_attribute(&value, which, vmm->device) == CUDA_SUCCESS ? value : 0;
}

int gm_vmm_init(struct gm_vmm *vmm, const struct gm_cu *cu, int device)
{
    memset(vmm, 0, sizeof *vmm);
    vmm->cu = cu;
    CUresult code = cu->device_get(&vmm->device, device);
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    if (!attribute(vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
        return -ENOTSUP;
    }
    size_t capacity;
    code = cu->device_total_mem(&capacity, vmm->device);
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    vmm->capacity = capacity;
    CUuuid uuid;
    if (cu->device_get_uuid != NULL && cu->device_get_uuid(&uuid, vmm->device) == CUDA_SUCCESS) {
        memcpy(vmm->uuid, uuid.bytes, sizeof vmm->uuid);
    }
    /* All chunks get one set of properties, so that a stitched range can be exported or registered as a whole. */
    vmm->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    vmm->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    vmm->properties.location.id = device;
    if (attribute(vmm, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
        vmm->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    vmm->properties.allocFlags.gpuDirectRDMACapable =
        (unsigned char)attribute(vmm, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    vmm->access[0].location = vmm->properties.location;
    vmm->access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    vmm->accessors = 1;
    size_t granularity = 0;
    code = cu->mem_get_allocation_granularity(&granularity, &vmm->properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    return granularity == GM_PAGE_SIZE ? 0 : -ENOTSUP;
}

int gm_vmm_reserve(struct gm_vmm *vmm, uint64_t size, uint64_t alignment, CUdeviceptr *out)
{
    CUdeviceptr address = 0;
    int rc = DRIVER_CALL(vmm, mem_address_reserve(&address, size, alignment, 0, 0));
    if (rc < 0) {
        return rc;
    }
    vmm->va_bytes += size;
    *out = address;
    return 0;
}

void gm_vmm_unreserve(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size)
{
    if (DRIVER_CALL(vmm, mem_address_free(address, size)) == 0) {
        vmm->va_bytes -= size;
    }
}

int gm_vmm_create(struct gm_vmm *vmm, uint64_t size, CUmemGenericAllocationHandle *out)
{
    CUmemGenericAllocationHandle handle = 0;
    enum gm_charge charge = gm_account_charge(size);
    if (charge == GM_CHARGE_REFUSED) {
        vmm->max_events++;
        return gm_error_from_driver(CUDA_ERROR_OUT_OF_MEMORY);
    }
    vmm->high_events += charge == GM_CHARGE_BEYOND_HIGH;
    int rc = DRIVER_CALL(vmm, mem_create(&handle, size, &vmm->properties, 0));
    if (rc < 0) {
        gm_account_uncharge(size);
        return rc;
    }
    vmm->reserved += size;
    if (vmm->reserved > vmm->reserved_peak) {
        vmm->reserved_peak = vmm->reserved;
    }
    *out = handle;
    return 0;
}

void gm_vmm_release(struct gm_vmm *vmm, CUmemGenericAllocationHandle handle, uint64_t size)
{
    if (DRIVER_CALL(vmm, mem_release(handle)) == 0) {
        vmm->reserved -= size;
        gm_account_uncharge(size);
    }
}

int gm_vmm_admit(struct gm_vmm *vmm, CUdevice peer)
{
    for (uint32_t i = 0; i < vmm->accessors; i++) {
        if (vmm->access[i].location.id == peer) {
            return 0;
        }
    }
    if (vmm->accessors == GM_ACCESSORS_MAX) {
        return -ENOSPC;
    }
    CUmemAccessDesc *access = &vmm->access[vmm->accessors];
    *access = vmm->access[0];
    access->location.id = peer;
    vmm->accessors++;
    return 0;
}

int gm_vmm_reopen(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size)
{
    return DRIVER_CALL(vmm, mem_set_access(address, size, vmm->access, vmm->accessors));
}

int gm_vmm_map(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size, CUmemGenericAllocationHandle handle)
{
    int rc = DRIVER_CALL(vmm, mem_map(address, size, 0, handle, 0));
    if (rc < 0) {
        return rc;
    }
    rc = gm_vmm_reopen(vmm, address, size);
    if (rc < 0) {
        int kept = gm_error_driver_code();
        (void)DRIVER_CALL(vmm, mem_unmap(address, size));
        (void)gm_error_from_driver(kept);
        return rc;
    }
    vmm->mappings++;
    if (vmm->mappings > vmm->mappings_peak) {
        vmm->mappings_peak = vmm->mappings;
    }
    return 0;
}

void gm_vmm_unmap(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size)
{
    if (DRIVER_CALL(vmm, mem_unmap(address, size)) == 0) {
        vmm->mappings--;
    }
}
