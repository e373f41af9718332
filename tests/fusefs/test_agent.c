/*
 * test_agent.c - the agent: beside a daemon, without one, with one that comes and goes or talks nonsense, over fork,
 * and in a host that closes descriptors it does not know.
 */
#include "agent.h"
#include "server.h"
#include "tunables.h"

#include "gmtest.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static _Atomic uint64_t reserved;
static _Atomic unsigned calls;

static unsigned count_devices(void)
{
    return 1;
}

static int give_device(unsigned index, struct gm_agent_device *out)
{
    (void)index;
    atomic_fetch_add(&calls, 1);
    out->ordinal = 3;
    out->capacity = 1000;
    out->stats.reserved = atomic_load(&reserved);
    return 0;
}

static const struct gm_agent_ops ops = {.device_count = count_devices, .device = give_device};

/* A daemon without a mount. */
struct daemon {
    struct gm_machine machine;
    struct gm_server *server;
    int listen_fd;
};

static int listen_here(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    unlink(address.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 8) < 0) {
        fail_msg("listen: %s", strerror(errno));
    }
    return fd;
}

static void start_daemon(struct daemon *daemon)
{
    gm_machine_init(&daemon->machine, NULL);
    daemon->listen_fd = listen_here();
    assert_ok(gm_server_start(&daemon->machine, daemon->listen_fd, NULL, &daemon->server));
}

static void stop_daemon(struct daemon *daemon)
{
    close(daemon->listen_fd);
    unlink(address.sun_path);
    gm_server_stop(daemon->server);
    gm_machine_finish(&daemon->machine);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The process of @pid once it is attached; fails the test after five seconds. */
static struct gm_process *wait_for(struct daemon *daemon, pid_t pid)
{
    for (int i = 0; i < 500; i++) {
        struct gm_process *process = gm_machine_find_pid(&daemon->machine, pid);
        if (process != NULL) {
            return process;
        }
        pause_ms(10);
    }
    fail_msg("process %d did not attach", (int)pid);
    return NULL;
}

/* What the process says is reserved once it is @expected, or after three seconds. */
static uint64_t wait_for_figure(struct gm_process *process, uint64_t expected)
{
    struct gm_reading reading;
    uint64_t figure = 0;
    for (int i = 0; i < 300; i++) {
        gm_process_read(process, &reading);
        figure = reading.snapshot.device_count == 1 ? reading.snapshot.device[0].stat[GM_STAT_reserved] : 0;
        if (figure == expected) {
            break;
        }
        pause_ms(10);
    }
    return figure;
}

static unsigned threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks != NULL && readdir(tasks) != NULL) {
        count++;
    }
    closedir(tasks);
    return count - 2;
}

/* The threads that the test has without the agent and a daemon. */
static unsigned own_threads;

/* A sanitizer's own thread comes with the first that is made, so it is a thread that counts: all but itself. */
static void *count_own_threads(void *unused)
{
    (void)unused;
    own_threads = threads() - 1;
    return NULL;
}

/* Whether there come to be @expected threads: the kernel lists one for a moment after it was joined. */
static bool come_to(unsigned expected)
{
    for (int i = 0; i < 500 && threads() != expected; i++) {
        pause_ms(10);
    }
    return threads() == expected;
}

static int tear_down(void **state)
{
    (void)state;
    gm_agent_stop();
    if (!come_to(own_threads)) {
        print_error("%u threads are left, not %u\n", threads(), own_threads);
        return -1;
    }
    gm_tunables_override_with(NULL, NULL);
    unlink(address.sun_path);
    return 0;
}

/* ---- with a daemon -------------------------------------------------------------------------------------------- */

static void figures_appear_and_follow(void **state)
{
    (void)state;
    struct daemon daemon;
    start_daemon(&daemon);
    atomic_store(&reserved, 111);
    assert_ok(gm_agent_start(&ops));
    assert_ok(gm_agent_start(&ops)); /* again: nothing happens */
    struct gm_process *process = wait_for(&daemon, getpid());
    assert_int_equal(wait_for_figure(process, 111), 111);
    atomic_store(&reserved, 222);
    assert_int_equal(wait_for_figure(process, 222), 222);
    struct gm_reading reading;
    gm_process_read(process, &reading);
    assert_int_equal(reading.snapshot.device[0].ordinal, 3);
    assert_int_equal(reading.snapshot.device[0].capacity, 1000);
    assert_false(reading.stale);
    assert_true(reading.age_us < 2000000);
    gm_process_release(process);
    gm_agent_stop();
    stop_daemon(&daemon);
}

