/*
 * pointer.c - cuPointerGetAttribute(s): each kind of memory answers as it does on the H200.
 */
#include "entry.h"

#include "context.h"
#include "host.h"
#include "plain.h"
#include "pool.h"
#include "space.h"
#include "vmm.h"

#include <string.h>

/* What is known of an address; @mapping is set exactly for mapped memory in a reservation. */
struct subject {
    uint64_t address;
    struct sim_range *range;
    struct sim_mapping *mapping;
};

/* False: nothing is there that has attributes. *out is filled all the same, with the reservation if there is one. */
static bool identify(CUdeviceptr address, struct subject *out)
{
    struct sim_range *range = sim_space_find(address);
    *out = (struct subject){.address = address, .range = range};
    if (range == NULL || range->freed) {
        out->range = NULL;
        return false;
    }
    if (range->kind == SIM_RESERVED) {
        out->mapping = sim_space_mapping(address);
        return out->mapping != NULL;
    }
    return true;
}

static bool is_kind(const struct subject *subject, enum sim_range_kind kind)
{
    return subject->range->kind == kind;
}

/* ---- answers that take more than a word ---- */

static CUcontext context_of(const struct subject *subject)
{
    if (is_kind(subject, SIM_PLAIN)) {
        return sim_context_handle(SIM_OWNER(subject->range, struct sim_plain, range)->context);
    }
    return is_kind(subject, SIM_HOST) ? sim_host_context(subject->range) : NULL;
}

static uint64_t mapping_base(const struct subject *subject)
{
    if (subject->mapping != NULL) {
        return subject->mapping->address;
    }
    return is_kind(subject, SIM_POOLED) ? sim_pool_step(subject->address, 1) : subject->range->node.key;
}

static uint64_t mapping_size(const struct subject *subject)
{
    if (subject->mapping != NULL) {
        return subject->mapping->size;
    }
    if (is_kind(subject, SIM_HOST)) {
        return (subject->range->size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
    }
    return is_kind(subject, SIM_POOLED) ? SIM_POOL_STEP : subject->range->size;
}

static bool rdma_capable(const struct subject *subject)
{
    return subject->mapping != NULL ? subject->mapping->chunk->properties.allocFlags.gpuDirectRDMACapable != 0
                                    : is_kind(subject, SIM_PLAIN);
}

static CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS access_of(const struct subject *subject)
{
    const struct sim_context *current = sim_context_current();
    int device = current != NULL ? current->device->ordinal : subject->range->device->ordinal;
    uint8_t access = subject->mapping != NULL ? subject->mapping->access[device] : SIM_ACCESS_WRITE;
    return access == SIM_ACCESS_WRITE  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
           : access == SIM_ACCESS_READ ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                       : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

static CUmemoryPool pool_of(const struct subject *subject)
{
    return is_kind(subject, SIM_POOLED) ? (CUmemoryPool)(uintptr_t)sim_pooled_of(subject->range)->pool->handle : NULL;
}

/* ---- the table of answers: what is a yes or no is a whole word ---- */

#define ANSWER(type, value)                                                                                            \
    do {                                                                                                               \
        *(type *)data = (value);                                                                                       \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

static CUresult answer_identity(const struct subject *subject, CUpointer_attribute attribute, void *data)
{
    bool host = is_kind(subject, SIM_HOST);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ANSWER(CUcontext, context_of(subject));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ANSWER(unsigned, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        ANSWER(CUdeviceptr, subject->address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        ANSWER(void *, (void *)(uintptr_t)subject->address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        ANSWER(unsigned long long, subject->range->buffer_id);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        ANSWER(unsigned long long, subject->mapping != NULL ? subject->mapping->chunk->id : subject->range->buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ANSWER(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int,
               subject->mapping != NULL ? subject->mapping->chunk->device->ordinal : subject->range->device->ordinal);
    default:
        return CUDA_ERROR_NOT_FOUND;
    }
}

static CUresult answer_ability(const struct subject *subject, CUpointer_attribute attribute, void *data)
{
    bool plain = is_kind(subject, SIM_PLAIN);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        ANSWER(unsigned, subject->range->sync_memops);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ANSWER(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        ANSWER(CUdeviceptr, subject->range->node.key);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        ANSWER(size_t, subject->range->size);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        ANSWER(unsigned, plain);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        ANSWER(cuuint64_t, subject->mapping != NULL ? subject->mapping->chunk->properties.requestedHandleTypes : 0);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        ANSWER(unsigned, rdma_capable(subject));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        ANSWER(CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS, access_of(subject));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ANSWER(CUmemoryPool, pool_of(subject));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        ANSWER(size_t, mapping_size(subject));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        ANSWER(CUdeviceptr, mapping_base(subject));
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        ANSWER(unsigned, plain);
    default: /* P2P_TOKENS too: there is no kernel driver behind this device to honour them */
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult answer(const struct subject *subject, CUpointer_attribute attribute, void *data)
{
    CUresult result = answer_identity(subject, attribute, data);
    return result != CUDA_ERROR_NOT_FOUND ? result : answer_ability(subject, attribute, data);
}

/* ---- the calls ---- */

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct subject subject;
    if (data == NULL || !identify(address, &subject)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return answer(&subject, attribute, data);
}

/* What the plural form gives where the singular one gives none: nothing, but for a few. */
static CUresult no_answer(const struct subject *subject, bool known, CUpointer_attribute attribute, void *data)
{
    bool reserved = !known && subject->range != NULL;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        ANSWER(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int, CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: /* unknown memory is taken for the program's own */
        ANSWER(uint64_t, known ? 0 : subject->address);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: /* of unknown memory: left as it is */
        if (!reserved) {
            return CUDA_SUCCESS;
        }
        ANSWER(CUdeviceptr, subject->range->node.key);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        if (!reserved) {
            return CUDA_SUCCESS;
        }
        ANSWER(size_t, subject->range->size);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
        return CUDA_SUCCESS;
    default:
        ANSWER(uint64_t, 0);
    }
}

CUresult sim_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr address)
{
    if (count == 0 || attributes == NULL || data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct subject subject;
    bool known = identify(address, &subject);
    for (unsigned i = 0; i < count; i++) {
        if (data[i] == NULL || (int)attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (!known || answer(&subject, attributes[i], data[i]) != CUDA_SUCCESS) {
            no_answer(&subject, known, attributes[i], data[i]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct subject subject;
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !identify(address, &subject)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (is_kind(&subject, SIM_RESERVED)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    subject.range->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
