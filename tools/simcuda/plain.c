/*
 * plain.c - cuMemAlloc's memory.
 */
#include "plain.h"

#include "memory.h"

#include <stdlib.h>

#define SMALL_LIMIT (1ull << 20)
#define ALIGNMENT   512ull

/* A 2 MB page shared by small allocations. */
struct page {
    struct sim_node node; /* key: the address */
    struct sim_span span;
    uint64_t offset;
};

static struct sim_heap small[SIM_MAX_DEVICES];
static struct sim_tree pages;

static bool add_page(struct sim_device *device)
{
    struct page *page = malloc(sizeof *page);
    if (page == NULL) {
        return false;
    }
    if (!sim_memory_open(device, SIM_PAGE, &page->span, &page->offset)) {
        free(page);
        return false;
    }
    if (sim_heap_add(&small[device->ordinal], page->span.address, SIM_PAGE) == NULL) {
        sim_memory_close(device, &page->span, page->offset);
        free(page);
        return false;
    }
    page->node.key = page->span.address;
    page->node.tie = 0;
    sim_tree_insert(&pages, &page->node);
    return true;
}

static struct page *page_of(uint64_t address)
{
    return SIM_OWNER(sim_tree_floor(&pages, address, 0), struct page, node);
}

static void drop_page(struct sim_device *device, struct sim_block *segment)
{
    struct page *page = page_of(segment->address);
    sim_heap_drop(&small[device->ordinal], segment);
    sim_tree_remove(&pages, &page->node);
    sim_memory_close(device, &page->span, page->offset);
    free(page);
}

static bool take_small(struct sim_device *device, uint64_t size, struct sim_plain *plain)
{
    uint64_t rounded = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    struct sim_heap *heap = &small[device->ordinal];
    plain->block = sim_heap_take(heap, rounded, ALIGNMENT, NULL, true);
    if (plain->block == NULL && add_page(device)) {
        plain->block = sim_heap_take(heap, rounded, ALIGNMENT, NULL, true);
    }
    return plain->block != NULL;
}

CUresult sim_plain_allocate(struct sim_context *context, uint64_t size, struct sim_plain **out)
{
    struct sim_device *device = context->device;
    uint64_t pages_size = (size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
    struct sim_plain *plain = pages_size < size ? NULL : calloc(1, sizeof *plain);
    if (plain == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool done = size <= SMALL_LIMIT ? take_small(device, size, plain)
                                    : sim_memory_open(device, pages_size, &plain->span, &plain->offset);
    if (!done) {
        free(plain);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    plain->context = context;
    plain->range.kind = SIM_PLAIN;
    plain->range.device = device;
    plain->range.size = size;
    sim_space_add(&plain->range, plain->block != NULL ? plain->block->address : plain->span.address);
    plain->next = context->plain;
    if (context->plain != NULL) {
        context->plain->previous = plain;
    }
    context->plain = plain;
    *out = plain;
    return CUDA_SUCCESS;
}

void sim_plain_place(const struct sim_plain *plain, uint64_t *offset, uint64_t *size, uint64_t *inside)
{
    if (plain->block == NULL) {
        *offset = plain->offset;
        *size = plain->span.size;
        *inside = 0;
        return;
    }
    const struct page *page = page_of(plain->block->address);
    *offset = page->offset;
    *size = SIM_PAGE;
    *inside = plain->block->address - page->node.key;
}

static void run_free(struct sim_op *op)
{
    sim_plain_drop(op->object);
}

CUresult sim_plain_free_behind(struct sim_plain *plain, struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    plain->range.freed = true;
    op->run = run_free;
    op->object = plain;
    sim_stream_push(stream, op);
    return CUDA_SUCCESS;
}

void sim_plain_drop(struct sim_plain *plain)
{
    struct sim_device *device = plain->range.device;
    sim_space_remove(&plain->range);
    if (plain->next != NULL) {
        plain->next->previous = plain->previous;
    }
    if (plain->previous != NULL) {
        plain->previous->next = plain->next;
    } else {
        plain->context->plain = plain->next;
    }
    if (plain->block == NULL) {
        sim_memory_close(device, &plain->span, plain->offset);
    } else {
        struct sim_block *rest = sim_heap_give(&small[device->ordinal], plain->block, &(struct sim_point){0});
        if (rest->size == SIM_PAGE) {
            drop_page(device, rest);
        }
    }
    free(plain);
}
