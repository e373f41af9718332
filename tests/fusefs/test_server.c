/*
 * test_server.c - the socket against peers of every kind: honest, silent, wrong, flooding.
 */
#include "connection.h"
#include "latch.h"
#include "peer.h"
#include "quota.h"
#include "server.h"

#include "gmtest.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

struct fixture {
    struct gm_machine machine;
    struct gm_server *server;
    struct sockaddr_un address;
    int listen_fd;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    memset(&fixture, 0, sizeof fixture);
    gm_machine_init(&fixture.machine, NULL);
    fixture.address.sun_family = AF_UNIX;
    snprintf(fixture.address.sun_path, sizeof fixture.address.sun_path, "/tmp/gmlake-test-server-%d", getpid());
    unlink(fixture.address.sun_path);
    fixture.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *state = &fixture;
    if (bind(fixture.listen_fd, (struct sockaddr *)&fixture.address, sizeof fixture.address) < 0 ||
        listen(fixture.listen_fd, 64) < 0) {
        return -1;
    }
    return gm_server_start(&fixture.machine, fixture.listen_fd, NULL, &fixture.server);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    gm_server_stop(fixture->server);
    gm_machine_finish(&fixture->machine);
    close(fixture->listen_fd);
    unlink(fixture->address.sun_path);
    return 0;
}

static int dial(struct fixture *fixture)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_ok(connect(fd, (struct sockaddr *)&fixture->address, sizeof fixture->address));
    return fd;
}

static struct gmlake_ctl_hello hello(void)
{
    struct gmlake_ctl_hello message = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_HELLO, sizeof message, 0},
        .stat_count = GM_STAT_COUNT,
        .tunable_count = GMLAKE_TUNABLE_COUNT};
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        message.wanted[i] = GMLAKE_CTL_NO_OVERRIDE;
    }
    return message;
}

