/*
 * steps_pools.c - pools: their life, figures, thresholds, access, and which is current.
 */
#include "steps.h"

#include <string.h>

/* One of the program's pools or a default one. */
static CUmemoryPool some_pool(int *device)
{
    int pool = chance(60) ? pick_pool() : -1;
    *device = pool >= 0 ? world.pools[pool].device : (int)draw(world.devices);
    return pool >= 0 ? world.pools[pool].handle : world.default_pools[*device];
}

void step_create_pool(void)
{
    CUmemPoolProps properties;
    int slot = 0;
    memset(&properties, 0, sizeof properties);
    properties.allocType = chance(95) ? CU_MEM_ALLOCATION_TYPE_PINNED : (CUmemAllocationType)0;
    properties.handleTypes = chance(25) ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = chance(95) ? (int)draw(world.devices) : 99;
    properties.maxSize = chance(10) ? 64 * MIB : 0;
    while (slot < POOLS && world.pools[slot].handle != NULL) {
        slot++;
    }
    if (slot == POOLS) {
        return;
    }
    CUmemoryPool pool = NULL;
    CUresult rc = CALL(cuMemPoolCreate, &pool, &properties);
    say("  cuMemPoolCreate(handles %d, device %d, most %zu) as %d: %d", (int)properties.handleTypes,
        properties.location.id, properties.maxSize, slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        world.pools[slot].handle = pool;
        world.pools[slot].device = properties.location.id;
    }
}

void step_destroy_pool(void)
{
    int slot = pick_pool();
    if (chance(10)) {
        say("  cuMemPoolDestroy(default): %d", (int)CALL(cuMemPoolDestroy, world.default_pools[draw(world.devices)]));
    }
    if (slot < 0 || chance(50)) {
        return;
    }
    say("  cuMemPoolDestroy(%d): %d", slot, (int)CALL(cuMemPoolDestroy, world.pools[slot].handle));
    world.pools[slot].handle = NULL;
}

void step_choose_pool(void)
{
    int device;
    CUmemoryPool pool = chance(40) ? NULL : some_pool(&device);
    if (pool == NULL) {
        device = (int)draw(world.devices);
        pool = world.default_pools[device];
    }
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = chance(95) ? device : 1 - device};
    CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
    CUmemoryPool got = NULL;
    CUresult set =
        chance(50) ? CALL(cuDeviceSetMemPool, location.id, pool) : CALL(cuMemSetMemPool, &location, type, pool);
    CUresult asked =
        chance(50) ? CALL(cuDeviceGetMemPool, &got, location.id) : CALL(cuMemGetMemPool, &got, &location, type);
    say("  %s made current for device %d: %d; current: %d, %s", name_of_pool(pool), location.id, (int)set, (int)asked,
        name_of_pool(got));
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute, CUresult *rc)
{
    cuuint64_t value = 0;
    *rc = CALL(cuMemPoolGetAttribute, pool, attribute, &value);
    return value;
}

static void ask_figures(CUmemoryPool pool, int device)
{
    CUresult rc[4];
    cuuint64_t used = figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &rc[0]);
    cuuint64_t used_high = figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &rc[1]);
    cuuint64_t reserved = figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &rc[2]);
    cuuint64_t reserved_high = figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &rc[3]);
    say("  figures of %s: %d %d %d %d, used %llu", name_of_pool(pool), (int)rc[0], (int)rc[1], (int)rc[2], (int)rc[3],
        (unsigned long long)used);
    if (world.peaks_shifted[device]) {
        say_related("shifted_high", used_high);
    } else {
        say("    used at most %llu", (unsigned long long)used_high);
    }
    say("    reserved covers used: %d, highs cover: %d %d", reserved >= used, used_high >= used,
        reserved_high >= reserved);
    say_related("reserved", reserved);
}

void step_ask_pool(void)
{
    int device;
    CUmemoryPool pool = some_pool(&device);
    int number = (int)draw(10);
    if (chance(60)) {
        ask_figures(pool, device);
        return;
    }
    cuuint64_t value = 0;
    CUresult rc = CALL(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)number, chance(97) ? &value : NULL);
    bool is_reserved = number == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || number == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    bool is_shifted = number == CU_MEMPOOL_ATTR_USED_MEM_HIGH && world.peaks_shifted[device];
    say("  attribute %d of %s: %d, %llu", number, name_of_pool(pool), (int)rc,
        is_reserved || is_shifted ? 0 : (unsigned long long)value);
}

void step_set_pool(void)
{
    static const cuuint64_t thresholds[] = {0, 1, MIB, 64 * MIB, UINT64_MAX};
    int device;
    CUmemoryPool pool = some_pool(&device);
    int number = (int)draw(10);
    cuuint64_t value = number == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? thresholds[draw(LENGTH(thresholds))]
                       : number <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? draw(2)
                                                                                     : (cuuint64_t)chance(20);
    CUresult rc = CALL(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)number, &value);
    say("  attribute %d of %s set to %llu: %d", number, name_of_pool(pool), (unsigned long long)value, (int)rc);
    ask_figures(pool, device);
}

void step_trim_pool(void)
{
    static const size_t kept[] = {0, MIB, 64 * MIB, SIZE_MAX};
    int device;
    CUmemoryPool pool = some_pool(&device);
    size_t keep = kept[draw(LENGTH(kept))];
    say("  cuMemPoolTrimTo(%s, %zu): %d", name_of_pool(pool), keep, (int)CALL(cuMemPoolTrimTo, pool, keep));
    ask_figures(pool, device);
}

void step_open_pool(void)
{
    static const CUmemAccess_flags all[] = {CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READ,
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int device;
    CUmemoryPool pool = some_pool(&device);
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)draw(world.devices)},
                              .flags = all[draw(LENGTH(all))]};
    CUmemAccess_flags got = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUresult set = CALL(cuMemPoolSetAccess, pool, &access, chance(95));
    CUresult asked = CALL(cuMemPoolGetAccess, &got, pool, &access.location);
    say("  %s for device %d set to %d: %d; asked: %d, %d", name_of_pool(pool), access.location.id, (int)access.flags,
        (int)set, (int)asked, (int)got);
}
