/*
 * test_call.c - questions to a process: answered, unanswered, answered wrongly; and the ring of a trace, whatever a
 * stranger writes into it.
 */
#include "ask.h"
#include "machine.h"

#include "gmtest.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

/* A process that is this one, connected by a pair of sockets of which the test has the other end. */
struct fixture {
    struct gm_machine machine;
    struct gm_process *process;
    struct gmlake_ctl_stats_page *stats; /* as the process has it */
    int fd;
    int daemon_fd;
};

static struct fixture fixture;

static int set_up(void **state)
{
    (void)state;
    int fds[2];
    int ends[2];
    struct gm_pages pages;
    uint64_t wanted[GMLAKE_TUNABLE_COUNT];
    memset(&fixture, 0, sizeof fixture);
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        wanted[i] = GMLAKE_CTL_NO_OVERRIDE;
    }
    if (gm_machine_init(&fixture.machine, NULL) < 0 || gm_pages_create(&pages, fds) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return -1;
    }
    fixture.stats = mmap(NULL, sizeof *fixture.stats, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    close(fds[0]);
    close(fds[1]);
    struct gm_identity identity = {.pid = getpid(), .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0)};
    int rc = gm_machine_add(&fixture.machine, &identity, &pages, wanted, &fixture.process);
    close(identity.pidfd);
    fixture.fd = ends[0];
    fixture.daemon_fd = ends[1];
    gm_line_open(&fixture.machine.calls, &fixture.process->line, ends[1], GMLAKE_CTL_FEATURE_REQUESTS);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    munmap(fixture.stats, sizeof *fixture.stats);
    gm_machine_remove(&fixture.machine, fixture.process);
    gm_process_release(fixture.process);
    gm_machine_finish(&fixture.machine);
    close(fixture.fd);
    close(fixture.daemon_fd);
    return 0;
}

/* What a call came to. */
struct outcome {
    int times;
    int error;
    uint64_t value;
};

static void note(void *context, int error, uint64_t value)
{
    struct outcome *outcome = context;
    outcome->times++;
    outcome->error = error;
    outcome->value = value;
}

static int call(struct outcome *outcome)
{
    *outcome = (struct outcome){0};
    return gm_call(&fixture.machine.calls, fixture.process, GMLAKE_CTL_RECLAIM, 123, -1, note, outcome);
}

/* The next request that the process finds. */
static struct gmlake_ctl_request heard(void)
{
    struct gmlake_ctl_request request = {.id = 0};
    assert_int_equal(recv(fixture.fd, &request, sizeof request, 0), sizeof request);
    assert_int_equal(request.header.magic, GMLAKE_CTL_MAGIC);
    assert_int_equal(request.header.length, sizeof request);
    return request;
}

static struct gmlake_ctl_answer answer_to(const struct gmlake_ctl_request *request)
{
    return (struct gmlake_ctl_answer){
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_ANSWER, sizeof(struct gmlake_ctl_answer), 0},
        .id = request->id,
        .value = 456,
    };
}

static bool say(const struct gmlake_ctl_answer *answer, size_t length)
{
    return gm_calls_answer(&fixture.machine.calls, fixture.process, answer, length);
}

static int run(void)
{
    return gm_calls_run(&fixture.machine.calls);
}

static bool is_woken(void)
{
    struct pollfd woken = {fixture.machine.calls.wake_fd, POLLIN, 0};
    return poll(&woken, 1, 0) > 0;
}

/* The process publishes. */
static void show_up(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    static struct gmlake_ctl_snapshot snapshot;
    snapshot.generation++;
    snapshot.published_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t next = atomic_load(&fixture.stats->sequence) + 1;
    uint64_t words[GMLAKE_CTL_SNAPSHOT_WORDS];
    memcpy(words, &snapshot, sizeof words);
    for (size_t i = 0; i < GMLAKE_CTL_SNAPSHOT_WORDS; i++) {
        atomic_store(&fixture.stats->copy[next & 1][i], words[i]);
    }
    atomic_store(&fixture.stats->sequence, next);
}

