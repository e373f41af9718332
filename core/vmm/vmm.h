/*
 * vmm.h - physical chunks and address ranges of one device: the only caller of the driver's virtual memory calls.
 *
 * STRUCTURE    Each function is one step that either happened or did not: map means map and make accessible.
 *              The counters are this layer's own account of what it holds and what its calls cost.
 * CONCURRENCY  the caller's lock (the pool's) guards the struct. None of these calls waits for work on the device
 *              (measured on an H200: at most 95 us behind a long queue), so holding a lock over them is allowed.
 */
#ifndef GM_VMM_H
#define GM_VMM_H

#include "cu.h"

#include <stddef.h>
#include <stdint.h>

/* What the driver hands out memory in, on every device known: 2 MiB. gm_vmm_init() refuses others. */
#define GM_PAGE_SHIFT 21u
#define GM_PAGE_SIZE  ((uint64_t)1 << GM_PAGE_SHIFT)

/* Devices that may use the memory of one, itself included. */
#define GM_ACCESSORS_MAX 32u

struct gm_vmm {
    const struct gm_cu *cu;
    CUdevice device;
    uint64_t capacity; /* bytes of the device; fixed after init */
    uint8_t uuid[16];  /* all zero where the driver does not tell; fixed after init */
    CUmemAllocationProp properties;
    CUmemAccessDesc access[GM_ACCESSORS_MAX]; /* what every mapping gets; the device itself comes first */
    uint32_t accessors;                       /* entries of access in use, at least 1 */
    uint64_t reserved, reserved_peak;         /* bytes of live handles */
    uint64_t mappings, mappings_peak;
    uint64_t va_bytes;
    uint64_t calls, ns;               /* calls of this layer and the time in them */
    uint64_t high_events, max_events; /* limits of the process that a new chunk crossed, or would have crossed */
};

/* Readies *vmm for device ordinal @device. -ENODEV, -ENOTSUP (no VMM, or another page size), -EIO. */
int gm_vmm_init(struct gm_vmm *vmm, const struct gm_cu *cu, int device);

/* Reserves @size bytes of addresses aligned to @alignment (a power of two). */
int gm_vmm_reserve(struct gm_vmm *vmm, uint64_t size, uint64_t alignment, CUdeviceptr *out);
void gm_vmm_unreserve(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size);

/* Creates a physical chunk of @size bytes (whole pages). -ENOMEM: the device is full, or the process at its limit. */
int gm_vmm_create(struct gm_vmm *vmm, uint64_t size, CUmemGenericAllocationHandle *out);
void gm_vmm_release(struct gm_vmm *vmm, CUmemGenericAllocationHandle handle, uint64_t size);

/* Lets device @peer, too, use what is mapped from now on. -ENOSPC: too many devices. Of no effect if it may already. */
int gm_vmm_admit(struct gm_vmm *vmm, CUdevice peer);

/* Gives a mapping that was made earlier the access that new ones get. */
int gm_vmm_reopen(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size);

/* Maps the whole of @handle at @address, readable and writable. On failure nothing stays mapped. */
int gm_vmm_map(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size, CUmemGenericAllocationHandle handle);
void gm_vmm_unmap(struct gm_vmm *vmm, CUdeviceptr address, uint64_t size);

#endif
