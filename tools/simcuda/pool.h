/*
 * pool.h - stream-ordered memory pools.
 *
 * STRUCTURE    a pool's memory is 32 MB steps, in segments of contiguous addresses; allocations are 512-byte
 *              multiples by best fit inside segments. What a stream frees can be had again at once by that stream,
 *              by another one behind an inserted wait, and by all once the stream has come to it.
 *              A request that fits nowhere gets a new segment, made of free steps wherever they are, moved, and of
 *              new ones for the rest. Free steps above the release threshold go back to the device whenever
 *              something was waited for, and all of them when the device is full.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "space.h"
#include "stream.h"

#define SIM_POOL_STEP (32ull << 20)

struct sim_graph;

/* Invariant: used <= reserved; highs are never below their figures; idle_segments counts those without a taken block.
 */
struct sim_pool {
    struct sim_pool *next; /* of the device */
    uint64_t handle;
    struct sim_device *device;
    struct sim_heap heap;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    uint64_t threshold;
    uint64_t most; /* of reserved; 0: no limit */
    uint64_t blocks;
    int reuse[3]; /* the switches FOLLOW_EVENT_DEPENDENCIES, ALLOW_OPPORTUNISTIC, ALLOW_INTERNAL_DEPENDENCIES */
    uint8_t access[SIM_MAX_DEVICES]; /* CUmemAccess_flags */
    unsigned handle_types;
    bool destroyed; /* goes with its last block */
};

/* Invariant: in the space, and its block taken, until it is freed. */
struct sim_pooled {
    struct sim_range range;
    struct sim_pool *pool;
    struct sim_block *block;
    struct sim_graph *graph; /* the graph that owns it; NULL: none */
    struct sim_pooled *next_owned;
};

/* Makes the default pools; false: no host memory. */
bool sim_pool_start(void);

/* NULL: no host memory. */
struct sim_pool *sim_pool_create(struct sim_device *device);
void sim_pool_destroy(struct sim_pool *pool);
struct sim_pool *sim_pool_get(CUmemoryPool handle);

/* Allocates for @stream (NULL: for a graph, usable by none of the running streams). */
CUresult sim_pool_allocate(struct sim_pool *pool, uint64_t size, struct sim_stream *stream, struct sim_pooled **out);

/* Frees behind the work of @stream; NULL: at once. */
CUresult sim_pool_free(struct sim_pooled *pooled, struct sim_stream *stream);

/* Gives back free steps until at most @keep bytes are reserved, or there are none. */
void sim_pool_trim(struct sim_pool *pool, uint64_t keep);

/* After a wait: trims the device's pools to their thresholds. */
void sim_pool_settle(struct sim_device *device);

/* The 32 MB step at @address, if all of [address, address + size) is in one segment of a pool; else 0. */
uint64_t sim_pool_step(uint64_t address, uint64_t size);

static inline struct sim_pooled *sim_pooled_of(struct sim_range *range)
{
    return SIM_OWNER(range, struct sim_pooled, range);
}

#endif
