/*
 * stream.c - see stream.h.
 */
#include "stream.h"

#include "node.h"
#include "recorder.h"

#include "errors.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Operations between two events of a stream, and between two looks at its events (0.2 us each). */
#define RECORD_EVERY 64u
/* Small frees are not worth an event so often: this many bytes, or that many operations. */
#define RECORD_BYTES       ((uint64_t)16 << 20)
#define RECORD_EVERY_SMALL 1024u
#define POLL_EVERY         16u

/* In place of the handle of a stream that is no more; no stream has it. */
#define RETIRED ((CUstream)(uintptr_t)-1)
/* In place of the handle: the entry may be given to a new stream. */
#define UNUSED ((CUstream)(uintptr_t)-2)

/* Handles of threads' default streams have this bit and the thread's number: no address of the driver's does. */
#define OF_THREAD     ((uint64_t)1 << 63)

#define STREAMS_BYTES (GM_STREAMS_MAX * sizeof(struct gm_stream))

static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

CUstream gm_stream_of_thread(void)
{
    static _Atomic uint64_t last;
    if (own_number == 0) {
        own_number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return (CUstream)(uintptr_t)(OF_THREAD | own_number);
}

static bool is_of_a_thread(const struct gm_stream *stream)
{
    return ((uintptr_t)stream->handle & OF_THREAD) != 0 && stream->handle != RETIRED && stream->handle != UNUSED;
}

bool gm_stream_name(const struct gm_stream *stream, CUstream *out)
{
    if (stream->handle == RETIRED || stream->handle == UNUSED) {
        return false;
    }
    if (!is_of_a_thread(stream)) {
        *out = stream->handle;
        return true;
    }
    *out = CU_STREAM_PER_THREAD;
    return ((uintptr_t)stream->handle & ~OF_THREAD) == own_number;
}

int gm_stream_init(struct gm_pool *pool)
{
    void *memory = mmap(NULL, STREAMS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -ENOMEM;
    }
    pool->streams = memory;
    pool->plain_stream = UNUSED;
    return 0;
}

void gm_stream_finish(struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        for (uint32_t k = 0; k < GM_STREAM_EVENTS; k++) {
            if (pool->streams[i].events[k] != NULL) {
                pool->vmm.cu->event_destroy(pool->streams[i].events[k]);
            }
        }
    }
    munmap(pool->streams, STREAMS_BYTES);
    pool->streams = NULL;
    pool->stream_count = 0;
    pool->plain_stream = UNUSED;
}

static uint64_t done_up_to(const struct gm_pool *pool, const struct gm_stream *stream)
{
    return stream->done > pool->all_done ? stream->done : pool->all_done;
}

/* Its frees are done, and so is what it waits for on the GPU: its slabs may hold objects that only such a wait frees.
 */
static bool is_settled(const struct gm_pool *pool, const struct gm_stream *stream)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        if (stream->waited[i] > done_up_to(pool, &pool->streams[i])) {
            return false;
        }
    }
    return stream->last_free <= done_up_to(pool, stream);
}

/* A stream that begins now, or an entry that none has: everything freed under its index is done. Events are kept. */
static void begin_anew(const struct gm_pool *pool, struct gm_stream *stream, CUstream handle)
{
    stream->handle = handle;
    stream->done = pool->sequence;
    stream->last_free = pool->sequence;
    stream->last_record = pool->sequence;
    stream->head = 0;
    stream->count = 0;
    memset(stream->waited, 0, sizeof stream->waited);
}

bool gm_stream_is_sound(const struct gm_pool *pool)
{
    return pool->plain_stream == UNUSED ||
           (pool->last_stream < pool->stream_count && pool->plain_stream == pool->streams[pool->last_stream].handle);
}

void gm_stream_watch(struct gm_pool *pool)
{
    bool is_plain = pool->stream_count > 0 && !GM_RECORDER_IS_ON();
    pool->plain_stream = is_plain ? pool->streams[pool->last_stream].handle : UNUSED;
}

