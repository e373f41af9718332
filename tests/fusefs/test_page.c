/*
 * test_page.c - the sealed memory files, and what is made of the statistics page whatever a process writes into it.
 */
#include "latch.h"
#include "page.h"
#include "snapshot.h"

#include "gmtest.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct fixture {
    struct gm_pages pages;
    int fds[2];
    struct gmlake_ctl_stats_page *client; /* the process's mapping of the statistics page */
};

static int set_up(void **state)
{
    static struct fixture fixture;
    if (gm_pages_create(&fixture.pages, fixture.fds) < 0) {
        return -1;
    }
    fixture.client = mmap(NULL, sizeof *fixture.client, PROT_READ | PROT_WRITE, MAP_SHARED, fixture.fds[0], 0);
    *state = &fixture;
    return fixture.client == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    munmap(fixture->client, sizeof *fixture->client);
    close(fixture->fds[0]);
    close(fixture->fds[1]);
    gm_pages_destroy(&fixture->pages);
    return 0;
}

/* ---- seals ---------------------------------------------------------------------------------------------------- */

static void neither_page_can_shrink_or_grow(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 2; i++) {
        struct stat about;
        assert_ok(fstat(fixture->fds[i], &about));
        assert_int_equal(ftruncate(fixture->fds[i], 0), -1);
        assert_int_equal(ftruncate(fixture->fds[i], about.st_size + 4096), -1);
        assert_true((fcntl(fixture->fds[i], F_GET_SEALS) & F_SEAL_SEAL) != 0);
    }
}

static void the_tunables_page_cannot_be_written_by_its_receiver(void **state)
{
    struct fixture *fixture = *state;
    int fd = fixture->fds[1];
    size_t size = sizeof *fixture->pages.tunables;
    char path[64];
    assert_ptr_equal(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    /* Opening it anew for writing may work for root, mapping or writing that does not. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again >= 0) {
        assert_ptr_equal(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
        assert_int_equal(pwrite(again, "x", 1, 0), -1);
        close(again);
    }
    void *reader = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(reader != MAP_FAILED);
    assert_int_equal(mprotect(reader, size, PROT_READ | PROT_WRITE), -1);
    munmap(reader, size);
}

static void a_new_tunables_page_overrides_nothing_and_shows_changes(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_tunables_page *reader = mmap(NULL, sizeof *reader, PROT_READ, MAP_SHARED, fixture->fds[1], 0);
    assert_true(reader != MAP_FAILED);
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        assert_true(atomic_load(&reader->word[i]) == GMLAKE_CTL_NO_OVERRIDE);
        assert_true(atomic_load(&reader->wanted[i]) == GMLAKE_CTL_NO_OVERRIDE);
    }
    atomic_store(&fixture->pages.tunables->word[3], 77);
    assert_int_equal(atomic_load(&reader->word[3]), 77);
    munmap(reader, sizeof *reader);
}

/* ---- what is believed ----------------------------------------------------------------------------------------- */

static struct gmlake_ctl_snapshot plain(void)
{
    struct gmlake_ctl_snapshot snapshot = {
        .generation = 1, .published_ns = 5, .device_count = 1, .stat_count = GM_STAT_COUNT, .tunable_count = 2};
    snapshot.own[0] = 0;
    snapshot.own[1] = 4096;
    snapshot.own[2] = 99; /* beyond tunable_count: not believed */
    snapshot.device[0].capacity = 1000;
    snapshot.device[0].stat[GM_STAT_reserved] = 10;
    return snapshot;
}

static void an_honest_snapshot_is_taken(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_snapshot in = plain();
    struct gm_snapshot out;
    gm_latch_write(fixture->client, &in);
    assert_ok(gm_snapshot_read(fixture->pages.stats, &out));
    assert_int_equal(out.device_count, 1);
    assert_int_equal(out.device[0].stat[GM_STAT_reserved], 10);
    assert_int_equal(out.own[0], 0);
    assert_int_equal(out.own[1], 4096);
    assert_int_equal(out.own[2], GMLAKE_UNLIMITED); /* the start value of stitch_cache_max */
}

static void rows_that_an_older_process_does_not_know_are_zero(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_snapshot in = plain();
    struct gm_snapshot out;
    in.stat_count = 2;
    in.device[0].stat[1] = 6;
    gm_latch_write(fixture->client, &in);
    assert_ok(gm_snapshot_read(fixture->pages.stats, &out));
    assert_int_equal(out.device[0].stat[1], 6);
    assert_int_equal(out.device[0].stat[GM_STAT_reserved], 0);
}

static void devices_named_twice_are_merged_and_put_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_snapshot in = plain();
    struct gm_snapshot out;
    in.device_count = GMLAKE_CTL_DEVICES_MAX;
    for (unsigned i = 0; i < GMLAKE_CTL_DEVICES_MAX; i++) {
        in.device[i].ordinal = (GMLAKE_CTL_DEVICES_MAX - i) / 2; /* 8 7 7 6 6 ... 1 1 0 */
        in.device[i].stat[GM_STAT_reserved] = 100;
        in.device[i].stat[GM_STAT_largest_free] = i;
    }
    gm_latch_write(fixture->client, &in);
    assert_ok(gm_snapshot_read(fixture->pages.stats, &out));
    assert_int_equal(out.device_count, 9);
    for (unsigned i = 0; i < out.device_count; i++) {
        assert_int_equal(out.device[i].ordinal, i);
        assert_int_equal(out.device[i].stat[GM_STAT_reserved], i == 0 || i == 8 ? 100 : 200);
    }
    assert_int_equal(out.device[7].stat[GM_STAT_largest_free], 2); /* the larger of 1 and 2, not 3 */
}

static void sums_do_not_wrap(void **state)
{
    (void)state;
    uint64_t sum[GM_STAT_COUNT] = {0};
    uint64_t huge[GM_STAT_COUNT];
    memset(huge, 0xff, sizeof huge);
    gm_stats_add(sum, huge);
    gm_stats_add(sum, huge);
    assert_true(sum[GM_STAT_reserved] == UINT64_MAX);
    assert_true(sum[GM_STAT_largest_free] == UINT64_MAX);
}

static void counts_that_make_no_sense_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct gm_snapshot out = {.generation = 99};
    for (int which = 0; which < 5; which++) {
        struct gmlake_ctl_snapshot in = plain();
        in.device_count = which == 0 ? GMLAKE_CTL_DEVICES_MAX + 1 : 1;
        in.stat_count = which == 1 ? UINT32_MAX : GM_STAT_COUNT;
        in.tunable_count = which == 2 ? GMLAKE_CTL_TUNABLES_MAX + 1 : 1;
        in.generation = which == 3 ? 0 : 1;
        in.device[0].ordinal = which == 4 ? GM_ORDINAL_MAX + 1 : 0;
        gm_latch_write(fixture->client, &in);
        assert_error(gm_snapshot_read(fixture->pages.stats, &out), EBADMSG);
        assert_int_equal(out.generation, 99);
    }
}

