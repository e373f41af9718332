/*
 * array.c - see array.h.
 */
#include "array.h"

#include <errno.h>
#include <sys/mman.h>

#define FIRST_BYTES ((size_t)4096)

int gm_array_reserve(struct gm_array *array, uint32_t count, size_t size)
{
    if (count <= array->capacity) {
        return 0;
    }
    size_t bytes = array->bytes != 0 ? array->bytes : FIRST_BYTES;
    while (bytes / size < count) {
        bytes *= 2;
    }
    if (bytes / size > UINT32_MAX) {
        return -ENOMEM;
    }
    void *data = array->data == NULL ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                     : mremap(array->data, array->bytes, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) {
        return -ENOMEM;
    }
    array->data = data;
    array->bytes = bytes;
    array->capacity = (uint32_t)(bytes / size);
    return 0;
}

void gm_array_finish(struct gm_array *array)
{
    if (array->data != NULL) {
        munmap(array->data, array->bytes);
    }
    *array = (struct gm_array){0};
}
