/*
 * vmm.h - physical chunks: what a cuMemCreate handle stands for.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "space.h"

struct handle;

/* Invariant: its memory is held while handles + mappings > 0; @first is one of the handles, or NULL. */
struct sim_chunk {
    uint64_t id;          /* never used twice */
    struct handle *first; /* what cuMemRetainAllocationHandle gives */
    uint64_t handles;
    uint64_t mappings;
    uint64_t size;
    int file;              /* the device's, or another process's */
    uint64_t offset;       /* in the file */
    bool foreign;          /* of another process: @file is ours to close, and it does not count here */
    struct sim_node by_id; /* among all chunks */
    struct sim_device *device;
    bool on_host; /* created at a host location: not counted against the device */
    CUmemAllocationProp properties;
};

/* What the leak summary needs. */
struct sim_vmm_totals {
    uint64_t chunks, chunk_bytes;
    uint64_t mappings;
    uint64_t reservations, reserved_bytes;
};

void sim_vmm_count(struct sim_vmm_totals *out);

/* Makes a new handle of the chunk. */
CUresult sim_chunk_add_handle(struct sim_chunk *chunk, CUmemGenericAllocationHandle *out);

/* The chunk of that id; NULL: gone. */
struct sim_chunk *sim_chunk_by_id(uint64_t id);

/* Makes a chunk of memory of another process; takes over @file. */
CUresult sim_chunk_adopt(struct sim_device *device, int file, uint64_t offset, uint64_t size,
                         CUmemGenericAllocationHandle *out);

/* The chunk behind a handle; NULL (reported): none. */
struct sim_chunk *sim_chunk_get(CUmemGenericAllocationHandle number);

#endif
