/*
 * origin.h - what a program may know of a block beyond its place and size: where it came from, and what it was told.
 *
 * The driver's answers about memory depend on where it came from: cuMemAlloc() memory belongs to a context, memory of a
 * stream-ordered call to a pool. Of most blocks nothing needs to be kept: those that are not recorded here came from
 * their device's default pool, and nobody has asked for their identity or changed their attributes.
 *
 * STRUCTURE    A table from the block's address to its record (block_table.h).
 * CONCURRENCY  one lock, GM_RANK_ORIGIN, under which nothing is called; looking into an empty table takes none.
 */
#ifndef GM_ORIGIN_H
#define GM_ORIGIN_H

#include "block_table.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_pool_record;

/* The records. Written by origin.c alone. */
extern struct gm_block_table gm_origin_records;

/* Invariant: context is NULL or pool is. */
struct gm_origin {
    CUcontext context;           /* of a plain block; NULL: it came from a pool */
    struct gm_pool_record *pool; /* NULL: the default pool of the device, unless the block is plain */
    uint64_t id;                 /* what BUFFER_ID was answered with; 0: not asked for yet */
    bool sync_memops;            /* as set by cuPointerSetAttribute() */
};

/*
 * Records where the block at @address came from, before the program knows it. False: there is no memory for that, and
 * it passes for one of the default pool.
 */
bool gm_origin_note(CUdeviceptr address, const struct gm_origin *origin);

/* Whether no block has a record: then nobody need look for one. */
static inline bool gm_origin_is_empty(void)
{
    return __builtin_expect(gm_block_table_is_empty(&gm_origin_records), 1);
}

/* The record of the block that begins at @address; all zero: there is none. */
struct gm_origin gm_origin_of(CUdeviceptr address);

/*
 * Takes the record out and gives it. To be called before @address is freed: after that, another thread may be given
 * it. gm_origin_note() puts it back when the free fails.
 */
struct gm_origin gm_origin_take(CUdeviceptr address);

/*
 * The identity of the block that begins at @address: a number that no other block of the process has had, nor any of
 * the driver's. 0: no memory for the record.
 */
uint64_t gm_origin_identity(CUdeviceptr address);

/* Remembers the attribute; false: no memory for the record. */
bool gm_origin_set_sync_memops(CUdeviceptr address, bool on);

/*
 * Takes out the record of a block that belongs to @context and gives its address; false: there is none any more.
 * *cursor is 0 at first and says where to go on; meanwhile nothing may be noted for @context.
 */
bool gm_origin_take_next_of(CUcontext context, size_t *cursor, CUdeviceptr *address);

#endif
