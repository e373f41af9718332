/*
 * share.c - memory shared between processes: exported chunks, legacy IPC, dma-buf.
 *
 * What crosses the border is a note that says which piece of which process's device file is meant; the other side
 * opens that file through /proc. A chunk's note is a memfd of its own, so that its descriptor can be passed like a real
 * one; an IPC handle has room for it. It works as long as the exporting process lives.
 */
#include "entry.h"

#include "context.h"
#include "plain.h"
#include "pool.h"
#include "report.h"
#include "vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOTE_MAGIC 0x73696d6375646131ull

struct note {
    uint64_t magic;
    int32_t process;
    int32_t file;     /* descriptor in that process */
    uint64_t offset;  /* of the piece, in whole pages */
    uint64_t size;    /* of the piece, in whole pages */
    uint64_t inside;  /* where the allocation begins in it */
    uint64_t bytes;   /* of the allocation */
    uint64_t id;      /* of the allocation */
    uint32_t ordinal; /* of the device */
    uint32_t reserved;
};

_Static_assert(sizeof(struct note) <= CU_IPC_HANDLE_SIZE, "an IPC handle carries the note");

/* Opens the device file that @note names; -1: it cannot be. */
static int open_file(const struct note *note)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)note->process, (int)note->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        sim_report("memory of process %d cannot be opened: it has ended, or is not ours to look into",
                   (int)note->process);
    }
    return file;
}

/* ---- chunks ---- */

CUresult sim_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long flags)
{
    const struct sim_chunk *chunk = sim_chunk_get(handle);
    if (out == NULL || chunk == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        (chunk->properties.requestedHandleTypes & type) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct note note = {.magic = NOTE_MAGIC,
                        .process = (int32_t)getpid(),
                        .file = chunk->file,
                        .offset = chunk->offset,
                        .size = chunk->size,
                        .bytes = chunk->size,
                        .id = chunk->id,
                        .ordinal = (uint32_t)chunk->device->ordinal};
    int paper = memfd_create("simcuda-chunk", MFD_CLOEXEC);
    if (paper < 0 || write(paper, &note, sizeof note) != (ssize_t)sizeof note) {
        if (paper >= 0) {
            close(paper);
        }
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)out = paper;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *descriptor,
                                            CUmemAllocationHandleType type)
{
    struct note note;
    int paper = (int)(intptr_t)descriptor;
    if (handle == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread(paper, &note, sizeof note, 0) != (ssize_t)sizeof note || note.magic != NOTE_MAGIC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_device *device = sim_device_at((int)note.ordinal);
    struct sim_chunk *chunk = note.process == (int32_t)getpid() ? sim_chunk_by_id(note.id) : NULL;
    if (chunk != NULL) {
        return sim_chunk_add_handle(chunk, handle);
    }
    if (device == NULL || note.process == (int32_t)getpid()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int file = open_file(&note);
    return file < 0 ? CUDA_ERROR_OPERATING_SYSTEM : sim_chunk_adopt(device, file, note.offset, note.size, handle);
}

/* ---- legacy IPC ---- */

/* Memory of another process, mapped here. */
struct imported {
    struct sim_plain plain; /* @context, @next and @previous unused */
    struct note note;
    unsigned opens;
    struct imported *next;
};

static struct imported *imports;

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct sim_range *range = sim_space_find(address);
    if (handle == NULL || range == NULL || range->kind != SIM_PLAIN || range->freed) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct note note = {.magic = NOTE_MAGIC,
                        .process = (int32_t)getpid(),
                        .file = range->device->file,
                        .bytes = range->size,
                        .id = range->buffer_id,
                        .ordinal = (uint32_t)range->device->ordinal};
    sim_plain_place(SIM_OWNER(range, struct sim_plain, range), &note.offset, &note.size, &note.inside);
    memset(handle, 0, sizeof *handle);
    memcpy(handle->reserved, &note, sizeof note);
    return CUDA_SUCCESS;
}

static struct imported *find_import(const struct note *note)
{
    struct imported *found = imports;
    while (found != NULL && (found->note.process != note->process || found->note.id != note->id)) {
        found = found->next;
    }
    return found;
}

static CUresult import(const struct note *note, struct sim_device *device, struct imported **out)
{
    struct imported *made = calloc(1, sizeof *made);
    int file = made == NULL ? -1 : open_file(note);
    if (file < 0) {
        free(made);
        return made == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
    }
    struct sim_span *span = &made->plain.span;
    bool mapped = sim_address_reserve(note->size, SIM_PAGE, 0, span) &&
                  sim_address_map(span->address, note->size, file, note->offset, SIM_ACCESS_WRITE);
    close(file);
    if (!mapped) {
        if (span->size > 0) {
            sim_address_free(span);
        }
        free(made);
        return CUDA_ERROR_MAP_FAILED;
    }
    made->note = *note;
    made->plain.range.kind = SIM_IMPORTED;
    made->plain.range.device = device;
    made->plain.range.size = note->bytes;
    sim_space_add(&made->plain.range, span->address + note->inside);
    made->next = imports;
    imports = made;
    *out = made;
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    struct note note;
    memcpy(&note, handle.reserved, sizeof note);
    if (address == NULL || (flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_device *device = sim_device_at((int)note.ordinal);
    if (note.magic != NOTE_MAGIC || device == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (note.process == (int32_t)getpid()) {
        return CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open its own */
    }
    struct imported *found = find_import(&note);
    CUresult result = found != NULL ? CUDA_SUCCESS : import(&note, device, &found);
    if (result == CUDA_SUCCESS) {
        found->opens++;
        *address = found->plain.range.node.key;
        sim_log_output(*address);
    }
    return result;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    return sim_cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr address)
{
    struct imported **place = &imports;
    while (*place != NULL && (*place)->plain.range.node.key != address) {
        place = &(*place)->next;
    }
    struct imported *found = *place;
    if (found == NULL) {
        sim_report("%#llx was not opened from a handle", address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (--found->opens == 0) {
        sim_device_wait(found->plain.range.device);
        *place = found->next;
        sim_space_remove(&found->plain.range);
        sim_address_free(&found->plain.span);
        free(found);
    }
    return CUDA_SUCCESS;
}

/* ---- dma-buf ---- */

/* All of the range is mapped, from chunks of one set of properties. */
static bool uniform(uint64_t address, uint64_t size)
{
    const struct sim_mapping *first = sim_space_mapping(address);
    for (uint64_t place = address; place < address + size;) {
        const struct sim_mapping *mapping = sim_space_mapping(place);
        if (mapping == NULL ||
            memcmp(&mapping->chunk->properties, &first->chunk->properties, sizeof first->chunk->properties) != 0) {
            return false;
        }
        place = mapping->address + mapping->size;
    }
    return true;
}

CUresult sim_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                                           unsigned long long flags)
{
    const struct sim_range *range = sim_space_find(address);
    if (handle == NULL || size == 0 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || (flags & ~1ull) != 0 ||
        range == NULL || range->freed || range->kind == SIM_HOST || size > range->size - (address - range->node.key) ||
        (range->kind == SIM_RESERVED && !uniform(address, size))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int descriptor = range->device->file < 0 ? memfd_create("simcuda-dma-buf", MFD_CLOEXEC)
                                             : fcntl(range->device->file, F_DUPFD_CLOEXEC, 0);
    if (descriptor < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)handle = descriptor;
    return CUDA_SUCCESS;
}