static void an_answer_ends_a_call(void **state)
{
    (void)state;
    struct outcome outcome;
    assert_int_equal(run(), -1);
    assert_ok(call(&outcome));
    struct gmlake_ctl_request request = heard();
    assert_int_equal(request.header.type, GMLAKE_CTL_RECLAIM);
    assert_int_equal(request.argument, 123);
    assert_in_range(run(), 500, GM_CALL_DEADLINE_MS);
    assert_false(is_woken());
    struct gmlake_ctl_answer answer = answer_to(&request);
    assert_true(say(&answer, sizeof answer));
    assert_int_equal(outcome.times, 0); /* told by the thread that asked, not by the one that heard */
    assert_true(is_woken());
    assert_int_equal(run(), -1);
    assert_int_equal(outcome.times, 1);
    assert_int_equal(outcome.error, 0);
    assert_int_equal(outcome.value, 456);
    assert_false(say(&answer, sizeof answer)); /* again: nobody waits for it */
    run();
    assert_int_equal(outcome.times, 1);
}

static void what_is_no_answer_is_none(void **state)
{
    (void)state;
    struct outcome outcome;
    assert_ok(call(&outcome));
    struct gmlake_ctl_request request = heard();
    const struct gmlake_ctl_answer good = answer_to(&request);
    struct gmlake_ctl_answer bad = good;
    assert_false(say(&good, sizeof good - 1));
    bad.header.magic++;
    assert_false(say(&bad, sizeof bad));
    bad = good;
    bad.header.abi++;
    assert_false(say(&bad, sizeof bad));
    bad = good;
    bad.header.type = GMLAKE_CTL_HELLO;
    assert_false(say(&bad, sizeof bad));
    bad = good;
    bad.header.length--;
    assert_false(say(&bad, sizeof bad));
    bad = good;
    bad.error = -1;
    assert_false(say(&bad, sizeof bad));
    bad.error = 5000;
    assert_false(say(&bad, sizeof bad));
    bad = good;
    bad.id++;
    assert_false(say(&bad, sizeof bad));
    run();
    assert_int_equal(outcome.times, 0);
    bad = good;
    bad.error = ENOMEM;
    assert_true(say(&bad, sizeof bad));
    run();
    assert_int_equal(outcome.error, -ENOMEM);
}

static void nobody_answers_for_another(void **state)
{
    (void)state;
    struct outcome outcome;
    struct gm_process other = {.serial = 99};
    assert_ok(call(&outcome));
    struct gmlake_ctl_request request = heard();
    struct gmlake_ctl_answer answer = answer_to(&request);
    assert_false(gm_calls_answer(&fixture.machine.calls, &other, &answer, sizeof answer));
    assert_true(say(&answer, sizeof answer));
    run();
    assert_int_equal(outcome.times, 1);
}

