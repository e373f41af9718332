/*
 * lock.h - mutexes with a rank. A thread takes locks in rising rank only; debug builds check it.
 *
 * The rank is the whole lock order of the core: whoever adds a lock adds its rank here.
 */
#ifndef GM_LOCK_H
#define GM_LOCK_H

#include <pthread.h>

enum gm_lock_rank {
    GM_RANK_CREATE = 1, /* api: making the shared allocator of a device */
    GM_RANK_REGISTRY,   /* api: the list of allocators of the process */
    GM_RANK_AGENT,      /* ctl: the connection to the daemon */
    GM_RANK_POOL,       /* pool: everything of one device's pool */
    GM_RANK_TUNABLES,   /* ctl: writers of tunables (readers take no lock) */
    GM_RANK_ORIGIN,     /* preload: which blocks came from plain calls */
    GM_RANK_COUNT
};

struct gm_lock {
    pthread_mutex_t mutex;
    enum gm_lock_rank rank;
};

#define GM_LOCK_INIT(rank_)                                                                                            \
    {                                                                                                                  \
        PTHREAD_MUTEX_INITIALIZER, rank_                                                                               \
    }

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank);
void gm_lock_finish(struct gm_lock *lock);

#ifdef NDEBUG
static inline void gm_lock_take(struct gm_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void gm_lock_drop(struct gm_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}
#else
void gm_lock_take(struct gm_lock *lock);
void gm_lock_drop(struct gm_lock *lock);
#endif

#endif
