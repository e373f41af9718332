/*
 * target.c - from contexts and streams to devices and allocators.
 */
#include "target.h"

#include "capture.h"
#include "hooks.h"
#include "lock.h"
#include "origin.h"
#include "peers.h"
#include "pools.h"
#include "registry.h"

#include <stdatomic.h>
#include <stddef.h>

#define DEVICES  64 /* devices beyond that are the driver's */
#define CONTEXTS 64 /* and so are contexts beyond that, at a time */

/* In place of a context that is no more; no context is it. */
#define GONE ((CUcontext)(uintptr_t)-1)

/*
 * Invariant: allocator is that of device, and never changes once it is set. NULL: the context is the driver's.
 * ended is the context that allocator was last given to, if that is suspended or has ended: context is GONE then.
 */
static struct served {
    _Atomic(CUcontext) context;
    _Atomic(struct gmlake *) allocator;
    CUcontext ended; /* guarded by the lock */
    CUdevice device;
} served[CONTEXTS];
static atomic_uint served_count;

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_CONTEXTS);

/* Fixed after gm_target_start(). */
static int device_count;

static atomic_bool several_contexts;
static atomic_bool some_context_ended;

atomic_bool gm_target_is_single;
__thread struct gm_target gm_target_known;

/* Bit d: contexts of device d are to have CU_CTX_SYNC_MEMOPS. */
static _Atomic uint64_t sync_memops;

bool gm_target_start(void)
{
    int count;
    if (gm_driver_device_get_count(&count) != CUDA_SUCCESS) {
        return false;
    }
    device_count = count < DEVICES ? count : DEVICES;
    /* Said first and taken back: whoever makes or ends a context meanwhile takes it back, too, if not seen here. */
    atomic_store(&gm_target_is_single, device_count == 1);
    if (atomic_load(&several_contexts) || atomic_load(&some_context_ended)) {
        atomic_store(&gm_target_is_single, false);
    }
    return true;
}

/* The entry of @context; NULL: none. */
static struct served *entry_of(CUcontext context)
{
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        if (atomic_load_explicit(&served[i].context, memory_order_acquire) == context) {
            return &served[i];
        }
    }
    return NULL;
}

static bool fill(const struct served *entry, CUcontext context, struct gm_target *out)
{
    *out = (struct gm_target){
        .allocator = atomic_load_explicit(&entry->allocator, memory_order_acquire),
        .context = context,
        .device = entry->device,
        .pushed = false,
    };
    return out->allocator != NULL;
}

static bool current_context(CUcontext *out)
{
    return gm_driver_ctx_get_current(out) == CUDA_SUCCESS && *out != NULL;
}

static struct served *append(CUcontext context, CUdevice device, struct gmlake *allocator)
{
    unsigned count = atomic_load_explicit(&served_count, memory_order_relaxed);
    if (count == CONTEXTS) {
        return NULL;
    }
    served[count].device = device;
    atomic_store_explicit(&served[count].allocator, allocator, memory_order_relaxed);
    atomic_store_explicit(&served[count].context, context, memory_order_relaxed);
    atomic_store_explicit(&served_count, count + 1, memory_order_release);
    return &served[count];
}

/* An allocator of @device that no context has any more. */
static struct served *ownerless(CUdevice device)
{
    for (unsigned i = 0; i < served_count; i++) {
        if (served[i].context == GONE && served[i].ended == NULL && served[i].device == device) {
            return &served[i];
        }
    }
    return NULL;
}

/* A new allocator of @device: the one that the process shares, or, for a second context, one of its own. */
static struct gmlake *make_allocator(CUdevice device)
{
    struct gmlake *allocator;
    if (gm_registry_get(device, &allocator) != 0) {
        return NULL;
    }
    for (unsigned i = 0; i < served_count; i++) {
        if (served[i].allocator == allocator) {
            return gmlake_create(device, &allocator) == 0 ? allocator : NULL;
        }
    }
    return allocator;
}

static struct served *begin_locked(CUcontext context, CUdevice device)
{
    struct served *entry = entry_of(context);
    if (entry != NULL) {
        return entry;
    }
    entry = ownerless(device);
    if (entry != NULL) {
        gm_registry_adopt(entry->allocator, context);
        atomic_store_explicit(&entry->context, context, memory_order_release);
        return entry;
    }
    struct gmlake *allocator = served_count < CONTEXTS ? make_allocator(device) : NULL;
    return allocator == NULL ? NULL : append(context, device, allocator);
}

/* A context that has been destroyed can still be current; it answers like any other to some questions, not to this. */
static bool is_alive(void)
{
    size_t free_bytes;
    size_t total_bytes;
    return gm_driver_mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS;
}

/* Of the current context. */
static CUresult set_sync_memops(void)
{
    unsigned int flags;
    CUresult rc = gm_driver_ctx_get_flags(&flags);
    return rc == CUDA_SUCCESS ? gm_driver_ctx_set_flags(flags | CU_CTX_SYNC_MEMOPS) : rc;
}

