/*
 * index.c - see index.h.
 */
#include "index.h"

#include "access.h"
#include "table.h"

#include <errno.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Bounds are looked at so many at a time; their arrays are multiples of that. */
#define LANES 16u

/* With those that are there to fill the array up, and stay 0. */
static uint32_t groups_of(const struct gm_range *range)
{
    return (range->granules / GM_GRANULE_FANOUT + LANES - 1) / LANES * LANES;
}

int gm_index_init(struct gm_range *range)
{
    uint32_t units = range->pages * GM_PAGE_UNITS;
    uint32_t granules = ((units - 1) >> range->granule_shift) + 1;
    range->granules = (granules + GM_GRANULE_FANOUT - 1) / GM_GRANULE_FANOUT * GM_GRANULE_FANOUT;
    range->granule_head = gm_table_take(range->granules * sizeof *range->granule_head);
    range->granule_bound = gm_table_take(range->granules * sizeof *range->granule_bound);
    range->group_bound = gm_table_take(groups_of(range) * sizeof *range->group_bound);
    if (range->granule_head == NULL || range->granule_bound == NULL || range->group_bound == NULL) {
        gm_index_finish(range);
        return -ENOMEM;
    }
    return 0;
}

void gm_index_finish(struct gm_range *range)
{
    gm_table_give(range->granule_head, range->granules * sizeof *range->granule_head);
    gm_table_give(range->granule_bound, range->granules * sizeof *range->granule_bound);
    gm_table_give(range->group_bound, groups_of(range) * sizeof *range->group_bound);
    range->granule_head = NULL;
    range->granule_bound = NULL;
    range->group_bound = NULL;
}

static uint32_t granule_of(const struct gm_range *range, const struct gm_node *gap)
{
    return (gap->start + gap->size - 1) >> range->granule_shift;
}

static void raise_bounds(struct gm_range *range, uint32_t granule, uint32_t bound)
{
    int32_t value = (int32_t)bound;
    if (value > range->granule_bound[granule]) {
        range->granule_bound[granule] = value;
        int32_t *group = &range->group_bound[granule / GM_GRANULE_FANOUT];
        if (value > *group) {
            *group = value;
            range->bound = gm_max(range->bound, bound);
        }
    }
}

/* Keeps what the last search found true while @gap comes, or its bound or start changes. */
static void note_gap(struct gm_range *range, uint32_t node, const struct gm_node *gap)
{
    if (node == range->fit_gap || (gap->start <= range->fit_start && gap->bound >= range->fit_units)) {
        range->fit_start = gap->start;
        range->fit_gap = node;
    }
}

void gm_index_raise(struct gm_pool *pool, struct gm_range *range, uint32_t node)
{
    const struct gm_node *gap = gm_node(pool, node);
    note_gap(range, node, gap);
    raise_bounds(range, granule_of(range, gap), gap->bound);
}

void gm_index_insert(struct gm_pool *pool, struct gm_range *range, uint32_t node)
{
    struct gm_node *gap = gm_node(pool, node);
    uint32_t granule = granule_of(range, gap);
    uint32_t head = range->granule_head[granule];
    gap->link_prev = 0;
    gap->link_next = head;
    if (head != 0) {
        gm_node(pool, head)->link_prev = node;
    }
    range->granule_head[granule] = node;
    note_gap(range, node, gap);
    raise_bounds(range, granule, gap->bound);
}

void gm_index_remove(struct gm_pool *pool, struct gm_range *range, uint32_t node)
{
    struct gm_node *gap = gm_node(pool, node);
    if (node == range->fit_gap) {
        range->fit_gap = GM_NONE;
    }
    if (gap->link_prev != 0) {
        gm_node(pool, gap->link_prev)->link_next = gap->link_next;
    } else {
        range->granule_head[granule_of(range, gap)] = gap->link_next;
    }
    if (gap->link_next != 0) {
        gm_node(pool, gap->link_next)->link_prev = gap->link_prev;
    }
}

#if defined(__SSE2__)
/* SSE2 has no maximum of 32-bit numbers with a sign. */
static inline __m128i lanes_max(__m128i a, __m128i b)
{
    return _mm_xor_si128(a, _mm_and_si128(_mm_xor_si128(a, b), _mm_cmpgt_epi32(b, a)));
}
#endif

/* The largest of @count bounds, a multiple of LANES. */
static int32_t largest_of(const int32_t *bounds, uint32_t count)
{
#if defined(__SSE2__)
    const __m128i *four = (const __m128i *)(const void *)bounds;
    __m128i even = _mm_setzero_si128();
    __m128i odd = even;
    for (const __m128i *past = four + count / 4; four < past; four += 2) {
        even = lanes_max(even, _mm_loadu_si128(four));
        odd = lanes_max(odd, _mm_loadu_si128(four + 1));
    }
    even = lanes_max(even, odd);
    even = lanes_max(even, _mm_shuffle_epi32(even, _MM_SHUFFLE(1, 0, 3, 2)));
    even = lanes_max(even, _mm_shuffle_epi32(even, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(even);
#else
    int32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        largest = bounds[i] > largest ? bounds[i] : largest;
    }
    return largest;
#endif
}

/* Bit i says whether bounds[i] is at least @units, for LANES of them. */
static inline uint32_t lanes_at_least(const int32_t *bounds, int32_t units)
{
#if defined(__SSE2__)
    const __m128i *four = (const __m128i *)(const void *)bounds;
    __m128i below = _mm_set1_epi32(units - 1);
    __m128i low = _mm_packs_epi32(_mm_cmpgt_epi32(_mm_loadu_si128(four), below),
                                  _mm_cmpgt_epi32(_mm_loadu_si128(four + 1), below));
    __m128i high = _mm_packs_epi32(_mm_cmpgt_epi32(_mm_loadu_si128(four + 2), below),
                                   _mm_cmpgt_epi32(_mm_loadu_si128(four + 3), below));
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        lanes |= (uint32_t)(bounds[i] >= units) << i;
    }
    return lanes;
#endif
}

