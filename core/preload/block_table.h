/*
 * block_table.h - a hash table from the addresses of blocks to what a module keeps of them.
 *
 * STRUCTURE    Open addressing, at most half full; the memory is from mmap, since a guest's malloc may be the caller.
 *              A record is a struct of the module's own whose first member is the address; 0 there: unused.
 * INVARIANT    capacity is 0 or a power of two; every record is found from its home on without meeting an unused one.
 * CONCURRENCY  none: the module has a lock. gm_block_table_is_empty() alone may be asked without it.
 */
#ifndef GM_BLOCK_TABLE_H
#define GM_BLOCK_TABLE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct gm_block_table {
    size_t record_size; /* bytes; fixed */
    unsigned char *records;
    size_t capacity; /* records there is room for */
    atomic_size_t count;
};

#define GM_BLOCK_TABLE_OF(type)                                                                                        \
    {                                                                                                                  \
        .record_size = sizeof(type)                                                                                    \
    }

static inline bool gm_block_table_is_empty(const struct gm_block_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed) == 0;
}

/* The record of @address; NULL: none. */
void *gm_block_table_find(const struct gm_block_table *table, CUdeviceptr address);

/* The record of @address, made if there is none, all zero but for the address; NULL: there is no memory for it. */
void *gm_block_table_make(struct gm_block_table *table, CUdeviceptr address);

/* Takes @record out. Others may move: also into its place. */
void gm_block_table_remove(struct gm_block_table *table, void *record);

/* The record in place @i below capacity; NULL: unused. For walks. */
void *gm_block_table_at(const struct gm_block_table *table, size_t i);

#endif
