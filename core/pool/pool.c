/*
 * pool.c - allocation and free. The hot path starts here: gm_pool_alloc() and gm_pool_free().
 */
#include "pool.h"

#include "access.h"
#include "cut.h"
#include "index.h"
#include "limit.h"
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
static bool search_range(struct gm_pool *pool, uint32_t index, const struct gm_request *request, uint32_t *gap,
                         uint32_t *start)
{
    struct gm_range *range = gm_range(pool, index);
    if (range->dirty.count != 0) {
        gm_walk_refresh(pool, range);
    }
    uint32_t from = 0;
    while (range->bound >= request->units) {
        uint32_t node = gm_index_find(pool, range, request->units, from);
        if (node == GM_NONE) {
            gm_index_settle(range);
            return false;
        }
        if (gm_walk_fit(pool, node, request->units, request->stream, start)) {
            *gap = node;
            return true;
        }
        if (pool->walk_left == 0) {
            return false;
        }
        from = gm_node(pool, node)->start + 1;
    }
    return false;
}

/* The first place by range and address that holds the request without driver work. */
static bool search(struct gm_pool *pool, const struct gm_request *request, uint32_t walk_most, uint32_t *gap,
                   uint32_t *start)
{
    const struct gm_array *members = &pool->class_ranges[request->class];
    const uint32_t *ranges = members->data;
    pool->walk_left = walk_most;
    for (uint32_t i = 0; i < members->count; i++) {
        if (search_range(pool, ranges[i], request, gap, start)) {
            return true;
        }
        if (pool->walk_left == 0) {
            return false;
        }
    }
    return false;
}

/* Units to take at @start of @gap: more than asked for if the rest would be smaller than split_min. */
static uint32_t units_to_take(struct gm_pool *pool, const struct gm_request *request, uint32_t gap, uint32_t start)
{
    uint64_t split_min = gm_tunable(GMLAKE_TUNABLE_split_min);
    if (split_min <= GM_UNIT_SIZE || request->for_slab) {
        return request->units;
    }
    split_min = split_min < UINT32_MAX ? split_min : UINT32_MAX; /* a node's slack is 32 bits */
    const struct gm_node *node = gm_node(pool, gap);
    uint32_t all = node->start + node->size - start;
    uint32_t at;
    bool whole = all > request->units && (uint64_t)(all - request->units) << GM_UNIT_SHIFT < split_min &&
                 gm_walk_fit(pool, gap, all, request->stream, &at) && at == start;
    return whole ? all : request->units;
}

/* The index of a stream, making room in the table of streams where all are taken. The lock may be dropped for it. */
static int stream_index(struct gm_pool *pool, CUstream handle, uint32_t *out)
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