/* Bit i says whether bounds[i] is at least @units, for the granules of a group: one branch less than to look for it. */
static inline uint64_t group_at_least(const int32_t *bounds, int32_t units)
{
    uint64_t granules = 0;
    for (uint32_t i = 0; i < GM_GRANULE_FANOUT; i += LANES) {
        granules |= (uint64_t)lanes_at_least(bounds + i, units) << i;
    }
    return granules;
}
_Static_assert(GM_GRANULE_FANOUT <= 64, "a bit each");

/* The first index in [from, count) whose bound is at least @units; @count, a multiple of LANES, if none. */
static inline uint32_t first_at_least(const int32_t *bounds, uint32_t from, uint32_t count, int32_t units)
{
    uint32_t lanes = UINT32_MAX << from % LANES;
    for (uint32_t i = from / LANES * LANES; i < count; i += LANES) {
        lanes &= lanes_at_least(bounds + i, units);
        if (lanes != 0) {
            return i + (uint32_t)__builtin_ctz(lanes);
        }
        lanes = UINT32_MAX;
    }
    return count;
}

/* The lowest gap at or after @from in the list of @granule with a bound of at least @units. */
static uint32_t search_granule(struct gm_pool *pool, const struct gm_range *range, uint32_t granule, uint32_t units,
                               uint32_t from, int32_t *largest)
{
    uint32_t best = GM_NONE;
    uint32_t best_start = UINT32_MAX;
    uint32_t bound = 0;
    for (uint32_t i = range->granule_head[granule]; i != 0; i = gm_node(pool, i)->link_next) {
        const struct gm_node *gap = gm_node(pool, i);
        bound = gm_max(bound, gap->bound);
        if (gap->bound >= units && gap->start >= from && gap->start < best_start) {
            best = i;
            best_start = gap->start;
        }
    }
    *largest = (int32_t)bound;
    return best;
}

void gm_index_settle(struct gm_range *range)
{
    range->bound = (uint32_t)largest_of(range->group_bound, groups_of(range));
}

/* Searches the granules of @group from @granule on. */
static uint32_t search_group(struct gm_pool *pool, struct gm_range *range, uint32_t group, uint32_t granule,
                             uint32_t units, uint32_t from)
{
    int32_t *bounds = range->granule_bound + (size_t)group * GM_GRANULE_FANOUT;
    uint64_t left = group_at_least(bounds, (int32_t)units) & UINT64_MAX << granule % GM_GRANULE_FANOUT;
    for (; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        int32_t largest;
        uint32_t node = search_granule(pool, range, group * GM_GRANULE_FANOUT + i, units, from, &largest);
        if (node != GM_NONE) {
            return node;
        }
        bounds[i] = largest;
    }
    range->group_bound[group] = largest_of(bounds, GM_GRANULE_FANOUT);
    return GM_NONE;
}

uint32_t gm_index_find(struct gm_pool *pool, struct gm_range *range, uint32_t units, uint32_t from)
{
    uint32_t granule = from >> range->granule_shift;
    uint32_t group = granule / GM_GRANULE_FANOUT;
    uint32_t groups = groups_of(range);
    for (;;) {
        group = first_at_least(range->group_bound, group, groups, (int32_t)units);
        if (group == groups) {
            return GM_NONE;
        }
        uint32_t node = search_group(pool, range, group, gm_max(granule, group * GM_GRANULE_FANOUT), units, from);
        if (node != GM_NONE) {
            return node;
        }
        group++;
    }
}

uint32_t gm_index_after(struct gm_pool *pool, const struct gm_range *range, uint32_t at)
{
    /* Lists with something in them are found like bounds: their heads are above 0, and no index has the sign's bit. */
    const int32_t *heads = (const int32_t *)range->granule_head;
    for (uint32_t granule = at >> range->granule_shift;; granule++) {
        granule = first_at_least(heads, granule, range->granules, 1);
        if (granule >= range->granules) {
            return GM_NONE;
        }
        uint32_t best = GM_NONE;
        for (uint32_t i = range->granule_head[granule]; i != 0; i = gm_node(pool, i)->link_next) {
            const struct gm_node *gap = gm_node(pool, i);
            if (gap->start + gap->size > at && (best == GM_NONE || gap->start < gm_node(pool, best)->start)) {
                best = i;
            }
        }
        if (best != GM_NONE) {
            return best;
        }
    }
}
