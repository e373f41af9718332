/*
 * pool.c - allocation and free. The hot path starts here: gm_pool_alloc() and gm_pool_free().
 */
#include "pool.h"

#include "access.h"
#include "cut.h"
#include "index.h"
#include "limit.h"
#include "node.h"
#include "range.h"
#include "recorder.h"
#include "slab.h"
#include "stitch.h"
#include "stream.h"
#include "tunables.h"
#include "walk.h"

#include <errno.h>
#include <string.h>

/* Slots one allocation looks at before it stitches instead: some 3 us. */
#define WALK_MOST 1024u

/* Waits for room in the table of streams before giving up: other threads may take what one makes. */
#define ROOM_TRIES 4u

static uint32_t units_of(size_t bytes)
{
    return (uint32_t)((bytes + GM_UNIT_SIZE - 1) >> GM_UNIT_SHIFT);
}

/* Searches one range from its start. */
static inline __attribute__((always_inline)) bool search_range(struct gm_pool *pool, uint32_t index,
                                                               const struct gm_request *request, uint64_t horizon,
                                                               uint32_t *gap, uint32_t *start)
{
    struct gm_range *range = gm_range(pool, index);
    if (range->dirty.count != 0) {
        gm_walk_refresh(pool, range);
    }
    if (range->bound < request->units) {
        return false;
    }
    uint32_t node = gm_index_first(pool, range, request->units);
    while (node != GM_NONE) {
        if (gm_walk_fit(pool, node, request->units, request->stream, horizon, start)) {
            *gap = node;
            return true;
        }
        if (pool->walk_left == 0 || range->bound < request->units) {
            return false;
        }
        node = gm_index_find(pool, range, request->units, gm_node(pool, node)->start + 1);
    }
    gm_index_settle(range);
    return false;
}

/* The first place by range and address that holds the request without driver work. */
static inline __attribute__((always_inline)) bool search(struct gm_pool *pool, const struct gm_request *request,
                                                         uint32_t walk_most, uint32_t *gap, uint32_t *start)
{
    const struct gm_array *members = &pool->class_ranges[request->class];
    const uint32_t *ranges = members->data;
    uint64_t horizon = gm_walk_horizon(pool, request->stream);
    pool->walk_left = walk_most;
    pool->walk_before = UINT32_MAX;
    for (uint32_t i = 0; i < members->count; i++) {
        if (search_range(pool, ranges[i], request, horizon, gap, start)) {
            return true;
        }
        if (pool->walk_left == 0) {
            return false;
        }
    }
    return false;
}

/* Units to take at @start of @gap, no rest of which is to be smaller than @split_min. */
static uint32_t __attribute__((noinline)) units_with_rest(struct gm_pool *pool, const struct gm_request *request,
                                                          uint64_t split_min, uint32_t gap, uint32_t start)
{
    split_min = split_min < UINT32_MAX ? split_min : UINT32_MAX; /* a node's slack is 32 bits */
    const struct gm_node *node = gm_node(pool, gap);
    uint32_t all = node->start + node->size - start;
    uint32_t before = pool->walk_before; /* that of @start, which need not be the first place for all */
    uint32_t at;
    bool whole = all > request->units && (uint64_t)(all - request->units) << GM_UNIT_SHIFT < split_min &&
                 gm_walk_fit(pool, gap, all, request->stream, gm_walk_horizon(pool, request->stream), &at) &&
                 at == start;
    pool->walk_before = before;
    return whole ? all : request->units;
}

/* Units to take at @start of @gap: more than asked for if the rest would be smaller than split_min. */
static inline uint32_t units_to_take(struct gm_pool *pool, const struct gm_request *request, uint32_t gap,
                                     uint32_t start)
{
    uint64_t split_min = gm_tunable(GMLAKE_TUNABLE_split_min);
    bool as_asked = split_min <= GM_UNIT_SIZE || request->for_slab;
    return as_asked ? request->units : units_with_rest(pool, request, split_min, gap, start);
}

