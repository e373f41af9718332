/*
 * memory.c - allocations and frees: served where they can be, else the driver's.
 *
 * A program never sees a failure that it would not see without us: whatever cannot be served, for whatever reason, is
 * asked of the driver, whose answer is passed on; and where the driver has no room because we hold idle memory, that
 * is given back first. The one exception is asked for: beyond memory_max the driver is not asked, for it would give.
 *
 * Streams: 0 and CU_STREAM_LEGACY are the legacy default stream; in a _ptsz call 0 is CU_STREAM_PER_THREAD, the calling
 * thread's own, which the core tells from those of other threads.
 *
 * CONCURRENCY  no state here.
 */
#include "account.h"
#include "capture.h"
#include "charged.h"
#include "hooks.h"
#include "origin.h"
#include "peers.h"
#include "pitch.h"
#include "plain.h"
#include "pools.h"
#include "process.h"
#include "registry.h"
#include "target.h"
#include "tunables.h"

#include <stdbool.h>
#include <stddef.h>

/* --- allocation --------------------------------------------------------------------------------------------------- */

/* The pool of an allocation that names none. */
static const CUmemoryPool current_pool = NULL;

static CUstream legacy_stream(CUstream stream)
{
    return stream == CU_STREAM_LEGACY ? NULL : stream;
}

static CUstream thread_stream(CUstream stream)
{
    return stream == NULL ? CU_STREAM_PER_THREAD : legacy_stream(stream);
}

/* What every allocation of ours needs; false: leave it to the driver. True: gm_process_leave() must follow. */
static inline __attribute__((always_inline)) bool enter_to_serve(const CUdeviceptr *out, size_t bytes)
{
    if (out == NULL || bytes == 0 || gm_peers_need_driver() || !gm_process_enter()) {
        return false;
    }
    /* After entering: the first time, that reads the environment. */
    if (gm_tunables_are_plain() || gm_tunables_enable()) {
        return true;
    }
    gm_process_leave();
    return false;
}

/* Blocks that have no record of their own are the default pool's. */
static inline void note(const struct gm_target *target, CUdeviceptr address, size_t bytes,
                        const struct gm_origin *origin)
{
    bool has_record = (origin->context == NULL && gm_pools_is_default(origin->pool)) || gm_origin_note(address, origin);
    if (!has_record || origin->pool != NULL) {
        gm_pools_add(has_record ? origin->pool : gm_pools_default(target->device), bytes);
    }
}

/* A block of the target's allocator that passes for one of @origin. */
static inline bool allocate(const struct gm_target *target, size_t bytes, CUstream stream,
                            const struct gm_origin *origin, CUdeviceptr *out)
{
    gmlake_ptr address;
    if (gm_registry_alloc(target->allocator, bytes, stream, &address) != 0) {
        return false;
    }
    note(target, address, bytes, origin);
    *out = address;
    return true;
}

static bool serve_plain(CUdeviceptr *out, size_t bytes)
{
    struct gm_capture_scope capture;
    struct gm_target target;
    bool served = false;
    if (!enter_to_serve(out, bytes)) {
        return false;
    }
    gm_capture_enter(&capture);
    if (!gm_capture_judges(&capture) && gm_target_current(&target)) {
        struct gm_origin origin = {.context = target.context};
        served = allocate(&target, bytes, gm_plain_stream, &origin, out);
        gm_target_leave(&target);
    }
    gm_capture_leave(&capture);
    gm_process_leave();
    return served;
}

/* The record of the pool to allocate from; NULL: the driver's business. */
static inline struct gm_pool_record *record_of(CUmemoryPool pool, CUdevice device)
{
    return pool == current_pool ? gm_pools_find_current(device) : gm_pools_find(pool, device);
}

