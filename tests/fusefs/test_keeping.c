/*
 * test_keeping.c - what outlives a daemon: the table of descriptors, the state, the keeper that starts the next one;
 * and the allowance of users.
 */
#include "keeper.h"
#include "kept.h"
#include "notify.h"
#include "quota.h"
#include "state.h"

#include "gmtest.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

/* ---- descriptors ---------------------------------------------------------------------------------------------- */

static int any_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void names_lead_to_descriptors(void **state)
{
    (void)state;
    struct gm_kept kept = {0};
    char name[GM_KEPT_NAME_SIZE];
    int fds[40];
    for (unsigned i = 0; i < 40; i++) {
        gm_kept_name(name, GM_KEPT_STATS, i);
        fds[i] = any_fd();
        assert_ok(gm_kept_put(&kept, name, fds[i]));
    }
    assert_int_equal(gm_kept_find(&kept, "stats-17"), fds[17]);
    assert_int_equal(gm_kept_find(&kept, "stats-1"), fds[1]);
    assert_int_equal(gm_kept_find(&kept, "stats-40"), -1);
    int other = any_fd();
    assert_ok(gm_kept_put(&kept, "stats-17", other));
    assert_int_equal(gm_kept_find(&kept, "stats-17"), other);
    assert_false(is_open(fds[17]));
    assert_int_equal(gm_kept_take(&kept, "stats-17"), other);
    assert_int_equal(gm_kept_take(&kept, "stats-17"), -1);
    gm_kept_drop(&kept, "stats-3");
    assert_false(is_open(fds[3]));
    int mount = any_fd();
    assert_ok(gm_kept_put(&kept, GM_KEPT_MOUNT, mount));
    gm_kept_drop_processes(&kept);
    assert_int_equal(kept.count, 1);
    assert_int_equal(gm_kept_find(&kept, GM_KEPT_MOUNT), mount);
    gm_kept_clear(&kept);
    assert_false(is_open(mount));
    close(other);
}

/* ---- state ---------------------------------------------------------------------------------------------------- */

static void a_state_is_what_it_was(void **state)
{
    (void)state;
    struct gm_state *one;
    struct gm_state *two;
    int fd = gm_state_create();
    assert_true(fd >= 0);
    assert_ok(gm_state_map(fd, &one));
    assert_int_equal(one->head.next_serial, 1);
    assert_int_equal(one->tunable[3], GMLAKE_CTL_NO_OVERRIDE);
    one->head.next_serial = 77;
    one->tunable[3] = 5;
    one->process[9].serial = 12;
    uint64_t generation = one->head.generation;
    gm_state_unmap(one);
    assert_ok(gm_state_map(fd, &two));
    assert_int_equal(two->head.next_serial, 77);
    assert_int_equal(two->head.generation, generation);
    assert_int_equal(two->tunable[3], 5);
    assert_int_equal(two->process[9].serial, 12);
    gm_state_unmap(two);
    gm_state_forget(fd);
    assert_ok(gm_state_map(fd, &two));
    assert_int_equal(two->head.next_serial, 77);
    assert_int_equal(two->tunable[3], GMLAKE_CTL_NO_OVERRIDE);
    assert_int_equal(two->process[9].serial, 0);
    gm_state_unmap(two);
    close(fd);
}

/* A newer or older daemon's: the numbers stay unique, the mount can be served, the rest is begun anew. */
static void of_a_state_of_another_form_the_head_is_kept(void **state)
{
    (void)state;
    struct gm_state *map;
    int fd = gm_state_create();
    assert_ok(gm_state_map(fd, &map));
    map->head.size += 8;
    map->head.next_serial = 77;
    map->head.init_length = 104;
    map->process[0].serial = 3;
    map->tunable[0] = 4;
    gm_state_unmap(map);
    assert_int_equal(ftruncate(fd, sizeof(struct gm_state_head) + 100), 0);
    assert_ok(gm_state_map(fd, &map));
    assert_int_equal(map->head.size, sizeof *map);
    assert_int_equal(map->head.next_serial, 77);
    assert_int_equal(map->head.init_length, 104);
    assert_int_equal(map->process[0].serial, 0);
    assert_int_equal(map->tunable[0], GMLAKE_CTL_NO_OVERRIDE);
    gm_state_unmap(map);
    close(fd);
}