static void an_idle_process_shows_itself_now_and_then(void **state)
{
    (void)state;
    struct daemon daemon;
    struct gm_reading first;
    struct gm_reading later;
    start_daemon(&daemon);
    assert_ok(gm_agent_start(&ops));
    struct gm_process *process = wait_for(&daemon, getpid());
    wait_for_figure(process, atomic_load(&reserved));
    pause_ms(300);
    gm_process_read(process, &first);
    pause_ms(2500);
    gm_process_read(process, &later);
    assert_in_range(later.snapshot.generation - first.snapshot.generation, 1, 4);
    assert_true(later.age_us < 1500000);
    gm_process_release(process);
    gm_agent_stop();
    stop_daemon(&daemon);
}

/* As the next allocation would read it. */
static uint64_t in_force(enum gmlake_tunable which)
{
    gm_tunables_look();
    return gm_tunable(which);
}

static void an_override_works_at_once_and_outlives_the_daemon(void **state)
{
    (void)state;
    struct daemon daemon;
    start_daemon(&daemon);
    assert_ok(gm_agent_start(&ops));
    struct gm_process *process = wait_for(&daemon, getpid());
    wait_for_figure(process, atomic_load(&reserved));
    uint64_t own = in_force(GMLAKE_TUNABLE_cut_min);
    gm_machine_set_tunable(&daemon.machine, process, GMLAKE_TUNABLE_cut_min, 5u << 20);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_min), 5u << 20); /* no waiting: it looks at the same memory */
    gm_machine_set_tunable(&daemon.machine, NULL, GMLAKE_TUNABLE_cut_budget, 77);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_budget), 77);
    gm_process_release(process);
    stop_daemon(&daemon);
    pause_ms(400);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_min), 5u << 20);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_budget), 77);

    /* The next daemon takes over what was set for this process, and knows nothing of the old one's machine values. */
    start_daemon(&daemon);
    process = wait_for(&daemon, getpid());
    wait_for_figure(process, atomic_load(&reserved));
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_min), 5u << 20);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_budget), 1000);
    gm_machine_set_tunable(&daemon.machine, process, GMLAKE_TUNABLE_cut_min, GMLAKE_CTL_NO_OVERRIDE);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_min), own);
    gm_process_release(process);
    gm_agent_stop();
    stop_daemon(&daemon);
}

static void stopping_detaches_and_starting_attaches_again(void **state)
{
    (void)state;
    struct daemon daemon;
    start_daemon(&daemon);
    for (int i = 0; i < 3; i++) {
        assert_ok(gm_agent_start(&ops));
        gm_process_release(wait_for(&daemon, getpid()));
        gm_agent_stop();
        for (int wait = 0; wait < 200 && gm_machine_process_count(&daemon.machine) > 0; wait++) {
            pause_ms(5);
        }
        assert_int_equal(gm_machine_process_count(&daemon.machine), 0);
    }
    gm_agent_stop(); /* stopped already: nothing happens */
    stop_daemon(&daemon);
}

/* ---- without ------------------------------------------------------------------------------------------------- */

static void without_a_daemon_nothing_happens(void **state)
{
    (void)state;
    unsigned before = atomic_load(&calls);
    assert_ok(gm_agent_start(&ops));
    pause_ms(300);
    assert_int_equal(threads(), own_threads + 1);
    assert_int_equal(atomic_load(&calls), before);
    gm_agent_stop();
    assert_true(come_to(own_threads));
}

