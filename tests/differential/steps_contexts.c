/*
 * steps_contexts.c - contexts come, go and are chosen; devices become one another's peers.
 */
#include "steps.h"

void step_choose_context(void)
{
    int slot = pick_context();
    if (chance(5)) {
        say("  cuCtxSetCurrent(none): %d", (int)CALL(cuCtxSetCurrent, NULL));
        world.current = -1;
        return;
    }
    if (slot >= 0) {
        say("  cuCtxSetCurrent(%d): %d", slot, (int)CALL(cuCtxSetCurrent, world.contexts[slot].handle));
        world.current = slot;
    }
}

void step_create_context(void)
{
    int slot = DEVICES;
    CUdevice device = (CUdevice)draw(world.devices);
    CUcontext context = NULL;
    CUcontext popped = NULL;
    while (slot < CONTEXTS && world.contexts[slot].handle != NULL) {
        slot++;
    }
    if (slot == CONTEXTS || world.devices == 1) {
        return;
    }
    CUresult rc = CALL(cuCtxCreate_v2, &context, 0, device);
    say("  cuCtxCreate_v2(device %d) as %d: %d", (int)device, slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        world.contexts[slot].handle = context;
        world.contexts[slot].device = device;
        (void)CALL(cuCtxPopCurrent_v2, &popped);
    }
}

/* Streams and events of a context end with it. Blocks that have its streams are the primary context's. */
static void end_context_objects(int context)
{
    for (size_t i = 0; i < STREAMS; i++) {
        world.streams[i].handle = world.streams[i].context == context ? NULL : world.streams[i].handle;
    }
    for (size_t i = 0; i < EVENTS; i++) {
        world.events[i].handle = world.events[i].context == context ? NULL : world.events[i].handle;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &world.blocks[i];
        if (block->owner.context == context) {
            block->owner = (struct place){STREAM_LEGACY, block->device};
        }
    }
}

/* Its plain memory is gone: nothing is known of it. Other memory stays. */
static void ask_about_the_end(int context)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &world.blocks[i];
        if (block->kind == PLAIN && block->context == context) {
            say("  block %zu went with context %d", i, context);
            ask_gone(block->address, true);
            block->kind = ABSENT;
        }
    }
    int left = pick_block(ANY_OF(ORDERED));
    if (left >= 0) {
        say("  block %d is left", left);
        ask_everything(world.blocks[left].address, &world.blocks[left]);
    }
}

void step_destroy_context(void)
{
    int slot = pick_context();
    if (slot < DEVICES) {
        if (chance(20)) {
            say("  cuCtxDestroy_v2(primary %d): %d", slot, (int)CALL(cuCtxDestroy_v2, world.contexts[slot].handle));
        }
        return;
    }
    CUresult rc = CALL(cuCtxDestroy_v2, world.contexts[slot].handle);
    say("  cuCtxDestroy_v2(%d): %d", slot, (int)rc);
    if (rc == CUDA_SUCCESS) {
        world.contexts[slot].handle = NULL;
        world.current = world.current == slot ? -1 : world.current;
        end_context_objects(slot);
        ask_about_the_end(slot);
    }
}

/* Host memory of the primary context stays allocated by the simulated driver, and is left alone. */
void step_end_primary(void)
{
    CUdevice device = (CUdevice)draw(world.devices);
    CUcontext context = NULL;
    CUdeviceptr address = 4711;
    unsigned flags = 0;
    int active = 0;
    if (world.devices == 1) {
        return;
    }
    CUresult rc = chance(50)   ? CALL(cuDevicePrimaryCtxRelease, device)
                  : chance(50) ? CALL(cuDevicePrimaryCtxRelease_v2, device)
                  : chance(50) ? CALL(cuDevicePrimaryCtxReset, device)
                               : CALL(cuDevicePrimaryCtxReset_v2, device);
    say("  the primary context of device %d ends: %d", (int)device, (int)rc);
    rc = CALL(cuDevicePrimaryCtxGetState, device, &flags, &active);
    say("  state: %d, %d", (int)rc, active);
    say_related("context_flags", flags);
    if (world.current == device) {
        say("  cuMemAlloc_v2 in it: %d", (int)CALL(cuMemAlloc_v2, &address, 512));
        say("  cuMemFree_v2(0) in it: %d", (int)CALL(cuMemFree_v2, 0));
    }
    if (active == 0) {
        end_context_objects(device);
        ask_about_the_end(device);
    }
    rc = CALL(cuDevicePrimaryCtxRetain, &context, device);
    say("  retained again: %d, %s", (int)rc, name_of_context(context));
    world.contexts[device].handle = context;
}

void step_peer(void)
{
    int peer = pick_context();
    if (peer < 0) {
        return;
    }
    CUresult rc = chance(70) ? CALL(cuCtxEnablePeerAccess, world.contexts[peer].handle, 0)
                             : CALL(cuCtxDisablePeerAccess, world.contexts[peer].handle);
    say("  peer access of context %d to %d: %d", world.current, peer, (int)rc);
}
