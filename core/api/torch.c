/*
 * torch.c - the functions of torch.h: finds the device's allocator and makes its context current around each call.
 *
 * STRUCTURE    A place a device, filled at its first use. The allocator is the process's own of that device
 *              (registry.h), so the C API's statistics and the mount show what PyTorch uses.
 * CONCURRENCY  a place is written by whoever comes first, possibly by two at once with the same values, and is fixed
 *              once its kind is set. No lock of its own.
 */
#include "allocator.h"
#include "errors.h"
#include "registry.h"

#include <errno.h>
#include <gmlake/torch.h>
#include <stdatomic.h>
#include <stdio.h>

#define EXPORTED    __attribute__((visibility("default")))
#define DEVICES_MAX 64

/* UNKNOWN: not used yet. DRIVER: without virtual memory management, left to cuMemAlloc(). */
enum kind { UNKNOWN, SERVED, DRIVER };

/* Invariant: @context is the device's primary context, which we hold, unless UNKNOWN; @allocator is set if SERVED. */
static struct place {
    _Atomic(CUcontext) context;
    struct gmlake *_Atomic allocator;
    atomic_int kind;
} places[DEVICES_MAX];

/* A call in progress. */
struct visit {
    const struct gm_cu *cu;
    struct place *place;
    bool pushed;
};

/* ---- what is said, once each ---------------------------------------------------------------------------------- */

static bool first_time(atomic_bool *told)
{
    return !atomic_exchange_explicit(told, true, memory_order_relaxed);
}

static void complain_of_alloc(int rc, size_t size, int device)
{
    static atomic_bool told_full;
    static atomic_bool told_broken;
    if (rc == -ENOMEM && first_time(&told_full)) {
        fprintf(
            stderr,
            "gmlake: gmlake_torch_alloc: device %d has no room for %zu bytes: a null pointer is the answer, now and "
            "the next times\n",
            device, size);
    } else if (rc != -ENOMEM && first_time(&told_broken)) {
        fprintf(stderr, "gmlake: gmlake_torch_alloc: %zu bytes on device %d: %s (driver error %d)\n", size, device,
                gm_error_text(rc), gm_error_driver_code());
    }
}

static void complain_of_free(int rc, const void *pointer, int device)
{
    static atomic_bool told;
    if (first_time(&told)) {
        fprintf(stderr, "gmlake: gmlake_torch_free: %p on device %d: %s\n", pointer, device, gm_error_text(rc));
    }
}

/* ---- contexts ------------------------------------------------------------------------------------------------- */

static int make_current(struct visit *visit, CUcontext context)
{
    CUcontext now;
    CUresult code = visit->cu->ctx_get_current(&now);
    visit->pushed = code == CUDA_SUCCESS && now != context;
    if (visit->pushed) {
        code = visit->cu->ctx_push_current(context);
        visit->pushed = code == CUDA_SUCCESS;
    }
    return code == CUDA_SUCCESS ? 0 : gm_error_from_driver((int)code);
}

static void leave(const struct visit *visit)
{
    CUcontext popped;
    if (visit->pushed) {
        (void)visit->cu->ctx_pop_current(&popped);
    }
}

/* The first use of a device. On success the visit has begun. */
static int begin(struct visit *visit, int ordinal)
{
    CUdevice device;
    CUcontext context;
    struct gmlake *allocator = NULL;
    CUresult code = visit->cu->init(0);
    if (code == CUDA_SUCCESS) {
        code = visit->cu->device_get(&device, ordinal);
    }
    if (code == CUDA_SUCCESS) {
        code = visit->cu->primary_ctx_retain(&context, device);
    }
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    int rc = make_current(visit, context);
    if (rc < 0) {
        return rc;
    }
    rc = gm_registry_get(ordinal, &allocator);
    if (rc < 0 && rc != -ENOTSUP) {
        leave(visit);
        return rc;
    }
    atomic_store(&visit->place->context, context);
    atomic_store(&visit->place->allocator, allocator);
    atomic_store_explicit(&visit->place->kind, rc == 0 ? SERVED : DRIVER, memory_order_release);
    return 0;
}

/* Begins a call for device @ordinal; leave() ends it. @first: the device may be new. */
static int enter(struct visit *visit, int ordinal, bool first)
{
    int rc = gm_cu_get(&visit->cu);
    if (rc < 0 || ordinal < 0 || ordinal >= DEVICES_MAX) {
        return rc < 0 ? rc : -ENODEV;
    }
    visit->place = &places[ordinal];
    if (atomic_load_explicit(&visit->place->kind, memory_order_acquire) == UNKNOWN) {
        return first ? begin(visit, ordinal) : -EINVAL;
    }
    return make_current(visit, atomic_load_explicit(&visit->place->context, memory_order_relaxed));
}

/* ---- the entry points ----------------------------------------------------------------------------------------- */

static int alloc_in(const struct visit *visit, size_t size, void *stream, gmlake_ptr *out)
{
    struct gmlake *allocator = atomic_load_explicit(&visit->place->allocator, memory_order_relaxed);
    if (allocator != NULL) {
        return gmlake_alloc(allocator, size, stream, out);
    }
    CUdeviceptr address = 0;
    CUresult code = size == 0 ? CUDA_SUCCESS : visit->cu->mem_alloc(&address, size);
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    *out = address;
    return 0;
}

EXPORTED void *gmlake_torch_alloc(size_t size, int device, void *stream)
{
    struct visit visit;
    gmlake_ptr address = 0;
    int rc = enter(&visit, device, true);
    if (rc == 0) {
        rc = alloc_in(&visit, size, stream, &address);
        leave(&visit);
    }
    if (rc < 0) {
        complain_of_alloc(rc, size, device);
    }
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr): a device address is a number in C */
}

static int free_in(const struct visit *visit, gmlake_ptr address, void *stream)
{
    struct gmlake *allocator = atomic_load_explicit(&visit->place->allocator, memory_order_relaxed);
    if (allocator != NULL) {
        return gmlake_free(allocator, address, stream);
    }
    CUresult code = visit->cu->mem_free(address);
    return code == CUDA_SUCCESS ? 0 : gm_error_from_driver((int)code);
}

/* Whether the driver has ended: objects that outlive it are freed in vain, and rightly so. */
static bool driver_has_ended(void)
{
    return gm_error_driver_code() == CUDA_ERROR_DEINITIALIZED;
}

EXPORTED void gmlake_torch_free(void *pointer, size_t size, int device, void *stream)
{
    struct visit visit;
    (void)size;
    if (pointer == NULL) {
        return;
    }
    int rc = enter(&visit, device, false);
    if (rc == 0) {
        rc = free_in(&visit, (gmlake_ptr)(uintptr_t)pointer, stream);
        leave(&visit);
    }
    if (rc < 0 && !driver_has_ended()) {
        complain_of_free(rc, pointer, device);
    }
}