/* The first allocation under a context. */
static bool begin(CUcontext context, struct gm_target *out)
{
    CUdevice device;
    if (gm_driver_ctx_get_device(&device) != CUDA_SUCCESS || device < 0 || device >= device_count || !is_alive()) {
        return false;
    }
    gm_lock_take(&lock);
    struct served *entry = begin_locked(context, device);
    gm_lock_drop(&lock);
    if (entry == NULL || !fill(entry, context, out)) {
        return false;
    }
    gm_peers_apply(device, out->allocator);
    if ((atomic_load(&sync_memops) >> device & 1) != 0) {
        (void)set_sync_memops();
    }
    return true;
}

bool gm_target_ask_current(struct gm_target *out)
{
    CUcontext context;
    if (!current_context(&context)) {
        return false;
    }
    const struct served *entry = entry_of(context);
    bool found = entry != NULL ? fill(entry, context, out) : begin(context, out);
    if (found) {
        gm_target_known = *out;
    }
    return found;
}

/* Of @context, which stays current until gm_target_leave(). */
static bool ask_under(CUcontext context, struct gm_target *out)
{
    if (gm_driver_ctx_push_current(context) != CUDA_SUCCESS) {
        return false;
    }
    bool found = gm_target_ask_current(out);
    gm_target_forget_current(); /* it is not the thread's own */
    if (found) {
        out->pushed = true;
    } else {
        gm_driver_ctx_pop_current(&context);
    }
    return found;
}

bool gm_target_ask_stream(CUstream stream, struct gm_target *out)
{
    CUcontext owner;
    CUcontext current;
    bool one = device_count == 1 && !atomic_load_explicit(&several_contexts, memory_order_relaxed);
    if (one || stream == NULL || stream == CU_STREAM_PER_THREAD) {
        return gm_target_ask_current(out);
    }
    if (gm_driver_stream_get_ctx(stream, &owner) != CUDA_SUCCESS ||
        gm_driver_ctx_get_current(&current) != CUDA_SUCCESS) {
        return false;
    }
    if (owner == current) {
        return gm_target_ask_current(out);
    }
    return ask_under(owner, out);
}

void gm_target_pop(void)
{
    CUcontext popped;
    gm_driver_ctx_pop_current(&popped);
}

/* --- all of a device ---------------------------------------------------------------------------------------------- */

struct gmlake *gm_target_allocator(CUdevice device, unsigned index)
{
    unsigned count = atomic_load(&served_count);
    for (unsigned i = 0; i < count; i++) {
        struct gmlake *allocator = atomic_load(&served[i].allocator);
        if (allocator != NULL && served[i].device == device && index-- == 0) {
            return allocator;
        }
    }
    return NULL;
}

/* An allocator asks about streams of its context: that has to be current. */
static size_t trim_under(CUcontext context, struct gmlake *allocator, size_t keep)
{
    size_t released = 0;
    if (context == NULL || gm_driver_ctx_push_current(context) != CUDA_SUCCESS) {
        return 0;
    }
    int rc = gmlake_trim(allocator, keep, &released);
    gm_driver_ctx_pop_current(&context);
    return rc == 0 ? released : 0;
}

/* A context of @device under which its work can be waited for; NULL: none is known. */
static CUcontext some_context_of(CUdevice device)
{
    CUcontext context;
    CUdevice current;
    if (current_context(&context) && gm_driver_ctx_get_device(&current) == CUDA_SUCCESS && current == device) {
        return context;
    }
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        context = atomic_load_explicit(&served[i].context, memory_order_acquire);
        if (served[i].device == device && context != GONE) {
            return context;
        }
    }
    return NULL;
}

bool gm_target_ask_device(CUdevice device, struct gm_target *out)
{
    CUcontext context = some_context_of(device);
    return context != NULL && ask_under(context, out);
}

/*
 * The context to trim the allocator of @entry under: its own or, where that has ended and blocks of pools were freed
 * since, any of the device. NULL: it is about to end, or there is none.
 */
static CUcontext context_to_trim_under(const struct served *entry)
{
    gm_lock_take(&lock);
    CUcontext context = atomic_load(&entry->context);
    bool is_ending = context == GONE && entry->ended != NULL;
    gm_lock_drop(&lock);
    return is_ending ? NULL : context == GONE ? some_context_of(entry->device) : context;
}

size_t gm_target_trim_device(CUdevice device, size_t keep)
{
    size_t sum = 0;
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct gmlake *allocator = atomic_load(&served[i].allocator);
        if (allocator != NULL && served[i].device == device) {
            sum += trim_under(context_to_trim_under(&served[i]), allocator, keep);
        }
    }
    return sum;
}

/*
 * The driver gives memory of its pools back once the work that used it is done and waited for, as a plain free of
 * memory from one does; of a pool that the program has destroyed there is no other way to have it.
 */
static void wait_for_pools(void)
{
    if (gm_pools_are_mixed() && atomic_load_explicit(&gm_capture_count, memory_order_relaxed) == 0) {
        (void)gm_driver_ctx_synchronize();
        (void)gm_target_synchronize_others();
    }
}