/* The index of a stream, with room made in their table where all are taken. The lock may be dropped for it. */
static int __attribute__((noinline)) another_stream(struct gm_pool *pool, CUstream handle, uint32_t *out)
{
    for (unsigned tries = 0; gm_stream_find(pool, handle, out) < 0; tries++) {
        if (gm_stream_make_room(pool)) {
            continue;
        }
        if (tries == ROOM_TRIES) {
            return -ENOMEM;
        }
        int rc = tries == 0 ? gm_stream_drain(pool) : gm_limit_settle(pool);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Slots that a search may look at: the last resorts leave nothing out. */
static uint32_t walk_most(enum gm_step step)
{
    return step > GM_STEP_DRAIN ? UINT32_MAX : WALK_MOST;
}

/* Makes a place for @request, whatever it takes. The lock may have been dropped and taken again. */
static int __attribute__((noinline))
make_place(struct gm_pool *pool, struct gm_request *request, enum gm_step *step, uint32_t *gap, uint32_t *start)
{
    int rc;
    do {
        rc = gm_limit_step(pool, request, step, gap, start);
        if (rc != 0 && rc != -EAGAIN) {
            return rc;
        }
        /* The lock may have been dropped: other threads' streams came, and ours may have been forgotten. */
        bool known = gm_stream_find(pool, request->handle, &request->stream) == 0;
        if (known && rc == 0) {
            pool->walk_before = UINT32_MAX; /* no search found the place; other threads may have searched meanwhile */
            return 0;
        }
        rc = known ? 0 : another_stream(pool, request->handle, &request->stream);
    } while (rc == 0 && !search(pool, request, walk_most(*step), gap, start));
    return rc;
}

/* Finds a place for @request, which is part of a call for @bytes. */
static inline __attribute__((always_inline)) int find_place(struct gm_pool *pool, struct gm_request *request,
                                                            size_t bytes, enum gm_step *step, uint32_t *gap,
                                                            uint32_t *start)
{
    if (__builtin_expect(search(pool, request, walk_most(*step), gap, start), 1)) {
        return 0;
    }
    pool->underway_bytes += bytes;
    int rc = make_place(pool, request, step, gap, start);
    pool->underway_bytes -= bytes;
    return rc;
}

/* Cuts the chunk under the block's end where that is worth it; false: part of the place is lost, find another. */
static bool is_whole_after_cut(struct gm_pool *pool, const struct gm_request *request, uint32_t gap, uint32_t start)
{
    return request->class == GM_CLASS_SMALL || !gm_cut_is_possible(pool) ||
           gm_stitch_cut_at_end(pool, gap, start, request->units);
}

/* Makes a live node for @request, which is part of a call for @bytes. */
static inline __attribute__((always_inline)) int make_node(struct gm_pool *pool, struct gm_request *request,
                                                           size_t bytes, uint32_t *out)
{
    enum gm_step step = GM_STEP_SYNC;
    uint32_t gap;
    uint32_t start;
    int rc;
    do {
        rc = find_place(pool, request, bytes, &step, &gap, &start);
        if (rc < 0) {
            return rc;
        }
    } while (!is_whole_after_cut(pool, request, gap, start));
    uint32_t units = units_to_take(pool, request, gap, start);
    bool exact = gm_node(pool, gap)->start == start && gm_node(pool, gap)->size == units;
    rc = gm_range_carve(pool, gap, start, units, out);
    if (rc == 0 && step == GM_STEP_SYNC) {
        pool->counts.exact += exact;
        pool->counts.split += !exact;
    }
    return rc;
}

/* What a request for @units, on the stream used last, asks of the pool. */
static inline __attribute__((always_inline)) struct gm_request request_for(const struct gm_pool *pool, uint32_t units,
                                                                           size_t bytes)
{
    return (struct gm_request){.units = units,
                               .stream = pool->last_stream,
                               .handle = pool->streams[pool->last_stream].handle,
                               .class = gm_class_of(units),
                               .may_stitch = bytes >= gm_tunable(GMLAKE_TUNABLE_stitch_min),
                               .limit_pages = UINT64_MAX};
}

/* Gives out the live node @index for a request of @bytes. */
static inline void give_out(struct gm_pool *pool, uint32_t index, size_t bytes, CUdeviceptr *out)
{
    struct gm_node *node = gm_node(pool, index);
    uint64_t size = (uint64_t)node->size << GM_UNIT_SHIFT;
    node->slack = (uint32_t)(size - bytes);
    pool->counts.allocated += size;
    if (node->stitched) {
        pool->counts.stitched_blocks++;
        pool->counts.stitched_bytes += size;
    }
    *out = gm_range(pool, node->range)->base + ((CUdeviceptr)node->start << GM_UNIT_SHIFT);
}

/* Takes the newest block again, if it was freed on the stream used last and is of that size. */
static inline bool take_newest(struct gm_pool *pool, uint32_t units)
{
    struct gm_node *newest = gm_node(pool, pool->newest);
    if (newest->state != GM_NODE_KEPT || newest->size != units ||
        pool->kept_stamp >> GM_STAMP_SHIFT != pool->last_stream) {
        return false;
    }
    newest->state = GM_NODE_LIVE;
    pool->counts.exact++;
    return true;
}

static int alloc_block(struct gm_pool *pool, size_t bytes, CUdeviceptr *out)
{
    /* No smaller than a start granule of the small class: what slabs serve comes here when no slab fits any more. */
    uint32_t units = gm_max(units_of(bytes), GM_SLAB_MAX >> GM_UNIT_SHIFT);
    uint32_t index = pool->newest;
    if (!take_newest(pool, units)) {
        gm_node_forget_newest(pool);
        struct gm_request request = request_for(pool, units, bytes);
        int rc = make_node(pool, &request, bytes, &index);
        if (rc < 0) {
            return rc;
        }
    }
    give_out(pool, index, bytes, out);
    return 0;
}

/* Makes a slab of the class on the stream used last. */
static __attribute__((noinline)) int make_slab(struct gm_pool *pool, uint32_t size_class, size_t bytes)
{
    struct gm_request request =
        request_for(pool, gm_slab_class_units(size_class) * gm_slab_class_objects(size_class), bytes);
    request.class = GM_CLASS_SMALL;
    request.for_slab = true;
    uint32_t node;
    int rc = make_node(pool, &request, bytes, &node);
    if (rc < 0) {
        return rc;
    }
    rc = gm_slab_add(pool, node, size_class, request.stream);
    if (rc < 0) {
        gm_range_release(pool, node, 0);
    }
    return rc;
}

static inline bool take_object(struct gm_pool *pool, uint32_t size_class, uint32_t stream, size_t bytes,
                               CUdeviceptr *out)
{
    if (!gm_slab_take(pool, size_class, stream, bytes, out)) {
        return false;
    }
    pool->counts.allocated += (uint64_t)gm_slab_class_units(size_class) << GM_UNIT_SHIFT;
    return true;
}

/* Makes an object that can be taken, or else a block. */
static int __attribute__((noinline)) alloc_object(struct gm_pool *pool, size_t bytes, CUdeviceptr *out)
{
    uint32_t size_class = gm_slab_class(units_of(bytes));
    uint32_t stream = pool->last_stream;
    CUstream handle = pool->streams[stream].handle;
    int rc = 0;
    gm_node_forget_newest(pool);
    gm_slab_collect(pool);
    /* After a failure as well: objects may have come back while it was waited for memory. */
    while (!take_object(pool, size_class, stream, bytes, out)) {
        if (rc < 0) {
            return rc == -ENOMEM ? alloc_block(pool, bytes, out) : rc;
        }
        rc = make_slab(pool, size_class, bytes);
        if (gm_stream_find(pool, handle, &stream) < 0) {
            return alloc_block(pool, bytes, out);
        }
    }
    return 0;
}

static inline bool is_for_slab(const struct gm_pool *pool, size_t bytes)
{
    return bytes <= GM_SLAB_MAX ||
           (bytes <= GM_SLAB_MAX_CROWDED && pool->counts.allocs - pool->counts.frees >= GM_CROWD);
}

/* Takes back what a call for @bytes has counted, which raised the peak from @peak to @raised. */
static void __attribute__((noinline))
count_refusal(struct gm_pool *pool, size_t bytes, uint64_t peak, uint64_t raised, int rc)
{
    struct gm_pool_counts *counts = &pool->counts;
    counts->requested -= bytes;
    if (counts->requested_peak == raised) { /* no other thread has raised it meanwhile */
        counts->requested_peak = counts->requested > peak ? counts->requested : peak;
    }
    counts->oom += rc == -ENOMEM;
}

/* Allocates on @stream, the one used last. */
static inline __attribute__((always_inline)) int alloc_locked(struct gm_pool *pool, size_t bytes, uint32_t stream,
                                                              CUdeviceptr *out)
{
    /* The request counts as live while it is planned for: the bound on growth includes it. */
    struct gm_pool_counts *counts = &pool->counts;
    uint64_t peak = counts->requested_peak;
    pool->sequence++;
    pool->served_bytes += bytes;
    counts->requested += bytes;
    uint64_t raised = counts->requested > peak ? counts->requested : peak;
    counts->requested_peak = raised;
    if (__builtin_expect(gm_limit_is_exceeded(pool), 0)) {
        gm_limit_relieve(pool);
    }
    int rc = 0;
    if (!is_for_slab(pool, bytes)) {
        rc = alloc_block(pool, bytes, out);
    } else if (!take_object(pool, gm_slab_class(units_of(bytes)), stream, bytes, out)) {
        rc = alloc_object(pool, bytes, out);
    }
    if (__builtin_expect(rc < 0, 0)) {
        count_refusal(pool, bytes, peak, raised, rc);
        return rc;
    }
    counts->allocs++;
    return 0;
}

/* For the trace; the lock is held, so that an address is not recorded as given out before it is as freed. */
static __attribute__((cold, noinline)) void record(const struct gm_pool *pool, uint32_t kind, CUdeviceptr address,
                                                   size_t bytes, CUstream stream)
{
    struct gmlake_ctl_event event = {
        .time_ns = pool->vmm.cu->now_ns(),
        .address = address,
        .bytes = bytes,
        .stream = (uint64_t)(uintptr_t)stream,
        .device = (uint32_t)pool->vmm.device,
        .kind = kind,
    };
    gm_recorder_note(&event);
}

/* An allocation that is no plain one: on another stream than the last, or while a trace is on. */
static int __attribute__((noinline))
alloc_watched(struct gm_pool *pool, size_t bytes, CUstream stream, CUdeviceptr *out)
{
    uint32_t index;
    int rc = another_stream(pool, gm_stream_normalised(stream), &index);
    if (rc == 0) {
        rc = alloc_locked(pool, bytes, index, out);
    }
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_ALLOC, *out, bytes, stream);
    }
    return rc;
}

