/*
 * range.c - reserving ranges, and mapping chunks into them. See range.h; nodes are in node.c.
 */
#include "range.h"

#include "access.h"
#include "bits.h"
#include "chunk.h"
#include "index.h"
#include "node.h"
#include "table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define RANGE_SHIFT    32u                 /* ranges begin and end at multiples of 4 GiB */
#define RANGE_SIZE_MAX ((uint64_t)1 << 39) /* keeps units, and bounds in them, within 31 bits */
#define ADDRESS_BITS   49u                 /* what a device of today addresses */
#define OWNERS         (1u << (ADDRESS_BITS - RANGE_SHIFT))

/* The owner of each 4 GiB of addresses. Written under the pool's lock, read without. */
static struct owner {
    _Atomic(struct gm_pool *) pool;
    _Atomic uint32_t range;
} owners[OWNERS];

struct gm_pool *gm_range_owner(CUdeviceptr address, uint32_t *range)
{
    uint64_t index = address >> RANGE_SHIFT;
    if (index >= OWNERS) {
        return NULL;
    }
    struct gm_pool *pool = atomic_load_explicit(&owners[index].pool, memory_order_acquire);
    *range = atomic_load_explicit(&owners[index].range, memory_order_relaxed);
    return pool;
}

static void set_owner(const struct gm_range *range, struct gm_pool *pool, uint32_t index)
{
    for (uint64_t at = range->base; at < range->base + range->size; at += (uint64_t)1 << RANGE_SHIFT) {
        atomic_store_explicit(&owners[at >> RANGE_SHIFT].range, index, memory_order_relaxed);
        atomic_store_explicit(&owners[at >> RANGE_SHIFT].pool, pool, memory_order_release);
    }
}

/* The limits of the classes: algorithm study on PyTorch traces, the most sensitive knob of all (README, "Classes"). */
enum gm_class gm_class_of(uint32_t units)
{
    if (units < (1u << 20) / GM_UNIT_SIZE) {
        return GM_CLASS_SMALL;
    }
    bool aligned = units % GM_PAGE_UNITS == 0;
    if (units < (24u << 20) / GM_UNIT_SIZE) {
        return aligned ? GM_CLASS_MEDIUM_ALIGNED : GM_CLASS_MEDIUM;
    }
    return aligned ? GM_CLASS_LARGE_ALIGNED : GM_CLASS_LARGE;
}

/* Start granules are no larger than the class's smallest block; gap granules were chosen by measurement (+-3 %). */
static const struct {
    uint32_t start_shift;
    uint32_t granule_shift;
} shifts[GM_CLASS_COUNT] = {
    [GM_CLASS_SMALL] = {5, 8},    /* 16 KiB, 128 KiB */
    [GM_CLASS_MEDIUM] = {11, 14}, /* 1 MiB, 8 MiB */
    [GM_CLASS_MEDIUM_ALIGNED] = {11, 14},
    [GM_CLASS_LARGE] = {15, 17}, /* 16 MiB, 64 MiB */
    [GM_CLASS_LARGE_ALIGNED] = {15, 17},
};

static size_t starts_of(const struct gm_range *range)
{
    return (range->pages * GM_PAGE_UNITS - 1) / (1u << range->start_shift) + 1;
}

static void free_tables(struct gm_range *range)
{
    gm_index_finish(range);
    gm_table_give(range->starts, starts_of(range) * sizeof *range->starts);
    gm_table_give(range->slot_of_page, range->pages * sizeof *range->slot_of_page);
    gm_table_give(range->usable, gm_bits_words(range->pages) * sizeof *range->usable);
    gm_array_finish(&range->slots);
    gm_array_finish(&range->dirty);
    gm_array_finish(&range->held);
    memset(range, 0, sizeof *range);
}

static int make_tables(struct gm_range *range)
{
    range->starts = gm_table_take(starts_of(range) * sizeof *range->starts);
    range->slot_of_page = gm_table_take(range->pages * sizeof *range->slot_of_page);
    range->usable = gm_table_take(gm_bits_words(range->pages) * sizeof *range->usable);
    if (range->starts == NULL || range->slot_of_page == NULL || range->usable == NULL || gm_index_init(range) < 0) {
        free_tables(range);
        return -ENOMEM;
    }
    return 0;
}

