/*
 * vmm.c - virtual memory management: reserve, create, map, access, unmap, release.
 *
 * The rules are the H200's: a chunk is mapped whole and from its start, a mapping is unmapped whole, and it keeps the
 * chunk's memory alive after the handle is released.
 */
#include "vmm.h"

#include "clock.h"
#include "context.h"
#include "entry.h"
#include "objects.h"
#include "report.h"

#include <stdlib.h>
#include <unistd.h>

typedef unsigned long long ull;

struct reservation {
    struct sim_range range;
    struct sim_span span;
    uint64_t mappings;
};

/* A number that a program holds; an imported chunk has one for each import. */
struct handle {
    uint64_t number;
    struct sim_chunk *chunk;
    uint64_t references;
};

static struct sim_vmm_totals totals;
static struct sim_tree chunks;

void sim_vmm_count(struct sim_vmm_totals *out)
{
    *out = totals;
}

static bool whole_pages(uint64_t value)
{
    return (value & (SIM_PAGE - 1)) == 0;
}

static struct reservation *as_reservation(struct sim_range *range)
{
    return range == NULL || range->kind != SIM_RESERVED ? NULL : SIM_OWNER(range, struct reservation, range);
}

/* ---- properties ---- */

static bool on_host(CUmemLocationType type)
{
    return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!on_host(properties->location.type)) {
        if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (sim_device_at(properties->location.id) == NULL) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    if ((properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_config.vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                           CUmemAllocationGranularity_flags option)
{
    if (granularity == NULL ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = check_properties(properties);
    if (result == CUDA_SUCCESS) {
        *granularity = SIM_PAGE;
    }
    return result;
}

/* ---- address space ---- */

/* The device whose address space figures a reservation counts in. */
static struct sim_device *accounted_device(void)
{
    const struct sim_context *context = sim_context_current();
    return context == NULL ? sim_device_at(0) : context->device;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted,
                                 unsigned long long flags)
{
    bool power = (alignment & (alignment - 1)) == 0;
    if (address == NULL || size == 0 || !whole_pages(size) || !power || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_config.vmm) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct reservation *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_address_reserve(size, alignment < SIM_PAGE ? SIM_PAGE : alignment, wanted, &made->span)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->range.kind = SIM_RESERVED;
    made->range.size = size;
    made->range.device = accounted_device();
    sim_space_add(&made->range, made->span.address);
    sim_device_count_va(made->range.device, (int64_t)size);
    totals.reservations++;
    totals.reserved_bytes += size;
    sim_clock_charge(SIM_COST_RESERVE, size);
    *address = made->span.address;
    sim_log_output(*address);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressFree(CUdeviceptr address, size_t size)
{
    struct reservation *found = as_reservation(sim_space_find(address));
    if (found == NULL || found->range.node.key != address || found->range.size != size) {
        sim_report("%#llx, %zu bytes: not a reservation as it was made", address, size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (found->mappings > 0) {
        sim_report("%#llx: %llu mappings are still in the reservation", address, (ull)found->mappings);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_device_count_va(found->range.device, -(int64_t)size);
    totals.reservations--;
    totals.reserved_bytes -= size;
    sim_space_remove(&found->range);
    sim_address_free(&found->span);
    free(found);
    return CUDA_SUCCESS;
}

/* ---- chunks ---- */

static void drop_if_unused(struct sim_chunk *chunk)
{
    if (chunk->handles > 0 || chunk->mappings > 0) {
        return;
    }
    if (chunk->foreign) {
        close(chunk->file);
    } else {
        sim_device_give(chunk->device, chunk->size, !chunk->on_host, chunk->offset);
    }
    sim_tree_remove(&chunks, &chunk->by_id);
    free(chunk);
}

static struct sim_chunk *new_chunk(struct sim_device *device, uint64_t size)
{
    static uint64_t next_id = 1;
    struct sim_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk != NULL) {
        chunk->id = next_id++;
        chunk->device = device;
        chunk->size = size;
        chunk->file = device->file;
    }
    return chunk;
}

/* Enters a chunk whose memory is there and gives it its first handle. */
static CUresult enter_chunk(struct sim_chunk *chunk, CUmemGenericAllocationHandle *out)
{
    chunk->by_id.key = chunk->id;
    chunk->by_id.tie = 0;
    sim_tree_insert(&chunks, &chunk->by_id);
    CUresult result = sim_chunk_add_handle(chunk, out);
    if (result != CUDA_SUCCESS) {
        drop_if_unused(chunk);
    }
    return result;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                         unsigned long long flags)
{
    CUresult result = check_properties(properties);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (handle == NULL || size == 0 || !whole_pages(size) || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool host = on_host(properties->location.type);
    struct sim_chunk *chunk = new_chunk(sim_device_at(host ? 0 : properties->location.id), size);
    if (chunk == NULL || !sim_device_take(chunk->device, size, !host, &chunk->offset)) {
        free(chunk);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    chunk->on_host = host;
    chunk->properties = *properties;
    result = enter_chunk(chunk, handle);
    if (result == CUDA_SUCCESS) {
        sim_clock_charge(SIM_COST_CREATE, size);
    }
    return result;
}

CUresult sim_chunk_adopt(struct sim_device *device, int file, uint64_t offset, uint64_t size,
                         CUmemGenericAllocationHandle *out)
{
    struct sim_chunk *chunk = new_chunk(device, size);
    if (chunk == NULL) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    chunk->file = file;
    chunk->offset = offset;
    chunk->foreign = true;
    chunk->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
    return enter_chunk(chunk, out);
}

struct sim_chunk *sim_chunk_by_id(uint64_t id)
{
    struct sim_node *node = sim_tree_floor(&chunks, id, 0);
    return node == NULL || node->key != id ? NULL : SIM_OWNER(node, struct sim_chunk, by_id);
}

CUresult sim_chunk_add_handle(struct sim_chunk *chunk, CUmemGenericAllocationHandle *out)
{
    struct handle *handle = malloc(sizeof *handle);
    uint64_t number = handle == NULL ? 0 : sim_object_add(SIM_CHUNK, handle);
    if (number == 0) {
        free(handle);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (struct handle){.number = number, .chunk = chunk, .references = 1};
    if (chunk->handles++ == 0) {
        chunk->first = handle;
        totals.chunks++;
        totals.chunk_bytes += chunk->size;
        chunk->device->handles++;
    }
    *out = number;
    sim_log_output(number);
    return CUDA_SUCCESS;
}

static struct handle *find_handle(CUmemGenericAllocationHandle number)
{
    struct handle *handle = sim_object_get(SIM_CHUNK, number);
    if (handle == NULL) {
        sim_report("%#llx is not a handle, or was released", number);
    }
    return handle;
}

struct sim_chunk *sim_chunk_get(CUmemGenericAllocationHandle number)
{
    struct handle *handle = find_handle(number);
    return handle == NULL ? NULL : handle->chunk;
}

static void drop_handle(struct handle *handle)
{
    struct sim_chunk *chunk = handle->chunk;
    sim_object_remove(handle->number);
    if (chunk->first == handle) {
        chunk->first = NULL;
    }
    free(handle);
    if (--chunk->handles == 0) {
        totals.chunks--;
        totals.chunk_bytes -= chunk->size;
        chunk->device->handles--;
        drop_if_unused(chunk);
    }
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle number)
{
    struct handle *handle = find_handle(number);
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_clock_charge(SIM_COST_RELEASE, handle->chunk->size);
    if (--handle->references == 0) {
        drop_handle(handle);
    }
    return CUDA_SUCCESS;
}

/* One more reference to the handle that the chunk was created or first imported with, or a new one if it is gone. */
static CUresult retain(struct sim_chunk *chunk, CUmemGenericAllocationHandle *out)
{
    if (chunk->first == NULL) {
        CUresult result = sim_chunk_add_handle(chunk, out);
        if (result == CUDA_SUCCESS) {
            chunk->first = sim_object_get(SIM_CHUNK, *out);
        }
        return result;
    }
    chunk->first->references++;
    *out = chunk->first->number;
    sim_log_output(*out);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct sim_mapping *mapping = sim_space_mapping((uint64_t)(uintptr_t)address);
    if (handle == NULL || mapping == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return retain(mapping->chunk, handle);
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                    CUmemGenericAllocationHandle handle)
{
    const struct sim_chunk *chunk = sim_chunk_get(handle);
    if (properties == NULL || chunk == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *properties = chunk->properties;
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

static bool free_of_mappings(uint64_t address, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += SIM_PAGE) {
        if (sim_space_mapping(address + i) != NULL) {
            return false;
        }
    }
    return true;
}

static CUresult check_map(uint64_t address, uint64_t size, uint64_t offset, const struct sim_chunk *chunk,
                          struct reservation **out)
{
    if (chunk == NULL || size == 0 || !whole_pages(address) || !whole_pages(size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (offset != 0 || size != chunk->size) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct reservation *found = as_reservation(sim_space_find(address));
    if (found == NULL || size > found->range.size - (address - found->range.node.key)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!free_of_mappings(address, size)) {
        sim_report("%#llx, %llu bytes: something is mapped there already", (ull)address, (ull)size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = found;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    struct sim_chunk *chunk = sim_chunk_get(handle);
    struct reservation *reservation;
    CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : check_map(address, size, offset, chunk, &reservation);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *mapping =
        (struct sim_mapping){.address = address, .size = size, .chunk = chunk, .reservation = &reservation->range};
    if (!sim_address_map(address, size, chunk->file, chunk->offset, SIM_ACCESS_NONE)) {
        free(mapping);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (!sim_space_add_mapping(mapping)) {
        sim_address_unmap(address, size);
        free(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reservation->mappings++;
    chunk->mappings++;
    totals.mappings++;
    sim_device_count_mappings(chunk->device, 1);
    sim_clock_charge(SIM_COST_MAP, size);
    return CUDA_SUCCESS;
}

/* True: the range cuts a mapping, at its start or end (reported). */
static bool cuts_a_mapping(uint64_t address, uint64_t size)
{
    const uint64_t ends[] = {address, address + size - SIM_PAGE};
    for (int i = 0; i < 2; i++) {
        const struct sim_mapping *mapping = sim_space_mapping(ends[i]);
        if (mapping != NULL && (mapping->address < address || mapping->address + mapping->size > address + size)) {
            sim_report("%#llx, %llu bytes: cuts the mapping at %#llx, %llu bytes", (ull)address, (ull)size,
                       (ull)mapping->address, (ull)mapping->size);
            return true;
        }
    }
    return false;
}

static bool pages_are_whole(uint64_t address, uint64_t size)
{
    return size != 0 && whole_pages(address) && whole_pages(size) && address + size > address;
}

/* The next mapping from *place on and before @end; *place is then behind it. NULL: no more. */
static struct sim_mapping *next_mapping(uint64_t *place, uint64_t end)
{
    while (*place < end) {
        struct sim_mapping *mapping = sim_space_mapping(*place);
        *place += mapping != NULL ? mapping->size : SIM_PAGE;
        if (mapping != NULL) {
            return mapping;
        }
    }
    return NULL;
}

static void drop_mapping(struct sim_mapping *mapping)
{
    struct sim_chunk *chunk = mapping->chunk;
    sim_clock_charge(SIM_COST_UNMAP, mapping->size);
    sim_address_unmap(mapping->address, mapping->size);
    sim_space_remove_mapping(mapping);
    SIM_OWNER(mapping->reservation, struct reservation, range)->mappings--;
    sim_device_count_mappings(chunk->device, -1);
    totals.mappings--;
    chunk->mappings--;
    drop_if_unused(chunk);
    free(mapping);
}

/* What is not mapped is passed over, as by the real driver; a range in which nothing is mapped is reported. */
CUresult sim_cuMemUnmap(CUdeviceptr address, size_t size)
{
    if (!pages_are_whole(address, size) || as_reservation(sim_space_find(address)) == NULL) {
        sim_report("%#llx, %zu bytes: not whole pages of a reservation", address, size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (cuts_a_mapping(address, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sim_op *op = sim_stream_pending_on(address, size);
    if (op != NULL) {
        sim_report("%#llx, %zu bytes: work on stream %llu still uses it", address, size, (ull)op->stream->id);
    }
    struct sim_mapping *mapping;
    uint64_t place = address;
    bool found = false;
    while ((mapping = next_mapping(&place, address + size)) != NULL) {
        found = true;
        drop_mapping(mapping);
    }
    if (!found) {
        sim_report("%#llx, %zu bytes: nothing is mapped there (unmapped twice?)", address, size);
    }
    return CUDA_SUCCESS;
}

/* ---- access ---- */

static CUresult read_access(const CUmemAccessDesc *wanted, int *device, enum sim_access *access)
{
    if (on_host(wanted->location.type)) {
        *device = -1;
    } else if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    } else if (sim_device_at(wanted->location.id) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    } else {
        *device = wanted->location.id;
    }
    if (wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        *access = SIM_ACCESS_NONE;
    } else if (wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
        *access = SIM_ACCESS_READ;
    } else if (wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        *access = SIM_ACCESS_WRITE;
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* What the process may do with the bytes: the most that any device may. */
static enum sim_access most_access(const struct sim_mapping *mapping)
{
    uint8_t most = SIM_ACCESS_NONE;
    for (int i = 0; i < sim_device_count(); i++) {
        most = mapping->access[i] > most ? mapping->access[i] : most;
    }
    return (enum sim_access)most;
}

static CUresult open_mapping(struct sim_mapping *mapping, int device, enum sim_access access)
{
    enum sim_access before = most_access(mapping);
    if (device >= 0) {
        mapping->access[device] = (uint8_t)access;
    }
    enum sim_access after = device < 0 && access > before ? access : most_access(mapping);
    sim_clock_charge(SIM_COST_ACCESS, mapping->size);
    if (after != before && !sim_address_protect(mapping->address, mapping->size, after)) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

/* True: every page of the range is mapped. */
static bool all_mapped(uint64_t address, uint64_t size)
{
    for (uint64_t place = address; place < address + size;) {
        const struct sim_mapping *mapping = sim_space_mapping(place);
        if (mapping == NULL) {
            sim_report("%#llx: nothing is mapped there", (ull)place);
            return false;
        }
        place = mapping->address + mapping->size;
    }
    return true;
}

static CUresult open_range(uint64_t address, uint64_t size, const CUmemAccessDesc *wanted)
{
    int device = -1;
    enum sim_access access = SIM_ACCESS_NONE;
    CUresult result = read_access(wanted, &device, &access);
    struct sim_mapping *mapping;
    uint64_t place = address;
    while (result == CUDA_SUCCESS && (mapping = next_mapping(&place, address + size)) != NULL) {
        result = open_mapping(mapping, device, access);
    }
    return result;
}

CUresult sim_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    if (access == NULL || count == 0 || !pages_are_whole(address, size) || cuts_a_mapping(address, size) ||
        !all_mapped(address, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = open_range(address, size, &access[i]);
    }
    return result;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    const struct sim_mapping *mapping = sim_space_mapping(address);
    if (flags == NULL || location == NULL || mapping == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || sim_device_at(location->id) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    static const CUmemAccess_flags answers[] = {
        [SIM_ACCESS_NONE] = CU_MEM_ACCESS_FLAGS_PROT_NONE,
        [SIM_ACCESS_READ] = CU_MEM_ACCESS_FLAGS_PROT_READ,
        [SIM_ACCESS_WRITE] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    *flags = answers[mapping->access[location->id]];
    return CUDA_SUCCESS;
}