static void a_process_that_does_not_answer_is_given_up(void **state)
{
    (void)state;
    struct outcome outcome;
    struct outcome second;
    struct timespec start;
    struct timespec end;
    assert_ok(call(&outcome));
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int left; (left = run()) >= 0;) {
        nanosleep(&(struct timespec){0, left * 1000000L}, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_in_range((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000,
                    GM_CALL_DEADLINE_MS - 10, GM_CALL_DEADLINE_MS + 500);
    assert_int_equal(outcome.times, 1);
    assert_int_equal(outcome.error, -EAGAIN);
    struct gmlake_ctl_request request = heard();
    struct gmlake_ctl_answer answer = answer_to(&request);
    assert_false(say(&answer, sizeof answer)); /* late */
    assert_error(call(&second), EAGAIN);       /* not again, before it has shown itself */
    show_up();
    assert_ok(call(&second));
    request = heard();
    answer = answer_to(&request);
    assert_true(say(&answer, sizeof answer));
    run();
    assert_int_equal(second.times, 1);
}

static void calls_are_bounded(void **state)
{
    (void)state;
    struct outcome outcomes[GM_CALLS_PER_PROCESS];
    struct outcome more;
    for (unsigned i = 0; i < GM_CALLS_PER_PROCESS; i++) {
        assert_ok(call(&outcomes[i]));
    }
    assert_error(call(&more), EAGAIN);
    heard();
    struct gmlake_ctl_request request = heard();
    struct gmlake_ctl_answer answer = answer_to(&request);
    assert_true(say(&answer, sizeof answer)); /* in any order */
    run();
    assert_int_equal(outcomes[1].times, 1);
    assert_int_equal(outcomes[0].times, 0);
    assert_ok(call(&more));
    gm_calls_gone(&fixture.machine.calls, fixture.process);
    run();
    assert_int_equal(outcomes[0].error, -ESRCH);
    assert_int_equal(more.error, -ESRCH);
    assert_int_equal(outcomes[1].error, 0);
}

static void who_cannot_be_asked(void **state)
{
    (void)state;
    struct outcome outcome;
    gm_line_open(&fixture.machine.calls, &fixture.process->line, fixture.daemon_fd,
                 0); /* from before there were requests */
    assert_error(call(&outcome), EOPNOTSUPP);
    assert_false(gm_line_takes_requests(&fixture.process->line));
    gm_line_tell(&fixture.process->line, GMLAKE_CTL_LOOK);
    char byte;
    assert_int_equal(recv(fixture.fd, &byte, 1, 0), -1);
    gm_line_close(&fixture.process->line);
    assert_error(call(&outcome), EAGAIN);
    gm_line_open(&fixture.machine.calls, &fixture.process->line, fixture.daemon_fd, GMLAKE_CTL_FEATURE_REQUESTS);
    for (int i = 0; i < 100000; i++) { /* a socket that is full does not hold anybody up */
        gm_line_tell(&fixture.process->line, GMLAKE_CTL_LOOK);
    }
    assert_error(call(&outcome), EAGAIN);
    run();
    assert_int_equal(outcome.times, 0);
}

static void a_tunable_that_changes_is_told(void **state)
{
    (void)state;
    char byte;
    gm_machine_set_tunable(&fixture.machine, fixture.process, GMLAKE_TUNABLE_memory_max, 1 << 20);
    assert_int_equal(heard().header.type, GMLAKE_CTL_LOOK);
    gm_machine_set_tunable(&fixture.machine, fixture.process, GMLAKE_TUNABLE_memory_max, 1 << 20);
    assert_int_equal(recv(fixture.fd, &byte, 1, 0), -1); /* nothing has changed */
    gm_machine_set_tunable(&fixture.machine, NULL, GMLAKE_TUNABLE_memory_high, 1 << 20);
    assert_int_equal(heard().header.type, GMLAKE_CTL_LOOK);
}

static void the_end_of_the_daemon_ends_every_call(void **state)
{
    (void)state;
    struct outcome outcome;
    assert_ok(call(&outcome));
    gm_calls_cancel(&fixture.machine.calls, -ENODEV);
    assert_int_equal(outcome.times, 1);
    assert_int_equal(outcome.error, -ENODEV);
}

/* ---- the ring ------------------------------------------------------------------------------------------------- */

struct ring {
    struct gm_ring *ring;
    struct gmlake_ctl_ring *at; /* as the process has it */
    size_t bytes;
};

static struct ring ring_of(uint64_t slots)
{
    struct ring out = {.bytes = sizeof(struct gmlake_ctl_ring) + slots * sizeof(struct gmlake_ctl_ring_slot)};
    int fd;
    assert_ok(gm_ring_create(1000, out.bytes, &out.ring, &fd));
    out.at = mmap(NULL, out.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(out.at != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), -1);
    close(fd);
    return out;
}

static void drop_ring(struct ring *ring)
{
    munmap(ring->at, ring->bytes);
    gm_ring_destroy(ring->ring);
}

/* Writes event @number, whose address is its number; unfinished ones have no sequence. */
static void write_event(const struct ring *ring, uint64_t number, bool finished)
{
    struct gmlake_ctl_ring_slot *slot = &ring->at->slot[number % ring->ring->slots];
    atomic_store(&ring->at->head, number + 1);
    atomic_store(&slot->sequence, 0);
    atomic_store(&slot->word[1], number);
    atomic_store(&slot->sequence, finished ? number + 1 : 0);
}

static void events_are_read_once_and_in_order(void **state)
{
    (void)state;
    struct ring ring = ring_of(8);
    struct gmlake_ctl_event events[16];
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 0);
    for (uint64_t i = 0; i < 6; i++) {
        write_event(&ring, i, true);
    }
    assert_int_equal(gm_ring_read(ring.ring, false, events, 3), 3);
    assert_int_equal(events[2].address, 2);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 1), 1);
    assert_int_equal(events[0].address, 3);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 2);
    assert_int_equal(events[0].address, 4);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 0);
    assert_int_equal(gm_ring_recorded(ring.ring), 6);
    assert_int_equal(gm_ring_lost(ring.ring), 0);
    drop_ring(&ring);
}