static void the_thread_takes_no_signals(void **state)
{
    (void)state;
    char path[64];
    char line[256];
    assert_ok(gm_agent_start(&ops));
    pause_ms(50);
    DIR *tasks = opendir("/proc/self/task");
    unsigned found = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%.16s/status", entry->d_name);
        FILE *status = fopen(path, "re");
        bool agent = false;
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            agent |= strcmp(line, "Name:\tgmlake-agent\n") == 0;
            /* All but SIGKILL, SIGSTOP and the two that the C library keeps for itself. */
            if (agent && strncmp(line, "SigBlk:", 7) == 0) {
                found++;
                assert_int_equal(strtoull(line + 8, NULL, 16) | 0x180000000ull, 0xfffffffffffbfeffull | 0x180000000ull);
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    closedir(tasks);
    assert_int_equal(found, 1);
}

/* ---- a daemon that talks nonsense ------------------------------------------------------------------------------ */

enum nonsense {
    SAYS_NOTHING_USEFUL,
    SENDS_NO_PAGES,
    SENDS_UNSEALED_PAGES,
    SENDS_SHORT_PAGES,
    SENDS_A_DIRECTORY,
    REFUSES
};

static void send_with(int fd, const void *bytes, size_t length, const int *fds, size_t count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

static int file_of(size_t size, int seals)
{
    int fd = memfd_create("nonsense", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0) {
        fail_msg("memfd: %s", strerror(errno));
    }
    return fd;
}

static void talk_nonsense(int fd, enum nonsense what)
{
    struct gmlake_ctl_welcome welcome = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_WELCOME, sizeof welcome, 0}};
    struct gmlake_ctl_refused refused = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_REFUSED, sizeof refused, 0}, .error = EDQUOT};
    int fds[2] = {-1, -1};
    switch (what) {
    case SAYS_NOTHING_USEFUL:
        send_with(fd, "hello there", 11, NULL, 0);
        return;
    case SENDS_NO_PAGES:
        send_with(fd, &welcome, sizeof welcome, NULL, 0);
        return;
    case REFUSES:
        send_with(fd, &refused, sizeof refused, NULL, 0);
        return;
    case SENDS_UNSEALED_PAGES:
        fds[0] = file_of(1 << 20, 0);
        fds[1] = file_of(1 << 20, 0);
        break;
    case SENDS_SHORT_PAGES:
        fds[0] = file_of(4096, F_SEAL_SHRINK);
        fds[1] = file_of(16, F_SEAL_SHRINK);
        break;
    case SENDS_A_DIRECTORY:
        fds[0] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fds[1] = dup(fds[0]);
        break;
    }
    send_with(fd, &welcome, sizeof welcome, fds, 2);
    close(fds[0]);
    close(fds[1]);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void nonsense_is_left_alone_and_tried_again(void **state)
{
    (void)state;
    unsigned before = open_descriptors();
    for (int what = SAYS_NOTHING_USEFUL; what <= REFUSES; what++) {
        unsigned calls_before = atomic_load(&calls);
        int listen_fd = listen_here();
        assert_ok(gm_agent_start(&ops));
        for (int attempt = 0; attempt < 2; attempt++) {
            struct pollfd wait = {listen_fd, POLLIN, 0};
            assert_int_equal(poll(&wait, 1, 5000), 1);
            int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
            talk_nonsense(fd, (enum nonsense)what);
            char byte[GMLAKE_CTL_MESSAGE_MAX];
            assert_true(recv(fd, byte, sizeof byte, 0) > 0);     /* its HELLO */
            assert_int_equal(recv(fd, byte, sizeof byte, 0), 0); /* and it leaves */
            close(fd);
        }
        gm_agent_stop();
        close(listen_fd);
        unlink(address.sun_path);
        assert_int_equal(atomic_load(&calls), calls_before);
        assert_int_equal(open_descriptors(), before);
    }
}

/* ---- fork and closed descriptors ------------------------------------------------------------------------------ */

#ifndef __SANITIZE_THREAD__
static int in_child(void)
{
    /* No agent yet, and none of the parent's overrides. */
    if (threads() != 1 || in_force(GMLAKE_TUNABLE_cut_budget) != 1000) {
        return 1;
    }
    if (gm_agent_start(&ops) < 0 || threads() != 2) {
        return 2;
    }
    pause_ms(600); /* time to attach; the parent looks */
    int verdict = in_force(GMLAKE_TUNABLE_cut_budget) == 31 ? 0 : 3;
    gm_agent_stop();
    return verdict;
}