static inline __attribute__((always_inline)) bool serve_on_stream(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                                                  CUstream stream)
{
    struct gm_capture_scope capture;
    struct gm_target target;
    bool served = false;
    if (!enter_to_serve(out, bytes)) {
        return false;
    }
    gm_capture_enter(&capture);
    if (!gm_capture_judges(&capture) && !gm_capture_holds(&capture, stream) && gm_target_of_stream(stream, &target)) {
        struct gm_origin origin = {.pool = record_of(pool, target.device)};
        served = origin.pool != NULL && allocate(&target, bytes, stream, &origin, out);
        gm_target_leave(&target);
    }
    gm_capture_leave(&capture);
    gm_process_leave();
    return served;
}

/*
 * The record of a bounded pool; NULL: it is another pool. Where *valid, the driver has nothing against @stream and puts
 * nothing into a graph.
 */
static __attribute__((noinline)) struct gm_pool_record *bounded_record_of(CUmemoryPool pool, CUstream stream,
                                                                          bool *valid)
{
    struct gm_target target;
    CUdevice device = -1;
    *valid = false;
    if (!gm_process_is_served() || !gm_process_enter()) {
        return NULL;
    }
    if (gm_target_of_stream(stream, &target)) {
        *valid = atomic_load_explicit(&gm_capture_count, memory_order_relaxed) == 0;
        device = target.device;
        gm_target_leave(&target);
    }
    gm_process_leave();
    return gm_pools_find_bounded(pool, device);
}

/*
 * A bounded pool is the driver's, but what is free in it may lie in other pieces than without us, for we have it wait
 * less. What its bound allows is served then, from memory that any stream may use: that of the device, whosever it is.
 */
static __attribute__((noinline)) bool serve_within_bound(CUdeviceptr *out, size_t bytes, struct gm_pool_record *record,
                                                         CUstream stream)
{
    struct gm_capture_scope capture;
    struct gm_target target;
    bool served = false;
    if (record == NULL || !enter_to_serve(out, bytes)) {
        return false;
    }
    gm_capture_enter(&capture);
    if (!gm_capture_judges(&capture) && !gm_capture_holds(&capture, stream) &&
        gm_pools_have_room(record, bytes, false) && gm_target_ask_device(gm_pools_device(record), &target)) {
        struct gm_origin origin = {.pool = record};
        served = allocate(&target, bytes, gm_plain_stream, &origin, out);
        gm_target_leave(&target);
    }
    gm_capture_leave(&capture);
    gm_process_leave();
    return served;
}

/*
 * Gives idle memory back: the current device's, or that of the others. Whether the driver is to be asked again: of the
 * current device also where there was none, for another thread may just have given it back.
 */
static bool make_room(bool of_others)
{
    struct gm_capture_scope capture;
    if (!gm_process_is_served() || !gm_process_enter()) {
        return false;
    }
    gm_capture_enter(&capture);
    bool released = gm_target_trim(of_others) > 0;
    gm_capture_leave(&capture);
    gm_process_leave();
    return released || !of_others;
}

/* The driver's answer to an allocation from a pool, of which the pool's figures must hear. */
static CUresult from_pool(CUresult rc)
{
    if (rc == CUDA_SUCCESS) {
        gm_pools_note_driver_alloc();
    }
    return rc;
}

/* The driver's answer to @call, for @bytes at *@out; beyond the limit of the process it is not asked. */
#define WITHIN_LIMIT(out, bytes, call)                                                                                 \
    __extension__({                                                                                                    \
        size_t charge_;                                                                                                \
        CUresult rc_ = CUDA_ERROR_OUT_OF_MEMORY;                                                                       \
        if (gm_charged_begin(bytes, &charge_)) {                                                                       \
            rc_ = call;                                                                                                \
            gm_charged_end(charge_, rc_ == CUDA_SUCCESS ? *(out) : 0);                                                 \
        }                                                                                                              \
        rc_;                                                                                                           \
    })

