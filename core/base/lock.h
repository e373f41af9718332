/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only; debug builds check it.
 *
 * The rank is the whole lock order of the core: whoever adds a lock adds its rank here.
 *
 * STRUCTURE    One word: 0 free, 1 taken, 2 taken and somebody sleeps on it (the third mutex of U. Drepper, "Futexes
 *              Are Tricky", 2011). Taking and dropping a lock that nobody waits for are one atomic operation each, in
 *              line: half of what a call into the C library costs, on a path that has some 50 ns in all.
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
    GM_RANK_COUNT
};

struct gm_lock {
    _Atomic int state;
    enum gm_lock_rank rank;
};

#define GM_LOCK_INIT(rank_)                                                                                            \
    {                                                                                                                  \
        0, rank_                                                                                                       \
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
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed)) {
        gm_lock_wait(lock);
    }
}

static inline void gm_lock_drop(struct gm_lock *lock)
{
    gm_lock_note_dropping(lock);
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2) {
        gm_lock_wake(lock);
    }
}

#endif
