/*
 * address.c - spans of address space, real or made up.
 */
#include "address.h"

#include "config.h"
#include "report.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Made-up addresses: 64 TB in which processes rarely have anything, so a mix-up with a host pointer shows. */
#define MADE_UP_BASE 0x110000000000ull
#define MADE_UP_SIZE (1ull << 46)

static struct sim_heap made_up;
static bool made_up_ready;

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static bool reserve_made_up(uint64_t size, uint64_t alignment, struct sim_span *out)
{
    if (!made_up_ready) {
        made_up_ready = sim_heap_add(&made_up, MADE_UP_BASE, MADE_UP_SIZE) != NULL;
    }
    struct sim_block *block = sim_heap_take(&made_up, size, alignment, NULL, true);
    if (block == NULL) {
        return false;
    }
    *out = (struct sim_span){.address = block->address, .size = size, .block = block};
    return true;
}

static uint64_t take_place(uint64_t wanted, uint64_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted != 0 ? MAP_FIXED_NOREPLACE : 0);
    void *place = mmap(pointer(wanted), size, PROT_NONE, flags, -1, 0);
    return place == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)place;
}

/* Takes more than needed and returns what sticks out of the aligned part. */
static uint64_t take_aligned(uint64_t size, uint64_t alignment)
{
    uint64_t total = size + alignment;
    if (total < size) {
        return 0;
    }
    uint64_t place = take_place(0, total);
    if (place == 0) {
        return 0;
    }
    uint64_t address = (place + alignment - 1) & ~(alignment - 1);
    if (address > place) {
        munmap(pointer(place), address - place);
    }
    if (place + total > address + size) {
        munmap(pointer(address + size), place + total - address - size);
    }
    return address;
}

bool sim_address_reserve(uint64_t size, uint64_t alignment, uint64_t wanted, struct sim_span *out)
{
    if (!sim_config.backing) {
        return reserve_made_up(size, alignment, out);
    }
    uint64_t address = 0;
    if (wanted != 0 && (wanted & (alignment - 1)) == 0) {
        address = take_place(wanted, size);
        if (address != 0 && address != wanted) {
            munmap(pointer(address), size);
            address = 0;
        }
    }
    if (address == 0) {
        address = take_aligned(size, alignment);
    }
    if (address == 0) {
        return false;
    }
    *out = (struct sim_span){.address = address, .size = size};
    return true;
}

void sim_address_free(const struct sim_span *span)
{
    if (span->block != NULL) {
        sim_heap_give(&made_up, span->block, &(struct sim_point){0});
    } else {
        munmap(pointer(span->address), span->size);
    }
}

static int protection(enum sim_access access)
{
    return access == SIM_ACCESS_NONE ? PROT_NONE : access == SIM_ACCESS_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

static bool refused(const char *what, uint64_t address)
{
    sim_report("the kernel refuses to %s %#llx: %s (vm.max_map_count bounds the mappings of a process; "
               "SIMCUDA_BACKING=0 does without)",
               what, (unsigned long long)address, strerror(errno));
    return false;
}

bool sim_address_map(uint64_t address, uint64_t size, int file, uint64_t offset, enum sim_access access)
{
    if (!sim_config.backing) {
        return true;
    }
    void *place = mmap(pointer(address), size, protection(access), MAP_SHARED | MAP_FIXED, file, (off_t)offset);
    return place != MAP_FAILED || refused("map", address);
}

bool sim_address_protect(uint64_t address, uint64_t size, enum sim_access access)
{
    if (!sim_config.backing) {
        return true;
    }
    return mprotect(pointer(address), size, protection(access)) == 0 || refused("open", address);
}

void sim_address_unmap(uint64_t address, uint64_t size)
{
    if (!sim_config.backing) {
        return;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(pointer(address), size, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
        refused("unmap", address);
    }
}