static int take_entry(struct gm_pool *pool, uint32_t *out)
{
    for (uint32_t i = 0; i < pool->ranges.count; i++) {
        if (gm_range(pool, i)->size == 0) {
            *out = i;
            return 0;
        }
    }
    int rc = gm_array_reserve(&pool->ranges, pool->ranges.count + 1, sizeof(struct gm_range));
    if (rc < 0 || pool->ranges.count >= UINT16_MAX) {
        return -ENOMEM;
    }
    *out = pool->ranges.count++;
    return 0;
}

/* Room for four blocks of the size that asks for it: later ones of its kind come to stand beside it. */
static uint64_t size_for(uint32_t units)
{
    uint64_t size = (uint64_t)units << GM_UNIT_SHIFT;
    size = size < RANGE_SIZE_MAX / 4 ? size * 4 : RANGE_SIZE_MAX;
    uint64_t step = (uint64_t)1 << RANGE_SHIFT;
    return (size + step - 1) / step * step;
}

int gm_range_create(struct gm_pool *pool, enum gm_class class, uint32_t units, uint32_t *out)
{
    struct gm_array *members = &pool->class_ranges[class];
    uint32_t index;
    int rc = take_entry(pool, &index);
    if (rc < 0 || gm_array_reserve(members, members->count + 1, sizeof(uint32_t)) < 0) {
        return -ENOMEM;
    }
    struct gm_range *range = gm_range(pool, index);
    memset(range, 0, sizeof *range);
    uint64_t size = size_for(units);
    range->pages = (uint32_t)(size >> GM_PAGE_SHIFT);
    range->class = class;
    range->last = GM_NONE;
    range->fit_gap = GM_NONE;
    range->start_shift = shifts[class].start_shift;
    range->granule_shift = shifts[class].granule_shift;
    rc = make_tables(range);
    if (rc < 0) {
        return rc;
    }
    rc = gm_vmm_reserve(&pool->vmm, size, (uint64_t)1 << RANGE_SHIFT, &range->base);
    if (rc < 0) {
        free_tables(range);
        return rc;
    }
    range->size = size;
    if ((range->base + size - 1) >> ADDRESS_BITS != 0 || range->base % ((uint64_t)1 << RANGE_SHIFT) != 0) {
        gm_vmm_unreserve(&pool->vmm, range->base, size);
        free_tables(range);
        return -ENOTSUP;
    }
    set_owner(range, pool, index);
    ((uint32_t *)members->data)[members->count++] = index;
    *out = index;
    return 0;
}

void gm_range_discard(struct gm_pool *pool, uint32_t index)
{
    struct gm_range *range = gm_range(pool, index);
    set_owner(range, NULL, 0);
    gm_vmm_unreserve(&pool->vmm, range->base, range->size);
    free_tables(range);
}

void gm_range_destroy(struct gm_pool *pool, uint32_t index)
{
    struct gm_array *members = &pool->class_ranges[gm_range(pool, index)->class];
    uint32_t *indices = members->data;
    uint32_t i = 0;
    while (indices[i] != index) {
        i++;
    }
    members->count--;
    memmove(indices + i, indices + i + 1, (members->count - i) * sizeof *indices);
    gm_range_discard(pool, index);
}

/* Room for one more slot, and for every slot in the dirty list, so that freeing memory never needs any. */
static int reserve_slot(struct gm_range *range)
{
    int rc = gm_array_reserve(&range->slots, range->slots.count + 1, sizeof(struct gm_slot));
    return rc < 0 ? rc : gm_array_reserve(&range->dirty, range->slots.count + 1, sizeof(uint32_t));
}

/* Notes that @place in @range is one of the chunk's. -ENOMEM. */
static int add_place(struct gm_pool *pool, struct gm_range *range, uint32_t chunk, struct gm_place place)
{
    uint32_t words = chunk / 64 + 1;
    int rc = gm_array_reserve(&range->held, words, sizeof(uint64_t));
    if (rc < 0) {
        return rc;
    }
    rc = gm_chunk_add_place(gm_chunk(pool, chunk), place);
    if (rc < 0) {
        return rc;
    }
    range->held.count = gm_max(range->held.count, words);
    ((uint64_t *)range->held.data)[chunk / 64] |= (uint64_t)1 << chunk % 64;
    return 0;
}

