/*
 * space.c - ranges, mappings, and the check of an access.
 */
#include "space.h"

#include <stdlib.h>

static struct sim_tree ranges;
static uint64_t next_buffer_id = 1;

static struct sim_range *as_range(struct sim_node *node)
{
    return node == NULL ? NULL : SIM_OWNER(node, struct sim_range, node);
}

void sim_space_add(struct sim_range *range, uint64_t address)
{
    range->node.key = address;
    range->node.tie = 0;
    range->buffer_id = next_buffer_id++;
    sim_tree_insert(&ranges, &range->node);
}

void sim_space_remove(struct sim_range *range)
{
    sim_tree_remove(&ranges, &range->node);
}

struct sim_range *sim_space_find(uint64_t address)
{
    struct sim_range *range = as_range(sim_tree_floor(&ranges, address, 0));
    return range != NULL && address - range->node.key < range->size ? range : NULL;
}

struct sim_range *sim_space_next(uint64_t address)
{
    return as_range(sim_tree_ceiling(&ranges, address, 0));
}

/* ---- mappings by page ---- */

#define PAGE_SHIFT   21
#define LEAF_SHIFT   13
#define LEAF_PAGES   (1u << LEAF_SHIFT)
#define ADDRESS_BITS 47

typedef struct sim_mapping *leaf[LEAF_PAGES];

/* A leaf, once there, stays: programs come back to the addresses they used. */
static leaf *leaves[1u << (ADDRESS_BITS - PAGE_SHIFT - LEAF_SHIFT)];

/* The entry of the page that holds @address; NULL: its leaf is not there, or it is beyond all addresses. */
static struct sim_mapping **entry(uint64_t address)
{
    uint64_t page = address >> PAGE_SHIFT;
    uint64_t branch = page >> LEAF_SHIFT;
    if (branch >= sizeof leaves / sizeof leaves[0] || leaves[branch] == NULL) {
        return NULL;
    }
    return &(*leaves[branch])[page & (LEAF_PAGES - 1)];
}

static bool make_leaf(uint64_t address)
{
    leaf **place = &leaves[address >> (PAGE_SHIFT + LEAF_SHIFT)];
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
    }
    return *place != NULL;
}

bool sim_space_add_mapping(struct sim_mapping *mapping)
{
    for (uint64_t i = 0; i < mapping->size; i += SIM_PAGE) {
        if (!make_leaf(mapping->address + i)) {
            return false;
        }
    }
    for (uint64_t i = 0; i < mapping->size; i += SIM_PAGE) {
        *entry(mapping->address + i) = mapping;
    }
    return true;
}

void sim_space_remove_mapping(const struct sim_mapping *mapping)
{
    for (uint64_t i = 0; i < mapping->size; i += SIM_PAGE) {
        *entry(mapping->address + i) = NULL;
    }
}

struct sim_mapping *sim_space_mapping(uint64_t address)
{
    struct sim_mapping **found = entry(address);
    return found == NULL ? NULL : *found;
}

/* Walks the mappings under the range: all of it mapped, and open to the device. */
static const char *reserved_refuses(uint64_t address, uint64_t size, const struct sim_device *device, bool write)
{
    enum sim_access needed = write ? SIM_ACCESS_WRITE : SIM_ACCESS_READ;
    uint64_t end = address + size;
    while (address < end) {
        const struct sim_mapping *mapping = sim_space_mapping(address);
        if (mapping == NULL) {
            return "reserved, but nothing is mapped there";
        }
        if (mapping->access[device->ordinal] < needed) {
            return "mapped, but without the access (cuMemSetAccess)";
        }
        address = mapping->address + mapping->size;
    }
    return NULL;
}

const char *sim_space_refuses(uint64_t address, uint64_t size, const struct sim_device *device, bool write, bool late)
{
    const struct sim_range *range = sim_space_find(address);
    if (range == NULL) {
        return "no memory there";
    }
    if (size > range->size - (address - range->node.key)) {
        return "past the end of the memory there";
    }
    if (range->freed && !late) {
        return "already given back by cuMemFreeAsync";
    }
    return range->kind == SIM_RESERVED ? reserved_refuses(address, size, device, write) : NULL;
}

bool sim_space_is_host(uint64_t address)
{
    const struct sim_range *range = sim_space_find(address);
    return range == NULL || range->kind == SIM_HOST;
}