int gm_pool_alloc(struct gm_pool *pool, size_t bytes, CUstream stream, CUdeviceptr *out)
{
    gm_lock_take(&pool->lock);
    int rc = -ENOMEM;
    if (bytes > pool->vmm.capacity || bytes > GM_BLOCK_MAX) {
        pool->counts.oom++;
    } else if (gm_stream_is_plain(pool, gm_stream_normalised(stream))) {
        rc = alloc_locked(pool, bytes, pool->last_stream, out);
    } else {
        rc = alloc_watched(pool, bytes, stream, out);
    }
    gm_lock_drop(&pool->lock);
    return rc;
}

/* Keeps the books of a block or object that is no longer the caller's. */
static void count_free(struct gm_pool *pool, uint64_t bytes, uint64_t size)
{
    pool->counts.requested -= bytes;
    pool->counts.allocated -= size;
    pool->counts.frees++;
    pool->freed_bytes += bytes;
}

static void count_free_node(struct gm_pool *pool, const struct gm_node *node)
{
    uint64_t size = (uint64_t)node->size << GM_UNIT_SHIFT;
    count_free(pool, size - node->slack, size);
    if (node->stitched) {
        pool->counts.stitched_blocks--;
        pool->counts.stitched_bytes -= size;
    }
}

static int free_object(struct gm_pool *pool, uint32_t slab, CUdeviceptr address, uint64_t stamp, uint64_t *bytes)
{
    int rc = gm_slab_free(pool, slab, address, stamp, bytes);
    if (rc == 0) {
        count_free(pool, *bytes, gm_slab_object_size(gm_slab(pool, slab)));
    }
    return rc;
}

