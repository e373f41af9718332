/*
 * gmlake.h - GPU memory that does not fragment: the public C API.
 *
 * An allocator owns the free memory of one CUDA device. It serves a request from free blocks that are scattered by
 * mapping their physical chunks a second time, side by side (virtual memory stitching, GMLake, ASPLOS'24,
 * https://doi.org/10.1145/3620665.3640423), and asks the driver only for what is missing.
 *
 * CONVENTIONS  Functions return 0 or a negative errno value; outputs come last and stay untouched on failure.
 *              gmlake_strerror() words a result, gmlake_driver_error() gives the driver's own code behind it.
 *              Sizes are bytes. No CUDA header is needed: a stream is passed as the CUstream itself.
 * THREADS      Every function may be called from any thread at any time, except that gmlake_destroy() must be the
 *              last call on its allocator. Like the driver's calls, allocation and free want a CUDA context of the
 *              allocator's device current on the calling thread.
 * FORK         An allocator is unusable in a child forked after it was created, as CUDA is: calls return -ECHILD.
 */
#ifndef GMLAKE_H
#define GMLAKE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GMLAKE_VERSION_MAJOR  0
#define GMLAKE_VERSION_MINOR  1
#define GMLAKE_VERSION_PATCH  0
#define GMLAKE_VERSION_STRING "0.1.0"

/* The value of a BYTES tunable that means "no limit"; written "max" in text. */
#define GMLAKE_UNLIMITED UINT64_MAX

/* Alignment of every block, bytes: what cuMemAlloc gives on current drivers. */
#define GMLAKE_ALIGNMENT 512u

/* An address in device memory; the same value as a CUdeviceptr. 0 is never a block. */
typedef uint64_t gmlake_ptr;

/* A CUstream. NULL is the legacy default stream, CU_STREAM_PER_THREAD the calling thread's own, as everywhere in CUDA.
 */
typedef void *gmlake_stream;

/* One allocator on one device. */
struct gmlake;

/* What gmlake_stats() reports, one field for each row of stats.def. */
struct gmlake_stats {
    size_t size; /* set by the caller to sizeof(struct gmlake_stats) before the call */
#define GMLAKE_STAT(name, kind, unit, help) uint64_t name;
#include <gmlake/stats.def>
#undef GMLAKE_STAT
};

/* The tunables, one for each row of tunables.def, in its order. */
enum gmlake_tunable {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) GMLAKE_TUNABLE_##name,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
    GMLAKE_TUNABLE_COUNT
};

/* The kinds of range that gmlake_walk() visits. */
enum gmlake_block_kind {
    GMLAKE_BLOCK_PRIMITIVE, /* live, on the chunks that its range was created with */
    GMLAKE_BLOCK_STITCHED,  /* live, at least one page through a second mapping */
    GMLAKE_BLOCK_FREE,      /* not in use; parts of it may be in use through another mapping */
};

struct gmlake_block {
    gmlake_ptr address;
    uint64_t size;      /* bytes of the range */
    uint64_t requested; /* bytes asked for; 0 when free */
    uint64_t usable;    /* free blocks: bytes of it that no other mapping is using */
    enum gmlake_block_kind kind;
    unsigned chunks; /* chunks under the range */
};

/*
 * Creates an allocator for device ordinal @device. The driver is loaded if the process has not done so, but not
 * initialised: the caller has called cuInit() (or any CUDA runtime function) before.
 * Errors: -ENODEV no driver or no such device; -ENOTSUP the device has no virtual memory management;
 * -EINVAL no context is current; -ENOMEM no host memory; -EIO any other driver error (see gmlake_driver_error()).
 */
int gmlake_create(int device, struct gmlake **out);

/*
 * Gives all memory back, live blocks included, after waiting for the device. NULL is allowed. Needs a context of
 * the device current, like allocation.
 */
void gmlake_destroy(struct gmlake *allocator);

