/*
 * query.c - what a program hears about memory: how much there is, and what a block is.
 *
 * A block of ours passes for what the program asked for: memory of cuMemAlloc(), or of a stream-ordered pool. Where
 * the driver would speak of the chunks and address ranges below, the answer is about the block. Of memory that is not
 * ours the driver's answer is passed on as it is.
 *
 * CONCURRENCY  no state here.
 */
#include "capture.h"
#include "hooks.h"
#include "origin.h"
#include "pools.h"
#include "process.h"
#include "registry.h"
#include "target.h"

#include <stdbool.h>
#include <stddef.h>

/* --- how much there is -------------------------------------------------------------------------------------------- */

/*
 * Bytes that the core holds on the current device and no block of the program's uses: what is free at once, and what
 * still waits for the work that used it, which the driver would count as free after the program's own wait. And what
 * the driver's pools would have given back at a plain free, which it does not see.
 */
static size_t idle_bytes(void)
{
    struct gm_capture_scope capture;
    struct gmlake *allocator;
    CUdevice device;
    size_t idle = 0;
    if (!gm_process_is_served() || gm_driver_ctx_get_device(&device) != CUDA_SUCCESS || !gm_process_enter()) {
        return 0;
    }
    for (unsigned i = 0; (allocator = gm_target_allocator(device, i)) != NULL; i++) {
        struct gmlake_stats stats = {.size = sizeof stats};
        idle += gmlake_get_stats(allocator, &stats) == 0 ? stats.reserved - stats.allocated : 0;
    }
    gm_capture_enter(&capture);
    idle += gm_pools_idle(device);
    gm_capture_leave(&capture);
    gm_process_leave();
    return idle;
}

/* Memory that we hold and nobody uses is free to the program: an allocation would get it. */
CUresult gm_hook_mem_get_info(size_t *free_bytes, size_t *total_bytes)
{
    CUresult rc = gm_driver_mem_get_info(free_bytes, total_bytes);
    size_t idle = rc == CUDA_SUCCESS && free_bytes != NULL ? idle_bytes() : 0;
    size_t unused;
    size_t total;
    if (idle == 0 || gm_driver_mem_get_info(&unused, &total) != CUDA_SUCCESS) {
        return rc;
    }
    *free_bytes = idle < total - *free_bytes ? *free_bytes + idle : total;
    return rc;
}

/* --- what a block is ---------------------------------------------------------------------------------------------- */

/* What the program has comes last. */
enum kind {
    FOREIGN, /* not in a range of ours */
    NOTHING, /* in a range of ours, but in no block that the program has */
    PLAIN,   /* from cuMemAlloc() */
    ORDERED, /* from a stream-ordered call */
};

struct subject {
    enum kind kind;
    struct gmlake_block block; /* PLAIN, ORDERED */
    struct gm_origin origin;   /* the same */
    CUdevice device;           /* the same */
};

/* An address that no driver knows. What lies in our ranges but in no block is as unknown to the program. */
#define UNKNOWN ((CUdeviceptr)0)

static struct subject identify(CUdeviceptr address)
{
    struct subject subject = {.kind = FOREIGN};
    struct gmlake *owner = gm_process_is_served() ? gm_registry_owner(address) : NULL;
    if (owner == NULL || !gm_process_enter()) {
        return subject;
    }
    if (gmlake_find(owner, address, &subject.block) != 0) {
        subject.kind = NOTHING;
    } else {
        subject.origin = gm_origin_of(subject.block.address);
        subject.device = gm_registry_device(owner);
        subject.kind = subject.origin.context != NULL ? PLAIN : ORDERED;
    }
    gm_process_leave();
    return subject;
}

/* The driver is asked in any case, whose answer depends on the context, too. */
CUresult gm_hook_mem_get_address_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct subject subject = identify(address);
    CUresult rc = gm_driver_mem_get_address_range(base, size, subject.kind == NOTHING ? UNKNOWN : address);
    if (rc == CUDA_SUCCESS && subject.kind >= PLAIN) {
        if (base != NULL) {
            *base = subject.block.address;
        }
        if (size != NULL) {
            *size = subject.block.requested;
        }
    }
    return rc;
}

/* Libraries ask this to learn whether memory is the program's own virtual memory. Ours does not pass for that. */
CUresult gm_hook_mem_retain_allocation_handle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct subject subject = identify((CUdeviceptr)(uintptr_t)address);
    return subject.kind == FOREIGN ? gm_driver_mem_retain_allocation_handle(handle, address) : CUDA_ERROR_INVALID_VALUE;
}

/* The pool that a stream-ordered block came from. */
static CUmemoryPool pool_of(const struct subject *subject)
{
    const struct gm_pool_record *pool =
        subject->origin.pool != NULL ? subject->origin.pool : gm_pools_default(subject->device);
    return pool == NULL ? NULL : gm_pools_handle(pool);
}

/* An identity of the block's own, where there is room for it; the driver's answer is that of the range around it. */
static void identify_block(const struct subject *subject, unsigned long long *id)
{
    uint64_t own = gm_origin_identity(subject->block.address);
    *id = own != 0 ? own : *id;
}

/* Puts right what the driver has answered about memory of ours. */
static void correct(const struct subject *subject, CUpointer_attribute attribute, void *data)
{
    bool plain = subject->kind == PLAIN;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = subject->origin.context;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        identify_block(subject, data);
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned char *)data = subject->origin.sync_memops;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: /* of the allocation, whatever device asks */
        *(CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = subject->block.address;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = subject->block.requested;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data = plain;
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned char *)data = plain && *(unsigned char *)data != 0;
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(cuuint64_t *)data = CU_MEM_HANDLE_TYPE_NONE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = plain ? NULL : pool_of(subject);
        break;
    default:
        break;
    }
}

CUresult gm_hook_pointer_get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct subject subject = identify(address);
    CUresult rc = gm_driver_pointer_get_attribute(data, attribute, subject.kind == NOTHING ? UNKNOWN : address);
    if (rc == CUDA_SUCCESS && subject.kind >= PLAIN) {
        correct(&subject, attribute, data);
    }
    return rc;
}

CUresult gm_hook_pointer_get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                        CUdeviceptr address)
{
    struct subject subject = identify(address);
    CUresult rc =
        gm_driver_pointer_get_attributes(count, attributes, data, subject.kind == NOTHING ? UNKNOWN : address);
    for (unsigned int i = 0; rc == CUDA_SUCCESS && subject.kind != FOREIGN && i < count; i++) {
        if (subject.kind != NOTHING) {
            correct(&subject, attributes[i], data[i]);
        } else if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
            *(CUdeviceptr *)data[i] = address; /* unknown memory is taken for the program's own */
        }
    }
    return rc;
}

/* With @value set, copies of the block's bytes wait for one another, and so do others: more than was asked for. */
CUresult gm_hook_pointer_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct subject subject = identify(address);
    if (subject.kind < PLAIN || value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
        return gm_driver_pointer_set_attribute(value, attribute, subject.kind == NOTHING ? UNKNOWN : address);
    }
    bool on = *(const unsigned int *)value != 0;
    CUresult rc = on ? gm_target_synchronize_memops(subject.device) : CUDA_SUCCESS;
    if (rc == CUDA_SUCCESS && !gm_origin_set_sync_memops(subject.block.address, on)) {
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}
