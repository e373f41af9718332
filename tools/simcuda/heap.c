/*
 * heap.c - the best-fit heap of heap.h.
 */
#include "heap.h"

#include <stdlib.h>

static struct sim_block *new_block(struct sim_heap *heap)
{
    struct sim_block *block = heap->spare;
    if (block != NULL) {
        heap->spare = block->after;
        return block;
    }
    return malloc(sizeof *block);
}

static void recycle(struct sim_heap *heap, struct sim_block *block)
{
    block->after = heap->spare;
    heap->spare = block;
}

static void set_free(struct sim_heap *heap, struct sim_block *block)
{
    block->free = true;
    block->by_size.key = block->size;
    block->by_size.tie = block->address;
    sim_tree_insert(&heap->free, &block->by_size);
}

static void set_taken(struct sim_heap *heap, struct sim_block *block)
{
    sim_tree_remove(&heap->free, &block->by_size);
    block->free = false;
}

/* Makes @block end after @size bytes; the rest becomes its neighbour @rest, in no tree yet. */
static void cut(struct sim_block *block, uint64_t size, struct sim_block *rest)
{
    *rest = (struct sim_block){
        .address = block->address + size, .size = block->size - size, .before = block, .after = block->after};
    if (block->after != NULL) {
        block->after->before = rest;
    }
    block->after = rest;
    block->size = size;
}

/* Adds @block's successor to it. */
static void join(struct sim_heap *heap, struct sim_block *block)
{
    struct sim_block *gone = block->after;
    block->size += gone->size;
    block->after = gone->after;
    if (gone->after != NULL) {
        gone->after->before = block;
    }
    recycle(heap, gone);
}

struct sim_block *sim_heap_add(struct sim_heap *heap, uint64_t address, uint64_t size)
{
    struct sim_block *block = new_block(heap);
    if (block != NULL) {
        *block = (struct sim_block){.address = address, .size = size};
        set_free(heap, block);
    }
    return block;
}

static uint64_t head_waste(const struct sim_block *block, uint64_t alignment)
{
    return -block->address & (alignment - 1);
}

/* The best-fitting free block; with an alignment the first whose waste leaves room, from the best size upward. */
static struct sim_block *find(const struct sim_heap *heap, uint64_t size, uint64_t alignment)
{
    struct sim_node *node = sim_tree_ceiling(&heap->free, size, 0);
    while (node != NULL) {
        struct sim_block *block = SIM_OWNER(node, struct sim_block, by_size);
        uint64_t waste = head_waste(block, alignment);
        if (waste <= block->size && block->size - waste >= size) {
            return block;
        }
        node = sim_tree_ceiling(&heap->free, node->key, node->tie + 1);
    }
    return NULL;
}

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size, uint64_t alignment)
{
    struct sim_block *block = find(heap, size, alignment);
    if (block == NULL) {
        return NULL;
    }
    uint64_t waste = head_waste(block, alignment);
    struct sim_block *body = waste > 0 ? new_block(heap) : block;
    struct sim_block *tail = block->size - waste > size ? new_block(heap) : block;
    if (body == NULL || tail == NULL) {
        if (body != NULL && body != block) {
            recycle(heap, body);
        }
        return NULL;
    }
    set_taken(heap, block);
    if (body != block) {
        cut(block, waste, body);
        set_free(heap, block);
    }
    if (tail != block) {
        cut(body, size, tail);
        set_free(heap, tail);
    }
    return body;
}

struct sim_block *sim_heap_give(struct sim_heap *heap, struct sim_block *block)
{
    if (block->after != NULL && block->after->free) {
        set_taken(heap, block->after);
        join(heap, block);
    }
    struct sim_block *before = block->before;
    if (before != NULL && before->free) {
        set_taken(heap, before);
        join(heap, before);
        block = before;
    }
    set_free(heap, block);
    return block;
}

bool sim_heap_is_segment(const struct sim_block *block)
{
    return block->free && block->before == NULL && block->after == NULL;
}

void sim_heap_drop(struct sim_heap *heap, struct sim_block *segment)
{
    set_taken(heap, segment);
    recycle(heap, segment);
}

void sim_heap_finish(struct sim_heap *heap)
{
    while (heap->spare != NULL) {
        struct sim_block *block = heap->spare;
        heap->spare = block->after;
        free(block);
    }
}
