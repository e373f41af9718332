/*
 * pitch.h - how far apart the driver puts the rows of a pitched allocation.
 *
 * The driver alone decides on the pitch, and says so only by allocating. So the first allocation of a width, element
 * size and device is the driver's; what it answers is kept, and those that follow can be served with the same pitch.
 *
 * STRUCTURE    A table of fixed size, in which new entries take the place of old ones.
 * CONCURRENCY  an entry is one atomic word.
 */
#ifndef GM_PITCH_H
#define GM_PITCH_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* The pitch of rows of @width bytes for elements of @element bytes; false: not known. */
bool gm_pitch_find(CUdevice device, size_t width, unsigned int element, size_t *pitch);

/* The driver has allocated such rows with @pitch. */
void gm_pitch_note(CUdevice device, size_t width, unsigned int element, size_t pitch);

#endif