/* What comes next: the type of a message (its descriptors are closed), 0 the end of the connection, -1 nothing. */
static int next_message(int fd, int timeout_ms, int *error)
{
    union {
        struct gmlake_ctl_header header;
        struct gmlake_ctl_refused refused;
        char bytes[GMLAKE_CTL_MESSAGE_MAX];
    } message;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {&message, sizeof message};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct pollfd wait = {fd, POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) {
        return -1;
    }
    ssize_t length = recvmsg(fd, &head, MSG_CMSG_CLOEXEC);
    if (length <= 0) {
        return 0;
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
    if (rights != NULL) { /* two, or fewer where this process has no room */
        int fds[2];
        size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof fds[0];
        memcpy(fds, CMSG_DATA(rights), count * sizeof fds[0]);
        while (count > 0) {
            close(fds[--count]);
        }
    }
    assert_int_equal(message.header.magic, GMLAKE_CTL_MAGIC);
    assert_int_equal(message.header.length, length);
    if (message.header.type == GMLAKE_CTL_REFUSED && error != NULL) {
        *error = message.refused.error;
    }
    return message.header.type;
}

static void assert_refused(int fd, int expected)
{
    int error = 0;
    assert_int_equal(next_message(fd, 2000, &error), GMLAKE_CTL_REFUSED);
    assert_int_equal(error, expected);
    assert_int_equal(next_message(fd, 2000, NULL), 0);
}

/* Waits until @count processes are attached; the number there is in the end. */
static unsigned settle(struct fixture *fixture, unsigned count)
{
    for (int i = 0; i < 2000 && gm_machine_process_count(&fixture->machine) != count; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return gm_machine_process_count(&fixture->machine);
}

static void a_peer_that_says_hello_is_registered_until_it_leaves(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_hello message = hello();
    int fd = dial(fixture);
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    struct gm_process *process = gm_machine_find_pid(&fixture->machine, getpid());
    assert_non_null(process);
    assert_int_equal(process->identity.uid, getuid());
    assert_true(process->identity.start_time > 0);
    gm_process_release(process);
    close(fd);
    assert_int_equal(settle(fixture, 0), 0);
}

static void a_longer_hello_of_a_newer_peer_is_understood(void **state)
{
    struct fixture *fixture = *state;
    struct {
        struct gmlake_ctl_hello known;
        char more[100];
    } message = {.known = hello()};
    message.known.header.length = sizeof message;
    int fd = dial(fixture);
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    close(fd);
}

static void the_parser_takes_only_whole_hellos_of_its_version(void **state)
{
    (void)state;
    struct gmlake_ctl_hello good = hello();
    struct gmlake_ctl_hello out;
    good.tunable_count = 3;
    good.wanted[3] = 5; /* beyond what it says it knows */
    assert_ok(gm_hello_parse(&good, sizeof good, &out));
    assert_true(out.wanted[3] == GMLAKE_CTL_NO_OVERRIDE);
    for (size_t length = 0; length < sizeof good; length++) {
        assert_error(gm_hello_parse(&good, length, &out), EPROTO);
    }
    for (int which = 0; which < 6; which++) {
        struct gmlake_ctl_hello bad = hello();
        bad.header.magic ^= which == 0;
        bad.header.abi = (uint16_t)(bad.header.abi + (which == 1));
        bad.header.type = (uint16_t)(bad.header.type + (which == 2));
        bad.header.length += which == 3;
        bad.stat_count = which == 4 ? GMLAKE_CTL_STATS_MAX + 1 : 1;
        bad.tunable_count = which == 5 ? UINT32_MAX : 1;
        assert_error(gm_hello_parse(&bad, sizeof bad, &out), EPROTO);
    }
}

static void what_is_no_hello_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char bytes[GMLAKE_CTL_MESSAGE_MAX + 1];
    memset(bytes, 0x5a, sizeof bytes);
    int fd = dial(fixture);
    assert_int_equal(send(fd, bytes, 100, 0), 100);
    assert_refused(fd, EPROTO);
    close(fd);
    /* One longer than any message is not even looked at. */
    fd = dial(fixture);
    assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(next_message(fd, 2000, NULL), 0);
    close(fd);
    struct gmlake_ctl_hello other = hello();
    other.header.abi = 77;
    fd = dial(fixture);
    assert_int_equal(send(fd, &other, sizeof other, 0), sizeof other);
    assert_refused(fd, EPROTO);
    close(fd);
    assert_int_equal(settle(fixture, 0), 0);
}

static void a_second_registration_of_a_process_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_hello message = hello();
    int first = dial(fixture);
    assert_int_equal(send(first, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(first, 2000, NULL), GMLAKE_CTL_WELCOME);
    int second = dial(fixture);
    assert_int_equal(send(second, &message, sizeof message, 0), sizeof message);
    assert_refused(second, EEXIST);
    close(second);
    assert_int_equal(next_message(first, 0, NULL), -1); /* the first is not disturbed */
    close(first);
}

/* As after exec(): the old connection is closed and the new one may be seen first. */
static void a_registration_right_after_the_old_one_closed_is_welcome(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_hello message = hello();
    int fd = dial(fixture);
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    for (int i = 0; i < 200; i++) {
        int next = dial(fixture);
        close(fd);
        assert_int_equal(send(next, &message, sizeof message, 0), sizeof message);
        assert_int_equal(next_message(next, 2000, NULL), GMLAKE_CTL_WELCOME);
        fd = next;
    }
    close(fd);
}

static void a_silent_peer_is_closed_after_a_while(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(fixture);
    assert_int_equal(next_message(fd, 500, NULL), -1);
    assert_int_equal(next_message(fd, 4000, NULL), 0);
    close(fd);
}

/* Who talks more than his words allow has to wait, not the daemon: another user's process would be served meanwhile. */
static void a_chatty_peer_is_listened_to_slowly(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_hello message = hello();
    int fd = dial(fixture);
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    struct timespec start;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    unsigned sent = 0;
    long passed_ms;
    do {
        sent += send(fd, "?", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed_ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    } while (passed_ms < 1000);
    assert_in_range(sent, 100, GM_WORDS_AT_ONCE + 2 * GM_WORDS_PER_SECOND);
    assert_int_equal(gm_machine_process_count(&fixture->machine), 1);
    close(fd);
    assert_int_equal(settle(fixture, 0), 0);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 2048; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Descriptors sent along are not kept: nobody can fill the daemon's table that way. */
static void descriptors_that_a_peer_sends_are_dropped(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(fixture);
    struct gmlake_ctl_hello message = hello();
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    nanosleep(&(struct timespec){0, 100000000}, NULL); /* the server closes what it has sent */
    unsigned before = open_descriptors();
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(20 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {&message, 8};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&head);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(20 * sizeof(int));
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = fd;
    }
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    assert_int_equal(sendmsg(fd, &head, 0), 8);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    assert_int_equal(open_descriptors(), before);
    close(fd);
}

/* One descriptor after the other is missing: the peer is refused or waits, and is served once there are enough. */
static void a_lack_of_descriptors_is_survived_at_every_step(void **state)
{
    struct fixture *fixture = *state;
    struct gmlake_ctl_hello message = hello();
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    bool refused_once = false;
    bool waited_once = false;
    for (rlim_t spare = 0; spare < 12; spare++) {
        int fd = dial(fixture);
        int error = 0;
        struct rlimit scarce = {(rlim_t)fd + 1 + spare, before.rlim_max};
        close(fd);
        assert_int_equal(settle(fixture, 0), 0);
        nanosleep(&(struct timespec){0, 20000000}, NULL); /* the server lets go of that one */
        setrlimit(RLIMIT_NOFILE, &scarce);
        fd = dial(fixture);
        /* The answer may be there, and the socket closed, before the message is sent. */
        (void)!send(fd, &message, sizeof message, MSG_NOSIGNAL);
        int answer = next_message(fd, 300, &error);
        setrlimit(RLIMIT_NOFILE, &before);
        if (answer == GMLAKE_CTL_REFUSED) {
            assert_int_equal(error, EMFILE);
            refused_once = true;
        } else {
            waited_once |= answer == -1;
            assert_int_equal(answer == -1 ? next_message(fd, 2000, NULL) : answer, GMLAKE_CTL_WELCOME);
        }
        close(fd);
        assert_int_equal(settle(fixture, 0), 0);
    }
    assert_true(refused_once);
    assert_true(waited_once);
}

static void one_user_cannot_take_all_places(void **state)
{
    struct fixture *fixture = *state;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 4 * GM_CONNECTIONS_PER_USER) {
        gm_skip("only %lu descriptors are allowed", (unsigned long)limit.rlim_cur);
    }
    static int fds[GM_CONNECTIONS_PER_USER];
    for (unsigned i = 0; i < GM_CONNECTIONS_PER_USER; i++) {
        fds[i] = dial(fixture);
    }
    int one_more = dial(fixture);
    assert_refused(one_more, EDQUOT);
    close(one_more);
    for (unsigned i = 0; i < GM_CONNECTIONS_PER_USER; i++) {
        close(fds[i]);
    }
    /* Places are free again once those are gone. */
    struct gmlake_ctl_hello message = hello();
    int rc = -1;
    for (int i = 0; i < 100 && rc != GMLAKE_CTL_WELCOME; i++) {
        int fd = dial(fixture);
        (void)!send(fd, &message, sizeof message, MSG_NOSIGNAL);
        rc = next_message(fd, 2000, NULL);
        close(fd);
    }
    assert_int_equal(rc, GMLAKE_CTL_WELCOME);
}

/* ---- killed at any point --------------------------------------------------------------------------------------------
 */

/* Attaches, publishes, publishes again and leaves. */
static int live_a_little(const struct fixture *fixture)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    struct gm_addresses addresses = {.count = 1};
    struct gmlake_ctl_snapshot snapshot = {.generation = 1, .stat_count = GM_STAT_COUNT};
    addresses.at[0] = fixture->address;
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    if (gm_connection_open(&connection, &addresses) < 0) {
        return 1;
    }
    gm_latch_write(connection.stats, &snapshot);
    gm_latch_write(connection.stats, &snapshot);
    gm_connection_close(&connection);
    return 0;
}