/* Finds a place for @request, whatever it takes. The lock may have been dropped and taken again. */
static int find_place(struct gm_pool *pool, struct gm_request *request, enum gm_step *step, uint32_t *gap,
                      uint32_t *start)
{
    while (!search(pool, request, *step > GM_STEP_DRAIN ? UINT32_MAX : WALK_MOST, gap, start)) {
        int rc = gm_limit_step(pool, request, step, gap, start);
        if (rc != 0 && rc != -EAGAIN) {
            return rc;
        }
        /* The lock may have been dropped: other threads' streams came, and ours may have been forgotten. */
        if (gm_stream_find(pool, request->handle, &request->stream) == 0) {
            if (rc == 0) {
                break;
            }
            continue;
        }
        rc = stream_index(pool, request->handle, &request->stream);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Cuts the chunk under the block's end where that is worth it; false: part of the place is lost, find another. */
static bool is_whole_after_cut(struct gm_pool *pool, const struct gm_request *request, uint32_t gap, uint32_t start)
{
    return request->class == GM_CLASS_SMALL || !gm_cut_is_possible(pool) ||
           gm_stitch_cut_at_end(pool, gap, start, request->units);
}

/* Makes a live node for @request. */
static int make_node(struct gm_pool *pool, struct gm_request *request, uint32_t *out)
{
    enum gm_step step = GM_STEP_SYNC;
    uint32_t gap;
    uint32_t start;
    int rc;
    do {
        rc = find_place(pool, request, &step, &gap, &start);
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
static struct gm_request request_for(const struct gm_pool *pool, uint32_t units, size_t bytes)
{
    return (struct gm_request){.units = units,
                               .stream = pool->last_stream,
                               .handle = pool->streams[pool->last_stream].handle,
                               .class = gm_class_of(units),
                               .may_stitch = bytes >= gm_tunable(GMLAKE_TUNABLE_stitch_min),
                               .limit_pages = UINT64_MAX};
}

static int alloc_block(struct gm_pool *pool, size_t bytes, CUdeviceptr *out)
{
    /* No smaller than a start granule of the small class: what slabs serve comes here when no slab fits any more. */
    uint32_t units = units_of(bytes);
    uint32_t least = GM_SLAB_MAX >> GM_UNIT_SHIFT;
    struct gm_request request = request_for(pool, units < least ? least : units, bytes);
    uint32_t index;
    int rc = make_node(pool, &request, &index);
    if (rc < 0) {
        return rc;
    }
    struct gm_node *node = gm_node(pool, index);
    uint64_t size = (uint64_t)node->size << GM_UNIT_SHIFT;
    node->slack = (uint32_t)(size - bytes);
    pool->counts.allocated += size;
    if (node->stitched) {
        pool->counts.stitched_blocks++;
        pool->counts.stitched_bytes += size;
    }
    *out = gm_range(pool, node->range)->base + ((CUdeviceptr)node->start << GM_UNIT_SHIFT);
    return 0;
}

/* Makes a slab of the class on the stream used last. */
static int make_slab(struct gm_pool *pool, uint32_t size_class, size_t bytes)
{
    struct gm_request request = request_for(pool, gm_slab_class_units(size_class) * GM_SLAB_OBJECTS, bytes);
    request.class = GM_CLASS_SMALL;
    request.for_slab = true;
    uint32_t node;
    int rc = make_node(pool, &request, &node);
    if (rc < 0) {
        return rc;
    }
    rc = gm_slab_add(pool, node, size_class, request.stream);
    if (rc < 0) {
        gm_range_release(pool, node, 0);
    }
    return rc;
}

static int alloc_object(struct gm_pool *pool, size_t bytes, CUdeviceptr *out)
{
    uint32_t size_class = gm_slab_class(units_of(bytes));
    uint32_t stream = pool->last_stream;
    CUstream handle = pool->streams[stream].handle;
    bool taken = gm_slab_take(pool, size_class, stream, bytes, out);
    if (!taken) {
        gm_slab_collect(pool);
        taken = gm_slab_take(pool, size_class, stream, bytes, out);
    }
    while (!taken) {
        int rc = make_slab(pool, size_class, bytes);
        if (gm_stream_find(pool, handle, &stream) < 0) {
            return -ENOMEM;
        }
        /* After a failure as well: objects may have come back while it was waited for memory. */
        taken = gm_slab_take(pool, size_class, stream, bytes, out);
        if (!taken && rc < 0) {
            return rc;
        }
    }
    pool->counts.allocated += (uint64_t)gm_slab_class_units(size_class) << GM_UNIT_SHIFT;
    return 0;
}

static int alloc_locked(struct gm_pool *pool, size_t bytes, CUstream handle, CUdeviceptr *out)
{
    uint32_t stream;
    int rc = stream_index(pool, handle, &stream);
    if (rc < 0) {
        return rc;
    }
    struct gm_pool_counts *counts = &pool->counts;
    uint64_t peak = counts->requested_peak;
    pool->sequence++;
    pool->served_bytes += bytes;
    /* The request counts as live while it is planned for: the bound on growth includes it. */
    pool->underway_bytes += bytes;
    counts->requested += bytes;
    counts->requested_peak = counts->requested > peak ? counts->requested : peak;
    uint64_t raised = counts->requested_peak;
    if (__builtin_expect(gm_limit_is_exceeded(pool), 0)) {
        gm_limit_relieve(pool);
    }
    rc = bytes <= GM_SLAB_MAX ? alloc_object(pool, bytes, out) : -ENOMEM;
    if (rc == -ENOMEM) {
        rc = alloc_block(pool, bytes, out);
    }
    pool->underway_bytes -= bytes;
    if (rc < 0) {
        counts->requested -= bytes;
        if (counts->requested_peak == raised) { /* no other thread has raised it meanwhile */
            counts->requested_peak = counts->requested > peak ? counts->requested : peak;
        }
        counts->oom += rc == -ENOMEM;
        return rc;
    }
    counts->blocks++;
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

int gm_pool_alloc(struct gm_pool *pool, size_t bytes, CUstream stream, CUdeviceptr *out)
{
    gm_lock_take(&pool->lock);
    int rc = -ENOMEM;
    if (bytes <= pool->vmm.capacity && bytes <= GM_BLOCK_MAX) {
        rc = alloc_locked(pool, bytes, gm_stream_normalised(stream), out);
    } else {
        pool->counts.oom++;
    }
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_ALLOC, *out, bytes, stream);
    }
    gm_lock_drop(&pool->lock);
    return rc;
}

/* Keeps the books of a block or object that is no longer the caller's. */
static void count_free(struct gm_pool *pool, uint64_t bytes, uint64_t size)
{
    pool->counts.requested -= bytes;
    pool->counts.allocated -= size;
    pool->counts.blocks--;
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

/* The live or slab node over @address, and where in its range that is. GM_NONE: not a block of this pool. */
static uint32_t node_at(struct gm_pool *pool, CUdeviceptr address, uint64_t *offset)
{
    uint32_t index;
    if (gm_range_owner(address, &index) != pool) {
        return GM_NONE;
    }
    const struct gm_range *range = gm_range(pool, index);
    *offset = address - range->base;
    uint32_t node = gm_range_find(pool, range, (uint32_t)(*offset >> GM_UNIT_SHIFT));
    return node == GM_NONE || gm_node(pool, node)->state == GM_NODE_PENDING ? GM_NONE : node;
}

/*
 * Frees what starts at @address; @stamp says who used it last. With @owed, blocks wait for a synchronisation. *bytes
 * gets what was asked for.
 */
static int free_locked(struct gm_pool *pool, CUdeviceptr address, uint64_t stamp, bool owed, uint64_t *bytes)
{
    uint64_t offset;
    uint32_t index = node_at(pool, address, &offset);
    if (index == GM_NONE) {
        return -EINVAL;
    }
    struct gm_node *node = gm_node(pool, index);
    if (node->state == GM_NODE_SLAB) {
        uint64_t size = (uint64_t)gm_slab(pool, node->slab)->object_units << GM_UNIT_SHIFT;
        int rc = gm_slab_free(pool, index, offset, stamp, bytes);
        if (rc == 0) {
            count_free(pool, *bytes, size);
        }
        return rc;
    }
    if (offset != (uint64_t)node->start << GM_UNIT_SHIFT) {
        return -EINVAL;
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
    gm_range_release(pool, index, stamp);
    return 0;
}

int gm_pool_free(struct gm_pool *pool, CUdeviceptr address, CUstream handle, uint64_t *bytes)
{
    gm_lock_take(&pool->lock);
    uint32_t stream;
    bool known = stream_index(pool, gm_stream_normalised(handle), &stream) == 0;
    pool->sequence++;
    /* Where streams cannot be told apart any more, a synchronisation of the context will do. */
    uint64_t stamp = gm_stream_stamp_now(pool, known ? stream : GM_STREAM_ANY);
    int rc = free_locked(pool, address, stamp, !known, bytes);
    if (rc == 0 && known) {
        gm_stream_note_free(pool, stream);
    }
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_FREE, address, 0, handle);
    }
    gm_lock_drop(&pool->lock);
    return rc;
}

int gm_pool_free_sync(struct gm_pool *pool, CUdeviceptr address, uint64_t *bytes)
{
    gm_lock_take(&pool->lock);
    pool->sequence++;
    int rc = free_locked(pool, address, gm_stream_stamp_now(pool, GM_STREAM_ANY), true, bytes);
    if (GM_RECORDER_IS_ON() && rc == 0) {
        record(pool, GMLAKE_CTL_EVENT_FREE_SYNC, address, 0, NULL);
    }
    gm_lock_drop(&pool->lock);
    return rc;
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
    pool->cut_tokens_at_ns = cu->now_ns();
    gm_slab_init(pool);
    return 0;
}

struct gm_pool *gm_pool_owner(CUdeviceptr address)
{
    uint32_t range;
    return gm_range_owner(address, &range);
}
