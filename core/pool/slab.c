/*
 * slab.c - see slab.h.
 */
#include "slab.h"

#include "access.h"
#include "range.h"
#include "stream.h"

#include <errno.h>
#include <string.h>

/*
 * Sizes: every 512 bytes up to 8 KiB, then eight to each doubling, up to 64 KiB: at most an eighth of an object is
 * lost.
 */
#define INVERSE_SHIFT 20u
/* From this class on, above 16 KiB, a slab has half the objects, eight classes on a quarter: it stays within 1 MiB. */
#define FIRST_HALVED 24u
#define SIZE(units)                                                                                                    \
    {                                                                                                                  \
        (units) << GM_UNIT_SHIFT, ((1u << INVERSE_SHIFT) + (units)-1) / (units)                                        \
    }

static const struct {
    uint32_t object;  /* bytes */
    uint32_t inverse; /* of its units, rounded up, times 1 << INVERSE_SHIFT */
} sizes[GM_SLAB_CLASSES] = {
    SIZE(1),  SIZE(2),  SIZE(3),  SIZE(4),  SIZE(5),  SIZE(6),  SIZE(7),   SIZE(8),   SIZE(9),   SIZE(10),
    SIZE(11), SIZE(12), SIZE(13), SIZE(14), SIZE(15), SIZE(16), SIZE(18),  SIZE(20),  SIZE(22),  SIZE(24),
    SIZE(26), SIZE(28), SIZE(30), SIZE(32), SIZE(36), SIZE(40), SIZE(44),  SIZE(48),  SIZE(52),  SIZE(56),
    SIZE(60), SIZE(64), SIZE(72), SIZE(80), SIZE(88), SIZE(96), SIZE(104), SIZE(112), SIZE(120), SIZE(128),
};

uint32_t gm_slab_class(uint32_t units)
{
    if (units <= 16) {
        return units - 1;
    }
    uint32_t step_shift = 28 - (uint32_t)__builtin_clz(units - 1); /* of an eighth of the power of two below */
    return 8 * step_shift + ((units - 1) >> step_shift);
}

uint32_t gm_slab_class_units(uint32_t size_class)
{
    return sizes[size_class].object >> GM_UNIT_SHIFT;
}

uint32_t gm_slab_class_objects(uint32_t size_class)
{
    return size_class < FIRST_HALVED ? GM_SLAB_OBJECTS : GM_SLAB_OBJECTS >> (1 + (size_class - FIRST_HALVED) / 8);
}

/* What an empty slab of @size_class has for its free objects. */
static uint64_t all_free(uint32_t size_class)
{
    return UINT64_MAX >> (64 - gm_slab_class_objects(size_class));
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
}

static inline void set_note(struct gm_pool *pool, uint32_t index, uint32_t object, uint32_t note)
{
    struct gm_slab *slab = gm_slab(pool, index);
    if (note == 0 && !slab->noted) {
        return;
    }
    struct gm_slab_notes *notes = (struct gm_slab_notes *)pool->slab_notes.data + index;
    if (!slab->noted) {
        memset(notes, 0, sizeof *notes);
        slab->noted = true;
    }
    notes->of[object] = (uint16_t)note;
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
    uint32_t size = sizes[size_class].object;
    set_note(pool, index, object, size - (uint32_t)bytes);
    *out = slab->base + (CUdeviceptr)object * size;
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
        rc = gm_array_reserve(&pool->slab_notes, pool->slabs.count + 1, sizeof(struct gm_slab_notes));
    }
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
        if (range->starts[granule] == from) {
            range->starts[granule] = to;
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
    slab->free = all_free(size_class);
    slab->node = node_index;
    slab->base = range->base + node->start * GM_UNIT_SIZE;
    slab->size_class = (uint8_t)size_class;
    slab->stream = (uint8_t)stream;
    node->state = GM_NODE_SLAB;
    node->slab = index;
    range->starts[node->start >> range->start_shift] = index | GM_START_SLAB;
    fill_starts(range, node->start, node->size, 0, index | GM_START_SLAB);
    list_add(pool, index);
    return 0;
}

bool gm_slab_find(const struct gm_pool *pool, uint32_t index, CUdeviceptr address, uint32_t *out)
{
    const struct gm_slab *slab = gm_slab(pool, index);
    uint64_t offset = address - slab->base;
    if (offset >= (uint64_t)sizes[slab->size_class].object * gm_slab_class_objects(slab->size_class)) {
        return false;
    }
    /* Exact: an offset is below 2^11 units, the inverse times its units at most 2^7 too large. */
    *out = ((uint32_t)(offset >> GM_UNIT_SHIFT) * sizes[slab->size_class].inverse) >> INVERSE_SHIFT;
    return (slab->free >> *out & 1) == 0 && (gm_slab_note(pool, index, *out) & GM_NOTE_AWAITING) == 0;
}

uint32_t gm_slab_bytes(const struct gm_pool *pool, uint32_t index, uint32_t object)
{
    return sizes[gm_slab(pool, index)->size_class].object - (gm_slab_note(pool, index, object) & GM_NOTE_SLACK);
}

uint32_t gm_slab_object_size(const struct gm_slab *slab)
{
    return sizes[slab->size_class].object;
}

static void give_back(struct gm_pool *pool, uint32_t index, uint32_t object)
{
    struct gm_slab *slab = gm_slab(pool, index);
    uint64_t before = slab->free;
    slab->free = before | (uint64_t)1 << object;
    if (before == 0) {
        list_add(pool, index);
    }
}

int gm_slab_free(struct gm_pool *pool, uint32_t index, CUdeviceptr address, uint64_t stamp, uint64_t *bytes)
{
    struct gm_slab *slab = gm_slab(pool, index);
    uint32_t object;
    uint64_t size = sizes[slab->size_class].object;
    if (!gm_slab_find(pool, index, address, &object) || address != slab->base + object * size) {
        return -EINVAL;
    }
    if (stamp >> GM_STAMP_SHIFT != slab->stream) {
        int rc = gm_array_reserve(&pool->slab_pending, pool->slab_pending.count + 1, sizeof(struct gm_slab_pending));
        if (rc < 0) {
            return rc;
        }
        struct gm_slab_pending *pending = pool->slab_pending.data;
        pending[pool->slab_pending.count++] = (struct gm_slab_pending){.stamp = stamp, .slab = index, .object = object};
        *bytes = gm_slab_bytes(pool, index, object);
        set_note(pool, index, object, gm_slab_note(pool, index, object) | GM_NOTE_AWAITING);
        pool->sync_pending_bytes += stamp >> GM_STAMP_SHIFT == GM_STREAM_ANY ? size : 0;
    } else {
        *bytes = gm_slab_bytes(pool, index, object);
        give_back(pool, index, object);
    }
    return 0;
}

void gm_slab_collect(struct gm_pool *pool)
{
    struct gm_slab_pending *pending = pool->slab_pending.data;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pool->slab_pending.count; i++) {
        const struct gm_slab *slab = gm_slab(pool, pending[i].slab);
        if (gm_stream_sees(pool, pending[i].stamp, slab->stream)) {
            bool owed = pending[i].stamp >> GM_STAMP_SHIFT == GM_STREAM_ANY;
            pool->sync_pending_bytes -= owed ? sizes[slab->size_class].object : 0;
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
    fill_starts(gm_range(pool, node->range), node->start, node->size, index | GM_START_SLAB, 0);
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
        const struct gm_slab *slab = gm_slab(pool, i);
        if (slab->node != GM_NONE && slab->free == all_free(slab->size_class)) {
            release(pool, i);
            released = true;
        }
    }
    return released;
}