/* A child that is stopped at its @n-th step of the @kind: PTRACE_SYSCALL or PTRACE_SINGLESTEP; 0: it has ended. */
static pid_t child_at_step(const struct fixture *fixture, enum __ptrace_request kind, unsigned n)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(live_a_little(fixture));
    }
    waitpid(child, &status, 0);
    for (unsigned i = 0; i < n && WIFSTOPPED(status); i++) {
        ptrace(kind, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    if (!WIFSTOPPED(status)) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        return 0;
    }
    return child;
}

static double ms_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) * 1e3 + (double)(now.tv_nsec - start->tv_nsec) / 1e6;
}

/* Stopped there, it holds nobody up; killed there, it is forgotten within 100 ms. Gives the time that the latter took.
 */
static double stop_and_kill(struct fixture *fixture, pid_t child)
{
    struct timespec start;
    struct gmlake_ctl_hello message = hello();
    struct gm_reading reading;
    struct gm_process *process = gm_machine_find_pid(&fixture->machine, child);
    if (process != NULL) {
        gm_process_read(process, &reading);
        gm_process_release(process);
    }
    int fd = dial(fixture);
    assert_int_equal(send(fd, &message, sizeof message, 0), sizeof message);
    assert_int_equal(next_message(fd, 2000, NULL), GMLAKE_CTL_WELCOME);
    clock_gettime(CLOCK_MONOTONIC, &start);
    kill(child, SIGKILL);
    while (gm_machine_process_count(&fixture->machine) != 1 && ms_since(&start) < 5000) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    double took = ms_since(&start);
    waitpid(child, NULL, 0);
    close(fd);
    assert_int_equal(settle(fixture, 0), 0);
    return took;
}

