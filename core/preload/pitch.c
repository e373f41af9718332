/*
 * pitch.c - see pitch.h.
 */
#include "pitch.h"

#include <stdatomic.h>
#include <stdint.h>

#define ENTRIES     512u
#define TRIES       8u /* entries that one key may be in */

#define DEVICES     64
#define ELEMENT_MAX 16u

/* An entry: what is asked, and what the pitch has beyond the width. 0: unused, for no width is 0. */
#define PADDING_BITS 20
#define WIDTH_BITS   32
#define PADDING_MASK (((uint64_t)1 << PADDING_BITS) - 1)

static _Atomic uint64_t entries[ENTRIES];

/* The question in its place within an entry; 0: none that is kept. */
static uint64_t question(CUdevice device, size_t width, unsigned int element)
{
    if (device < 0 || device >= DEVICES || width == 0 || width >> WIDTH_BITS != 0 || element == 0 ||
        element > ELEMENT_MAX) {
        return 0;
    }
    uint64_t place = (uint64_t)device * ELEMENT_MAX + (element - 1); /* 10 bits */
    return (place << WIDTH_BITS | width) << PADDING_BITS;
}

static unsigned home_of(uint64_t asked)
{
    return (unsigned)(asked * 0x9e3779b97f4a7c15u >> 55);
}

bool gm_pitch_find(CUdevice device, size_t width, unsigned int element, size_t *pitch)
{
    uint64_t asked = question(device, width, element);
    for (unsigned i = 0; asked != 0 && i < TRIES; i++) {
        uint64_t entry = atomic_load_explicit(&entries[(home_of(asked) + i) % ENTRIES], memory_order_relaxed);
        if ((entry & ~PADDING_MASK) == asked) {
            *pitch = width + (size_t)(entry & PADDING_MASK);
            return true;
        }
    }
    return false;
}

void gm_pitch_note(CUdevice device, size_t width, unsigned int element, size_t pitch)
{
    uint64_t asked = question(device, width, element);
    if (asked == 0 || pitch < width || pitch - width > PADDING_MASK) {
        return;
    }
    unsigned home = home_of(asked);
    unsigned at = home; /* with all taken, the first gives way */
    for (unsigned i = TRIES; i-- > 0;) {
        uint64_t entry = atomic_load_explicit(&entries[(home + i) % ENTRIES], memory_order_relaxed);
        at = entry == 0 ? home + i : at;
    }
    atomic_store_explicit(&entries[at % ENTRIES], asked | (pitch - width), memory_order_relaxed);
}
