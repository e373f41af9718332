/*
 * lock.c - sleeping and waking, and the rank check of debug builds.
 */
#include "lock.h"

#include <assert.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at a taken lock before the thread goes to sleep: most critical sections are some 50 ns long. */
#define SPINS 100

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank)
{
    atomic_init(&lock->state, 0);
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

void gm_lock_wait(struct gm_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        int free = 0;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            return;
        }
        pause_briefly();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    }
}

void gm_lock_wake(struct gm_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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
