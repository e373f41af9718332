/*
 * slab.c - see slab.h.
 */
#include "slab.h"

#include "access.h"
#include "range.h"
#include "stream.h"

#include <errno.h>
#include <string.h>

/* Sizes: every 512 bytes up to 8 KiB, then every 1 KiB up to 16 KiB: at most an eighth of an object is lost. */
uint32_t gm_slab_class(uint32_t units)
{
    return units <= 16 ? units - 1 : 16 + (units - 17) / 2;
}

uint32_t gm_slab_class_units(uint32_t size_class)
{
    return size_class < 16 ? size_class + 1 : 18 + (size_class - 16) * 2;
}

void gm_slab_init(struct gm_pool *pool)
{
    memset(pool->slab_lists, 0xff, sizeof pool->slab_lists);
    pool->slab_free = GM_NONE;
}

static void list_add(struct gm_pool *pool, uint32_t index)
{
    struct gm_slab *slab = gm_slab(pool, index);
    uint32_t *head = &pool->slab_lists[slab->size_class][slab->stream];
    slab->prev = GM_NONE;
    slab->next = *head;
    if (*head != GM_NONE) {
        gm_slab(pool, *head)->prev = index;
    }
    *head = index;
    slab->listed = true;
}

static void list_remove(struct gm_pool *pool, struct gm_slab *slab)
{
    if (slab->prev != GM_NONE) {
        gm_slab(pool, slab->prev)->next = slab->next;
    } else {
        pool->slab_lists[slab->size_class][slab->stream] = slab->next;
    }
    if (slab->next != GM_NONE) {
        gm_slab(pool, slab->next)->prev = slab->prev;
    }
    slab->listed = false;
}

bool gm_slab_take(struct gm_pool *pool, uint32_t size_class, uint32_t stream, size_t bytes, CUdeviceptr *out)
{
    uint32_t index = pool->slab_lists[size_class][stream];
    if (index == GM_NONE) {
        return false;
    }
    struct gm_slab *slab = gm_slab(pool, index);
    uint32_t object = (uint32_t)__builtin_ctzll(slab->free);
    slab->free &= slab->free - 1;
    if (slab->free == 0) {
        list_remove(pool, slab);
    }
    slab->slack[object] = (uint16_t)(slab->object_units * GM_UNIT_SIZE - bytes);
    *out = slab->base + (CUdeviceptr)object * slab->object_units * GM_UNIT_SIZE;
    return true;
}

static int take_entry(struct gm_pool *pool, uint32_t *out)
{
    if (pool->slab_free != GM_NONE) {
        *out = pool->slab_free;
        pool->slab_free = gm_slab(pool, *out)->next;
        return 0;
    }
    int rc = gm_array_reserve(&pool->slabs, pool->slabs.count + 1, sizeof(struct gm_slab));
    if (rc == 0) {
        *out = pool->slabs.count++;
    }
    return rc;
}

/* Lets a look-up of any object find the slab at once, where no other node begins. */
static void fill_starts(struct gm_range *range, uint32_t start, uint32_t units, uint32_t from, uint32_t to)
{
    uint32_t last = (start + units - 1) >> range->start_shift;
    for (uint32_t granule = (start >> range->start_shift) + 1; granule <= last; granule++) {
        if (range->node_at[granule] == from) {
            range->node_at[granule] = to;
        }
    }
}

int gm_slab_add(struct gm_pool *pool, uint32_t node_index, uint32_t size_class, uint32_t stream)
{
    uint32_t index = GM_NONE;
    int rc = take_entry(pool, &index);
    if (rc < 0) {
        return rc;
    }
    struct gm_node *node = gm_node(pool, node_index);
    struct gm_range *range = gm_range(pool, node->range);
    struct gm_slab *slab = gm_slab(pool, index);
    memset(slab, 0, sizeof *slab);
    slab->free = UINT64_MAX;
    slab->node = node_index;
    slab->base = range->base + node->start * GM_UNIT_SIZE;
    slab->object_units = (uint16_t)gm_slab_class_units(size_class);
    slab->size_class = (uint8_t)size_class;
    slab->stream = (uint8_t)stream;
    node->state = GM_NODE_SLAB;
    node->slab = index;
    fill_starts(range, node->start, node->size, 0, node_index);
    list_add(pool, index);
    return 0;
}

