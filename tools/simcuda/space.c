/*
 * space.c - the two trees of space.h and the check of an access.
 */
#include "space.h"

static struct sim_tree ranges;
static struct sim_tree mappings;
static uint64_t next_buffer_id = 1;

static struct sim_range *as_range(struct sim_node *node)
{
    return node == NULL ? NULL : SIM_OWNER(node, struct sim_range, node);
}

static struct sim_mapping *as_mapping(struct sim_node *node)
{
    return node == NULL ? NULL : SIM_OWNER(node, struct sim_mapping, node);
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

void sim_space_add_mapping(struct sim_mapping *mapping, uint64_t address)
{
    mapping->node.key = address;
    mapping->node.tie = 0;
    sim_tree_insert(&mappings, &mapping->node);
}

void sim_space_remove_mapping(struct sim_mapping *mapping)
{
    sim_tree_remove(&mappings, &mapping->node);
}

struct sim_mapping *sim_space_mapping(uint64_t address)
{
    struct sim_mapping *mapping = as_mapping(sim_tree_floor(&mappings, address, 0));
    return mapping != NULL && address - mapping->node.key < mapping->size ? mapping : NULL;
}

struct sim_mapping *sim_space_next_mapping(uint64_t address)
{
    return as_mapping(sim_tree_ceiling(&mappings, address, 0));
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
        address = mapping->node.key + mapping->size;
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