static void what_was_overwritten_is_counted(void **state)
{
    (void)state;
    struct ring ring = ring_of(8);
    struct gmlake_ctl_event events[16];
    for (uint64_t i = 0; i < 20; i++) {
        write_event(&ring, i, true);
    }
    assert_int_equal(gm_ring_lost(ring.ring), 12);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 1), 1);
    assert_int_equal(events[0].kind, GMLAKE_CTL_EVENT_LOST);
    assert_int_equal(events[0].bytes, 12);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 8);
    assert_int_equal(events[0].address, 12);
    assert_int_equal(events[7].address, 19);
    assert_int_equal(gm_ring_lost(ring.ring), 12);
    drop_ring(&ring);
}

static void one_that_is_being_written_is_waited_for_but_not_for_ever(void **state)
{
    (void)state;
    struct ring ring = ring_of(8192);
    struct gmlake_ctl_event events[16];
    write_event(&ring, 0, true);
    write_event(&ring, 1, false);
    write_event(&ring, 2, true);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 1);
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 0);
    assert_int_equal(gm_ring_read(ring.ring, true, events, 16), 2); /* nobody will finish it */
    assert_int_equal(events[0].kind, GMLAKE_CTL_EVENT_LOST);
    assert_int_equal(events[1].address, 2);
    write_event(&ring, 3, false);
    for (uint64_t i = 4; i < 4 + 5000; i++) {
        write_event(&ring, i, true);
    }
    assert_int_equal(gm_ring_read(ring.ring, false, events, 16), 16);
    assert_int_equal(events[0].bytes, 1);
    assert_int_equal(events[1].address, 4);
    drop_ring(&ring);
}

static void garbage_is_read_in_bounded_time(void **state)
{
    (void)state;
    struct ring ring = ring_of(64);
    struct gmlake_ctl_event events[64];
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < ring.bytes / 8; i++) {
            seed = seed * 1103515245u + 12345u;
            ((_Atomic uint64_t *)(void *)ring.at)[i] = seed % 5 == 0 ? UINT64_MAX : seed % 200;
        }
        size_t count = gm_ring_read(ring.ring, round % 2 == 0, events, 64);
        assert_true(count <= 64);
        (void)gm_ring_lost(ring.ring);
    }
    drop_ring(&ring);
}

struct writing {
    const struct ring *ring;
    atomic_bool stop;
};

static void *write_for_ever(void *arg)
{
    struct writing *writing = arg;
    for (uint64_t i = 0; !atomic_load(&writing->stop); i++) {
        write_event(writing->ring, i, true);
    }
    return NULL;
}

/* Beside a writer that overtakes: never an event that is not whole, none twice, and each that is missing counted. */
static void read_beside_a_writer(void **state)
{
    (void)state;
    struct ring ring = ring_of(32);
    struct writing writing = {.ring = &ring};
    struct gmlake_ctl_event events[64];
    pthread_t thread;
    uint64_t next = 0;
    assert_int_equal(pthread_create(&thread, NULL, write_for_ever, &writing), 0);
    for (int round = 0; round < 20000; round++) {
        size_t count = gm_ring_read(ring.ring, false, events, 64);
        for (size_t i = 0; i < count; i++) {
            if (events[i].kind == GMLAKE_CTL_EVENT_LOST) {
                next += events[i].bytes;
            } else {
                assert_int_equal(events[i].address, next);
                next++;
            }
        }
    }
    atomic_store(&writing.stop, true);
    pthread_join(thread, NULL);
    drop_ring(&ring);
}