/* The same for @bytes from a pool, within its bound if it has one. */
#define WITHIN_BOUND(out, bytes, pool, stream, call)                                                                   \
    __extension__({                                                                                                    \
        bool valid_;                                                                                                   \
        struct gm_pool_record *bounded_ = bounded_record_of(pool, stream, &valid_);                                    \
        bool asked_ = bounded_ == NULL || !valid_ || gm_pools_have_room(bounded_, bytes, true);                        \
        CUresult code_ = asked_ ? WITHIN_LIMIT(out, bytes, from_pool(call)) : CUDA_ERROR_OUT_OF_MEMORY;                \
        bool refused_ = code_ == CUDA_ERROR_OUT_OF_MEMORY;                                                             \
        (refused_ && serve_within_bound(out, bytes, bounded_, stream)) ? CUDA_SUCCESS : code_;                         \
    })

/*
 * Serves by @serve, else gives the answer of @call; both again when there was no room, after idle memory of ours was
 * given back: first that of the current device, in the wrong pieces or of other contexts, then that of others, on which
 * the stream or pool may be. What a vain attempt to serve has taken is given back, too, before the driver is asked.
 */
#define SERVE_OR_CALL(serve, call)                                                                                     \
    do {                                                                                                               \
        int emptied = 0;                                                                                               \
        for (;;) {                                                                                                     \
            if (serve) {                                                                                               \
                return CUDA_SUCCESS;                                                                                   \
            }                                                                                                          \
            if (emptied != 0) {                                                                                        \
                (void)make_room(emptied == 2);                                                                         \
            }                                                                                                          \
            CUresult rc = call;                                                                                        \
            do {                                                                                                       \
                if (rc != CUDA_ERROR_OUT_OF_MEMORY || emptied == 2) {                                                  \
                    return rc;                                                                                         \
                }                                                                                                      \
            } while (!make_room(emptied++ != 0));                                                                      \
        }                                                                                                              \
    } while (0)

CUresult gm_hook_mem_alloc(CUdeviceptr *out, size_t bytes)
{
    SERVE_OR_CALL(serve_plain(out, bytes), WITHIN_LIMIT(out, bytes, gm_driver_mem_alloc(out, bytes)));
}

/* The driver's part of the calls on streams is out of the way of what is served. */
static __attribute__((cold, noinline)) CUresult ask_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return WITHIN_BOUND(out, bytes, current_pool, legacy_stream(stream), gm_driver_mem_alloc_async(out, bytes, stream));
}

CUresult gm_hook_mem_alloc_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    SERVE_OR_CALL(serve_on_stream(out, bytes, current_pool, legacy_stream(stream)), ask_async(out, bytes, stream));
}

static __attribute__((cold, noinline)) CUresult ask_async_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return WITHIN_BOUND(out, bytes, current_pool, thread_stream(stream),
                        gm_driver_mem_alloc_async_ptsz(out, bytes, stream));
}

CUresult gm_hook_mem_alloc_async_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    SERVE_OR_CALL(serve_on_stream(out, bytes, current_pool, thread_stream(stream)), ask_async_ptsz(out, bytes, stream));
}

static __attribute__((cold, noinline)) CUresult ask_from_pool(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                                              CUstream stream)
{
    return WITHIN_BOUND(out, bytes, pool, legacy_stream(stream),
                        gm_driver_mem_alloc_from_pool_async(out, bytes, pool, stream));
}

CUresult gm_hook_mem_alloc_from_pool_async(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    SERVE_OR_CALL(pool != NULL && serve_on_stream(out, bytes, pool, legacy_stream(stream)),
                  ask_from_pool(out, bytes, pool, stream));
}

static __attribute__((cold, noinline)) CUresult ask_from_pool_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                                                   CUstream stream)
{
    return WITHIN_BOUND(out, bytes, pool, thread_stream(stream),
                        gm_driver_mem_alloc_from_pool_async_ptsz(out, bytes, pool, stream));
}

CUresult gm_hook_mem_alloc_from_pool_async_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    SERVE_OR_CALL(pool != NULL && serve_on_stream(out, bytes, pool, thread_stream(stream)),
                  ask_from_pool_ptsz(out, bytes, pool, stream));
}