static void what_is_no_state_is_refused(void **state)
{
    (void)state;
    struct gm_state *map;
    int fd = memfd_create("other", MFD_CLOEXEC);
    assert_error(gm_state_map(fd, &map), EBADMSG);
    assert_int_equal(ftruncate(fd, sizeof *map), 0);
    assert_error(gm_state_map(fd, &map), EBADMSG);
    close(fd);
    assert_error(gm_state_map(-1, &map), EBADMSG);
    fd = gm_state_create();
    assert_ok(gm_state_map(fd, &map));
    map->head.init_length = GM_STATE_INIT_MAX + 1;
    gm_state_unmap(map);
    assert_error(gm_state_map(fd, &map), EBADMSG);
    close(fd);
}

/* ---- users ---------------------------------------------------------------------------------------------------- */

static void a_user_has_his_places_and_no_other_has_less(void **state)
{
    (void)state;
    struct gm_users users = {0};
    int64_t now = 1000;
    struct gm_user *user = NULL;
    for (unsigned i = 0; i < GM_CONNECTIONS_PER_USER; i++) {
        user = gm_user_enter(&users, 5, now);
        assert_non_null(user);
        now += 10;
    }
    assert_null(gm_user_enter(&users, 5, now));
    struct gm_user *other = gm_user_enter(&users, 6, now);
    assert_non_null(other);
    gm_user_leave(&users, user);
    assert_non_null(gm_user_enter(&users, 5, now));
    for (unsigned i = 0; i < GM_CONNECTIONS_PER_USER; i++) {
        gm_user_leave(&users, user);
    }
    gm_user_leave(&users, other);
    assert_int_equal(users.connections, 0);
    gm_users_tidy(&users, now + 60000);
    assert_null(users.first);
}

static void words_run_out_and_come_back(void **state)
{
    (void)state;
    struct gm_users users = {0};
    struct gm_user *user = gm_user_enter(&users, 5, 0);
    unsigned words = 0;
    while (gm_user_speak(user, 0)) {
        words++;
    }
    assert_int_equal(words, GM_WORDS_AT_ONCE - GM_WORDS_TO_CONNECT);
    assert_null(gm_user_enter(&users, 5, 0));
    /* Coming anew helps nobody: the allowance is the user's. */
    gm_user_leave(&users, user);
    gm_users_tidy(&users, 0);
    assert_ptr_equal(users.first, user);
    assert_null(gm_user_enter(&users, 5, 1));
    /* A thousand looks in a second bring a second's words, no more. */
    words = 0;
    for (int64_t now = 1; now <= 1000; now++) {
        while (gm_user_speak(user, now)) {
            words++;
        }
    }
    assert_in_range(words, GM_WORDS_PER_SECOND * 9 / 10, GM_WORDS_PER_SECOND);
    gm_users_tidy(&users, INT64_MAX);
    assert_null(users.first);
}

/* ---- the keeper ----------------------------------------------------------------------------------------------- */

/* What the children and the keeper of one run share. */
struct story {
    _Atomic unsigned children;
    _Atomic unsigned readies;
    _Atomic unsigned forgotten;
    _Atomic unsigned renewed;
    _Atomic bool was_kept; /* the last child found what the one before had sent */
};

static int serve_and_be_killed(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    unsigned number = ++story->children;
    story->was_kept = gm_kept_find(kept, "thing") >= 0 && gm_kept_find(kept, "dropped") < 0;
    gm_notify_keep("dropped", STDERR_FILENO);
    gm_notify_keep("thing", STDERR_FILENO);
    gm_notify_drop("dropped");
    gm_notify("READY=1");
    if (number < 30) {
        raise(SIGKILL); /* the notices are in the socket; the keeper reads them all the same */
    }
    return 0;
}

static int serve_and_crash(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    (void)kept;
    story->children++;
    gm_notify("READY=1");
    usleep(20000); /* it is seen before it ends */
    _exit(3);
}

static int serve_nothing(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    (void)kept;
    story->children++;
    return 5;
}

static int serve_until_told(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    int signal = 0;
    sigset_t wanted;
    (void)kept;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    story->children++;
    gm_notify("READY=1");
    sigwait(&wanted, &signal);
    return 0;
}

static void note_ready(void *argument)
{
    struct story *story = argument;
    story->readies++;
}

