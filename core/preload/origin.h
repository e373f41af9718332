/*
 * origin.h - which of our blocks a plain allocation got, and under which context.
 *
 * The driver's answers about memory depend on where it came from: cuMemAlloc() memory belongs to a context, memory
 * from a pool does not. Blocks that are not recorded here came from a stream-ordered call.
 *
 * STRUCTURE    A hash table from the block's address to the context, open addressing, at most half full; its memory
 *              comes from mmap.
 * CONCURRENCY  one lock, GM_RANK_ORIGIN, under which nothing is called; looking into an empty table takes none.
 */
#ifndef GM_ORIGIN_H
#define GM_ORIGIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* Remembers that @address was given out to a plain call. Without memory for it the block passes for stream-ordered. */
void gm_origin_note(CUdeviceptr address, CUcontext context);

/* To be called before @address is freed: after that, another thread may be given it. */
void gm_origin_drop(CUdeviceptr address);

/*
 * Forgets a block that belongs to @context and gives its address; false: there is none any more. *cursor is 0 at first
 * and says where to go on; meanwhile nothing may be noted for @context.
 */
bool gm_origin_drop_next_of(CUcontext context, size_t *cursor, CUdeviceptr *address);

/* Whether the block that begins at @address is a plain one; then *context is the context it belongs to. */
bool gm_origin_is_plain(CUdeviceptr address, CUcontext *context);

#endif
