/*
 * test_latch.c - the two-copy latch: what a reader gets is always one whole publication, whatever happens to the
 * writer.
 */
#include "latch.h"

#include "gmtest.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

/* Every figure of publication n is made from n, so that a mixture of two shows. */
static void fill(struct gmlake_ctl_snapshot *snapshot, uint64_t n)
{
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->generation = n;
    snapshot->published_ns = n * 3;
    snapshot->device_count = GMLAKE_CTL_DEVICES_MAX;
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        snapshot->own[i] = n + i;
        snapshot->now[i] = n ^ i;
    }
    for (unsigned d = 0; d < GMLAKE_CTL_DEVICES_MAX; d++) {
        for (unsigned row = 0; row < GMLAKE_CTL_STATS_MAX; row++) {
            snapshot->device[d].stat[row] = n * 1000 + d * GMLAKE_CTL_STATS_MAX + row;
        }
    }
}

static bool is_whole(const struct gmlake_ctl_snapshot *snapshot)
{
    struct gmlake_ctl_snapshot expected;
    fill(&expected, snapshot->generation);
    return memcmp(&expected, snapshot, sizeof expected) == 0;
}

static struct gmlake_ctl_stats_page *new_page(void)
{
    void *page =
        mmap(NULL, sizeof(struct gmlake_ctl_stats_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    return page;
}

static void free_page(struct gmlake_ctl_stats_page *page)
{
    munmap(page, sizeof *page);
}

static void nothing_is_read_before_the_first_publication(void **state)
{
    (void)state;
    struct gmlake_ctl_stats_page *page = new_page();
    struct gmlake_ctl_snapshot out = {.generation = 42};
    assert_error(gm_latch_read(page, 10, &out), ENODATA);
    assert_int_equal(out.generation, 42);
    free_page(page);
}

static void the_latest_publication_is_read(void **state)
{
    (void)state;
    struct gmlake_ctl_stats_page *page = new_page();
    for (uint64_t n = 1; n <= 5; n++) {
        struct gmlake_ctl_snapshot in;
        struct gmlake_ctl_snapshot out;
        fill(&in, n);
        gm_latch_write(page, &in);
        assert_ok(gm_latch_read(page, 1, &out));
        assert_memory_equal(&in, &out, sizeof in);
    }
    free_page(page);
}

/* The writer stops after each of its stores in turn: the previous publication stays readable. */
static void a_writer_stopped_at_any_word_leaves_the_previous_publication(void **state)
{
    (void)state;
    struct gmlake_ctl_stats_page *page = new_page();
    struct gmlake_ctl_snapshot in;
    fill(&in, 7);
    gm_latch_write(page, &in);
    _Atomic uint64_t *next_copy = page->copy[(atomic_load(&page->sequence) + 1) & 1];
    for (size_t word = 0; word < GMLAKE_CTL_SNAPSHOT_WORDS; word++) {
        struct gmlake_ctl_snapshot out;
        atomic_store(&next_copy[word], ~(uint64_t)word);
        assert_ok(gm_latch_read(page, 1, &out));
        assert_memory_equal(&in, &out, sizeof in);
    }
    free_page(page);
}

/* A writer that publishes during every copy is given up on. */
struct restless {
    struct gmlake_ctl_stats_page *page;
    _Atomic bool end;
};

static void *publish_without_rest(void *argument)
{
    struct restless *restless = argument;
    struct gmlake_ctl_snapshot snapshot;
    for (uint64_t n = 1; !atomic_load(&restless->end); n++) {
        fill(&snapshot, n);
        gm_latch_write(restless->page, &snapshot);
    }
    return NULL;
}

static void readers_see_whole_publications_beside_a_restless_writer(void **state)
{
    (void)state;
    struct restless restless = {.page = new_page()};
    pthread_t writer;
    assert_ok(-pthread_create(&writer, NULL, publish_without_rest, &restless));
    unsigned good = 0;
    unsigned torn = 0;
    uint64_t last = 0;
    time_t end = time(NULL) + 20;
    while (good < 20000 && torn == 0 && time(NULL) < end) {
        struct gmlake_ctl_snapshot out;
        if (gm_latch_read(restless.page, 100, &out) == 0) {
            good++;
            torn += !is_whole(&out) || out.generation < last;
            last = out.generation;
        }
    }
    atomic_store(&restless.end, true);
    pthread_join(writer, NULL);
    assert_int_equal(torn, 0);
    assert_int_equal(good, 20000);
    assert_true(last > 1);
    free_page(restless.page);
}

static void a_hostile_sequence_ends_in_a_bounded_refusal(void **state)
{
    (void)state;
    struct restless restless = {.page = new_page()};
    struct gmlake_ctl_snapshot out;
    atomic_store(&restless.page->sequence, UINT64_MAX);
    assert_ok(gm_latch_read(restless.page, 1, &out)); /* still: what it says is the reader's to judge */
    assert_error(gm_latch_read(restless.page, 0, &out), EAGAIN);
    free_page(restless.page);
}

/* kill -9 in the middle of publishing, many times: the page is good each time. */
static void a_killed_writer_leaves_a_whole_publication(void **state)
{
    (void)state;
    struct gmlake_ctl_stats_page *page = new_page();
    struct restless restless = {.page = page};
    for (long round = 0; round < 50; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            publish_without_rest(&restless);
            _exit(0);
        }
        uint64_t before = atomic_load(&page->sequence);
        while (atomic_load(&page->sequence) == before) {
            sched_yield();
        }
        nanosleep(&(struct timespec){0, round * 20011}, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct gmlake_ctl_snapshot out;
        assert_ok(gm_latch_read(page, 1, &out));
        assert_true(is_whole(&out));
    }
    free_page(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_before_the_first_publication),
        cmocka_unit_test(the_latest_publication_is_read),
        cmocka_unit_test(a_writer_stopped_at_any_word_leaves_the_previous_publication),
        cmocka_unit_test(readers_see_whole_publications_beside_a_restless_writer),
        cmocka_unit_test(a_hostile_sequence_ends_in_a_bounded_refusal),
        cmocka_unit_test(a_killed_writer_leaves_a_whole_publication),
    };
    return gm_test_result(cmocka_run_group_tests_name("latch", tests, NULL, NULL));
}