static void note_renewed(void *argument)
{
    struct story *story = argument;
    story->renewed++;
}

static void note_forgotten(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    story->forgotten++;
    gm_kept_drop_processes(kept);
}

/* Runs a keeper in a process of its own; its pid. */
static pid_t start_keeper(int (*serve)(void *, struct gm_kept *), struct story *story)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct gm_kept kept = {0};
        const struct gm_keeper_ops ops = {serve, note_ready, note_renewed, note_forgotten, story, 200};
        unsetenv("NOTIFY_SOCKET");
        int code = gm_keeper_run(&ops, &kept);
        gm_kept_clear(&kept);
        _exit(code);
    }
    return pid;
}

static int code_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What a keeper ends with that is told to end once its child is ready. */
static int code_after_term(int (*serve)(void *, struct gm_kept *), struct story *story)
{
    pid_t keeper = start_keeper(serve, story);
    for (int i = 0; i < 500 && story->readies == 0; i++) {
        usleep(10000);
    }
    assert_int_equal(story->readies, 1);
    assert_int_equal(kill(keeper, SIGTERM), 0);
    return code_of(keeper);
}

static int set_up(void **state)
{
    *state = mmap(NULL, sizeof(struct story), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *state == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    return munmap(*state, sizeof(struct story));
}

static void who_is_killed_has_a_successor_with_what_was_kept(void **state)
{
    struct story *story = *state;
    assert_int_equal(code_of(start_keeper(serve_and_be_killed, story)), 0);
    assert_int_equal(story->children, 30);
    assert_int_equal(story->readies, 1);
    assert_int_equal(story->forgotten, 0);
    assert_true(story->was_kept);
}

static void who_crashes_again_and_again_starts_with_nothing_and_then_no_more(void **state)
{
    struct story *story = *state;
    assert_int_equal(code_of(start_keeper(serve_and_crash, story)), 1);
    assert_int_equal(story->children, 12);
    assert_int_equal(story->renewed, 11);
    assert_int_equal(story->forgotten, 1);
}

static void who_never_gets_ready_is_not_tried_again(void **state)
{
    struct story *story = *state;
    assert_int_equal(code_of(start_keeper(serve_nothing, story)), 5);
    assert_int_equal(story->children, 1);
    assert_int_equal(story->readies, 0);
}

static int serve_stopped(void *argument, struct gm_kept *kept)
{
    struct story *story = argument;
    (void)kept;
    signal(SIGTERM, SIG_DFL);
    raise(SIGSTOP);
    story->children++;
    return serve_until_told(argument, kept);
}

static void who_is_stopped_ends_when_told_to(void **state)
{
    struct story *story = *state;
    pid_t keeper = start_keeper(serve_stopped, story);
    usleep(100000);
    assert_int_equal(story->children, 0);
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(code_of(keeper), 0);
    assert_int_equal(story->children, 2);
}

static int serve_and_await_cont(void *argument, struct gm_kept *kept)
{
    const struct timespec patience = {0, 500000000};
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCONT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    int code = serve_until_told(argument, kept);
    return sigtimedwait(&wanted, NULL, &patience) == SIGCONT ? 4 : code;
}

/* SIGCONT discards a SIGSTOP on its way, with which who attaches to the child counts. */
static void who_is_not_stopped_is_not_told_to_continue(void **state)
{
    assert_int_equal(code_after_term(serve_and_await_cont, *state), 0);
}

static void a_signal_to_the_keeper_ends_both(void **state)
{
    struct story *story = *state;
    assert_int_equal(code_after_term(serve_until_told, story), 0);
    assert_int_equal(story->children, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_descriptors),
        cmocka_unit_test(a_state_is_what_it_was),
        cmocka_unit_test(of_a_state_of_another_form_the_head_is_kept),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(a_user_has_his_places_and_no_other_has_less),
        cmocka_unit_test(words_run_out_and_come_back),
        cmocka_unit_test_setup_teardown(who_is_killed_has_a_successor_with_what_was_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_crashes_again_and_again_starts_with_nothing_and_then_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_never_gets_ready_is_not_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_stopped_ends_when_told_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_not_stopped_is_not_told_to_continue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_signal_to_the_keeper_ends_both, set_up, tear_down),
    };
    return gm_test_result(cmocka_run_group_tests_name("keeping", tests, NULL, NULL));
}
