/*
 * pool.h - the allocator of one device.
 *
 * An allocation looks for the first gap by address that holds it (gm_range_carve); only when there is none does it
 * come to driver calls (limit.h). Functions take the pool's lock themselves and may be called from any thread with a
 * context of the device current.
 */
#ifndef GM_POOL_H
#define GM_POOL_H

#include "block.h"

/* Readies *pool (zeroed) for device ordinal @device. Errors as gmlake_create(). */
int gm_pool_init(struct gm_pool *pool, const struct gm_cu *cu, int device);

/* Waits for the device and gives everything back, live blocks included. */
void gm_pool_finish(struct gm_pool *pool);

/*
 * To be called when the context that the pool was made under has ended, and with it all work, streams and events of
 * it: what waited for them is free, and free memory goes back to the device. Live blocks stay valid. Until
 * gm_pool_adopt() nothing can be allocated; what is freed meanwhile is reused after a synchronisation of the new one.
 */
void gm_pool_orphan(struct gm_pool *pool);
void gm_pool_adopt(struct gm_pool *pool, CUcontext context);

/*
 * To be called before a stream begins to be captured. While it is, the context cannot be synchronised and no event be
 * recorded on the stream: what is owed is waited for now, as the frees would have done, and what is pending marked.
 */
void gm_pool_expect_capture(struct gm_pool *pool);

/* @bytes > 0. Errors as gmlake_alloc(). */
int gm_pool_alloc(struct gm_pool *pool, size_t bytes, CUstream stream, CUdeviceptr *out);

/* *bytes gets what was asked for. -EINVAL: no live block starts at @address. */
int gm_pool_free(struct gm_pool *pool, CUdeviceptr address, CUstream handle, uint64_t *bytes);

/* As gm_pool_free(), for memory that any stream may still be using. */
int gm_pool_free_sync(struct gm_pool *pool, CUdeviceptr address, uint64_t *bytes);

/* To be called when a trace (recorder.h) has begun or ended: calls that end after this know of it. */
void gm_pool_watch(struct gm_pool *pool);

/* As gmlake_admit(). */
int gm_pool_admit(struct gm_pool *pool, CUdevice peer);

/* As gmlake_find(), gmlake_trim(), gmlake_get_stats(), gmlake_walk(). */
int gm_pool_find(struct gm_pool *pool, CUdeviceptr address, struct gmlake_block *out);
int gm_pool_trim(struct gm_pool *pool, uint64_t keep, uint64_t *released);
void gm_pool_stats(struct gm_pool *pool, struct gmlake_stats *out);
int gm_pool_walk(struct gm_pool *pool, int (*visit)(void *arg, const struct gmlake_block *block), void *arg);

/* As gm_pool_walk(), with the pool's count of operations, which goes with what is visited, in *operations first. */
int gm_pool_map(struct gm_pool *pool, int (*visit)(void *arg, const struct gmlake_block *block), void *arg,
                uint64_t *operations);

/* Verifies every invariant of block.h; 0, or -EUCLEAN with the first violation described on standard error. */
int gm_pool_check(struct gm_pool *pool);

/* The pool that @address belongs to; NULL: none. Lock-free. */
struct gm_pool *gm_pool_owner(CUdeviceptr address);

#endif