static void a_child_attaches_on_its_own(void **state)
{
    (void)state;
    struct daemon daemon;
    start_daemon(&daemon);
    assert_ok(gm_agent_start(&ops));
    struct gm_process *process = wait_for(&daemon, getpid());
    wait_for_figure(process, atomic_load(&reserved));
    gm_machine_set_tunable(&daemon.machine, process, GMLAKE_TUNABLE_cut_budget, 5);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(in_child());
    }
    struct gm_process *of_child = wait_for(&daemon, child);
    gm_machine_set_tunable(&daemon.machine, of_child, GMLAKE_TUNABLE_cut_budget, 31);
    assert_int_equal(in_force(GMLAKE_TUNABLE_cut_budget), 5);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The child's end takes nothing from the parent. */
    for (int i = 0; i < 100 && !atomic_load(&of_child->gone); i++) {
        pause_ms(5);
    }
    assert_true(atomic_load(&of_child->gone));
    assert_false(atomic_load(&process->gone));
    gm_process_release(of_child);
    gm_process_release(process);
    gm_agent_stop();
    stop_daemon(&daemon);
}

#endif

static int find_agent_socket(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_un peer;
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && strcmp(peer.sun_path, address.sun_path) == 0) {
            return fd;
        }
    }
    return -1;
}

/* The number of the agent's socket becomes the host's own: the agent neither reads from it nor closes it. */
static void a_descriptor_that_the_host_took_is_not_touched(void **state)
{
    (void)state;
    struct daemon daemon;
    int pair[2];
    char byte;
    start_daemon(&daemon);
    assert_ok(gm_agent_start(&ops));
    struct gm_process *process = wait_for(&daemon, getpid());
    wait_for_figure(process, atomic_load(&reserved));
    int fd = find_agent_socket();
    assert_true(fd >= 0);
    assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    assert_int_equal(dup2(pair[0], fd), fd);
    assert_int_equal(send(pair[1], "x", 1, 0), 1);
    /* The agent notices, and attaches anew. */
    for (int i = 0; i < 300 && !atomic_load(&process->gone); i++) {
        pause_ms(10);
    }
    gm_process_release(process);
    process = wait_for(&daemon, getpid());
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
    assert_int_equal(byte, 'x');
    gm_process_release(process);
    gm_agent_stop();
    close(fd);
    close(pair[0]);
    close(pair[1]);
    stop_daemon(&daemon);
}

static void *start_and_stop(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++) {
        gm_agent_start(&ops);
        gm_agent_stop();
    }
    return NULL;
}

static void starting_and_stopping_from_many_threads_ends_well(void **state)
{
    (void)state;
    pthread_t workers[4];
    for (int i = 0; i < 4; i++) {
        assert_ok(-pthread_create(&workers[i], NULL, start_and_stop, NULL));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i], NULL);
    }
    gm_agent_stop();
    assert_true(come_to(own_threads));
}

int main(void)
{
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/gmlake-test-agent-%d", getpid());
    setenv("GMLAKE_SOCKET", address.sun_path, 1);
    pthread_t counting;
    if (pthread_create(&counting, NULL, count_own_threads, NULL) != 0 || pthread_join(counting, NULL) != 0) {
        return 1;
    }
#define TEST(function) cmocka_unit_test_teardown(function, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(figures_appear_and_follow),
        TEST(an_idle_process_shows_itself_now_and_then),
        TEST(an_override_works_at_once_and_outlives_the_daemon),
        TEST(stopping_detaches_and_starting_attaches_again),
        TEST(without_a_daemon_nothing_happens),
        TEST(the_thread_takes_no_signals),
        TEST(nonsense_is_left_alone_and_tried_again),
#ifndef __SANITIZE_THREAD__ /* which ends a forked child of a process with threads that starts one of its own */
        TEST(a_child_attaches_on_its_own),
#endif
        TEST(a_descriptor_that_the_host_took_is_not_touched),
        TEST(starting_and_stopping_from_many_threads_ends_well),
    };
    return gm_test_result(cmocka_run_group_tests_name("agent", tests, NULL, NULL));
}
