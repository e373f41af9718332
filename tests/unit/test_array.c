/*
 * test_array.c - growing keeps what is there and zeroes what is new; running out of memory changes nothing.
 */
#include "array.h"
#include "gmtest.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* An element whose size does not divide a page. */
struct element {
    uint64_t value;
    uint32_t more;
    char odd[11];
};

static struct element *elements(const struct gm_array *array)
{
    return array->data;
}

static void grows_by_content_and_zeroes(void **state)
{
    (void)state;
    struct gm_array array = {0};
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t before = array.capacity;
        assert_ok(gm_array_reserve(&array, i + 1, sizeof(struct element)));
        assert_true(array.capacity >= i + 1);
        assert_int_equal(array.capacity, array.bytes / sizeof(struct element));
        assert_true((array.bytes & (array.bytes - 1)) == 0);
        for (uint32_t j = before; j < array.capacity; j++) {
            assert_true(elements(&array)[j].value == 0 && elements(&array)[j].more == 0);
        }
        elements(&array)[i].value = i * 3u;
        elements(&array)[i].more = i;
        array.count++;
    }
    for (uint32_t i = 0; i < 50000; i++) {
        assert_true(elements(&array)[i].value == i * 3u && elements(&array)[i].more == i);
    }
    gm_array_finish(&array);
}

/* Beyond the size from which it lies on huge pages, whether it grows in place or moves. */
static void grows_on_huge_pages(void **state)
{
    (void)state;
    struct gm_array array = {0};
    void *in_the_way[8] = {0};
    uint32_t moves = 0;
    for (uint32_t i = 0; i < 1u << 19; i++) {
        if (i == array.capacity && array.bytes >= HUGE_PAGE) {
            in_the_way[moves++] =
                mmap((char *)array.data + array.bytes, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        }
        assert_ok(gm_array_reserve(&array, i + 1, sizeof(struct element)));
        assert_true(array.bytes < HUGE_PAGE || (uintptr_t)array.data % HUGE_PAGE == 0);
        assert_true(elements(&array)[array.capacity - 1].value == 0);
        elements(&array)[i].value = i + 1;
        array.count++;
    }
    assert_true(moves > 0);
    for (uint32_t i = 0; i < array.count; i++) {
        assert_true(elements(&array)[i].value == i + 1);
    }
    for (uint32_t i = 0; i < moves; i++) {
        munmap(in_the_way[i], 4096);
    }
    gm_array_finish(&array);
}

static void room_that_is_there_is_kept(void **state)
{
    (void)state;
    struct gm_array array = {0};
    assert_ok(gm_array_reserve(&array, 0, 8));
    assert_null(array.data);
    assert_ok(gm_array_reserve(&array, 100, 8));
    void *data = array.data;
    uint32_t capacity = array.capacity;
    assert_ok(gm_array_reserve(&array, capacity, 8));
    assert_ok(gm_array_reserve(&array, 1, 8));
    assert_ptr_equal(array.data, data);
    assert_int_equal(array.capacity, capacity);
    gm_array_finish(&array);
}

static void finished_is_empty_and_usable(void **state)
{
    (void)state;
    struct gm_array array = {0};
    gm_array_finish(&array);
    assert_ok(gm_array_reserve(&array, 10, 8));
    array.count = 10;
    gm_array_finish(&array);
    assert_null(array.data);
    assert_int_equal(array.count, 0);
    assert_int_equal(array.capacity, 0);
    assert_ok(gm_array_reserve(&array, 10, 8));
    gm_array_finish(&array);
}

#if !GM_TEST_SANITIZED /* a sanitizer's own address space does not fit under the limit */
/* In a child whose address space is bounded: 0 if the array survives a refusal unharmed. */
static int refuse_and_go_on(void *arg)
{
    struct gm_array array = {0};
    (void)arg;
    if (gm_array_reserve(&array, 1000, 8) != 0) {
        return 1;
    }
    uint64_t *values = array.data;
    for (uint64_t i = 0; i < 1000; i++) {
        values[i] = i;
    }
    array.count = 1000;
    struct gm_array before = array;
    struct rlimit limit = {1u << 30, 1u << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        return 2;
    }
    if (gm_array_reserve(&array, UINT32_MAX / 2, 8) != -ENOMEM || memcmp(&array, &before, sizeof array) != 0) {
        return 3;
    }
    for (uint64_t i = 0; i < 1000; i++) {
        if (values[i] != i) {
            return 4;
        }
    }
    return gm_array_reserve(&array, 2000, 8) == 0 ? 0 : 5;
}

static void refusal_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(gm_test_in_child(refuse_and_go_on, NULL), 0);
}
#endif

static void too_many_elements_are_refused(void **state)
{
    (void)state;
    struct gm_array array = {0};
    /* More elements than an index can name. */
    assert_error(gm_array_reserve(&array, UINT32_MAX, 1), ENOMEM);
    assert_null(array.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_by_content_and_zeroes),
        cmocka_unit_test(grows_on_huge_pages),
        cmocka_unit_test(room_that_is_there_is_kept),
        cmocka_unit_test(finished_is_empty_and_usable),
        cmocka_unit_test(too_many_elements_are_refused),
#if !GM_TEST_SANITIZED
        cmocka_unit_test(refusal_changes_nothing),
#endif
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