int gm_stream_find(struct gm_pool *pool, CUstream handle, uint32_t *out)
{
    uint32_t count = pool->stream_count;
    if (gm_stream_is_plain(pool, handle)) {
        *out = pool->last_stream;
        return 0;
    }
    uint32_t i = 0;
    while (i < count && pool->streams[i].handle != handle) {
        i++;
    }
    if (i == count) {
        i = 0;
        while (i < count && pool->streams[i].handle != UNUSED) {
            i++;
        }
        if (i == GM_STREAMS_MAX) {
            return -EAGAIN;
        }
        begin_anew(pool, &pool->streams[i], handle);
        pool->stream_count = i == count ? count + 1 : count;
    }
    pool->last_stream = i;
    gm_stream_watch(pool);
    *out = i;
    return 0;
}

/*
 * Our own calls must neither be refused nor break a capture that the application has under way on this thread:
 * RELAXED allows them (gpu-measured: an event query is refused in the other modes).
 */
static CUstreamCaptureMode enter_relaxed(const struct gm_pool *pool)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pool->vmm.cu->thread_exchange_capture_mode(&mode);
    return mode;
}

static void leave_relaxed(const struct gm_pool *pool, CUstreamCaptureMode mode)
{
    pool->vmm.cu->thread_exchange_capture_mode(&mode);
}

static bool is_capturing(const struct gm_pool *pool, CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return pool->vmm.cu->stream_is_capturing(handle, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Records the event in @place of @stream, which the driver knows as @handle in the current context. */
static bool record_in(struct gm_pool *pool, struct gm_stream *stream, uint32_t place, CUstream handle)
{
    const struct gm_cu *cu = pool->vmm.cu;
    if (is_capturing(pool, handle)) {
        return false;
    }
    if (stream->events[place] == NULL && cu->event_create(&stream->events[place], CU_EVENT_DISABLE_TIMING) != 0) {
        stream->events[place] = NULL;
        return false;
    }
    CUstreamCaptureMode mode = enter_relaxed(pool);
    CUresult code = cu->event_record(stream->events[place], handle);
    leave_relaxed(pool, mode);
    return code == CUDA_SUCCESS;
}

/*
 * Records an event for all frees on @stream so far; with all events in flight, the newest one once more. Where that
 * cannot be done they stay pending until a synchronisation. Events, and what the handles of default streams mean, are
 * the current context's, which need not be the pool's: a thread may free or destroy a stream under any.
 */
static void record(struct gm_pool *pool, struct gm_stream *stream)
{
    bool full = stream->count == GM_STREAM_EVENTS;
    uint32_t place = (stream->head + stream->count - (full ? 1 : 0)) % GM_STREAM_EVENTS;
    CUstream handle;
    CUcontext ignored;
    if (!gm_stream_name(stream, &handle) || pool->vmm.cu->ctx_push_current(pool->context) != CUDA_SUCCESS) {
        return;
    }
    if (record_in(pool, stream, place, handle)) {
        stream->recorded[place] = pool->sequence;
        stream->last_record = pool->sequence;
        stream->freed_before = pool->freed_bytes;
        stream->count += full ? 0 : 1;
    }
    pool->vmm.cu->ctx_pop_current(&ignored);
}

static void poll(struct gm_pool *pool, struct gm_stream *stream)
{
    stream->polled = pool->sequence;
    if (stream->count == 0) {
        return;
    }
    CUstreamCaptureMode mode = enter_relaxed(pool);
    while (stream->count > 0 && pool->vmm.cu->event_query(stream->events[stream->head]) == CUDA_SUCCESS) {
        stream->done = stream->recorded[stream->head];
        stream->head = (stream->head + 1) % GM_STREAM_EVENTS;
        stream->count--;
    }
    leave_relaxed(pool, mode);
}

void gm_stream_note_free(struct gm_pool *pool, uint32_t index)
{
    struct gm_stream *stream = &pool->streams[index];
    stream->last_free = pool->sequence;
    bool is_asked_for = pool->stream_count > 1 || pool->served_bytes < pool->asked_until;
    uint64_t operations = pool->sequence - stream->last_record;
    bool is_time = operations >= RECORD_EVERY &&
                   (operations >= RECORD_EVERY_SMALL || pool->freed_bytes - stream->freed_before >= RECORD_BYTES);
    if (is_asked_for && (is_time || is_of_a_thread(stream))) {
        if (stream->count == GM_STREAM_EVENTS) {
            poll(pool, stream);
        }
        record(pool, stream);
    }
}

static void mark(struct gm_pool *pool, struct gm_stream *stream)
{
    if (stream->last_free > stream->last_record) {
        if (stream->count == GM_STREAM_EVENTS) {
            poll(pool, stream);
        }
        record(pool, stream);
    }
}

void gm_stream_mark(struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        mark(pool, &pool->streams[i]);
    }
}

void gm_stream_look(struct gm_pool *pool)
{
    gm_stream_mark(pool);
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        poll(pool, &pool->streams[i]);
    }
}

