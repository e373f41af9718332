/*
 * lock.c - sleeping and waking, and the rank check of debug builds.
 */
#include "lock.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Looks at a taken lock before the thread goes to sleep: most critical sections are some 50 ns long. */
#define SPINS 100

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank)
{
    atomic_init(&lock->taken, 0);
    atomic_init(&lock->sleepers, 0);
    lock->rank = rank;
}

void gm_lock_finish(struct gm_lock *lock)
{
    (void)lock;
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static bool try_to_take(struct gm_lock *lock)
{
    int free = 0;
    return atomic_load_explicit(&lock->taken, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&lock->taken, &free, 1, memory_order_acquire, memory_order_relaxed);
}

/* Every thread of the process passes a full barrier. false: the kernel has no such call, or a sandbox forbids it. */
static bool pass_barrier_everywhere(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) {
        return true;
    }
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void gm_lock_wait(struct gm_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (try_to_take(lock)) {
            return;
        }
        pause_briefly();
    }
    /* Without barriers a wake may be missed, once in a long while: then the sleeper looks by itself. */
    static const struct timespec look_again = {.tv_nsec = 1000000};
    int error = errno;
    atomic_fetch_add_explicit(&lock->sleepers, 1, memory_order_seq_cst);
    bool certain = pass_barrier_everywhere();
    while (!try_to_take(lock)) {
        syscall(SYS_futex, &lock->taken, FUTEX_WAIT_PRIVATE, 1, certain ? NULL : &look_again, NULL, 0);
    }
    atomic_fetch_sub_explicit(&lock->sleepers, 1, memory_order_relaxed);
    errno = error;
}

void gm_lock_wake(struct gm_lock *lock)
{
    int error = errno;
    syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = error;
}

#ifndef NDEBUG
/* One bit a rank: the locks this thread holds. */
static __thread unsigned held __attribute__((tls_model("initial-exec")));

void gm_lock_note_taking(const struct gm_lock *lock)
{
    assert(held >> lock->rank == 0 && "locks are taken in rising rank");
    held |= 1u << lock->rank;
}

void gm_lock_note_dropping(const struct gm_lock *lock)
{
    held &= ~(1u << lock->rank);
}
#endif
