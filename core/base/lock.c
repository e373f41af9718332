/*
 * lock.c - the rank check of debug builds.
 */
#include "lock.h"

#include <assert.h>

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

void gm_lock_finish(struct gm_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

#ifndef NDEBUG
/* One bit a rank: the locks this thread holds. */
static __thread unsigned held __attribute__((tls_model("initial-exec")));

void gm_lock_take(struct gm_lock *lock)
{
    assert(held >> lock->rank == 0 && "locks are taken in rising rank");
    pthread_mutex_lock(&lock->mutex);
    held |= 1u << lock->rank;
}

void gm_lock_drop(struct gm_lock *lock)
{
    held &= ~(1u << lock->rank);
    pthread_mutex_unlock(&lock->mutex);
}
#endif
