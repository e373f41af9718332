/*
 * steps_blocks.c - allocations and frees, right and wrong.
 */
#include "steps.h"

#include <string.h>

int current_device(void)
{
    return world.current < 0 ? -1 : world.contexts[world.current].device;
}

void note_block(int slot, enum kind kind, CUdeviceptr address, size_t bytes, int device, struct place owner)
{
    world.blocks[slot] = (struct block){
        .kind = kind, .address = address, .bytes = bytes, .device = device, .context = world.current, .owner = owner};
}

static int device_of_place(struct place place)
{
    return place.context < 0 ? -1 : world.contexts[place.context].device;
}

/* --- allocation --------------------------------------------------------------------------------------------------- */

void step_allocate(void)
{
    int slot = pick_free_block();
    size_t bytes = draw_size();
    CUdeviceptr address = 0;
    if (slot < 0) {
        return;
    }
    say("  cuMemAlloc_v2(%zu) into block %d", bytes, slot);
    say_fill(current_device(), bytes);
    if (allocation_stands(CALL(cuMemAlloc_v2, &address, bytes), &address)) {
        say("  aligned: %d", address % 256 == 0);
        note_block(slot, PLAIN, address, bytes, current_device(), (struct place){STREAM_LEGACY, world.current});
    }
}

void step_allocate_pitched(void)
{
    static const unsigned elements[] = {4, 8, 16, 3};
    int slot = pick_free_block();
    size_t width = draw_size() >> 8;
    size_t height = draw(100);
    size_t pitch = 0;
    unsigned element = elements[draw(LENGTH(elements))];
    CUdeviceptr address = 0;
    if (slot < 0) {
        return;
    }
    say("  cuMemAllocPitch_v2(%zu, %zu, %u) into block %d", width, height, element, slot);
    say_fill(current_device(), (width + 511) * height);
    if (allocation_stands(CALL(cuMemAllocPitch_v2, &address, &pitch, width, height, element), &address)) {
        say("  pitch %zu", pitch);
        note_block(slot, PLAIN, address, pitch * height, current_device(),
                   (struct place){STREAM_LEGACY, world.current});
    }
}

static void finish_ordered(CUresult rc, int slot, const CUdeviceptr *address, size_t bytes, int device,
                           struct place place)
{
    if (allocation_stands(rc, address)) {
        note_block(slot, ORDERED, *address, bytes, device, place);
    }
}

void step_allocate_ordered(void)
{
    int slot = pick_free_block();
    size_t bytes = draw_size();
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    CUdeviceptr address = 0;
    if (slot < 0) {
        return;
    }
    say("  cuMemAllocAsync(%zu, stream %d) into block %d", bytes, place.stream, slot);
    say_fill(device_of_place(place), bytes);
    finish_ordered(CALL_FORM(form, cuMemAllocAsync, &address, bytes, stream), slot, &address, bytes,
                   device_of_place(place), place);
}

void step_allocate_from_pool(void)
{
    int slot = pick_free_block();
    size_t bytes = draw_size();
    int pool = chance(80) ? pick_pool() : -1;
    int device = (int)draw(world.devices);
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    CUdeviceptr address = 0;
    if (slot < 0) {
        return;
    }
    CUmemoryPool handle = pool >= 0 ? world.pools[pool].handle : world.default_pools[device];
    device = pool >= 0 ? world.pools[pool].device : device;
    say("  cuMemAllocFromPoolAsync(%zu, %s, stream %d) into block %d", bytes, name_of_pool(handle), place.stream, slot);
    say_fill(device, bytes);
    finish_ordered(CALL_FORM(form, cuMemAllocFromPoolAsync, &address, bytes, handle, stream), slot, &address, bytes,
                   device, place);
}

