/*
 * test_table.c - tables are zeroed and apart, are used again, go with the last one, and cost nothing to touch.
 */
#include "table.h"

#include "gmtest.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define MIB    ((size_t)1 << 20)
#define TABLES 2000u

static uint64_t seed = 1;

static uint64_t next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

struct table {
    unsigned char *data;
    size_t bytes;
};

static size_t random_size(void)
{
    size_t most = (size_t)1 << next_random() % 19;
    return 1 + next_random() % most;
}

static bool is_filled_with(const struct table *table, unsigned char value)
{
    for (size_t i = 0; i < table->bytes; i++) {
        if (table->data[i] != value) {
            return false;
        }
    }
    return true;
}

/* Each table holds its own byte all the while: no two share memory. */
static void tables_are_zeroed_and_apart(void **state)
{
    (void)state;
    static struct table tables[TABLES];
    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (unsigned)(next_random() % TABLES);
        struct table *table = &tables[i];
        if (table->data != NULL) {
            assert_true(is_filled_with(table, (unsigned char)(i + 1)));
            gm_table_give(table->data, table->bytes);
            table->data = NULL;
            continue;
        }
        table->bytes = random_size();
        table->data = gm_table_take(table->bytes);
        assert_non_null(table->data);
        assert_true((uintptr_t)table->data % 64 == 0);
        assert_true(is_filled_with(table, 0));
        memset(table->data, (unsigned char)(i + 1), table->bytes);
    }
    for (unsigned i = 0; i < TABLES; i++) {
        assert_true(tables[i].data == NULL || is_filled_with(&tables[i], (unsigned char)(i + 1)));
        gm_table_give(tables[i].data, tables[i].bytes);
    }
}

static void given_back_is_used_again(void **state)
{
    (void)state;
    void *kept = gm_table_take(100);
    void *first = gm_table_take(5000);
    gm_table_give(first, 5000);
    void *second = gm_table_take(8192);
    assert_ptr_equal(first, second);
    gm_table_give(second, 8192);
    gm_table_give(NULL, 8192);
    gm_table_give(kept, 100);
}

static bool is_mapped(void *address)
{
    unsigned char there;
    uintptr_t page = (uintptr_t)address / 4096 * 4096;
    return mincore((void *)page, 4096, &there) == 0 || errno != ENOMEM;
}

static void memory_goes_with_the_last_table(void **state)
{
    (void)state;
    void *tables[12];
    for (size_t i = 0; i < 12; i++) {
        tables[i] = gm_table_take(MIB / 2); /* more than a piece */
        assert_non_null(tables[i]);
    }
    for (size_t i = 0; i < 12; i++) {
        assert_true(is_mapped(tables[11]));
        gm_table_give(tables[i], MIB / 2);
    }
    for (size_t i = 0; i < 12; i++) {
        assert_false(is_mapped(tables[i]));
    }
}

static void large_tables_stand_alone(void **state)
{
    (void)state;
    unsigned char *large = gm_table_take(5 * MIB);
    assert_non_null(large);
    assert_true(large[0] == 0 && large[5 * MIB - 1] == 0);
    large[5 * MIB - 1] = 1;
    gm_table_give(large, 5 * MIB);
    assert_false(is_mapped(large));
}

#ifndef __SANITIZE_THREAD__ /* whose shadow of each page is touched for the first time, too */
static bool kernel_makes_pages_at_once(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool made = page != MAP_FAILED && madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
    if (page != MAP_FAILED) {
        munmap(page, 4096);
    }
    return made;
}

static long faults(void)
{
    struct rusage usage;
    assert_ok(getrusage(RUSAGE_SELF, &usage));
    return usage.ru_minflt;
}

static void touching_is_free(void **state)
{
    (void)state;
    if (!kernel_makes_pages_at_once()) {
        skip();
    }
    void *kept = gm_table_take(64);
    unsigned char *tables[64];
    long before = faults();
    for (size_t i = 0; i < 64; i++) {
        tables[i] = gm_table_take(8192);
        tables[i][0] = 1;
        tables[i][8191] = 1;
    }
    long after = faults();
    for (size_t i = 0; i < 64; i++) {
        gm_table_give(tables[i], 8192);
    }
    gm_table_give(kept, 64);
    assert_in_range(after - before, 0, 16); /* of 128 pages; a few are the program's own */
}
#endif

#if !GM_TEST_SANITIZED /* a sanitizer's own address space does not fit under the limit */
static int take_until_refused(void *arg)
{
    (void)arg;
    unsigned char *before = gm_table_take(1000);
    struct rlimit limit = {(size_t)1 << 30, (size_t)1 << 30};
    if (before == NULL || setrlimit(RLIMIT_AS, &limit) != 0) {
        return 1;
    }
    before[999] = 7;
    if (gm_table_take((size_t)2 << 30) != NULL) {
        return 2;
    }
    size_t taken = 0;
    while (gm_table_take(MIB) != NULL) {
        if (++taken > 1024) {
            return 3;
        }
    }
    return taken > 0 && before[999] == 7 ? 0 : 4;
}

static void refusal_is_told(void **state)
{
    (void)state;
    assert_int_equal(gm_test_in_child(take_until_refused, NULL), 0);
}
#endif

static atomic_bool enough;

static void *take_and_give(void *arg)
{
    while (!atomic_load(&enough)) {
        gm_table_give(gm_table_take(100), 100);
    }
    return arg;
}

static int take_in_child(void *arg)
{
    (void)arg;
    gm_table_forget();
    alarm(10);
    unsigned char *table = gm_table_take(100);
    if (table == NULL || table[0] != 0 || table[99] != 0) {
        return 1;
    }
    gm_table_give(table, 100);
    return 0;
}

/* Whatever another thread of the parent was at. */
static void a_child_begins_anew(void **state)
{
    (void)state;
    pthread_t other;
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&other, NULL, take_and_give, NULL), 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(gm_test_in_child(take_in_child, NULL), 0);
    }
    atomic_store(&enough, true);
    assert_int_equal(pthread_join(other, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_zeroed_and_apart),
        cmocka_unit_test(given_back_is_used_again),
        cmocka_unit_test(memory_goes_with_the_last_table),
        cmocka_unit_test(large_tables_stand_alone),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(touching_is_free),
#endif
        cmocka_unit_test(a_child_begins_anew),
#if !GM_TEST_SANITIZED
        cmocka_unit_test(refusal_is_told),
#endif
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