/* Frees an object of a slab that ends in a granule in which another node starts: @address is behind no start there. */
static int __attribute__((noinline))
free_behind(struct gm_pool *pool, const struct gm_range *range, CUdeviceptr address, uint64_t stamp, uint64_t *bytes)
{
    uint32_t index = gm_range_find(pool, range, (uint32_t)((address - range->base) >> GM_UNIT_SHIFT));
    const struct gm_node *node = gm_node(pool, index == GM_NONE ? 0 : index);
    return node->state == GM_NODE_SLAB ? free_object(pool, node->slab, address, stamp, bytes) : -EINVAL;
}

/* Whether the block at @node may stay as it is when it is free: not if that were more than is to be kept of the device.
 */
static inline bool may_keep(const struct gm_pool *pool, const struct gm_node *node)
{
    uint64_t free = (pool->free_chunk_pages << GM_PAGE_SHIFT) + ((uint64_t)node->size << GM_UNIT_SHIFT);
    return free <= gm_tunable(GMLAKE_TUNABLE_release_threshold);
}

/*
 * Frees what starts at @address; @stamp says who used it last. With @owed, blocks wait for a synchronisation. *bytes
 * gets what was asked for.
 */
static inline __attribute__((always_inline)) int free_locked(struct gm_pool *pool, CUdeviceptr address, uint64_t stamp,
                                                             bool owed, uint64_t *bytes)
{
    uint32_t range_index;
    if (gm_range_owner(address, &range_index) != pool) {
        return -EINVAL;
    }
    const struct gm_range *range = gm_range(pool, range_index);
    uint64_t offset = address - range->base;
    uint32_t index = range->starts[offset >> (GM_UNIT_SHIFT + range->start_shift)];
    if (index & GM_START_SLAB) {
        gm_slab_prefetch_notes(pool, index & ~GM_START_SLAB);
    }
    if (index & GM_START_SLAB && address >= gm_slab(pool, index & ~GM_START_SLAB)->base) {
        return free_object(pool, index & ~GM_START_SLAB, address, stamp, bytes);
    }
    struct gm_node *node = gm_node(pool, index & GM_START_SLAB ? 0 : index);
    if ((uint64_t)node->start << GM_UNIT_SHIFT != offset || node->state != GM_NODE_LIVE) {
        return free_behind(pool, range, address, stamp, bytes);
    }
    *bytes = ((uint64_t)node->size << GM_UNIT_SHIFT) - node->slack;
    count_free_node(pool, node);
    if (owed) {
        node->state = GM_NODE_PENDING;
        node->link_next = pool->sync_pending;
        pool->sync_pending = index;
        pool->sync_freed++;
        pool->sync_pending_bytes += (uint64_t)node->size << GM_UNIT_SHIFT;
        return 0;
    }
    if (index == pool->newest && may_keep(pool, node)) {
        node->state = GM_NODE_KEPT;
        pool->kept_stamp = stamp;
        return 0;
    }
    gm_range_release(pool, index, stamp);
    return 0;
}

