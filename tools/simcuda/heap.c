/*
 * heap.c - the best-fit heap of heap.h.
 */
#include "heap.h"

#include <stdlib.h>

/* How many free blocks, from the best fit upward, are looked at for one that need not be waited for. */
#define MAX_LOOKED_AT 64

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

static struct sim_block *as_block(struct sim_node *node)
{
    return node == NULL ? NULL : SIM_OWNER(node, struct sim_block, by_size);
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

/* ---- cutting and joining ---- */

/* Makes @block end after @size bytes; the rest becomes its neighbour @rest, in no tree yet. */
static void cut(struct sim_block *block, uint64_t size, struct sim_block *rest)
{
    *rest = (struct sim_block){.address = block->address + size,
                               .size = block->size - size,
                               .before = block,
                               .after = block->after,
                               .usable = block->usable};
    if (block->after != NULL) {
        block->after->before = rest;
    }
    block->after = rest;
    block->size = size;
}

/* Finds the moment from which both may be used, by the one stream that may use them earlier; false: there are two. */
static bool common_point(const struct sim_point *a, const struct sim_point *b, struct sim_point *out)
{
    if (sim_point_past(a) || sim_point_past(b)) {
        *out = sim_point_past(a) ? *b : *a;
        return true;
    }
    *out = a->seq > b->seq ? *a : *b;
    return a->stream == b->stream;
}

/* Adds @block's successor to it if both are free and may merge; neither is in the tree while this runs. */
static bool join(struct sim_heap *heap, struct sim_block *block)
{
    struct sim_block *gone = block->after;
    struct sim_point usable;
    if (!common_point(&block->usable, &gone->usable, &usable)) {
        heap->unmerged = true;
        return false;
    }
    block->usable = usable;
    block->size += gone->size;
    block->after = gone->after;
    if (gone->after != NULL) {
        gone->after->before = block;
    }
    recycle(heap, gone);
    return true;
}

/* As join(), of two blocks in the tree; the joined one is in the tree again. */
static bool join_free(struct sim_heap *heap, struct sim_block *block)
{
    struct sim_block *gone = block->after;
    set_taken(heap, block);
    set_taken(heap, gone);
    bool joined = join(heap, block);
    set_free(heap, block);
    if (!joined) {
        set_free(heap, gone);
    }
    return joined;
}

static bool free_after(const struct sim_block *block)
{
    return block->after != NULL && block->after->free;
}

/* ---- the heap ---- */

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

static struct sim_block *find(const struct sim_heap *heap, uint64_t size, uint64_t alignment,
                              const struct sim_stream *stream, bool others)
{
    struct sim_block *second_best = NULL;
    struct sim_node *node = sim_tree_ceiling(&heap->free, size, 0);
    unsigned looked_at = 0;
    for (; node != NULL; node = sim_tree_ceiling(&heap->free, node->key, node->tie + 1)) {
        struct sim_block *block = as_block(node);
        uint64_t waste = head_waste(block, alignment);
        if (waste > block->size || block->size - waste < size) {
            continue;
        }
        if (sim_point_past(&block->usable) || block->usable.stream == stream) {
            return block;
        }
        if (second_best == NULL) {
            second_best = block;
        }
        if (++looked_at == MAX_LOOKED_AT) {
            break;
        }
    }
    return others ? second_best : NULL;
}

struct sim_block *sim_heap_carve(struct sim_heap *heap, struct sim_block *block, uint64_t address, uint64_t size)
{
    uint64_t head = address - block->address;
    struct sim_block *body = head > 0 ? new_block(heap) : block;
    struct sim_block *tail = block->size - head > size ? new_block(heap) : block;
    if (body == NULL || tail == NULL) {
        if (body != NULL && body != block) {
            recycle(heap, body);
        }
        if (tail != NULL && tail != block) {
            recycle(heap, tail);
        }
        return NULL;
    }
    set_taken(heap, block);
    if (body != block) {
        cut(block, head, body);
        set_free(heap, block);
    }
    if (tail != block) {
        cut(body, size, tail);
        set_free(heap, tail);
    }
    return body;
}

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size, uint64_t alignment,
                                const struct sim_stream *stream, bool others)
{
    struct sim_block *block = find(heap, size, alignment, stream, others);
    return block == NULL ? NULL : sim_heap_carve(heap, block, block->address + head_waste(block, alignment), size);
}

struct sim_block *sim_heap_smaller(const struct sim_heap *heap, const struct sim_block *block)
{
    if (block == NULL) {
        return as_block(sim_tree_floor(&heap->free, UINT64_MAX, UINT64_MAX));
    }
    return as_block(sim_tree_floor(&heap->free, block->size, block->address - 1));
}

struct sim_block *sim_heap_give(struct sim_heap *heap, struct sim_block *block, const struct sim_point *usable)
{
    block->usable = *usable;
    set_free(heap, block);
    if (free_after(block)) {
        join_free(heap, block);
    }
    struct sim_block *before = block->before;
    if (before != NULL && before->free && join_free(heap, before)) {
        return before;
    }
    return block;
}

void sim_heap_merge(struct sim_heap *heap)
{
    if (!heap->unmerged) {
        return;
    }
    heap->unmerged = false;
    struct sim_node *node = sim_tree_ceiling(&heap->free, 0, 0);
    while (node != NULL) {
        struct sim_block *block = as_block(node);
        uint64_t key = node->key;
        uint64_t tie = node->tie;
        while (free_after(block) && join_free(heap, block)) {
            /* the joined block is larger: the walk meets it again where it now stands */
        }
        node = sim_tree_ceiling(&heap->free, key, tie + 1);
    }
}

void sim_heap_drop(struct sim_heap *heap, struct sim_block *first)
{
    for (struct sim_block *block = first; block != NULL;) {
        struct sim_block *after = block->after;
        if (block->free) {
            set_taken(heap, block);
        }
        recycle(heap, block);
        block = after;
    }
}

void sim_heap_finish(struct sim_heap *heap)
{
    while (heap->spare != NULL) {
        struct sim_block *block = heap->spare;
        heap->spare = block->after;
        free(block);
    }
}