void gm_stream_retire(struct gm_pool *pool, CUstream handle)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        struct gm_stream *stream = &pool->streams[i];
        if (stream->handle == handle) {
            mark(pool, stream);
            stream->handle = RETIRED;
        }
    }
    gm_stream_watch(pool);
}

void gm_stream_end_all(struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        memset(pool->streams[i].events, 0, sizeof pool->streams[i].events);
        begin_anew(pool, &pool->streams[i], UNUSED);
    }
    gm_stream_watch(pool);
}

bool gm_stream_make_room(struct gm_pool *pool)
{
    bool found = false;
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        poll(pool, &pool->streams[i]);
    }
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        if (is_settled(pool, &pool->streams[i])) {
            begin_anew(pool, &pool->streams[i], UNUSED);
            found = true;
        }
    }
    gm_stream_watch(pool);
    return found;
}

bool gm_stream_is_pending(const struct gm_pool *pool)
{
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        if (pool->streams[i].last_free > done_up_to(pool, &pool->streams[i])) {
            return true;
        }
    }
    return false;
}

/* Whether @stream's frees up to @sequence are done, or up to @waited waited for. */
static bool covers(struct gm_pool *pool, struct gm_stream *stream, uint64_t sequence, uint64_t waited)
{
    uint64_t done = done_up_to(pool, stream);
    done = done > waited ? done : waited;
    if (stream->last_free <= done || sequence <= done) {
        return true;
    }
    if (stream->last_record < sequence && stream->last_free > stream->last_record) {
        record(pool, stream);
    }
    if (pool->sequence - stream->polled >= POLL_EVERY || stream->polled == 0) {
        poll(pool, stream);
    }
    return sequence <= stream->done || stream->last_free <= stream->done;
}

bool gm_stream_sees_slow(struct gm_pool *pool, uint64_t stamp, uint32_t stream)
{
    uint32_t last = (uint32_t)(stamp >> GM_STAMP_SHIFT);
    uint64_t sequence = stamp & GM_SEQUENCE_MASK;
    const uint64_t *waited = pool->streams[stream].waited;
    if (last == GM_STREAM_ANY) {
        return false;
    }
    if (last != GM_STREAM_MIXED) {
        return last >= pool->stream_count || covers(pool, &pool->streams[last], sequence, waited[last]);
    }
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        if (i != stream && !covers(pool, &pool->streams[i], sequence, waited[i])) {
            return false;
        }
    }
    return true;
}

uint64_t gm_stream_horizon(const struct gm_pool *pool, uint32_t stream)
{
    const uint64_t *waited = pool->streams[stream].waited;
    uint64_t horizon = pool->sequence;
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        const struct gm_stream *other = &pool->streams[i];
        uint64_t done = done_up_to(pool, other);
        done = done > waited[i] ? done : waited[i];
        if (i != stream && other->last_free > done) {
            horizon = horizon < done ? horizon : done;
        }
    }
    return horizon;
}