void step_allocate_wrongly(void)
{
    CUdeviceptr address = 4711;
    size_t pitch = 4712;
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    CUresult rc;
    switch (draw(9)) {
    case 0:
        rc = CALL(cuMemAlloc_v2, NULL, 512);
        say("  cuMemAlloc_v2(NULL): %d", (int)rc);
        break;
    case 1:
        rc = CALL(cuMemAlloc_v2, &address, 0);
        say("  cuMemAlloc_v2(0): %d, %llu", (int)rc, address);
        break;
    case 2:
        rc = CALL(cuMemAlloc_v2, &address, chance(50) ? SIZE_MAX : (size_t)1 << 46);
        say("  cuMemAlloc_v2(too much): %d, %llu", (int)rc, address);
        break;
    case 3:
        rc = CALL_FORM(form, cuMemAllocAsync, NULL, 512, stream);
        say("  cuMemAllocAsync(NULL): %d", (int)rc);
        break;
    case 4:
        rc = CALL_FORM(form, cuMemAllocAsync, &address, 0, stream);
        say("  cuMemAllocAsync(0): %d, %llu", (int)rc, address);
        break;
    case 5:
        rc = CALL_FORM(form, cuMemAllocAsync, &address, chance(50) ? SIZE_MAX : (size_t)1 << 46, stream);
        say("  cuMemAllocAsync(too much): %d, %llu", (int)rc, address);
        break;
    case 6:
        rc = CALL_FORM(form, cuMemAllocFromPoolAsync, &address, 512, NULL, stream);
        say("  cuMemAllocFromPoolAsync(no pool): %d, %llu", (int)rc, address);
        break;
    case 7:
        rc = CALL(cuMemAllocPitch_v2, &address, NULL, 100, 10, 4);
        say("  cuMemAllocPitch_v2(NULL): %d", (int)rc);
        break;
    default:
        rc = CALL(cuMemAllocPitch_v2, &address, &pitch, 100, 0, 4);
        say("  cuMemAllocPitch_v2(no rows): %d, %llu, %zu", (int)rc, address, pitch);
    }
}

void step_allocate_host(void)
{
    int slot = pick_free_block();
    size_t bytes = 1 + draw(100000);
    void *address = NULL;
    if (slot < 0 || world.current < 0) {
        return;
    }
    CUresult rc = CALL(cuMemHostAlloc, &address, bytes, 0);
    say("  cuMemHostAlloc(%zu) into block %d: %d", bytes, slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        note_block(slot, HOST, (CUdeviceptr)(uintptr_t)address, bytes, current_device(),
                   (struct place){STREAM_LEGACY, world.current});
    }
}

/* The program's own virtual memory: one chunk at the start of a reservation. */
void step_map(void)
{
    int slot = pick_free_block();
    int device = (int)draw(world.devices);
    size_t bytes = PAGE * (1 + draw(3));
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = chance(50) ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                                                         : CU_MEM_HANDLE_TYPE_NONE,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle chunk = 0;
    CUdeviceptr address = 0;
    if (slot < 0 || world.current < 0) {
        return;
    }
    say("  cuMemCreate(%zu, device %d), for block %d", bytes, device, slot);
    say_fill(device, bytes);
    CUresult rc = CALL(cuMemCreate, &chunk, bytes, &properties, 0);
    bool must_fail = allocation_must_fail();
    say_related("room", (unsigned)rc);
    if (rc != CUDA_SUCCESS || must_fail) {
        if (rc == CUDA_SUCCESS) {
            (void)cu[0].cuMemRelease(chunk);
        }
        return;
    }
    CUresult reserved = CALL(cuMemAddressReserve, &address, 2 * bytes, 0, 0, 0);
    CUresult mapped = CALL(cuMemMap, address, bytes, 0, chunk, 0);
    say("  reserve %d, map %d, access %d", (int)reserved, (int)mapped,
        (int)CALL(cuMemSetAccess, address, bytes, &access, 1));
    note_block(slot, MAPPED, address, bytes, device, (struct place){STREAM_LEGACY, device});
    world.blocks[slot].chunk = chunk;
}

