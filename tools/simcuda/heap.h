/*
 * heap.h - best fit with coalescing over segments of addresses.
 *
 * STRUCTURE    a segment is a list of blocks by address; the free blocks of all segments are one tree by
 *              (size, address). Blocks merge inside their segment only.
 *              Used for small plain allocations, for pools, and for made-up address space.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include "tree.h"

#include <stdbool.h>

/* Invariant: two neighbours are never both free; @by_size is in the heap's tree exactly while @free. */
struct sim_block {
    struct sim_node by_size;
    uint64_t address;
    uint64_t size;
    struct sim_block *before; /* neighbours in the segment */
    struct sim_block *after;
    bool free;
};

struct sim_heap {
    struct sim_tree free;
    struct sim_block *spare; /* records to use again, linked by @after */
};

/* Adds a free segment, as one block; NULL: no host memory. */
struct sim_block *sim_heap_add(struct sim_heap *heap, uint64_t address, uint64_t size);

/*
 * Takes @size bytes at a multiple of @alignment (a power of two) out of the smallest free block that holds them.
 * NULL: none does, or no host memory.
 */
struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size, uint64_t alignment);

/* Gives a taken block back; returns the free block that it is now part of. */
struct sim_block *sim_heap_give(struct sim_heap *heap, struct sim_block *block);

/* True: @block is free and is its whole segment, which sim_heap_drop() may remove. */
bool sim_heap_is_segment(const struct sim_block *block);
void sim_heap_drop(struct sim_heap *heap, struct sim_block *segment);

/* Frees the spare records. */
void sim_heap_finish(struct sim_heap *heap);

#endif
