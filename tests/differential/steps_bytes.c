/*
 * steps_bytes.c - fills, copies and reads: what was written is there, in the order of streams.
 */
#include "steps.h"

#include <string.h>

#define MOST (64 * KIB) /* bytes of one piece of work */

/*
 * The place where the next work on the block goes; false: there is none now. Work of another device's streams is left
 * out: what a driver does with mapped memory that the device has no access to is not on record.
 */
static bool enter_owner(const struct block *block, int *form, CUstream *stream)
{
    int context = block->owner.context;
    if (context < 0 || world.contexts[context].device != block->device || !enter_place(block->owner)) {
        return false;
    }
    *stream = handle_of(block->owner, form);
    return true;
}

static int pick_bytes(void)
{
    return pick_block(ANY_DEVICE);
}

void step_fill(void)
{
    int slot = pick_bytes();
    int form;
    CUstream stream;
    if (slot < 0) {
        return;
    }
    struct block *block = &world.blocks[slot];
    size_t bytes = 1 + draw(block->bytes < MOST ? block->bytes : MOST);
    unsigned char value = (unsigned char)draw(256);
    static unsigned char pattern[MOST];
    if (!enter_owner(block, &form, &stream)) {
        return;
    }
    CUresult rc;
    switch (draw(3)) {
    case 0:
        rc = CALL_FORM(form, cuMemsetD8Async, block->address, value, bytes, stream);
        say("  cuMemsetD8Async(block %d, %zu, stream %d): %d", slot, bytes, block->owner.stream, (int)rc);
        break;
    case 1:
        for (size_t i = 0; i < bytes; i++) {
            pattern[i] = (unsigned char)(value + i * 7);
        }
        rc = CALL_FORM(form, cuMemcpyHtoDAsync_v2, block->address, pattern, bytes, stream);
        say("  cuMemcpyHtoDAsync_v2(block %d, %zu, stream %d): %d", slot, bytes, block->owner.stream, (int)rc);
        break;
    default: /* the last bytes: there to the end */
        rc = CALL_FORM(form, cuMemsetD8Async, block->address + block->bytes - bytes, value, bytes, stream);
        say("  cuMemsetD8Async(block %d, last %zu, stream %d): %d", slot, bytes, block->owner.stream, (int)rc);
        bytes = bytes == block->bytes || block->written + bytes >= block->bytes ? block->bytes : 0;
    }
    if (rc == CUDA_SUCCESS && bytes > block->written) {
        block->written = bytes;
    }
    leave_place();
}

void step_copy(void)
{
    int from_slot = pick_bytes();
    int to_slot = pick_bytes();
    int form;
    CUstream stream;
    if (from_slot < 0 || from_slot == to_slot) {
        return;
    }
    struct block *from = &world.blocks[from_slot];
    struct block *to = &world.blocks[to_slot];
    size_t bytes = from->written < to->bytes ? from->written : to->bytes;
    bytes = bytes < MOST ? bytes : MOST;
    if (bytes == 0 || from->device != to->device) {
        return;
    }
    settle(from->owner);
    if (!enter_owner(to, &form, &stream)) {
        return;
    }
    CUresult rc = CALL_FORM(form, cuMemcpyDtoDAsync_v2, to->address, from->address, bytes, stream);
    say("  cuMemcpyDtoDAsync_v2(block %d, block %d, %zu, stream %d): %d", to_slot, from_slot, bytes, to->owner.stream,
        (int)rc);
    if (rc == CUDA_SUCCESS && bytes > to->written) {
        to->written = bytes;
    }
    leave_place();
    settle(to->owner); /* the source may be overwritten next, on its own stream */
}

static unsigned long hash(const unsigned char *bytes, size_t count)
{
    unsigned long value = 5381;
    for (size_t i = 0; i < count; i++) {
        value = value * 33 + bytes[i];
    }
    return value;
}

void step_read(void)
{
    static unsigned char got[MOST];
    int slot = pick_bytes();
    int form;
    CUstream stream;
    if (slot < 0) {
        return;
    }
    struct block *block = &world.blocks[slot];
    size_t bytes = block->written < MOST ? block->written : MOST;
    size_t from = block->written - bytes;
    if (bytes == 0 || !enter_owner(block, &form, &stream)) {
        return;
    }
    memset(got, 0, bytes);
    CUresult rc = CALL_FORM(form, cuMemcpyDtoHAsync_v2, got, block->address + from, bytes, stream);
    CUresult waited = CALL_FORM(form, cuStreamSynchronize, stream);
    say("  cuMemcpyDtoHAsync_v2(block %d, %zu, stream %d): %d, %d, bytes %lx", slot, bytes, block->owner.stream,
        (int)rc, (int)waited, hash(got, bytes));
    leave_place();
}

/* Another stream takes the block over: behind an event, or after a wait. */
void step_hand_over(void)
{
    int slot = pick_block(ANY_ALLOCATED);
    struct place place = pick_place();
    CUevent event = NULL;
    int form;
    if (slot < 0 || place.context < 0) {
        return;
    }
    struct block *block = &world.blocks[slot];
    if (world.contexts[place.context].device != block->device) {
        return;
    }
    if (place.context != block->owner.context || chance(30)) {
        settle(block->owner);
        block->owner = place;
        say("  block %d is stream %d's now", slot, place.stream);
        return;
    }
    if (!enter_place(place)) {
        return;
    }
    CUresult made = CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    CUstream before = handle_of(block->owner, &form);
    CUresult recorded = CALL_FORM(form, cuEventRecord, event, before);
    CUstream behind = handle_of(place, &form);
    CUresult waits = CALL_FORM(form, cuStreamWaitEvent, behind, event, 0);
    say("  block %d from stream %d to %d behind an event: %d, %d, %d, %d", slot, block->owner.stream, place.stream,
        (int)made, (int)recorded, (int)waits, (int)CALL(cuEventDestroy_v2, event));
    if (waits == CUDA_SUCCESS) {
        block->owner = place;
    }
    leave_place();
}