/* Makes the largest rings there are for @uid until it gets @error; gives how many. */
static size_t fill_with_rings(uid_t uid, struct gm_ring **rings, size_t room, int error)
{
    size_t count = 0;
    int fd;
    int rc = 0;
    while (count < room && (rc = gm_ring_create(uid, GM_RING_BYTES_MAX, &rings[count], &fd)) == 0) {
        close(fd);
        count++;
    }
    assert_error(rc, error);
    return count;
}

static void rings_are_bounded(void **state)
{
    (void)state;
    struct gm_ring *rings[16];
    size_t of_user = GM_RINGS_BYTES_USER_MAX / GM_RING_BYTES_MAX;
    size_t count = fill_with_rings(1000, rings, GM_ARRAY_LENGTH(rings), EDQUOT);
    assert_int_equal(count, of_user);
    /* Another user has his own share, and root what is left. */
    count += fill_with_rings(1001, rings + count, GM_ARRAY_LENGTH(rings) - count, EDQUOT);
    assert_int_equal(count, 2 * of_user);
    count += fill_with_rings(0, rings + count, GM_ARRAY_LENGTH(rings) - count, ENOSPC);
    assert_int_equal(count, GM_RINGS_BYTES_MAX / GM_RING_BYTES_MAX);
    struct gm_ring *more;
    int fd;
    assert_error(gm_ring_create(1002, GM_RING_BYTES_MIN, &more, &fd), ENOSPC);
    /* What is given back can be had again, in whatever order. */
    gm_ring_destroy(rings[0]);
    assert_ok(gm_ring_create(1000, GM_RING_BYTES_MIN, &more, &fd));
    close(fd);
    gm_ring_destroy(more);
    while (count > 1) {
        gm_ring_destroy(rings[--count]);
    }
    assert_ok(gm_ring_create(1000, GM_RING_BYTES_MAX, &more, &fd));
    close(fd);
    gm_ring_destroy(more);
}

/* ---- the map -------------------------------------------------------------------------------------------------- */

static void blocks_become_lines_as_they_are_read(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct gmlake_ctl_block written[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        written[i] = (struct gmlake_ctl_block){.address = 0x1000u * i, .size = i, .kind = i % 5, .device = 1};
    }
    int fd = gm_memory_file("blocks", sizeof written);
    assert_int_equal(pwrite(fd, written, sizeof written, 0), sizeof written);
    struct gm_blocks blocks = {.fd = fd, .count = COUNT, .more = 7};
    struct gm_text text = {0};
    assert_ok(gm_blocks_add(&blocks, &text, 1));
    assert_int_equal(blocks.next, 256); /* no more than is wanted, by pieces */
    assert_ok(gm_blocks_add(&blocks, &text, SIZE_MAX));
    assert_int_equal(blocks.fd, -1); /* all is text: no descriptor is held for it */
    assert_non_null(strstr(text.data, "\n0x2000 2 free 1:primitive 0 0 0\n0x3000 3 unknown 1:primitive 0 0 0\n"));
    assert_non_null(strstr(text.data, "\n# 7 more\n"));
    assert_ok(gm_blocks_add(&blocks, &text, SIZE_MAX));
    gm_text_clear(&text);
    fd = gm_memory_file("blocks", sizeof written);
    blocks = (struct gm_blocks){.fd = fd, .count = COUNT + 1}; /* longer than the file: not shown */
    assert_error(gm_blocks_add(&blocks, &text, SIZE_MAX), EIO);
    gm_text_clear(&text);
    gm_blocks_forget(&blocks);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_ends_a_call),
        TEST(what_is_no_answer_is_none),
        TEST(nobody_answers_for_another),
        TEST(a_process_that_does_not_answer_is_given_up),
        TEST(calls_are_bounded),
        TEST(who_cannot_be_asked),
        TEST(a_tunable_that_changes_is_told),
        TEST(the_end_of_the_daemon_ends_every_call),
        cmocka_unit_test(events_are_read_once_and_in_order),
        cmocka_unit_test(what_was_overwritten_is_counted),
        cmocka_unit_test(one_that_is_being_written_is_waited_for_but_not_for_ever),
        cmocka_unit_test(garbage_is_read_in_bounded_time),
        cmocka_unit_test(read_beside_a_writer),
        cmocka_unit_test(rings_are_bounded),
        cmocka_unit_test(blocks_become_lines_as_they_are_read),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