/* Rows as far apart as the driver has put such rows before; false: it has yet to say, or must judge the call. */
static bool serve_pitched(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    CUdevice device;
    size_t known;
    size_t bytes;
    if (pitch == NULL || gm_driver_ctx_get_device(&device) != CUDA_SUCCESS ||
        !gm_pitch_find(device, width, element, &known) || __builtin_mul_overflow(known, height, &bytes) ||
        !serve_plain(out, bytes)) {
        return false;
    }
    *pitch = known;
    return true;
}

/* The driver's answer to a pitched allocation, from which is learnt. */
static CUresult with_pitch(CUresult rc, const size_t *pitch, size_t width, unsigned int element)
{
    CUdevice device;
    if (rc == CUDA_SUCCESS && gm_driver_ctx_get_device(&device) == CUDA_SUCCESS) {
        gm_pitch_note(device, width, element, *pitch);
    }
    return rc;
}

/* The bytes of a pitched allocation without the padding of its rows. */
static size_t least_of_pitch(size_t width, size_t height)
{
    size_t bytes;
    return __builtin_mul_overflow(width, height, &bytes) ? 0 : bytes;
}

CUresult gm_hook_mem_alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    SERVE_OR_CALL(
        serve_pitched(out, pitch, width, height, element),
        WITHIN_LIMIT(out, least_of_pitch(width, height),
                     with_pitch(gm_driver_mem_alloc_pitch(out, pitch, width, height, element), pitch, width, element)));
}

CUresult gm_hook_mem_create(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *properties,
                            unsigned long long flags)
{
    /* What is created here is released in a way that is not seen: it is refused beyond the limit, but not counted. */
    SERVE_OR_CALL(false, gm_account_refuses(size) && gm_process_is_served()
                             ? CUDA_ERROR_OUT_OF_MEMORY
                             : gm_driver_mem_create(out, size, properties, flags));
}

/* --- free --------------------------------------------------------------------------------------------------------- */

/* What became of a free: DRIVERS is left to the driver, whose answer counts; DONE: it is answered. */
enum outcome { DRIVERS, DONE };

/* The allocator that @address belongs to; NULL: not ours. Not NULL: gm_process_leave() must follow. */
static inline struct gmlake *enter_owner(CUdeviceptr address)
{
    if (!gm_process_is_served()) {
        return NULL;
    }
    struct gmlake *owner = gm_registry_owner(address);
    return owner != NULL && gm_process_enter() ? owner : NULL;
}

/*
 * Whether the driver would free anything now: not at the end of a process, nor where the current context has been
 * destroyed. Else *answer is what it says.
 */
static bool driver_frees(CUresult *answer)
{
    CUcontext context;
    struct gm_target target;
    if (gm_target_is_known(&target)) {
        *answer = CUDA_SUCCESS;
        return true;
    }
    *answer = gm_target_some_context_ended() ? gm_driver_mem_free(0) : gm_driver_ctx_get_current(&context);
    return *answer == CUDA_SUCCESS || *answer == CUDA_ERROR_NOT_INITIALIZED;
}

/* The block is the program's no more. */
static void count_out(const struct gmlake *owner, const struct gm_origin *origin, uint64_t bytes)
{
    if (origin->context == NULL) {
        gm_pools_remove(origin->pool != NULL ? origin->pool : gm_pools_default(gm_registry_device(owner)), bytes);
    }
}

/* Frees in the order of @stream or, where that is NULL, so that work of any stream may still use the block. */
static inline int free_block(struct gmlake *owner, CUdeviceptr address, const CUstream *stream, uint64_t *bytes)
{
    return stream != NULL ? gm_registry_free(owner, address, *stream, bytes)
                          : gm_registry_free_sync(owner, address, bytes);
}

/* The same of a block that may have a record. */
static __attribute__((noinline)) bool give_back_recorded(struct gmlake *owner, CUdeviceptr address,
                                                         const CUstream *stream)
{
    uint64_t bytes;
    struct gm_origin origin = gm_origin_take(address);
    int rc = free_block(owner, address, stream, &bytes);
    if (rc == 0) {
        count_out(owner, &origin, bytes);
    } else if (origin.context != NULL || origin.pool != NULL || origin.id != 0 || origin.sync_memops) {
        (void)gm_origin_note(address, &origin);
    }
    return rc == 0;
}

