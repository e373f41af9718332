/*
 * test_events.c - what the machine's counters of events make of what processes publish and of what becomes of them.
 */
#include "events.h"

#include "gmtest.h"
#include "latch.h"

#include <sys/mman.h>
#include <sys/syscall.h>

/* A machine, and the writable side of the page of its one process. */
struct fixture {
    struct gm_machine machine;
    struct gm_identity identity;
    struct gm_process *process;
    struct gmlake_ctl_stats_page *page;
    struct gmlake_ctl_snapshot snapshot;
};

static void attach(struct fixture *fixture)
{
    uint64_t wanted[GMLAKE_TUNABLE_COUNT];
    struct gm_pages pages;
    int fds[2];
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        wanted[i] = GMLAKE_CTL_NO_OVERRIDE;
    }
    assert_ok(gm_pages_create(&pages, fds));
    fixture->page = mmap(NULL, sizeof *fixture->page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    assert_ptr_not_equal(fixture->page, MAP_FAILED);
    close(fds[0]);
    close(fds[1]);
    assert_ok(gm_machine_add(&fixture->machine, &fixture->identity, &pages, wanted, &fixture->process));
    memset(&fixture->snapshot, 0, sizeof fixture->snapshot);
    fixture->snapshot.device_count = 1;
    fixture->snapshot.stat_count = GM_STAT_COUNT;
}

static void let_go(struct fixture *fixture)
{
    munmap(fixture->page, sizeof *fixture->page);
    gm_machine_remove(&fixture->machine, fixture->process);
    gm_process_release(fixture->process);
    fixture->process = NULL;
}

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture.identity = (struct gm_identity){.pid = getpid(), .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0)};
    assert_ok(gm_machine_init(&fixture.machine, NULL));
    attach(&fixture);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->process != NULL) {
        let_go(fixture);
    }
    gm_machine_finish(&fixture->machine);
    close(fixture->identity.pidfd);
    return 0;
}

static void publish_at(struct fixture *fixture, uint64_t ns)
{
    fixture->snapshot.generation++;
    fixture->snapshot.published_ns = ns;
    gm_latch_write(fixture->page, &fixture->snapshot);
}

static void publish(struct fixture *fixture, enum gm_stat row, uint64_t value)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fixture->snapshot.device[0].stat[row] = value;
    publish_at(fixture, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static uint64_t machine_event(struct fixture *fixture, enum gm_machine_event event)
{
    struct gm_counts counts;
    gm_events_look(&fixture->machine);
    gm_events_count(&fixture->machine, NULL, &counts);
    assert_int_equal(counts.count, GM_MACHINE_EVENTS);
    return counts.value[event];
}

static void a_process_shows_its_own(void **state)
{
    struct fixture *fixture = *state;
    struct gm_counts before;
    struct gm_counts after;
    gm_events_count(&fixture->machine, fixture->process, &before);
    assert_int_equal(before.count, GM_PROCESS_EVENTS);
    publish(fixture, GM_STAT_low_events, 3);
    fixture->snapshot.device_count = 2;
    fixture->snapshot.device[1].ordinal = 1;
    fixture->snapshot.device[1].stat[GM_STAT_low_events] = 4;
    publish(fixture, GM_STAT_stitch_fails, 5);
    gm_events_count(&fixture->machine, fixture->process, &after);
    assert_false(gm_counts_equal(&before, &after));
    assert_int_equal(after.value[GM_PROCESS_EVENT_low], 7);
    assert_int_equal(after.value[GM_PROCESS_EVENT_stitch_fail], 5);
    assert_int_equal(after.value[GM_PROCESS_EVENT_oom], 0);
    assert_true(gm_counts_equal(&after, &after));
}

static void the_machine_adds_up_what_is_new(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, GM_STAT_oom, 3);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 3);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 3);
    publish(fixture, GM_STAT_oom, 5);
    publish(fixture, GM_STAT_high_events, 1);
    publish(fixture, GM_STAT_max_events, 2);
    publish(fixture, GM_STAT_reclaim_events, 4);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 5);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_limit), 3);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_reclaim), 4);
}

static void what_was_published_last_counts_though_nobody_looked(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, GM_STAT_oom, 2);
    let_go(fixture);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 2);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_register), 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_exit), 1);
}

static void who_comes_back_is_not_counted_again(void **state)
{
    struct fixture *fixture = *state;
    publish(fixture, GM_STAT_oom, 2);
    let_go(fixture);
    attach(fixture);
    gm_process_has_past(fixture->process);
    publish(fixture, GM_STAT_oom, 3); /* what was not seen is lost */
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 2);
    publish(fixture, GM_STAT_oom, 4);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 3);
    let_go(fixture);
    attach(fixture); /* in the same row of the state, but somebody else */
    publish(fixture, GM_STAT_oom, 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_oom), 4);
}

static void counters_that_lie_bring_none_to_its_end(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < 100; i++) {
        publish(fixture, GM_STAT_oom, i % 2 == 0 ? UINT64_MAX : 0);
        publish(fixture, GM_STAT_max_events, UINT64_MAX);
        publish(fixture, GM_STAT_high_events, UINT64_MAX);
        assert_true(machine_event(fixture, GM_MACHINE_EVENT_oom) < UINT64_C(1) << 40);
        assert_true(machine_event(fixture, GM_MACHINE_EVENT_limit) < UINT64_C(1) << 40);
    }
}

static void staleness_counts_once_each_time(void **state)
{
    struct fixture *fixture = *state;
    publish_at(fixture, 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_stale), 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_stale), 1);
    publish(fixture, GM_STAT_oom, 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_stale), 1);
    publish_at(fixture, 1);
    assert_int_equal(machine_event(fixture, GM_MACHINE_EVENT_stale), 2);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_process_shows_its_own),
        TEST(the_machine_adds_up_what_is_new),
        TEST(what_was_published_last_counts_though_nobody_looked),
        TEST(who_comes_back_is_not_counted_again),
        TEST(counters_that_lie_bring_none_to_its_end),
        TEST(staleness_counts_once_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