/* --- free --------------------------------------------------------------------------------------------------------- */

static void unmap(struct block *block)
{
    CUresult unmapped = CALL(cuMemUnmap, block->address, block->bytes);
    CUresult released = CALL(cuMemRelease, block->chunk);
    say("  unmap %d, release %d, free addresses %d", (int)unmapped, (int)released,
        (int)CALL(cuMemAddressFree, block->address, 2 * block->bytes));
}

/* What a free does when it must not. */
static void free_in_vain(const struct block *block)
{
    say("  cuMemFree_v2(not an allocation): %d", (int)CALL(cuMemFree_v2, block->address));
}

/* A free waits for work on the device of the block: work of another device's streams is for the program to wait for. */
static void settle_foreign(const struct block *block)
{
    if (device_of_place(block->owner) != block->device) {
        settle(block->owner);
    }
}

void step_free(void)
{
    int slot = pick_block(ANY_BLOCK);
    if (slot < 0) {
        return;
    }
    struct block *block = &world.blocks[slot];
    if (block->kind == HOST || block->kind == MAPPED) {
        free_in_vain(block);
        settle(block->owner);
        if (block->kind == MAPPED) {
            unmap(block);
        } else {
            say("  cuMemFreeHost(block %d): %d", slot, (int)CALL(cuMemFreeHost, (void *)(uintptr_t)block->address));
        }
        block->kind = ABSENT;
        return;
    }
    settle_foreign(block);
    CUresult rc = CALL(cuMemFree_v2, block->address);
    say("  cuMemFree_v2(block %d): %d", slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        block->kind = ABSENT;
        if (chance(30)) {
            ask_gone(block->address, true);
        }
    }
}

void step_free_ordered(void)
{
    int slot = pick_block(ANY_ALLOCATED);
    if (slot < 0) {
        return;
    }
    struct block *block = &world.blocks[slot];
    if (!enter_place(block->owner)) {
        return;
    }
    int form;
    CUstream stream = handle_of(block->owner, &form);
    CUresult rc = CALL_FORM(form, cuMemFreeAsync, block->address, stream);
    say("  cuMemFreeAsync(block %d, stream %d): %d", slot, block->owner.stream, (int)rc);
    if (rc == CUDA_SUCCESS) {
        block->kind = ABSENT;
        if (chance(30)) {
            ask_gone(block->address, false);
        }
    }
    leave_place();
}

void step_free_wrongly(void)
{
    int slot = pick_block(ANY_BLOCK);
    struct place place = pick_place();
    int form;
    CUstream stream = handle_of(place, &form);
    if (slot < 0) {
        return;
    }
    const struct block *block = &world.blocks[slot];
    size_t inside = block->bytes > 512 ? 512 * (1 + draw((block->bytes - 1) / 512)) : draw(block->bytes);
    switch (draw(6)) {
    case 0:
        say("  cuMemFree_v2(0): %d", (int)CALL(cuMemFree_v2, 0));
        break;
    case 1:
        say("  cuMemFree_v2(nobody's): %d", (int)CALL(cuMemFree_v2, 0x1000));
        break;
    case 2:
        say("  cuMemFreeAsync(0): %d", (int)CALL_FORM(form, cuMemFreeAsync, 0, stream));
        break;
    case 3:
        say("  cuMemFreeAsync(nobody's): %d", (int)CALL_FORM(form, cuMemFreeAsync, 0x1000, stream));
        break;
    case 4:
        if (inside != 0) {
            say("  cuMemFree_v2(block %d + %zu): %d", slot, inside, (int)CALL(cuMemFree_v2, block->address + inside));
        }
        break;
    default:
        if (inside != 0) {
            say("  cuMemFreeAsync(block %d + %zu): %d", slot, inside,
                (int)CALL_FORM(form, cuMemFreeAsync, block->address + inside, stream));
        }
    }
}
