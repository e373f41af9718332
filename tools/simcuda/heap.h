/*
 * heap.h - best fit with coalescing over segments of addresses.
 *
 * STRUCTURE    a segment is a list of blocks by address; the free blocks of all segments are one tree by
 *              (size, address). A free block carries the moment from which anybody may use it: before that, only the
 *              stream that freed it may. Free neighbours merge, inside their segment, unless two streams' unfinished
 *              work stands between them.
 *              Used for small plain allocations, for pools, and for made-up address space.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include "point.h"
#include "tree.h"

/* Invariant: @by_size is in the heap's tree exactly while @free; the record of a segment's first block never changes.
 */
struct sim_block {
    struct sim_node by_size;
    uint64_t address;
    uint64_t size;
    struct sim_block *before; /* neighbours in the segment */
    struct sim_block *after;
    struct sim_point usable; /* free: from then on, by anybody */
    bool free;
};

/* Invariant: free neighbours that could be merged exist only while @unmerged. */
struct sim_heap {
    struct sim_tree free;
    struct sim_block *spare; /* records to use again, linked by @after */
    bool unmerged;
};

/* Adds a free segment, as one block; NULL: no host memory. */
struct sim_block *sim_heap_add(struct sim_heap *heap, uint64_t address, uint64_t size);

/*
 * Takes @size bytes at a multiple of @alignment (a power of two) for @stream: out of a free block that fits well and
 * that it may use, or, if @others, out of one that it has to wait for: block->usable then says for what.
 * NULL: there is none, or no host memory.
 */
struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size, uint64_t alignment,
                                const struct sim_stream *stream, bool others);

/* The largest free block below @block in the order of sizes; NULL as @block: the largest of all. NULL: none. */
struct sim_block *sim_heap_smaller(const struct sim_heap *heap, const struct sim_block *block);

/* Takes [address, address + size) out of the free @block that holds it; NULL: no host memory. */
struct sim_block *sim_heap_carve(struct sim_heap *heap, struct sim_block *block, uint64_t address, uint64_t size);

/* Gives a taken block back, to be used by anybody from @usable on; returns the free block that it is now part of. */
struct sim_block *sim_heap_give(struct sim_heap *heap, struct sim_block *block, const struct sim_point *usable);

/* Merges what could not be merged when it was given. */
void sim_heap_merge(struct sim_heap *heap);

/* Removes a segment by its first block, free or taken. */
void sim_heap_drop(struct sim_heap *heap, struct sim_block *first);

/* Frees the spare records. */
void sim_heap_finish(struct sim_heap *heap);

#endif
