/*
 * test_lock.c - locks exclude each other; debug builds stop at a lock taken against the rank order.
 */
#include "gmtest.h"
#include "lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS = 20000, THREADS = 4 };

static struct gm_lock counter_lock = GM_LOCK_INIT(GM_RANK_POOL);
static int counter;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        gm_lock_take(&counter_lock);
        counter++;
        gm_lock_drop(&counter_lock);
    }
    return NULL;
}

static void one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counter, THREADS * ROUNDS);
}

/* Holds the lock for longer than others spin now and then, so that they sleep; else as briefly as can be. */
static void *hold_and_hammer(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < ROUNDS / 10; i++) {
        gm_lock_take(&counter_lock);
        counter++;
        seed = seed * 1103515245u + 12345u;
        if (seed >> 16 & 31) {
            gm_lock_drop(&counter_lock);
            continue;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(seed >> 18 & 63) * 1000}, NULL);
        gm_lock_drop(&counter_lock);
    }
    return NULL;
}

/* A wake that is missed leaves a thread asleep on a free lock: the test then hangs, and is stopped. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    counter = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_hammer, (void *)(uintptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counter, THREADS * ROUNDS / 10);
}

static void rising_ranks_nest(void **state)
{
    (void)state;
    struct gm_lock locks[GM_RANK_COUNT];
    for (int rank = 1; rank < GM_RANK_COUNT; rank++) {
        gm_lock_init(&locks[rank], (enum gm_lock_rank)rank);
    }
    for (int round = 0; round < 2; round++) {
        for (int rank = 1; rank < GM_RANK_COUNT; rank++) {
            gm_lock_take(&locks[rank]);
        }
        for (int rank = GM_RANK_COUNT - 1; rank >= 1; rank--) {
            gm_lock_drop(&locks[rank]);
        }
    }
    /* Out of order dropping is allowed; a lower lock may be taken again once all are free. */
    gm_lock_take(&locks[GM_RANK_REGISTRY]);
    gm_lock_take(&locks[GM_RANK_TUNABLES]);
    gm_lock_drop(&locks[GM_RANK_REGISTRY]);
    gm_lock_drop(&locks[GM_RANK_TUNABLES]);
    gm_lock_take(&locks[GM_RANK_REGISTRY]);
    gm_lock_drop(&locks[GM_RANK_REGISTRY]);
    for (int rank = 1; rank < GM_RANK_COUNT; rank++) {
        gm_lock_finish(&locks[rank]);
    }
}

#ifndef NDEBUG
/* Runs @misuse in a child that is expected to stop by SIGABRT before it returns. */
static void assert_aborts(void (*misuse)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(sink, STDERR_FILENO);
        misuse();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void take_falling(void)
{
    struct gm_lock pool = GM_LOCK_INIT(GM_RANK_POOL);
    struct gm_lock registry = GM_LOCK_INIT(GM_RANK_REGISTRY);
    gm_lock_take(&pool);
    gm_lock_take(&registry);
}

/* Two pools at once would be a deadlock waiting for the opposite order. */
static void take_equal(void)
{
    struct gm_lock first = GM_LOCK_INIT(GM_RANK_POOL);
    struct gm_lock second = GM_LOCK_INIT(GM_RANK_POOL);
    gm_lock_take(&first);
    gm_lock_take(&second);
}

static void wrong_order_stops_a_debug_build(void **state)
{
    (void)state;
    assert_aborts(take_falling);
    assert_aborts(take_equal);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(rising_ranks_nest),
#ifndef NDEBUG
        cmocka_unit_test(wrong_order_stops_a_debug_build),
#endif
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
