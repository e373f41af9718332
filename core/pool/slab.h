/*
 * slab.h - requests of up to 16 KiB, in a crowd up to 64 KiB: up to 64 objects of one size in one block.
 *
 * A million small tensors then need a bit each instead of a boundary tag each, and their pages are few.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_SLAB_H
#define GM_SLAB_H

#include "block.h"

void gm_slab_init(struct gm_pool *pool);

/* The size class that serves @units (at most GM_SLAB_MAX_CROWDED), the units of its objects, and how many a slab has.
 */
uint32_t gm_slab_class(uint32_t units);
uint32_t gm_slab_class_units(uint32_t size_class);
uint32_t gm_slab_class_objects(uint32_t size_class);

/* Takes an object for @bytes from a slab of @stream. false: there is no free one; gm_slab_add() makes some. */
bool gm_slab_take(struct gm_pool *pool, uint32_t size_class, uint32_t stream, size_t bytes, CUdeviceptr *out);

/* Makes the live node @node, of all the objects of a slab of @size_class, a slab of @stream. -ENOMEM. */
int gm_slab_add(struct gm_pool *pool, uint32_t node, uint32_t size_class, uint32_t stream);

/*
 * Frees the object of slab @index at @address, last used as @stamp says; gives the bytes that were asked for. An empty
 * slab is kept for its next use until gm_slab_release_empty(). -EINVAL: no live object of the slab starts there.
 */
int gm_slab_free(struct gm_pool *pool, uint32_t index, CUdeviceptr address, uint64_t stamp, uint64_t *bytes);

/* Gives the number of the live object of slab @index over @address; false: there is none. */
bool gm_slab_find(const struct gm_pool *pool, uint32_t index, CUdeviceptr address, uint32_t *out);

/* Bytes of each object of @slab. */
uint32_t gm_slab_object_size(const struct gm_slab *slab);

/* The bytes that were asked for of a live object. */
uint32_t gm_slab_bytes(const struct gm_pool *pool, uint32_t index, uint32_t object);

/* Takes back objects freed on other streams whose work is done by now. */
void gm_slab_collect(struct gm_pool *pool);

/* Gives empty slabs back to their ranges. Returns whether there was one. */
bool gm_slab_release_empty(struct gm_pool *pool);

#endif
