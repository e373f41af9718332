/*
 * world.c - random numbers, slots, and names for what a driver answers.
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver cu[2];
struct world world;

/* --- random numbers ----------------------------------------------------------------------------------------------- */

/* splitmix64, public domain (Vigna, https://prng.di.unimi.it/splitmix64.c): any state will do, also one counted up. */
static uint64_t next_draw(void)
{
    uint64_t z = (world.draws += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t draw(uint64_t below)
{
    return next_draw() % below;
}

bool chance(unsigned percent)
{
    return draw(100) < percent;
}

size_t draw_size(void)
{
    static const unsigned magnitudes[] = {4, 9, 10, 12, 14, 16, 18, 20, 20, 21, 21, 22, 23, 24, 25};
    unsigned shift = magnitudes[draw(LENGTH(magnitudes))];
    shift += world.tight && shift >= 20 ? 3 : 0;
    size_t size = ((size_t)1 << shift) + draw((uint64_t)1 << shift);
    switch (draw(4)) {
    case 0:
        return (size_t)1 << shift;
    case 1:
        return (size + 511) & ~(size_t)511;
    default:
        return size;
    }
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

#define PICK(count, condition)                                                                                         \
    do {                                                                                                               \
        int first_ = (int)draw(count);                                                                                 \
        for (int k_ = 0; k_ < (int)(count); k_++) {                                                                    \
            int i = (first_ + k_) % (int)(count);                                                                      \
            if (condition) {                                                                                           \
                return i;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return -1;                                                                                                     \
    } while (0)

int pick_block(unsigned kinds)
{
    PICK(BLOCKS, (kinds & ANY_OF(world.blocks[i].kind)) != 0);
}

int pick_free_block(void)
{
    PICK(BLOCKS, world.blocks[i].kind == ABSENT);
}

int pick_stream(void)
{
    PICK(STREAMS, world.streams[i].handle != NULL);
}

int pick_context(void)
{
    PICK(CONTEXTS, world.contexts[i].handle != NULL);
}

int pick_pool(void)
{
    PICK(POOLS, world.pools[i].handle != NULL);
}

int pick_event(void)
{
    PICK(EVENTS, world.events[i].handle != NULL);
}

struct place pick_place(void)
{
    int stream = chance(70) ? pick_stream() : -1;
    if (stream >= 0) {
        return (struct place){.stream = stream, .context = world.streams[stream].context};
    }
    return (struct place){.stream = chance(70) ? STREAM_LEGACY : STREAM_OWN, .context = world.current};
}

/* --- writing down ------------------------------------------------------------------------------------------------- */

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void say_related(const char *relation, unsigned long long value)
{
    printf("~%s %llu\n", relation, value);
}

/* A small ring, so that one line can hold several names. */
static char *room_for_name(void)
{
    static char names[8][24];
    static unsigned next;
    return names[next++ % LENGTH(names)];
}

const char *name_of_context(CUcontext handle)
{
    if (handle == NULL) {
        return "none";
    }
    for (size_t i = 0; i < CONTEXTS; i++) {
        if (world.contexts[i].handle == handle) {
            char *name = room_for_name();
            snprintf(name, 24, "context %zu", i);
            return name;
        }
    }
    return "another context";
}

const char *name_of_pool(CUmemoryPool handle)
{
    char *name = room_for_name();
    if (handle == NULL) {
        return "none";
    }
    for (size_t i = 0; i < POOLS; i++) {
        if (world.pools[i].handle == handle) {
            snprintf(name, 24, "pool %zu", i);
            return name;
        }
    }
    for (unsigned i = 0; i < world.devices; i++) {
        if (world.default_pools[i] == handle) {
            snprintf(name, 24, "default pool %u", i);
            return name;
        }
    }
    return "a pool that is gone";
}

#define IDS (1u << 16)

unsigned long class_of_id(enum identity kind, unsigned long long id)
{
    static struct {
        unsigned long long id;
        unsigned long serial;
    } seen[IDENTITIES][IDS];
    static unsigned long count[IDENTITIES];
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> 48);
    while (seen[kind][at].serial != 0 && seen[kind][at].id != id) {
        at = (at + 1) % IDS;
    }
    if (seen[kind][at].serial == 0) {
        if (count[kind] == IDS - 1) {
            fprintf(stderr, "more than %u identities: choose fewer steps for a seed\n", IDS - 1);
            exit(2);
        }
        seen[kind][at].id = id;
        seen[kind][at].serial = ++count[kind];
    }
    return seen[kind][at].serial;
}

unsigned count_misuses(void)
{
    return world.misuses == NULL ? 0 : world.misuses() - world.excused;
}

/* --- streams and contexts ----------------------------------------------------------------------------------------- */

CUstream handle_of(struct place place, int *form)
{
    *form = 0;
    if (place.stream >= 0) {
        *form = (int)draw(2); /* with a handle both forms mean the same */
        return world.streams[place.stream].handle;
    }
    bool by_handle = chance(50);
    if (place.stream == STREAM_OWN) {
        *form = !by_handle || chance(50);
        return by_handle ? CU_STREAM_PER_THREAD : NULL;
    }
    *form = by_handle && chance(50);
    return by_handle ? CU_STREAM_LEGACY : NULL;
}

bool enter_place(struct place place)
{
    if (place.context < 0 || world.contexts[place.context].handle == NULL) {
        return false;
    }
    return CALL(cuCtxPushCurrent_v2, world.contexts[place.context].handle) == CUDA_SUCCESS;
}

void leave_place(void)
{
    CUcontext popped;
    (void)CALL(cuCtxPopCurrent_v2, &popped);
}

void settle(struct place place)
{
    if (enter_place(place)) {
        int form;
        CUstream stream = handle_of(place, &form);
        CUresult rc = CALL_FORM(form, cuStreamSynchronize, stream);
        if (rc != CUDA_SUCCESS) {
            say("  waiting for a stream: %d", (int)rc);
        }
        leave_place();
    }
}

void say_fill(int device, size_t bytes)
{
    uint64_t live = bytes < world.capacity ? bytes : world.capacity;
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *block = &world.blocks[i];
        bool counts = (ANY_OF(block->kind) & (ANY_DEVICE | ANY_OF(GRAPH))) != 0 && block->device == device;
        live += counts ? block->bytes : 0;
    }
    say_related("fill", live * 100 / world.capacity);
}

bool allocation_stands(CUresult rc, const CUdeviceptr *address)
{
    bool must_fail = allocation_must_fail();
    say_related("room", (unsigned)rc);
    if (must_fail || rc == CUDA_ERROR_OUT_OF_MEMORY) { /* both runs know where the first was refused memory */
        memset(world.peaks_shifted, true, sizeof world.peaks_shifted);
    }
    if (rc == CUDA_SUCCESS && must_fail) {
        (void)cu[0].cuMemFree_v2(*address);
        return false;
    }
    return rc == CUDA_SUCCESS;
}
