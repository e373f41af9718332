/*
 * address.h - device addresses: where they come from and what is behind them.
 *
 * STRUCTURE    With backing, an address is one of this process: a span is a PROT_NONE mapping at a place the kernel
 *              picks (so sanitizers keep their shadow), device memory appears in it by mmap(MAP_FIXED|MAP_SHARED)
 *              of the device's memfd, and two mappings of one piece of the file share its bytes. Without backing,
 *              addresses are numbers from a heap and nothing is ever mapped.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_ADDRESS_H
#define SIM_ADDRESS_H

#include "heap.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_PAGE (2ull << 20) /* granularity of device memory */

struct sim_span {
    uint64_t address;
    uint64_t size;
    struct sim_block *block; /* without backing */
};

enum sim_access { SIM_ACCESS_NONE, SIM_ACCESS_READ, SIM_ACCESS_WRITE };

/*
 * Reserves @size bytes (a multiple of 2 MB) at a multiple of @alignment (a power of two, at least 2 MB), at @wanted if
 * that is not 0 and free. false: the address space is exhausted.
 */
bool sim_address_reserve(uint64_t size, uint64_t alignment, uint64_t wanted, struct sim_span *out);
void sim_address_free(const struct sim_span *span);

/* Puts @size bytes of @file from @offset at @address; false: the kernel refuses (reported). */
bool sim_address_map(uint64_t address, uint64_t size, int file, uint64_t offset, enum sim_access access);
bool sim_address_protect(uint64_t address, uint64_t size, enum sim_access access);
void sim_address_unmap(uint64_t address, uint64_t size);

#endif
