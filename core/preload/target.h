/*
 * target.h - the device and context that a call means, and their allocator.
 *
 * STRUCTURE    A context gets an allocator of its own at its first allocation. Allocators share no chunks: what one
 *              context has freed can be another's only after it went back to the device, when its work was done.
 *              Plain calls mean the current context; one driver call tells it. Calls on a stream mean the stream's
 *              context: the current one too, as long as there is one device and no second context was made; else the
 *              driver is asked, and the context made current meanwhile.
 *              While there has been one device and one context, and nothing has ended, a thread that had it current
 *              has it still, unless it has said otherwise (gm_target_forget_current()): then not even that one call
 *              is made. Were that ever wrong, the block would still be the only context's.
 *              When a context ends, its plain blocks end with it, blocks of pools live on, and the allocator waits
 *              for the next context of its device. Allocators are never destroyed: a call of another thread may be on
 *              its way to one.
 * CONCURRENCY  the table is written under a lock (GM_RANK_CONTEXTS) and read by atomics alone. Entries are never taken
 *              out, only given to another context.
 */
#ifndef GM_TARGET_H
#define GM_TARGET_H

#include <cuda.h>
#include <gmlake/gmlake.h>
#include <stdatomic.h>
#include <stdbool.h>

struct gm_target {
    struct gmlake *allocator;
    CUcontext context;
    CUdevice device;
    bool pushed; /* a context was made current for it */
};

/* One device, one context, and nothing has ended: never true again once it was not. Written by target.c alone. */
extern atomic_bool gm_target_is_single;

/* What this thread has current, as long as that is all there is; its allocator is NULL where it is not known. */
extern __thread struct gm_target gm_target_known __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* To be called when the program makes another context current on this thread, or none. */
static inline void gm_target_forget_current(void)
{
    gm_target_known.allocator = NULL;
}

/* Counts the devices, once, before anything else here. */
bool gm_target_start(void);

/*
 * The device and allocator of the current context, of @stream, or of some context of @device; the allocator is made at
 * first use. False: there is none, or it cannot be served; nothing is to be undone then. Else gm_target_leave() must
 * follow.
 */
bool gm_target_ask_current(struct gm_target *out);
bool gm_target_ask_stream(CUstream stream, struct gm_target *out);
bool gm_target_ask_device(CUdevice device, struct gm_target *out);
void gm_target_pop(void);

static inline bool gm_target_is_known(struct gm_target *out)
{
    *out = gm_target_known;
    return __builtin_expect(out->allocator != NULL, 1) &&
           __builtin_expect(atomic_load_explicit(&gm_target_is_single, memory_order_relaxed), 1);
}

static inline bool gm_target_current(struct gm_target *out)
{
    return gm_target_is_known(out) || gm_target_ask_current(out);
}

static inline bool gm_target_of_stream(CUstream stream, struct gm_target *out)
{
    return gm_target_is_known(out) || gm_target_ask_stream(stream, out);
}

static inline void gm_target_leave(const struct gm_target *target)
{
    if (__builtin_expect(target->pushed, 0)) {
        gm_target_pop();
    }
}

/* The @index-th allocator of @device, in no particular order; NULL: it has fewer. */
struct gmlake *gm_target_allocator(CUdevice device, unsigned index);

/*
 * Gives the idle memory of all allocators of the current device back to it, and what is idle in the driver's pools; or
 * that of all other devices to them: a stream or a pool may be one of theirs. The bytes.
 */
size_t gm_target_trim(bool of_others);

/* The same of @device alone, down to @keep bytes for each allocator. */
size_t gm_target_trim_device(CUdevice device, size_t keep);

/* Waits for the other served contexts of the current one's device. */
CUresult gm_target_synchronize_others(void);

/* Before a capture begins: readies all allocators for it. */
void gm_target_expect_capture(void);

/*
 * Makes copies under the device's served contexts, and under those that come, wait for one another: what SYNC_MEMOPS is
 * to a block of the driver's, mapped memory has for all of a context only. NOT_SUPPORTED: the driver has not that,
 * either.
 */
CUresult gm_target_synchronize_memops(CUdevice device);

/* To be called before a stream is destroyed. */
void gm_target_forget_stream(CUstream stream);

/* There is a context other than the devices' primary ones: streams may not be of the current one from now on. */
void gm_target_expect_contexts(void);

/* Leaves @context to the driver for good. */
void gm_target_exclude(CUcontext context);

/*
 * A context has ended, or all will at the end of the process, and whether one ever has: a thread may then have one
 * current that is no more.
 */
void gm_target_note_end(void);
bool gm_target_some_context_ended(void);

/*
 * The end of @context: suspend before the driver is told, and afterwards end, or, if it did not end, resume. After
 * suspend a new context may come by the same handle, in which case resume does nothing.
 */
void gm_target_suspend(CUcontext context);
void gm_target_resume(CUcontext context);
void gm_target_end(CUcontext context);

#endif