static void a_process_may_be_killed_at_any_point(void **state)
{
    struct fixture *fixture = *state;
    double took[2] = {0, 0};
    unsigned points = 0;
    for (unsigned n = 0;; n++, points++) {
        pid_t child = child_at_step(fixture, PTRACE_SYSCALL, n);
        if (child == 0) {
            break;
        }
        double ms = stop_and_kill(fixture, child);
        took[0] = ms > took[0] ? ms : took[0];
    }
    assert_true(points > 20);
    /* Single steps, dense at first: each costs all steps before it. */
    for (unsigned n = 1;; n += n / 2 + 1, points++) {
        pid_t child = child_at_step(fixture, PTRACE_SINGLESTEP, n);
        if (child == 0) {
            break;
        }
        double ms = stop_and_kill(fixture, child);
        took[1] = ms > took[1] ? ms : took[1];
    }
    printf("%u points, the longest to be forgotten %.1f and %.1f ms\n", points, took[0], took[1]);
    assert_true(took[0] < 1000 && took[1] < 1000); /* 100 on a machine that does nothing else */
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_peer_that_says_hello_is_registered_until_it_leaves),
        TEST(a_longer_hello_of_a_newer_peer_is_understood),
        TEST(the_parser_takes_only_whole_hellos_of_its_version),
        TEST(what_is_no_hello_is_refused),
        TEST(a_second_registration_of_a_process_is_refused),
        TEST(a_registration_right_after_the_old_one_closed_is_welcome),
        TEST(a_silent_peer_is_closed_after_a_while),
        TEST(a_chatty_peer_is_listened_to_slowly),
        TEST(descriptors_that_a_peer_sends_are_dropped),
        TEST(a_lack_of_descriptors_is_survived_at_every_step),
        TEST(one_user_cannot_take_all_places),
        TEST(a_process_may_be_killed_at_any_point),
    };
    return gm_test_result(cmocka_run_group_tests_name("server", tests, NULL, NULL));
}