/* Random bytes everywhere, then random words in an honest page: what is taken keeps the promises of the struct. */
static void random_bytes_never_break_the_invariants(void **state)
{
    struct fixture *fixture = *state;
    unsigned taken = 0;
    srandom(20240601);
    for (unsigned round = 0; round < 3000; round++) {
        struct gmlake_ctl_snapshot in = plain();
        unsigned char *bytes = (unsigned char *)&in;
        size_t changes = round % 3 == 0 ? sizeof in : (size_t)random() % 32;
        for (size_t i = 0; i < changes; i++) {
            /* Mostly in the head, where the counts are. */
            size_t at = round % 3 == 0 ? i : (size_t)random() % (random() % 2 ? 48 : sizeof in);
            bytes[at] = (unsigned char)(random() % 4 ? random() : random() % 20);
        }
        gm_latch_write(fixture->client, &in);
        struct gm_snapshot out;
        if (gm_snapshot_read(fixture->pages.stats, &out) < 0) {
            continue;
        }
        taken++;
        assert_true(out.device_count <= GMLAKE_CTL_DEVICES_MAX);
        for (unsigned i = 0; i < out.device_count; i++) {
            assert_true(out.device[i].ordinal <= GM_ORDINAL_MAX);
            assert_true(i == 0 || out.device[i - 1].ordinal < out.device[i].ordinal);
        }
    }
    assert_true(taken > 100 && taken < 3000);
}

/* ---- the pages of a process whose daemon died ------------------------------------------------------------------- */

static void what_was_kept_of_a_process_is_shown_as_before(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_snapshot snapshot = {.generation = 9, .device_count = 0};
    struct gm_pages restored;
    struct gm_snapshot seen;
    int tunables_fd;
    atomic_store(&fixture->pages.tunables->wanted[3], 33);
    atomic_store(&fixture->pages.tunables->word[4], 44);
    atomic_store(&fixture->pages.tunables->changes, 7);
    gm_latch_write(fixture->client, &snapshot);
    assert_ok(gm_pages_restore(&restored, fixture->fds, &tunables_fd));
    assert_int_equal(atomic_load(&restored.tunables->wanted[3]), 33);
    assert_int_equal(atomic_load(&restored.tunables->word[4]), 44);
    assert_int_equal(atomic_load(&restored.tunables->changes), 7);
    assert_ok(gm_snapshot_read(restored.stats, &seen));
    assert_int_equal(seen.generation, 9);
    /* It is the very page that the process writes; the tunables are a page of their own. */
    snapshot.generation = 10;
    gm_latch_write(fixture->client, &snapshot);
    assert_ok(gm_snapshot_read(restored.stats, &seen));
    assert_int_equal(seen.generation, 10);
    atomic_store(&restored.tunables->wanted[3], 34);
    assert_int_equal(atomic_load(&fixture->pages.tunables->wanted[3]), 33);
    assert_int_equal(fcntl(tunables_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    close(tunables_fd);
    gm_pages_destroy(&restored);
}

static void what_is_no_page_is_not_restored(void **state)
{
    struct fixture *fixture = *state;
    struct gm_pages restored;
    int fd;
    int pair[2];
    int other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(ftruncate(other, sizeof *fixture->client), 0);
    const int bad[][2] = {{fixture->fds[0], other},   {other, fixture->fds[1]},           {pair[0], fixture->fds[1]},
                          {fixture->fds[0], pair[0]}, {fixture->fds[1], fixture->fds[0]}, {-1, -1}};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bad); i++) {
        assert_error(gm_pages_restore(&restored, bad[i], &fd), EBADMSG);
    }
    close(other);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(neither_page_can_shrink_or_grow),
        TEST(the_tunables_page_cannot_be_written_by_its_receiver),
        TEST(a_new_tunables_page_overrides_nothing_and_shows_changes),
        TEST(an_honest_snapshot_is_taken),
        TEST(rows_that_an_older_process_does_not_know_are_zero),
        TEST(devices_named_twice_are_merged_and_put_in_order),
        TEST(sums_do_not_wrap),
        TEST(counts_that_make_no_sense_are_refused),
        TEST(random_bytes_never_break_the_invariants),
        TEST(what_was_kept_of_a_process_is_shown_as_before),
        TEST(what_is_no_page_is_not_restored),
    };
    return gm_test_result(cmocka_run_group_tests_name("page", tests, NULL, NULL));
}
