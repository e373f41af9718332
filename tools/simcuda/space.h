/*
 * space.h - what is at an address.
 *
 * STRUCTURE    every piece of address space that the driver knows is a struct sim_range: a reservation, a plain
 *              allocation (cuMemAlloc), a stream-ordered one (pool), host memory, or another process's. Ranges are
 *              disjoint and in one tree. What cuMemMap put into reservations is found through a table by 2 MB page,
 *              since a program may have tens of thousands of mappings.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_SPACE_H
#define SIM_SPACE_H

#include "address.h"
#include "device.h"
#include "tree.h"

#include <cuda.h>

enum sim_range_kind { SIM_RESERVED, SIM_PLAIN, SIM_POOLED, SIM_HOST, SIM_IMPORTED };

/* The head of the structures that the modules owning a kind keep. */
struct sim_range {
    struct sim_node node; /* key: the address */
    uint64_t size;        /* bytes, as asked for */
    enum sim_range_kind kind;
    struct sim_device *device;
    uint64_t buffer_id; /* never used twice */
    bool sync_memops;   /* set by cuPointerSetAttribute */
    bool freed;         /* cuMemFreeAsync was called, the stream has not come to it */
};

struct sim_chunk;

/* Invariant: lies in one reservation, overlaps no other mapping, covers its whole chunk. */
struct sim_mapping {
    uint64_t address;
    uint64_t size;
    struct sim_chunk *chunk;
    struct sim_range *reservation;
    uint8_t access[SIM_MAX_DEVICES]; /* enum sim_access */
};

/* Enters @range, which lies at @address; gives it its buffer id. */
void sim_space_add(struct sim_range *range, uint64_t address);
void sim_space_remove(struct sim_range *range);

/* The range that holds @address; NULL: none. */
struct sim_range *sim_space_find(uint64_t address);

/* The first range at or after @address; NULL: none. For walks. */
struct sim_range *sim_space_next(uint64_t address);

/* false: no host memory. */
bool sim_space_add_mapping(struct sim_mapping *mapping);
void sim_space_remove_mapping(const struct sim_mapping *mapping);

/* The mapping that holds @address; NULL: none. */
struct sim_mapping *sim_space_mapping(uint64_t address);

/*
 * Says why @device may not read (or @write) all of [address, address + size); NULL: it may. @late: the work was
 * accepted earlier and runs now.
 */
const char *sim_space_refuses(uint64_t address, uint64_t size, const struct sim_device *device, bool write, bool late);

/* True: host memory or unknown to the driver. */
bool sim_space_is_host(uint64_t address);

#endif
