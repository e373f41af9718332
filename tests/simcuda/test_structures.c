/*
 * test_structures.c - the heap of blocks and its trees, by random operations with every rule checked after each step.
 */
#include "gmtest.h"
#include "heap.h"

/* Two streams' work that is or is not past, as the test says. */
static bool past[2];
static char streams[2];

static struct sim_stream *stream(int which)
{
    return (struct sim_stream *)(void *)&streams[which];
}

bool sim_point_past(const struct sim_point *point)
{
    return point->stream == NULL || past[point->stream == stream(1)];
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static bool may_merge(const struct sim_block *a, const struct sim_block *b)
{
    return sim_point_past(&a->usable) || sim_point_past(&b->usable) || a->usable.stream == b->usable.stream;
}

/* Blocks tile the segment, links agree, free ones are in the tree, and what may merge is merged. Gives the free bytes.
 */
static uint64_t check_segment(const struct sim_heap *heap, const struct sim_block *first, uint64_t address,
                              uint64_t size, bool merged)
{
    uint64_t place = address;
    uint64_t free_bytes = 0;
    for (const struct sim_block *block = first; block != NULL; block = block->after) {
        assert_true(block->address == place && block->size > 0);
        assert_true(block->after == NULL || block->after->before == block);
        if (block->free) {
            free_bytes += block->size;
            assert_ptr_equal(sim_tree_floor(&heap->free, block->size, block->address), &block->by_size);
            assert_false(merged && block->after != NULL && block->after->free && may_merge(block, block->after));
        }
        place += block->size;
    }
    assert_true(place == address + size);
    return free_bytes;
}

#define SEGMENTS 3
#define SIZE     (1u << 20)
#define SLOTS    200

static void test_random_use(void **state)
{
    (void)state;
    struct sim_heap heap = {0};
    struct sim_block *first[SEGMENTS];
    struct sim_block *taken[SLOTS] = {0};
    unsigned random = 3;
    uint64_t live = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        first[i] = sim_heap_add(&heap, (uint64_t)(i + 1) << 32, SIZE);
        assert_non_null(first[i]);
    }
    for (int step = 0; step < 20000; step++) {
        unsigned slot = next_random(&random) % SLOTS;
        past[0] = next_random(&random) % 4 != 0;
        past[1] = next_random(&random) % 4 != 0;
        if (taken[slot] == NULL) {
            uint64_t alignment = 512u << next_random(&random) % 6;
            uint64_t size = (next_random(&random) % 64 + 1) * 512u;
            bool others = next_random(&random) % 2;
            struct sim_stream *own = stream((int)(next_random(&random) % 2));
            taken[slot] = sim_heap_take(&heap, size, alignment, own, others);
            if (taken[slot] != NULL) {
                assert_true(taken[slot]->size == size && taken[slot]->address % alignment == 0);
                assert_true(others || sim_point_past(&taken[slot]->usable) || taken[slot]->usable.stream == own);
                live += size;
            }
        } else {
            struct sim_point usable = {.stream = stream((int)(next_random(&random) % 2)), .seq = (uint64_t)step};
            live -= taken[slot]->size;
            sim_heap_give(&heap, taken[slot], &usable);
            taken[slot] = NULL;
        }
        bool merge = step % 16 == 0;
        if (merge) {
            past[0] = past[1] = true;
            heap.unmerged = true;
            sim_heap_merge(&heap);
        }
        uint64_t free_bytes = 0;
        for (unsigned i = 0; i < SEGMENTS; i++) {
            free_bytes += check_segment(&heap, first[i], (uint64_t)(i + 1) << 32, SIZE, merge);
        }
        assert_true(free_bytes + live == SEGMENTS * (uint64_t)SIZE);
    }
    for (unsigned i = 0; i < SEGMENTS; i++) {
        sim_heap_drop(&heap, first[i]);
    }
    assert_null(heap.free.root);
    sim_heap_finish(&heap);
}

static void test_best_fit(void **state)
{
    (void)state;
    struct sim_heap heap = {0};
    struct sim_point now = {0};
    struct sim_block *first = sim_heap_add(&heap, 1 << 20, 100 * 512);
    struct sim_block *blocks[4];
    const uint64_t sizes[] = {30, 10, 20, 40};
    for (int i = 0; i < 4; i++) {
        blocks[i] = sim_heap_take(&heap, sizes[i] * 512, 512, NULL, false);
        assert_non_null(blocks[i]);
    }
    assert_null(sim_heap_take(&heap, 512, 512, NULL, true));
    sim_heap_give(&heap, blocks[0], &now);
    sim_heap_give(&heap, blocks[2], &now);
    assert_ptr_equal(sim_heap_take(&heap, 15 * 512, 512, NULL, false), blocks[2]);
    const struct sim_block *largest = sim_heap_smaller(&heap, NULL);
    assert_true(largest->size == 30 * 512);
    assert_true(sim_heap_smaller(&heap, largest)->size == 5 * 512);
    assert_null(sim_heap_smaller(&heap, sim_heap_smaller(&heap, largest)));
    struct sim_block *middle = sim_heap_carve(&heap, blocks[0], blocks[0]->address + 10 * 512, 512);
    assert_true(middle->address == (1 << 20) + 10 * 512 && !middle->free && middle->after->size == 19 * 512);
    sim_heap_drop(&heap, first);
    sim_heap_finish(&heap);
}

struct item {
    struct sim_node node;
    bool in;
};

static void test_tree_against_a_list(void **state)
{
    (void)state;
    static struct item items[500];
    struct sim_tree tree = {NULL};
    unsigned random = 5;
    for (unsigned i = 0; i < 500; i++) {
        items[i].node.key = i / 3;
        items[i].node.tie = i % 3;
    }
    for (int step = 0; step < 20000; step++) {
        unsigned i = next_random(&random) % 500;
        if (items[i].in) {
            sim_tree_remove(&tree, &items[i].node);
        } else {
            sim_tree_insert(&tree, &items[i].node);
        }
        items[i].in = !items[i].in;
        unsigned probe = next_random(&random) % 500;
        int below = (int)probe;
        int above = (int)probe;
        while (below >= 0 && !items[below].in) {
            below--;
        }
        while (above < 500 && !items[above].in) {
            above++;
        }
        const struct sim_node *key = &items[probe].node;
        assert_ptr_equal(sim_tree_floor(&tree, key->key, key->tie), below < 0 ? NULL : &items[below].node);
        assert_ptr_equal(sim_tree_ceiling(&tree, key->key, key->tie), above == 500 ? NULL : &items[above].node);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_use),
        cmocka_unit_test(test_best_fit),
        cmocka_unit_test(test_tree_against_a_list),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