/* Frees in the order of @stream. */
static int free_on_stream(struct gm_pool *pool, CUdeviceptr address, uint32_t stream, uint64_t *bytes)
{
    pool->sequence++;
    int rc = free_locked(pool, address, gm_stream_stamp_now(pool, stream), false, bytes);
    if (rc == 0) {
        gm_stream_note_free(pool, stream);
    }
    return rc;
}

/* Where streams cannot be told apart any more, or any may have used it, a synchronisation of the context will do. */
static __attribute__((noinline)) int free_on_any(struct gm_pool *pool, CUdeviceptr address, uint64_t *bytes)
{
    pool->sequence++;
    return free_locked(pool, address, gm_stream_stamp_now(pool, GM_STREAM_ANY), true, bytes);
}

/* A free that is no plain one: on another stream than the last, or while a trace is on. */
static int __attribute__((noinline))
free_watched(struct gm_pool *pool, CUdeviceptr address, CUstream handle, uint64_t *bytes)
{
    uint32_t stream;
    bool known = another_stream(pool, gm_stream_normalised(handle), &stream) == 0;
    int rc = known ? free_on_stream(pool, address, stream, bytes) : free_on_any(pool, address, bytes);
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_FREE, address, 0, handle);
    }
    return rc;
}

int gm_pool_free(struct gm_pool *pool, CUdeviceptr address, CUstream handle, uint64_t *bytes)
{
    gm_lock_take(&pool->lock);
    int rc = gm_stream_is_plain(pool, gm_stream_normalised(handle))
                 ? free_on_stream(pool, address, pool->last_stream, bytes)
                 : free_watched(pool, address, handle, bytes);
    gm_lock_drop(&pool->lock);
    return rc;
}

int gm_pool_free_sync(struct gm_pool *pool, CUdeviceptr address, uint64_t *bytes)
{
    gm_lock_take(&pool->lock);
    int rc = free_on_any(pool, address, bytes);
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_FREE_SYNC, address, 0, NULL);
    }
    gm_lock_drop(&pool->lock);
    return rc;
}

void gm_pool_watch(struct gm_pool *pool)
{
    gm_pool_enter(pool);
    gm_stream_watch(pool);
    gm_lock_drop(&pool->lock);
}

int gm_pool_init(struct gm_pool *pool, const struct gm_cu *cu, int device)
{
    int rc = gm_vmm_init(&pool->vmm, cu, device);
    if (rc < 0) {
        return rc;
    }
    CUresult code = cu->ctx_get_current(&pool->context);
    if (code != CUDA_SUCCESS || pool->context == NULL) {
        return -EINVAL;
    }
    rc = gm_stream_init(pool);
    if (rc < 0) {
        return rc;
    }
    rc = gm_array_reserve(&pool->nodes, 1, sizeof(struct gm_node));
    if (rc < 0) {
        gm_stream_finish(pool);
        return rc;
    }
    pool->nodes.count = 1; /* node 0 is none: tables of starts begin as zeroes */
    gm_lock_init(&pool->lock, GM_RANK_POOL);
    pool->node_free = GM_NONE;
    pool->chunk_free = GM_NONE;
    pool->sync_pending = GM_NONE;
    pool->begun_ns = cu->now_ns();
    pool->cut_tokens_at_ns = pool->begun_ns;
    gm_slab_init(pool);
    return 0;
}

struct gm_pool *gm_pool_owner(CUdeviceptr address)
{
    uint32_t range;
    return gm_range_owner(address, &range);
}