/* Forgets place @i of chunk @index, in @range; the slots of those behind it learn that theirs have moved. */
static void remove_place(struct gm_pool *pool, struct gm_range *range, uint32_t index, uint32_t i)
{
    struct gm_chunk *chunk = gm_chunk(pool, index);
    gm_chunk_remove_place(chunk, i);
    ((uint64_t *)range->held.data)[index / 64] &= ~((uint64_t)1 << index % 64);
    for (; i < chunk->place_count; i++) {
        struct gm_place place = gm_places(chunk)[i];
        struct gm_range *other = gm_range(pool, place.range);
        gm_slots(other)[gm_range_slot(other, place.page)].place = (uint16_t)i;
    }
}

/* Sets the usable bits of a slot that has just been mapped: all its pages but those in use elsewhere. */
static void mark_usable(struct gm_range *range, const struct gm_slot *slot, struct gm_chunk *chunk)
{
    uint64_t all = gm_page_mask(0, chunk->pages - 1u);
    gm_bits_set(range->usable, slot->page, all & ~chunk->busy);
    gm_bits_clear(range->usable, slot->page, chunk->busy);
    if (chunk->busy != 0) {
        gm_chunk_block(chunk, slot->place);
    }
}

static void mark_shared(struct gm_pool *pool, const struct gm_chunk *chunk)
{
    const struct gm_place *places = gm_places(chunk);
    for (uint32_t i = 0; i < chunk->place_count; i++) {
        gm_range(pool, places[i].range)->shared = true;
    }
}

int gm_range_extend(struct gm_pool *pool, uint32_t index, uint32_t chunk_index)
{
    struct gm_range *range = gm_range(pool, index);
    struct gm_chunk *chunk = gm_chunk(pool, chunk_index);
    struct gm_place place = {.range = (uint16_t)index, .page = range->mapped};
    if (range->mapped + chunk->pages > range->pages || reserve_slot(range) < 0 || gm_node_reserve(pool, 1) < 0) {
        return -ENOMEM;
    }
    int rc = add_place(pool, range, chunk_index, place);
    if (rc < 0) {
        return rc;
    }
    CUdeviceptr address = range->base + ((uint64_t)range->mapped << GM_PAGE_SHIFT);
    rc = gm_vmm_map(&pool->vmm, address, gm_chunk_size(chunk), chunk->handle);
    if (rc < 0) {
        pool->counts.stitch_fails += chunk->place_count > 1; /* it has another place, so this was for stitching */
        remove_place(pool, range, chunk_index, chunk->place_count - 1u);
        return rc;
    }
    uint8_t alias = chunk->place_count > 1 ? (uint8_t)chunk->pages : 0;
    struct gm_slot *slot = &gm_slots(range)[range->slots.count];
    *slot = (struct gm_slot){.chunk = chunk_index, .page = range->mapped, .pages = chunk->pages, .alias = alias};
    slot->place = (uint16_t)(chunk->place_count - 1u);
    slot->last_used = pool->sequence;
    for (uint32_t i = 0; i < chunk->pages; i++) {
        range->slot_of_page[range->mapped + i] = range->slots.count;
    }
    range->slots.count++;
    mark_usable(range, slot, chunk);
    if (alias != 0) {
        pool->alias_pages += chunk->pages;
        mark_shared(pool, chunk);
    }
    range->mapped += chunk->pages;
    gm_node_grow_tail(pool, range, chunk->pages * GM_PAGE_UNITS);
    return 0;
}

/* Dead slots at the end of a range give their addresses back to it. */
static void retract(struct gm_pool *pool, struct gm_range *range)
{
    while (range->slots.count > 0 && gm_slots(range)[range->slots.count - 1].chunk == GM_NONE) {
        uint32_t pages = gm_slots(range)[range->slots.count - 1].pages;
        if (!gm_node_shrink_tail(pool, range, pages * GM_PAGE_UNITS)) {
            return;
        }
        range->slots.count--;
        range->mapped -= pages;
    }
}

/* A chunk's first place is its home: when that goes, the next one becomes it. */
static void promote_home(struct gm_pool *pool, struct gm_chunk *chunk)
{
    if (chunk->place_count == 0) {
        return;
    }
    struct gm_place home = gm_places(chunk)[0];
    struct gm_range *range = gm_range(pool, home.range);
    struct gm_slot *slot = &gm_slots(range)[gm_range_slot(range, home.page)];
    if (slot->alias != 0) {
        slot->alias = 0;
        pool->alias_pages -= chunk->pages;
    }
}

