/*
 * array.h - growable arrays of plain structs, addressed by index.
 *
 * STRUCTURE    Small arrays are tables (table.h), and move to the next larger one as they grow. From 2 MiB on an array
 *              has a mapping of its own, which grows by mremap, so that nothing is copied any more. It lies on huge
 *              pages where the kernel has some: with a million blocks live, a call that goes to a random element would
 *              pay as much for its address as for the element.
 *              Invariant: bytes is 0 or a power of two, capacity == bytes / element size, count <= capacity; from
 *              2 MiB on data is a multiple of 2 MiB.
 * CONCURRENCY  None of its own: the owner's lock guards an array. Elements move when it grows: keep indices.
 */
#ifndef GM_ARRAY_H
#define GM_ARRAY_H

#include <stddef.h>
#include <stdint.h>

struct gm_array {
    void *data;
    size_t bytes;
    uint32_t count;    /* elements in use */
    uint32_t capacity; /* elements there is room for */
};

/* Makes room for @count elements of @size bytes; new room is zeroed. 0 or -ENOMEM, then nothing has changed. */
int gm_array_reserve(struct gm_array *array, uint32_t count, size_t size);

/* Gives the memory back; the array is empty and may be used again. */
void gm_array_finish(struct gm_array *array);

#endif
