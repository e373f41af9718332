/*
 * test_structures.c - the pieces without a driver: sets of pages, classes of sizes, sizes of slabs, the index of gaps,
 * each against a plain model.
 */
#include "gmtest.h"

#include "access.h"
#include "bits.h"
#include "index.h"
#include "range.h"
#include "slab.h"

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#define PAGES 300u

/* The first @count pages in a row, and the most there are before them. */
static void expect_runs(const uint64_t *set, const bool *model, uint32_t from, uint32_t past, uint32_t count)
{
    uint32_t run = 0;
    uint32_t page = from;
    for (; page < past && run < count; page++) {
        run = model[page] ? run + 1 : 0;
    }
    uint32_t first = run == count ? page - count : past;
    uint32_t longest = 0;
    run = 0;
    for (page = from; page < first; page++) {
        run = model[page] ? run + 1 : 0;
        longest = gm_max(longest, run);
    }
    uint32_t found = 0;
    assert_int_equal(gm_bits_find(set, from, past, count, &found), first);
    assert_int_equal(found, longest);
    found = UINT32_MAX;
    gm_bits_find(set, from, past, count, &found);
    assert_int_equal(found, UINT32_MAX);
}

static void test_bits_against_a_model(void **unused)
{
    (void)unused;
    uint64_t set[PAGES / 64 + 2] = {0};
    bool model[PAGES + 64] = {false};
    assert_true(gm_bits_words(PAGES) <= GM_ARRAY_LENGTH(set) + 1);
    for (int i = 0; i < 20000; i++) {
        uint32_t page = (uint32_t)(next_random() % (PAGES - 64));
        uint64_t mask = next_random();
        mask = i % 8 == 0 ? UINT64_MAX : mask & next_random();
        bool missing = false;
        bool add = next_random() % 2 == 0;
        for (uint32_t bit = 0; bit < 64; bit++) {
            if (mask >> bit & 1) {
                missing |= !model[page + bit];
                model[page + bit] = add;
            }
        }
        if (add) {
            assert_int_equal(gm_bits_set(set, page, mask), missing);
        } else {
            gm_bits_clear(set, page, mask);
        }
        uint32_t from = (uint32_t)(next_random() % PAGES);
        uint32_t past = from + (uint32_t)(next_random() % (PAGES - from + 1));
        uint32_t first_in = from;
        uint32_t first_out = from;
        while (first_in < past && !model[first_in]) {
            first_in++;
        }
        while (first_out < past && model[first_out]) {
            first_out++;
        }
        uint32_t start = past;
        while (start > from && model[start - 1]) {
            start--;
        }
        assert_int_equal(gm_bits_next(set, from, past, 0), first_in);
        assert_int_equal(gm_bits_next(set, from, past, UINT64_MAX), first_out);
        assert_int_equal(gm_bits_run_start(set, from, past), start);
        assert_int_equal(gm_bits_has(set, from), model[from]);
        expect_runs(set, model, from, past, 1 + (uint32_t)(next_random() % (i % 2 == 0 ? 6 : 150)));
    }
}

static void test_page_masks(void **unused)
{
    (void)unused;
    for (uint32_t first = 0; first < 64; first++) {
        for (uint32_t last = first; last < 64; last++) {
            uint64_t mask = gm_page_mask(first, last);
            assert_int_equal(__builtin_popcountll(mask), last - first + 1);
            assert_int_equal(__builtin_ctzll(mask), first);
        }
    }
}

static void test_powers(void **unused)
{
    (void)unused;
    assert_int_equal(gm_power_below(0), 0);
    assert_int_equal(gm_power_below(1), 1);
    assert_int_equal(gm_power_below(3), 2);
    assert_int_equal(gm_power_below(UINT64_MAX), (uint64_t)1 << 63);
}

static void test_sizes_of_slabs(void **unused)
{
    (void)unused;
    uint32_t before = 0;
    for (uint32_t units = 1; units <= GM_SLAB_MAX_CROWDED / GM_UNIT_SIZE; units++) {
        uint32_t size_class = gm_slab_class(units);
        uint32_t object = gm_slab_class_units(size_class);
        assert_true(size_class < GM_SLAB_CLASSES);
        assert_true(size_class >= before && size_class <= before + 1);
        assert_true(object >= units && object - units <= units / 8);
        assert_true(gm_slab_class_objects(size_class) <= GM_SLAB_OBJECTS);
        assert_true(gm_slab_class_objects(size_class) * object * GM_UNIT_SIZE <= (uint64_t)1 << 20);
        before = size_class;
    }
    assert_int_equal(before, GM_SLAB_CLASSES - 1);
}

