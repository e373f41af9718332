/*
 * objects.c - the handle table.
 */
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>

/* handle = generation << 32 | (index + 1) << 8 | TAG. The low byte keeps it odd-looking and never aligned. */
#define INDEX_BITS 24
#define TAG        0x10u

/* Invariant: @kind is SIM_FREE_SLOT exactly while the slot is on the free list, linked by @next_free. */
struct slot {
    void *object;
    enum sim_kind kind;
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0 ends the list */
};

static struct slot *slots;
static uint32_t slot_count;
static uint32_t first_free;

static uint32_t grow(void)
{
    uint32_t count = slot_count == 0 ? 256 : slot_count * 2;
    struct slot *larger = count >= 1u << INDEX_BITS ? NULL : realloc(slots, count * sizeof *slots);
    if (larger == NULL) {
        return 0;
    }
    slots = larger;
    for (uint32_t i = count; i > slot_count; i--) {
        slots[i - 1] = (struct slot){.next_free = first_free};
        first_free = i;
    }
    slot_count = count;
    return first_free;
}

uint64_t sim_object_add(enum sim_kind kind, void *object)
{
    uint32_t place = first_free != 0 ? first_free : grow();
    if (place == 0) {
        return 0;
    }
    struct slot *slot = &slots[place - 1];
    first_free = slot->next_free;
    slot->object = object;
    slot->kind = kind;
    slot->generation = (slot->generation + 1) & 0xffff;
    return (uint64_t)slot->generation << 32 | (uint64_t)place << 8 | TAG;
}

static struct slot *find(uint64_t handle)
{
    uint64_t place = (handle & UINT32_MAX) >> 8;
    if ((handle & 0xff) != TAG || place == 0 || place > slot_count) {
        return NULL;
    }
    struct slot *slot = &slots[place - 1];
    return slot->generation == handle >> 32 ? slot : NULL;
}

void *sim_object_get(enum sim_kind kind, uint64_t handle)
{
    const struct slot *slot = find(handle);
    return slot != NULL && slot->kind == kind ? slot->object : NULL;
}

void sim_object_remove(uint64_t handle)
{
    struct slot *slot = find(handle);
    if (slot == NULL) {
        return;
    }
    slot->kind = SIM_FREE_SLOT;
    slot->object = NULL;
    slot->next_free = first_free;
    first_free = (uint32_t)(slot - slots) + 1;
}
