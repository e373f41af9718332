/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only; debug builds check it.
 *
 * The rank is the whole lock order of the core: whoever adds a lock adds its rank here.
 *
 * STRUCTURE    A word that says whether the lock is taken, and the number of threads that sleep until it is not.
 *              Taking a lock that is free is one atomic operation, dropping it a plain store and a load, both in line:
 *              the path they are on has some 30 ns in all, and each atomic operation holds up what comes after it.
 *              The processor may do that load before others see that store. A thread that is about to sleep therefore
 *              says so, and has membarrier(2) make every running thread of the process pass a barrier, before it looks
 *              at the word once more: who dropped the lock before has then dropped it for all to see, and who drops it
 *              later sees that there is a sleeper.
 */
#ifndef GM_LOCK_H
#define GM_LOCK_H

#include <stdatomic.h>

enum gm_lock_rank {
    GM_RANK_CONTEXTS = 1, /* preload: which context has which allocator (readers take no lock) */
    GM_RANK_CREATE,       /* api: making the shared allocator of a device */
    GM_RANK_REGISTRY,     /* api: the list of allocators of the process */
    GM_RANK_POOL,         /* pool: everything of one device's pool */
    GM_RANK_TUNABLES,     /* ctl: writers of tunables (readers take no lock) */
    GM_RANK_ORIGIN,       /* preload: which blocks came from plain calls */
    GM_RANK_TABLES,       /* base: the memory of tables */
    GM_RANK_COUNT
};

struct gm_lock {
    _Atomic int taken;
    _Atomic int sleepers;
    enum gm_lock_rank rank;
};

#define GM_LOCK_INIT(rank_)                                                                                            \
    {                                                                                                                  \
        0, 0, rank_                                                                                                    \
    }

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank);
void gm_lock_finish(struct gm_lock *lock);

/* The slow halves: sleep until the lock is ours; wake one that sleeps. */
void gm_lock_wait(struct gm_lock *lock);
void gm_lock_wake(struct gm_lock *lock);

/* Debug builds: note the rank, and that it is higher than those held. Elsewhere nothing. */
#ifdef NDEBUG
static inline void gm_lock_note_taking(const struct gm_lock *lock)
{
    (void)lock;
}

static inline void gm_lock_note_dropping(const struct gm_lock *lock)
{
    (void)lock;
}
#else
void gm_lock_note_taking(const struct gm_lock *lock);
void gm_lock_note_dropping(const struct gm_lock *lock);
#endif

static inline void gm_lock_take(struct gm_lock *lock)
{
    int free = 0;
    gm_lock_note_taking(lock);
    if (!atomic_compare_exchange_strong_explicit(&lock->taken, &free, 1, memory_order_acquire, memory_order_relaxed)) {
        gm_lock_wait(lock);
    }
}

static inline void gm_lock_drop(struct gm_lock *lock)
{
    gm_lock_note_dropping(lock);
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&lock->sleepers, memory_order_relaxed) != 0, 0)) {
        gm_lock_wake(lock);
    }
}

#endif