/* The number of the live object whose bytes include @offset of the range; -1: none. */
static int object_at(const struct gm_slab *slab, const struct gm_node *node, uint64_t offset)
{
    uint64_t object = (offset - node->start * GM_UNIT_SIZE) / (slab->object_units * GM_UNIT_SIZE);
    return object >= GM_SLAB_OBJECTS || (slab->free >> object & 1) ? -1 : (int)object;
}

static void give_back(struct gm_pool *pool, uint32_t index, uint32_t object)
{
    struct gm_slab *slab = gm_slab(pool, index);
    slab->free |= (uint64_t)1 << object;
    slab->awaiting &= ~((uint64_t)1 << object);
    if (!slab->listed) {
        list_add(pool, index);
    }
}

int gm_slab_free(struct gm_pool *pool, uint32_t node_index, uint64_t offset, uint64_t stamp, uint64_t *bytes)
{
    const struct gm_node *node = gm_node(pool, node_index);
    uint32_t index = node->slab;
    struct gm_slab *slab = gm_slab(pool, index);
    int object = object_at(slab, node, offset);
    uint64_t size = slab->object_units * GM_UNIT_SIZE;
    if (object < 0 || (slab->awaiting >> object & 1) || (offset - node->start * GM_UNIT_SIZE) % size != 0) {
        return -EINVAL;
    }
    if (stamp >> GM_STAMP_SHIFT != slab->stream) {
        int rc = gm_array_reserve(&pool->slab_pending, pool->slab_pending.count + 1, sizeof(struct gm_slab_pending));
        if (rc < 0) {
            return rc;
        }
        struct gm_slab_pending *pending = pool->slab_pending.data;
        pending[pool->slab_pending.count++] =
            (struct gm_slab_pending){.stamp = stamp, .slab = index, .object = (uint32_t)object};
        slab->awaiting |= (uint64_t)1 << object;
        pool->sync_pending_bytes += stamp >> GM_STAMP_SHIFT == GM_STREAM_ANY ? size : 0;
    } else {
        give_back(pool, index, (uint32_t)object);
    }
    *bytes = size - slab->slack[object];
    return 0;
}

bool gm_slab_find(const struct gm_pool *pool, uint32_t node_index, uint32_t at, uint32_t *start, uint64_t *bytes)
{
    const struct gm_node *node = gm_node(pool, node_index);
    const struct gm_slab *slab = gm_slab(pool, node->slab);
    int object = object_at(slab, node, at * GM_UNIT_SIZE);
    if (object < 0 || (slab->awaiting >> object & 1)) {
        return false;
    }
    *start = node->start + (uint32_t)object * slab->object_units;
    *bytes = slab->object_units * GM_UNIT_SIZE - slab->slack[object];
    return true;
}

void gm_slab_collect(struct gm_pool *pool)
{
    struct gm_slab_pending *pending = pool->slab_pending.data;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pool->slab_pending.count; i++) {
        const struct gm_slab *slab = gm_slab(pool, pending[i].slab);
        if (gm_stream_sees(pool, pending[i].stamp, slab->stream)) {
            bool owed = pending[i].stamp >> GM_STAMP_SHIFT == GM_STREAM_ANY;
            pool->sync_pending_bytes -= owed ? slab->object_units * GM_UNIT_SIZE : 0;
            give_back(pool, pending[i].slab, pending[i].object);
        } else {
            pending[kept++] = pending[i];
        }
    }
    pool->slab_pending.count = kept;
}

static void release(struct gm_pool *pool, uint32_t index)
{
    struct gm_slab *slab = gm_slab(pool, index);
    uint32_t node_index = slab->node;
    struct gm_node *node = gm_node(pool, node_index);
    /* Objects may have come back through waits on the GPU: what its own stream has freed is not all that is pending. */
    uint32_t who = pool->stream_count > 1 ? GM_STREAM_MIXED : slab->stream;
    uint64_t stamp = gm_stream_stamp_now(pool, who);
    list_remove(pool, slab);
    fill_starts(gm_range(pool, node->range), node->start, node->size, node_index, 0);
    slab->node = GM_NONE;
    slab->next = pool->slab_free;
    pool->slab_free = index;
    gm_range_release(pool, node_index, stamp);
}

bool gm_slab_release_empty(struct gm_pool *pool)
{
    bool released = false;
    gm_slab_collect(pool);
    for (uint32_t i = 0; i < pool->slabs.count; i++) {
        if (gm_slab(pool, i)->node != GM_NONE && gm_slab(pool, i)->free == UINT64_MAX) {
            release(pool, i);
            released = true;
        }
    }
    return released;
}