bool gm_stream_is_done(struct gm_pool *pool, uint64_t stamp)
{
    uint32_t last = (uint32_t)(stamp >> GM_STAMP_SHIFT);
    uint64_t sequence = stamp & GM_SEQUENCE_MASK;
    if (sequence <= pool->all_done) {
        return true;
    }
    if (last == GM_STREAM_ANY) {
        return false;
    }
    if (last != GM_STREAM_MIXED) {
        return last >= pool->stream_count || covers(pool, &pool->streams[last], sequence, 0);
    }
    for (uint32_t i = 0; i < pool->stream_count; i++) {
        if (!covers(pool, &pool->streams[i], sequence, 0)) {
            return false;
        }
    }
    return true;
}

void gm_stream_mix(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t stamp)
{
    uint64_t old = chunk->stamp & GM_SEQUENCE_MASK;
    uint32_t last = (uint32_t)(chunk->stamp >> GM_STAMP_SHIFT);
    uint64_t sequence = stamp & GM_SEQUENCE_MASK;
    if (sequence <= pool->all_done && old > pool->all_done) {
        return;
    }
    bool old_is_done = old <= pool->all_done || last >= GM_STREAM_MIXED || old <= pool->streams[last].done;
    if (old_is_done && last != GM_STREAM_MIXED) {
        chunk->stamp = stamp;
    } else {
        chunk->stamp = (uint64_t)GM_STREAM_MIXED << GM_STAMP_SHIFT | (sequence > old ? sequence : old);
    }
}

bool gm_stream_wait(struct gm_pool *pool, uint32_t index, uint32_t other_index)
{
    struct gm_stream *stream = &pool->streams[index];
    struct gm_stream *other = &pool->streams[other_index];
    if (other->last_free > other->last_record) {
        record(pool, other);
    }
    CUstream handle;
    if (other->count == 0 || !gm_stream_name(stream, &handle) || is_capturing(pool, handle)) {
        return false;
    }
    uint32_t newest = (other->head + other->count - 1) % GM_STREAM_EVENTS;
    CUstreamCaptureMode mode = enter_relaxed(pool);
    CUresult code = pool->vmm.cu->stream_wait_event(handle, other->events[newest], 0);
    leave_relaxed(pool, mode);
    if (code != CUDA_SUCCESS) {
        return false;
    }
    stream->waited[other_index] = other->recorded[newest];
    pool->counts.stream_waits++;
    return true;
}

/* Gives the newest event of a stream whose frees are not all done, in *out; false: there is none such. */
static bool next_pending(struct gm_pool *pool, uint64_t until, CUevent *out, uint32_t *index)
{
    for (; *index < pool->stream_count; (*index)++) {
        struct gm_stream *stream = &pool->streams[*index];
        if (stream->last_free <= stream->done || stream->done >= until) {
            continue;
        }
        if (stream->last_record < stream->last_free) {
            record(pool, stream);
        }
        if (stream->count > 0) {
            *out = stream->events[(stream->head + stream->count - 1) % GM_STREAM_EVENTS];
            return true;
        }
    }
    return false;
}

int gm_stream_drain(struct gm_pool *pool)
{
    const struct gm_cu *cu = pool->vmm.cu;
    uint64_t until = pool->sequence;
    CUevent event;
    for (uint32_t i = 0; next_pending(pool, until, &event, &i); i++) {
        pool->counts.host_waits++;
        gm_lock_drop(&pool->lock);
        CUstreamCaptureMode mode = enter_relaxed(pool);
        CUresult code = cu->event_synchronize(event);
        leave_relaxed(pool, mode);
        gm_pool_enter(pool);
        if (code != CUDA_SUCCESS) {
            return gm_error_from_driver((int)code);
        }
        if (i < pool->stream_count) {
            poll(pool, &pool->streams[i]);
        }
    }
    return 0;
}
