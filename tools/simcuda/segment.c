/*
 * segment.c - segments of addresses with 32 MB steps behind them, and the moving of steps.
 */
#include "segment.h"

#include "clock.h"

#include <stdlib.h>

#define STEP SIM_POOL_STEP
#define GONE UINT64_MAX /* the step's memory was moved away: a taken block keeps its place until the segment ends */

/* Invariant: @backed counts the steps that are not GONE; it is above 0. */
struct segment {
    struct sim_node node; /* key: the address */
    struct sim_pool *pool;
    struct sim_span span;
    struct sim_block *first;
    uint64_t backed;
    uint64_t offsets[]; /* of each step in the device's file */
};

static struct sim_tree segments; /* of all pools */

static struct segment *segment_of(uint64_t address)
{
    struct sim_node *node = sim_tree_floor(&segments, address, 0);
    struct segment *segment = node == NULL ? NULL : SIM_OWNER(node, struct segment, node);
    return segment != NULL && address - segment->node.key < segment->span.size ? segment : NULL;
}

uint64_t sim_pool_step(uint64_t address, uint64_t size)
{
    const struct segment *segment = segment_of(address);
    if (segment == NULL || size > segment->span.size - (address - segment->node.key)) {
        return 0;
    }
    return address - (address - segment->node.key) % STEP;
}

static void drop(struct segment *segment)
{
    sim_heap_drop(&segment->pool->heap, segment->first);
    sim_tree_remove(&segments, &segment->node);
    sim_address_free(&segment->span);
    free(segment);
}

/* The first whole step inside a free block, if nobody is at work on it; 0: none. */
static uint64_t step_in(const struct sim_block *block)
{
    const struct segment *segment = segment_of(block->address);
    uint64_t into = block->address - segment->node.key;
    uint64_t first = segment->node.key + (into + STEP - 1) / STEP * STEP;
    bool whole = first + STEP <= block->address + block->size;
    return whole && sim_point_past(&block->usable) ? first : 0;
}

/* Takes the memory of a free step from the pool; false: there is none. */
static bool take_step(struct sim_pool *pool, uint64_t *offset)
{
    struct sim_block *block = sim_heap_smaller(&pool->heap, NULL);
    while (block != NULL && block->size >= STEP) {
        uint64_t address = step_in(block);
        if (address == 0) {
            block = sim_heap_smaller(&pool->heap, block);
            continue;
        }
        if (sim_heap_carve(&pool->heap, block, address, STEP) == NULL) {
            return false;
        }
        struct segment *segment = segment_of(address);
        uint64_t *place = &segment->offsets[(address - segment->node.key) / STEP];
        *offset = *place;
        *place = GONE;
        sim_address_unmap(address, STEP);
        if (--segment->backed == 0) {
            drop(segment);
        }
        return true;
    }
    return false;
}

bool sim_segment_release_step(struct sim_pool *pool)
{
    uint64_t offset;
    if (!take_step(pool, &offset)) {
        return false;
    }
    sim_clock_charge(SIM_COST_STEP_TRIM, STEP);
    sim_device_give(pool->device, STEP, true, offset);
    pool->reserved -= STEP;
    return true;
}

static bool new_step(struct sim_pool *pool, uint64_t *offset)
{
    if ((pool->most != 0 && pool->reserved + STEP > pool->most) || !sim_device_take(pool->device, STEP, true, offset)) {
        return false;
    }
    pool->reserved += STEP;
    if (pool->reserved > pool->reserved_high) {
        pool->reserved_high = pool->reserved;
    }
    return true;
}

/* Gets memory for every step, moved or new; false: not all, and what there was is the device's. */
static bool back(struct segment *segment, uint64_t steps)
{
    struct sim_pool *pool = segment->pool;
    for (uint64_t i = 0; i < steps; i++) {
        bool moved = take_step(pool, &segment->offsets[i]);
        if (!moved && !new_step(pool, &segment->offsets[i])) {
            while (i-- > 0) {
                sim_device_give(pool->device, STEP, true, segment->offsets[i]);
                pool->reserved -= STEP;
            }
            return false;
        }
        sim_clock_charge(moved ? SIM_COST_STEP_MOVE : SIM_COST_STEP_GROW, STEP);
    }
    segment->backed = steps;
    return true;
}

static bool open_steps(struct segment *segment, uint64_t steps)
{
    bool opened = true;
    for (uint64_t i = 0; opened && i < steps; i++) {
        opened = sim_address_map(segment->span.address + i * STEP, STEP, segment->pool->device->file,
                                 segment->offsets[i], SIM_ACCESS_WRITE);
    }
    return opened;
}

bool sim_segment_add(struct sim_pool *pool, uint64_t size)
{
    uint64_t steps = size / STEP + (size % STEP != 0);
    if (steps * STEP > pool->device->capacity) {
        return false;
    }
    struct segment *segment = malloc(sizeof *segment + steps * sizeof segment->offsets[0]);
    if (segment == NULL) {
        return false;
    }
    segment->pool = pool;
    if (!sim_address_reserve(steps * STEP, SIM_PAGE, 0, &segment->span)) {
        free(segment);
        return false;
    }
    if (!back(segment, steps)) {
        sim_address_free(&segment->span);
        free(segment);
        return false;
    }
    segment->node.key = segment->span.address;
    segment->node.tie = 0;
    segment->first = open_steps(segment, steps) ? sim_heap_add(&pool->heap, segment->node.key, steps * STEP) : NULL;
    if (segment->first == NULL) {
        for (uint64_t i = 0; i < steps; i++) {
            sim_device_give(pool->device, STEP, true, segment->offsets[i]);
        }
        pool->reserved -= steps * STEP;
        sim_address_free(&segment->span);
        free(segment);
        return false;
    }
    sim_tree_insert(&segments, &segment->node);
    return true;
}