static void forget_dirty(struct gm_range *range, const struct gm_slot *slot)
{
    uint32_t *pages = range->dirty.data;
    for (uint32_t i = 0; i < range->dirty.count; i++) {
        if (pages[i] == slot->page) {
            pages[i] = pages[--range->dirty.count];
            return;
        }
    }
}

void gm_range_detach(struct gm_pool *pool, uint32_t index, uint32_t page)
{
    struct gm_range *range = gm_range(pool, index);
    struct gm_slot *slot = &gm_slots(range)[gm_range_slot(range, page)];
    struct gm_chunk *chunk = gm_chunk(pool, slot->chunk);
    gm_vmm_unmap(&pool->vmm, range->base + ((uint64_t)slot->page << GM_PAGE_SHIFT), gm_chunk_size(chunk));
    if (slot->alias != 0) {
        pool->alias_pages -= chunk->pages;
    }
    remove_place(pool, range, slot->chunk, slot->place);
    gm_bits_clear(range->usable, slot->page, gm_page_mask(0, slot->pages - 1));
    slot->chunk = GM_NONE;
    slot->alias = 0;
    range->shared = true; /* dead addresses have to be stepped over like busy ones */
    if (slot->dirty) {
        slot->dirty = 0;
        forget_dirty(range, slot);
    }
    promote_home(pool, chunk);
}

void gm_range_unmap(struct gm_pool *pool, uint32_t index, uint32_t page)
{
    gm_range_detach(pool, index, page);
    retract(pool, gm_range(pool, index));
}

/* The slots over @count pages from *slot_of_page on are one further on now: eight at a time, as vectors hold them. */
static void move_on(uint32_t *slot_of_page, uint32_t count)
{
    uint32_t *past = slot_of_page + count;
    for (; past - slot_of_page >= 8; slot_of_page += 8) {
        for (int i = 0; i < 8; i++) {
            slot_of_page[i]++;
        }
    }
    for (; slot_of_page < past; slot_of_page++) {
        (*slot_of_page)++;
    }
}

int gm_range_split_dead(struct gm_pool *pool, uint32_t index, uint32_t page)
{
    struct gm_range *range = gm_range(pool, index);
    int rc = reserve_slot(range);
    if (rc < 0) {
        return rc;
    }
    uint32_t at = gm_range_slot(range, page);
    struct gm_slot *slots = gm_slots(range);
    memmove(slots + at + 2, slots + at + 1, (range->slots.count - at - 1) * sizeof *slots);
    slots[at + 1] = slots[at];
    slots[at + 1].page = page;
    slots[at + 1].pages = slots[at].page + slots[at].pages - page;
    slots[at].pages = page - slots[at].page;
    range->slots.count++;
    move_on(range->slot_of_page + page, range->mapped - page);
    return 0;
}

int gm_range_attach(struct gm_pool *pool, uint32_t index, uint32_t page, uint32_t chunk_index)
{
    struct gm_range *range = gm_range(pool, index);
    struct gm_chunk *chunk = gm_chunk(pool, chunk_index);
    int rc = add_place(pool, range, chunk_index, (struct gm_place){.range = (uint16_t)index, .page = page});
    if (rc < 0) {
        return rc;
    }
    rc = gm_vmm_map(&pool->vmm, range->base + ((uint64_t)page << GM_PAGE_SHIFT), gm_chunk_size(chunk), chunk->handle);
    if (rc < 0) {
        remove_place(pool, range, chunk_index, chunk->place_count - 1u);
        return rc;
    }
    struct gm_slot *slot = &gm_slots(range)[gm_range_slot(range, page)];
    slot->chunk = chunk_index;
    slot->alias = chunk->place_count > 1 ? (uint8_t)chunk->pages : 0;
    slot->place = (uint16_t)(chunk->place_count - 1u);
    slot->last_used = pool->sequence;
    mark_usable(range, slot, chunk);
    if (slot->alias != 0) {
        pool->alias_pages += chunk->pages;
        mark_shared(pool, chunk);
    }
    gm_range_mark_dirty(range, slot);
    return 0;
}
