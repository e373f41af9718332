/*
 * array.c - see array.h.
 */
#include "array.h"

#include "table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_BYTES ((size_t)1024)
#define HUGE_BYTES  ((size_t)2 << 20)

/* Addresses for @bytes that huge pages can lie at, with nothing behind them yet. */
static void *find_aligned(size_t bytes)
{
    char *data = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        return data;
    }
    size_t before = -(uintptr_t)data % HUGE_BYTES;
    char *aligned = data + before;
    if (before != 0) {
        munmap(data, before);
    }
    munmap(aligned + bytes, HUGE_BYTES - before);
    return aligned;
}

/* Moves an array to huge pages: by a copy, as what mremap() moves keeps its small ones. */
static void *begin_huge(const struct gm_array *array, size_t bytes)
{
    void *data = find_aligned(bytes);
    if (data == MAP_FAILED) {
        return data;
    }
    if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(data, bytes);
        return MAP_FAILED;
    }
    (void)madvise(data, bytes, MADV_HUGEPAGE); /* the kernel may have none: small ones do the same */
    if (array->data != NULL) {
        memcpy(data, array->data, array->bytes);
        gm_table_give(array->data, array->bytes);
    }
    return data;
}

static void *grow_huge(const struct gm_array *array, size_t bytes)
{
    void *data = mremap(array->data, array->bytes, bytes, 0);
    if (data != MAP_FAILED) {
        return data;
    }
    void *place = find_aligned(bytes);
    if (place == MAP_FAILED) {
        return place;
    }
    /* Where it fails it may have freed the place first, which then is no longer ours to free. */
    return mremap(array->data, array->bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
}

static void *grow_small(const struct gm_array *array, size_t bytes)
{
    void *data = gm_table_take(bytes);
    if (data == NULL) {
        return MAP_FAILED;
    }
    if (array->data != NULL) {
        memcpy(data, array->data, array->bytes);
        gm_table_give(array->data, array->bytes);
    }
    return data;
}

/* The array's memory, made or grown to @bytes; MAP_FAILED: it is as it was. */
static void *grow(const struct gm_array *array, size_t bytes)
{
    if (bytes < HUGE_BYTES) {
        return grow_small(array, bytes);
    }
    return array->bytes >= HUGE_BYTES ? grow_huge(array, bytes) : begin_huge(array, bytes);
}

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
    void *data = grow(array, bytes);
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
    if (array->bytes < HUGE_BYTES) {
        gm_table_give(array->data, array->bytes);
    } else {
        munmap(array->data, array->bytes);
    }
    *array = (struct gm_array){0};
}