size_t gm_target_trim(bool of_others)
{
    CUdevice current = -1;
    size_t sum = 0;
    (void)gm_driver_ctx_get_device(&current);
    wait_for_pools();
    for (CUdevice device = 0; device < device_count; device++) {
        if ((device != current) == of_others) {
            sum += gm_target_trim_device(device, 0) + gm_pools_release_idle(device);
        }
    }
    return sum;
}

CUresult gm_target_synchronize_others(void)
{
    CUcontext current;
    CUdevice device;
    CUresult rc = CUDA_SUCCESS;
    if (!atomic_load_explicit(&several_contexts, memory_order_relaxed) || !current_context(&current) ||
        gm_driver_ctx_get_device(&device) != CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    for (unsigned i = 0; rc == CUDA_SUCCESS && i < count; i++) {
        CUcontext context = atomic_load_explicit(&served[i].context, memory_order_acquire);
        if (context != GONE && context != current && served[i].device == device &&
            gm_driver_ctx_push_current(context) == CUDA_SUCCESS) {
            rc = gm_driver_ctx_synchronize();
            gm_driver_ctx_pop_current(&context);
        }
    }
    return rc;
}

CUresult gm_target_synchronize_memops(CUdevice device)
{
    CUresult rc = CUDA_SUCCESS;
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    for (unsigned i = 0; rc == CUDA_SUCCESS && i < count; i++) {
        CUcontext context = atomic_load_explicit(&served[i].context, memory_order_acquire);
        if (context != GONE && served[i].device == device && gm_driver_ctx_push_current(context) == CUDA_SUCCESS) {
            rc = set_sync_memops();
            gm_driver_ctx_pop_current(&context);
        }
    }
    if (rc == CUDA_SUCCESS) {
        atomic_fetch_or(&sync_memops, (uint64_t)1 << device);
    }
    return rc;
}

/* The next entry with an allocator from @i on; NULL: there is none. */
static struct gmlake *next_allocator(unsigned *i)
{
    unsigned count = atomic_load_explicit(&served_count, memory_order_acquire);
    struct gmlake *allocator = NULL;
    while (allocator == NULL && *i < count) {
        allocator = atomic_load_explicit(&served[(*i)++].allocator, memory_order_acquire);
    }
    return allocator;
}

void gm_target_expect_capture(void)
{
    struct gmlake *allocator;
    for (unsigned i = 0; (allocator = next_allocator(&i)) != NULL;) {
        gm_registry_expect_capture(allocator);
    }
}

void gm_target_forget_stream(CUstream stream)
{
    struct gmlake *allocator;
    for (unsigned i = 0; (allocator = next_allocator(&i)) != NULL;) {
        (void)gmlake_forget_stream(allocator, stream);
    }
}

/* --- contexts that come and go ------------------------------------------------------------------------------------ */

void gm_target_expect_contexts(void)
{
    atomic_store(&several_contexts, true);
    atomic_store(&gm_target_is_single, false);
}

void gm_target_note_end(void)
{
    atomic_store(&some_context_ended, true);
    atomic_store(&gm_target_is_single, false);
}

bool gm_target_some_context_ended(void)
{
    return atomic_load_explicit(&some_context_ended, memory_order_relaxed);
}

void gm_target_exclude(CUcontext context)
{
    gm_lock_take(&lock);
    if (entry_of(context) == NULL) {
        (void)append(context, -1, NULL);
    }
    gm_lock_drop(&lock);
}

void gm_target_suspend(CUcontext context)
{
    atomic_store(&gm_target_is_single, false);
    gm_lock_take(&lock);
    struct served *entry = context == NULL ? NULL : entry_of(context);
    if (entry != NULL) {
        entry->ended = context;
        atomic_store_explicit(&entry->context, GONE, memory_order_release);
    }
    gm_lock_drop(&lock);
    struct gmlake *allocator = entry == NULL ? NULL : atomic_load(&entry->allocator);
    if (allocator != NULL) {
        gm_registry_end(allocator);
    }
}

/* The entry whose context was suspended by this handle. */
static struct served *suspended(CUcontext context)
{
    for (unsigned i = 0; context != NULL && i < served_count; i++) {
        if (served[i].context == GONE && served[i].ended == context) {
            return &served[i];
        }
    }
    return NULL;
}

void gm_target_resume(CUcontext context)
{
    gm_lock_take(&lock);
    struct served *entry = suspended(context);
    if (entry != NULL) {
        entry->ended = NULL;
        if (entry_of(context) == NULL) {
            if (entry->allocator != NULL) {
                gm_registry_adopt(entry->allocator, context);
            }
            atomic_store_explicit(&entry->context, context, memory_order_release);
        }
    }
    gm_lock_drop(&lock);
}

void gm_target_end(CUcontext context)
{
    CUdeviceptr address;
    size_t cursor = 0;
    gm_lock_take(&lock);
    struct served *entry = suspended(context);
    struct gmlake *allocator = entry == NULL ? NULL : atomic_load(&entry->allocator);
    if (allocator != NULL) {
        while (gm_origin_take_next_of(context, &cursor, &address)) {
            (void)gmlake_free_sync(allocator, address);
        }
        gm_registry_orphan(allocator);
    }
    if (entry != NULL) {
        entry->ended = NULL;
    }
    gm_lock_drop(&lock);
}
