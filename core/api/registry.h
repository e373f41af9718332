/*
 * registry.h - the allocators of this process: one for each device, made on first use, and any an application made.
 *
 * For the preload library and the agent. Applications use gmlake.h.
 *
 * CONCURRENCY  the list is guarded by the registry lock (rank GM_RANK_REGISTRY); gm_registry_owner() takes no lock.
 */
#ifndef GM_REGISTRY_H
#define GM_REGISTRY_H

#include <cuda.h>
#include <gmlake/gmlake.h>

/*
 * Gives the process's own allocator of @device, creating it on first use. A context of the device must be current.
 * Errors as gmlake_create(); a device that cannot be served is remembered and answered -ENOTSUP at once.
 */
int gm_registry_get(int device, struct gmlake **out);

/* The allocator whose address ranges contain @address, live block or not; NULL: not ours. Lock-free. */
struct gmlake *gm_registry_owner(gmlake_ptr address);

/* The device that the allocator was made for. */
int gm_registry_device(const struct gmlake *allocator);

/* As gmlake_alloc() of @bytes > 0 where the caller has seen to it that `enabled` is on (gm_tunables_are_plain). */
int gm_registry_alloc(struct gmlake *allocator, size_t bytes, gmlake_stream stream, gmlake_ptr *out);

/*
 * As gmlake_free() and gmlake_free_sync() of a block in the allocator's own ranges; *bytes gets what was asked for.
 */
int gm_registry_free(struct gmlake *allocator, gmlake_ptr address, gmlake_stream stream, uint64_t *bytes);
int gm_registry_free_sync(struct gmlake *allocator, gmlake_ptr address, uint64_t *bytes);

/*
 * The context of @allocator is about to end, or has ended: nothing is done to it from aside any more, and nothing is
 * under way.
 */
void gm_registry_end(struct gmlake *allocator);

/*
 * When it has ended: free memory goes back to the device, live blocks stay valid. Then gives the allocator to @context,
 * another one of its device, or the same if it did not end.
 */
void gm_registry_orphan(struct gmlake *allocator);
void gm_registry_adopt(struct gmlake *allocator, CUcontext context);

/* A capture of a stream is about to begin: waits for the plain frees so far, which nobody can do while it is open. */
void gm_registry_expect_capture(struct gmlake *allocator);

/* Calls @visit for each allocator, under the registry lock, until it returns non-zero, which is returned. */
int gm_registry_each(int (*visit)(void *arg, struct gmlake *allocator, int device), void *arg);

#endif