static inline bool give_back(struct gmlake *owner, CUdeviceptr address, const CUstream *stream)
{
    uint64_t bytes;
    if (!gm_origin_is_empty()) {
        return give_back_recorded(owner, address, stream);
    }
    int rc = free_block(owner, address, stream, &bytes);
    if (rc == 0) {
        gm_pools_remove(gm_pools_default(gm_registry_device(owner)), bytes);
    }
    return rc == 0;
}

/* DONE: *answer is that of the free. */
static enum outcome free_plain(CUdeviceptr address, CUresult *answer)
{
    struct gm_capture_scope capture;
    struct gmlake *owner = enter_owner(address);
    enum outcome outcome = DRIVERS;
    if (owner == NULL) {
        return DRIVERS;
    }
    *answer = gm_capture_verdict();
    gm_capture_enter(&capture);
    if (*answer != CUDA_SUCCESS || !driver_frees(answer) || give_back(owner, address, NULL)) {
        outcome = DONE;
    }
    gm_capture_leave(&capture);
    gm_process_leave();
    return outcome;
}

/* Frees in the order of @stream; false: it is no stream of the block's device and served context, or it failed. */
static inline bool free_ordered(struct gmlake *owner, CUdeviceptr address, CUstream stream)
{
    struct gm_target target;
    bool done = false;
    if (!gm_target_of_stream(stream, &target)) {
        return false;
    }
    if (target.allocator == owner) {
        done = give_back(owner, address, &stream);
    }
    gm_target_leave(&target);
    return done;
}

/* Any other stream is waited for here. A stream that cannot be waited for cannot be freed on. */
static inline bool free_from_stream(struct gmlake *owner, CUdeviceptr address, CUstream stream)
{
    return free_ordered(owner, address, stream) ||
           (gm_driver_stream_synchronize(stream) == CUDA_SUCCESS && give_back(owner, address, NULL));
}

static inline __attribute__((always_inline)) enum outcome free_on_stream(CUdeviceptr address, CUstream stream)
{
    struct gm_capture_scope capture;
    struct gmlake *owner = enter_owner(address);
    enum outcome outcome = DRIVERS;
    if (owner == NULL) {
        return DRIVERS;
    }
    gm_capture_enter(&capture);
    if (!gm_capture_holds(&capture, stream) && free_from_stream(owner, address, stream)) {
        outcome = DONE;
    }
    gm_capture_leave(&capture);
    gm_process_leave();
    return outcome;
}

/* The driver's answer to @call, a free of @address that is left to it. */
#define FREED_BY_DRIVER(address, call)                                                                                 \
    __extension__({                                                                                                    \
        struct gm_charged charged_ = gm_charged_take(address);                                                         \
        CUresult rc_ = call;                                                                                           \
        if (rc_ == CUDA_SUCCESS) {                                                                                     \
            gm_pools_note_driver_free();                                                                               \
        } else {                                                                                                       \
            gm_charged_put_back(address, &charged_);                                                                   \
        }                                                                                                              \
        rc_;                                                                                                           \
    })

CUresult gm_hook_mem_free(CUdeviceptr address)
{
    CUresult answer;
    return free_plain(address, &answer) == DONE ? answer : FREED_BY_DRIVER(address, gm_driver_mem_free(address));
}

CUresult gm_hook_mem_free_async(CUdeviceptr address, CUstream stream)
{
    return free_on_stream(address, legacy_stream(stream)) == DONE
               ? CUDA_SUCCESS
               : FREED_BY_DRIVER(address, gm_driver_mem_free_async(address, stream));
}

CUresult gm_hook_mem_free_async_ptsz(CUdeviceptr address, CUstream stream)
{
    return free_on_stream(address, thread_stream(stream)) == DONE
               ? CUDA_SUCCESS
               : FREED_BY_DRIVER(address, gm_driver_mem_free_async_ptsz(address, stream));
}
