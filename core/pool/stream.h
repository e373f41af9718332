/*
 * stream.h - when freed memory may be used again: on its own stream at once, elsewhere when its work is done or
 * waited for.
 *
 * STRUCTURE    A free stamps the chunks it touched with its stream and the pool's operation count. As soon as there
 *              is more than one stream, or chunks may have to be cut, streams that free record events; event and
 *              count tell which stamps are done. One stream alone in steady state records none.
 * CONCURRENCY  the pool's lock is held. gm_stream_drain() drops it while it waits.
 */
#ifndef GM_STREAM_H
#define GM_STREAM_H

#include "access.h"

/*
 * What stands in the pool for the handle that a caller gives: NULL for the legacy default stream, and for
 * CU_STREAM_PER_THREAD, which means another stream on each thread, a handle of the calling thread alone that no other
 * one ever gets. Only its thread can name such a stream to the driver, so its frees are followed by events at once;
 * where they are not, other streams get the memory after a synchronisation of the context.
 */
CUstream gm_stream_of_thread(void);

static inline CUstream gm_stream_normalised(CUstream handle)
{
    return handle == CU_STREAM_PER_THREAD ? gm_stream_of_thread() : handle == CU_STREAM_LEGACY ? NULL : handle;
}

/* The handle by which the calling thread can name @stream to the driver; false: it has none. */
bool gm_stream_name(const struct gm_stream *stream, CUstream *out);

/* Whether @handle is the stream used last and no trace is on: the rule, as most calls come in rows on one stream. */
static inline bool gm_stream_is_plain(const struct gm_pool *pool, CUstream handle)
{
    return __builtin_expect(pool->plain_stream == handle, 1);
}

/* Whether plain_stream is what its comment in block.h says. */
bool gm_stream_is_sound(const struct gm_pool *pool);

/* Decides anew what a plain call is; to be called when a trace has begun or ended. */
void gm_stream_watch(struct gm_pool *pool);

/* The index of the normalised @handle, made known if it is new. -EAGAIN: all indices are taken; gm_stream_make_room().
 */
int gm_stream_find(struct gm_pool *pool, CUstream handle, uint32_t *out);

int gm_stream_init(struct gm_pool *pool);
void gm_stream_finish(struct gm_pool *pool);

/* Forgets the streams that nothing depends on any more: indices of them are void. Returns whether there was one. */
bool gm_stream_make_room(struct gm_pool *pool);

/* Whether frees are pending, after gm_stream_drain(): work that no event tells of, or other threads' frees meanwhile.
 */
bool gm_stream_is_pending(const struct gm_pool *pool);

/* Records an event on stream @index when its last one lies far enough back. To be called after a free on it. */
void gm_stream_note_free(struct gm_pool *pool, uint32_t index);

/* Records an event on every stream with frees that no event covers yet: what is asked about soon is known sooner. */
void gm_stream_mark(struct gm_pool *pool);

/* The same, and looks at what is done now: for a pool that is idle and would not look by itself. */
void gm_stream_look(struct gm_pool *pool);

/*
 * Makes @handle unknown, which is about to be destroyed: an event tells when its frees are done, and a later stream of
 * the same handle is another one.
 */
void gm_stream_retire(struct gm_pool *pool, CUstream handle);

/* All streams have ended with the context, their events too, and all their work is done. */
void gm_stream_end_all(struct gm_pool *pool);

bool gm_stream_sees_slow(struct gm_pool *pool, uint64_t stamp, uint32_t stream);

/* Whether work on @stream may use memory stamped @stamp. */
static inline bool gm_stream_sees(struct gm_pool *pool, uint64_t stamp, uint32_t stream)
{
    return stamp >> GM_STAMP_SHIFT == stream || (stamp & GM_SEQUENCE_MASK) <= pool->all_done ||
           gm_stream_sees_slow(pool, stamp, stream);
}

/*
 * Work on @stream may use all chunks stamped up to the sequence returned, whatever stream the stamp tells of. It may
 * use others too. Holds until the next free, and until the lock is dropped.
 */
uint64_t gm_stream_horizon(const struct gm_pool *pool, uint32_t stream);

/* As gm_stream_sees(), for the stamp of a chunk, with what gm_stream_horizon() said. */
static inline bool gm_stream_sees_chunk(struct gm_pool *pool, const struct gm_chunk *chunk, uint32_t stream,
                                        uint64_t horizon)
{
    return (chunk->stamp & GM_SEQUENCE_MASK) <= horizon || gm_stream_sees(pool, chunk->stamp, stream);
}

/* Whether the work that used memory stamped @stamp has completed: what unmapping it needs. May record an event. */
bool gm_stream_is_done(struct gm_pool *pool, uint64_t stamp);

/* Makes @stream wait on the GPU for every pending free of stream @other. false: it could not be done. */
bool gm_stream_wait(struct gm_pool *pool, uint32_t stream, uint32_t other);

/*
 * Waits on the host for every pending free, with the pool's lock dropped meanwhile: nothing seen before the call may
 * be relied on after it. 0 or -errno.
 */
int gm_stream_drain(struct gm_pool *pool);

void gm_stream_mix(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t stamp);

/* Notes in @chunk that memory of it was in use up to @stamp. */
static inline void gm_stream_stamp(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t stamp)
{
    if ((chunk->stamp ^ stamp) >> GM_STAMP_SHIFT == 0) {
        chunk->stamp = stamp > chunk->stamp ? stamp : chunk->stamp;
    } else {
        gm_stream_mix(pool, chunk, stamp);
    }
}

static inline uint64_t gm_stream_stamp_now(const struct gm_pool *pool, uint32_t stream)
{
    return (uint64_t)stream << GM_STAMP_SHIFT | pool->sequence;
}

#endif
