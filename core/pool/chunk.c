/*
 * chunk.c - see chunk.h.
 */
#include "chunk.h"

#include "access.h"
#include "table.h"

#include <errno.h>
#include <string.h>

/* Entries of free_pages that are looked at at once: so many are there from every chunk's on. */
#define FREE_AT_ONCE ((uint32_t)sizeof(uint64_t))

/* Takes an unused entry of the chunk array, growing it and the free pages when there is none. */
static int take_entry(struct gm_pool *pool, uint32_t *out)
{
    if (pool->chunk_free != GM_NONE) {
        *out = pool->chunk_free;
        pool->chunk_free = gm_chunk(pool, *out)->next_unused;
        return 0;
    }
    uint32_t index = pool->chunks.count;
    int rc = gm_array_reserve(&pool->chunks, index + 1, sizeof(struct gm_chunk));
    if (rc < 0) {
        return rc;
    }
    rc = gm_array_reserve(&pool->free_pages, index + FREE_AT_ONCE, sizeof(uint8_t));
    if (rc < 0) {
        return rc;
    }
    pool->chunks.count = index + 1;
    *out = index;
    return 0;
}

static void return_entry(struct gm_pool *pool, uint32_t index)
{
    struct gm_chunk *chunk = gm_chunk(pool, index);
    memset(chunk, 0, sizeof *chunk);
    chunk->next_unused = pool->chunk_free;
    pool->chunk_free = index;
}

int gm_chunk_create(struct gm_pool *pool, uint32_t pages, uint32_t *out)
{
    uint32_t index;
    int rc = take_entry(pool, &index);
    if (rc < 0) {
        return rc;
    }
    struct gm_chunk *chunk = gm_chunk(pool, index);
    memset(chunk, 0, sizeof *chunk);
    chunk->place_capacity = GM_PLACES_INLINE;
    rc = gm_vmm_create(&pool->vmm, (uint64_t)pages << GM_PAGE_SHIFT, &chunk->handle);
    if (rc < 0) {
        return_entry(pool, index);
        return rc;
    }
    chunk->pages = (uint16_t)pages;
    gm_free_pages(pool)[index] = (uint8_t)pages;
    pool->chunk_count++;
    pool->free_chunk_pages += pages;
    *out = index;
    return 0;
}

void gm_chunk_destroy(struct gm_pool *pool, uint32_t index)
{
    pool->free_chunk_pages -= gm_chunk(pool, index)->pages;
    gm_free_pages(pool)[index] = 0;
    gm_chunk_discard(pool, index);
}

static void forget_places(struct gm_chunk *chunk)
{
    if (chunk->place_capacity > GM_PLACES_INLINE) {
        gm_table_give(chunk->places, chunk->place_capacity * sizeof *chunk->places);
    }
}

void gm_chunk_discard(struct gm_pool *pool, uint32_t index)
{
    struct gm_chunk *chunk = gm_chunk(pool, index);
    gm_vmm_release(&pool->vmm, chunk->handle, gm_chunk_size(chunk));
    forget_places(chunk);
    return_entry(pool, index);
    pool->chunk_count--;
}

static struct gm_place *places_of(struct gm_chunk *chunk)
{
    return chunk->place_capacity > GM_PLACES_INLINE ? chunk->places : chunk->inline_places;
}

int gm_chunk_add_place(struct gm_chunk *chunk, struct gm_place place)
{
    if (chunk->place_count == chunk->place_capacity) {
        uint32_t capacity = chunk->place_capacity * 2u;
        if (capacity > UINT16_MAX) {
            return -ENOMEM;
        }
        struct gm_place *places = gm_table_take(capacity * sizeof *places);
        if (places == NULL) {
            return -ENOMEM;
        }
        memcpy(places, places_of(chunk), chunk->place_count * sizeof *places);
        forget_places(chunk);
        chunk->places = places;
        chunk->place_capacity = (uint16_t)capacity;
    }
    places_of(chunk)[chunk->place_count++] = place;
    return 0;
}

void gm_chunk_remove_place(struct gm_chunk *chunk, uint32_t i)
{
    struct gm_place *places = places_of(chunk);
    chunk->place_count--;
    memmove(places + i, places + i + 1, (chunk->place_count - i) * sizeof *places);
    /* The bits of those behind it move down; the last one stays as well, for those that still have none of their own.
     */
    if (i <= GM_PLACES_APART) {
        uint32_t before = (1u << i) - 1;
        uint32_t last = 1u << GM_PLACES_APART;
        uint32_t behind = (chunk->blocked & ~before & ~(1u << i)) >> 1 | (chunk->blocked & last);
        uint32_t there = chunk->place_count > GM_PLACES_APART ? UINT16_MAX : (1u << chunk->place_count) - 1;
        chunk->blocked = (uint16_t)(((chunk->blocked & before) | behind) & there);
    }
}

uint32_t gm_chunk_next_free(const struct gm_pool *pool, uint32_t from)
{
    const uint8_t *pages = gm_free_pages(pool);
    for (; from < pool->chunks.count; from += FREE_AT_ONCE) {
        uint64_t some;
        memcpy(&some, pages + from, sizeof some);
        if (some != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return from + (uint32_t)__builtin_ctzll(some) / 8;
#else
            return from + (uint32_t)__builtin_clzll(some) / 8;
#endif
        }
    }
    return GM_NONE;
}