/*
 * Allocates @bytes on @stream: usable by work submitted to @stream from now on, by other streams as the stream
 * order of CUDA's stream-ordered allocator says. *out is aligned to GMLAKE_ALIGNMENT. A size of 0 returns 0 with
 * *out = 0, as cuMemAllocAsync() does.
 * Errors: -ENOMEM the device has no room even after stitching, waiting for pending frees and trimming;
 * -EINVAL a size no device can have; -ECHILD after fork; -EIO other driver errors.
 */
int gmlake_alloc(struct gmlake *allocator, size_t bytes, gmlake_stream stream, gmlake_ptr *out);

/*
 * Frees @address, once work submitted to @stream before this call has completed: memory is at once reusable on
 * @stream, elsewhere after that work. @address 0 is allowed and does nothing.
 * Errors: -EINVAL @address is not the start of a live block of this allocator: nothing is changed.
 */
int gmlake_free(struct gmlake *allocator, gmlake_ptr address, gmlake_stream stream);

/*
 * Frees @address as cuMemFree() does: work on any stream may still be using it, so it is reused only after a
 * synchronisation of the context, paid lazily when clean memory runs out. Errors as gmlake_free().
 */
int gmlake_free_sync(struct gmlake *allocator, gmlake_ptr address);

/*
 * To be called before @stream is destroyed, if memory was allocated or freed on it: a later stream may get the same
 * handle, and must not be taken for it. Work that is still pending on @stream may complete later. 0, or -ECHILD.
 */
int gmlake_forget_stream(struct gmlake *allocator, gmlake_stream stream);

/*
 * Lets device ordinal @device read and write all memory of the allocator, live, free and future, as peer access does
 * for memory of cuMemAlloc(). Errors: -ENOSPC too many devices; -EINVAL, -EIO the driver refuses: the two cannot be
 * peers; -ECHILD. On failure nothing has changed for future memory.
 */
int gmlake_admit(struct gmlake *allocator, int device);

/*
 * Finds the live block that contains @address. Errors: -ENOENT there is none.
 */
int gmlake_find(struct gmlake *allocator, gmlake_ptr address, struct gmlake_block *out);

/*
 * Gives free memory back to the device until at most @keep bytes of wholly free chunks remain; waits for pending
 * frees first. *released (may be NULL) gets the bytes given back.
 */
int gmlake_trim(struct gmlake *allocator, size_t keep, size_t *released);

/*
 * Fills *out, of which out->size says how much the caller knows; fields beyond the library's own are zeroed.
 * Errors: -EINVAL out->size is smaller than a size_t.
 */
int gmlake_get_stats(struct gmlake *allocator, struct gmlake_stats *out);

/*
 * Calls @visit for every block in address order, with the allocator locked: @visit must not call back into it.
 * A non-zero result of @visit ends the walk and is returned.
 */
int gmlake_walk(struct gmlake *allocator, int (*visit)(void *arg, const struct gmlake_block *block), void *arg);

/*
 * Checks every invariant of the allocator; for tests. 0, or -EUCLEAN with the first violation on standard error.
 */
int gmlake_check(struct gmlake *allocator);

/*
 * Tunables belong to the process: all its allocators follow them from the next allocation on. @name is a row of
 * tunables.def; @value is text as in the mount ("64M", "max", "1"); "default" restores the start value.
 * A value set through the mount overrides these until it is cleared there.
 * Errors: -ENOENT no such tunable; -EINVAL not a value; -ERANGE outside the tunable's range.
 */
int gmlake_set_tunable(const char *name, const char *value);

/* Gives the value in force. Errors: -ENOENT. */
int gmlake_get_tunable(const char *name, uint64_t *out);

/* The words for a result of these functions; never NULL, static storage. */
const char *gmlake_strerror(int result);

/* The driver's code (a CUresult) of the last failed driver call on this thread; 0 if none. */
int gmlake_driver_error(void);

#ifdef __cplusplus
}
#endif
#endif
