/*
 * chunk.h - physical chunks: making them, giving them back, and the account of which pages are busy.
 *
 * CONCURRENCY  the pool's lock is held.
 */
#ifndef GM_CHUNK_H
#define GM_CHUNK_H

#include "block.h"

/* Creates a chunk of @pages pages, mapped nowhere. -ENOMEM: the device or the host is full. */
int gm_chunk_create(struct gm_pool *pool, uint32_t pages, uint32_t *out);

/* Gives a chunk that is mapped nowhere and has nothing busy back to the device. */
void gm_chunk_destroy(struct gm_pool *pool, uint32_t index);

/* The same at the end of a pool, when blocks may still be live in it. */
void gm_chunk_discard(struct gm_pool *pool, uint32_t index);

/* Notes that @chunk is mapped at @place too. -ENOMEM. */
int gm_chunk_add_place(struct gm_chunk *chunk, struct gm_place place);

/* Forgets place @i of @chunk; those behind it move down. */
void gm_chunk_remove_place(struct gm_chunk *chunk, uint32_t i);

/* Notes that pages of @chunk are marked as not usable in its place @i. */
static inline void gm_chunk_block(struct gm_chunk *chunk, uint32_t i)
{
    chunk->blocked = (uint16_t)(chunk->blocked | 1u << (i < GM_PLACES_APART ? i : GM_PLACES_APART));
}

/* The next free chunk with an index of at least @from; GM_NONE: no more. */
uint32_t gm_chunk_next_free(const struct gm_pool *pool, uint32_t from);

#endif