static void test_classes(void **unused)
{
    (void)unused;
    const uint32_t mib = (1u << 20) / GM_UNIT_SIZE;
    assert_int_equal(gm_class_of(1), GM_CLASS_SMALL);
    assert_int_equal(gm_class_of(mib - 1), GM_CLASS_SMALL);
    assert_int_equal(gm_class_of(mib), GM_CLASS_MEDIUM);
    assert_int_equal(gm_class_of(2 * mib), GM_CLASS_MEDIUM_ALIGNED);
    assert_int_equal(gm_class_of(24 * mib - 1), GM_CLASS_MEDIUM);
    assert_int_equal(gm_class_of(24 * mib), GM_CLASS_LARGE_ALIGNED);
    assert_int_equal(gm_class_of(24 * mib + 1), GM_CLASS_LARGE);
}

/* ---- the index: gaps at even places, found by size and address; node 0 is none ---- */

#define GAPS  401u
#define SPACE 4096u /* units of address for each gap */

static struct gm_pool pool;
static struct gm_range range;
static bool listed[GAPS];

static void set_up_index(void)
{
    memset(&pool, 0, sizeof pool);
    memset(&range, 0, sizeof range);
    memset(listed, 0, sizeof listed);
    assert_ok(gm_array_reserve(&pool.nodes, GAPS, sizeof(struct gm_node)));
    range.pages = GAPS * SPACE / GM_PAGE_UNITS;
    range.mapped = range.pages;
    range.granule_shift = 14;
    assert_ok(gm_index_init(&range));
}

static void place_gap(uint32_t i)
{
    struct gm_node *gap = gm_node(&pool, i);
    memset(gap, 0, sizeof *gap);
    gap->start = i * SPACE + (uint32_t)(next_random() % 1000);
    gap->size = 1 + (uint32_t)(next_random() % (SPACE - 1001));
    gap->bound = 1 + (uint32_t)(next_random() % gap->size);
    gap->state = GM_NODE_GAP;
    gm_index_insert(&pool, &range, i);
    listed[i] = true;
}

static void test_index_against_a_model(void **unused)
{
    (void)unused;
    set_up_index();
    for (int step = 0; step < 50000; step++) {
        uint32_t i = 1 + (uint32_t)(next_random() % (GAPS - 1));
        if (!listed[i]) {
            place_gap(i);
        } else if (next_random() % 3 == 0) {
            gm_index_remove(&pool, &range, i);
            listed[i] = false;
        } else if (next_random() % 2 == 0) {
            struct gm_node *gap = gm_node(&pool, i);
            gap->bound += (uint32_t)(next_random() % (gap->size - gap->bound + 1));
            gm_index_raise(&pool, &range, i);
        } else {
            gm_node(&pool, i)->bound /= 2; /* as searches lower it, behind the index's back */
        }
        uint32_t units = 1 + (uint32_t)(next_random() % SPACE);
        uint32_t from = (uint32_t)(next_random() % (GAPS * SPACE));
        uint32_t wanted = GM_NONE;
        uint32_t after = GM_NONE;
        for (uint32_t k = GAPS; k-- > 0;) {
            const struct gm_node *gap = gm_node(&pool, k);
            if (listed[k] && gap->start >= from && gap->bound >= units) {
                wanted = k;
            }
            if (listed[k] && gap->start + gap->size > from) {
                after = k;
            }
        }
        assert_int_equal(gm_index_find(&pool, &range, units, from), wanted);
        assert_int_equal(gm_index_after(&pool, &range, from), after);
        if (step % 64 == 0) {
            gm_index_settle(&range);
            for (uint32_t k = 0; k < GAPS; k++) {
                assert_true(!listed[k] || range.bound >= gm_node(&pool, k)->bound);
            }
        }
    }
    gm_index_finish(&range);
    gm_array_finish(&pool.nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_against_a_model),
        cmocka_unit_test(test_page_masks),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_sizes_of_slabs),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_index_against_a_model),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
