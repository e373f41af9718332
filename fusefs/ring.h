/*
 * ring.h - the daemon's side of a trace: the file that a process writes events into (ctl_abi.h), and reading them.
 *
 * The file is created, sized and sealed here, and mapped for reading only. What is in it is a stranger's: counts are
 * bounded, and an event is passed on as it is, for it is only ever shown.
 *
 * CONCURRENCY  the file system's thread; whoever lets go of the process last destroys the ring. The list of all rings
 *              has a lock of its own, under which nothing else is taken.
 */
#ifndef GM_RING_H
#define GM_RING_H

#include <gmlake/ctl_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GM_RING_BYTES_MIN     ((uint64_t)64 << 10)
#define GM_RING_BYTES_MAX     ((uint64_t)256 << 20)
#define GM_RING_BYTES_DEFAULT ((uint64_t)16 << 20)

/* Of all rings together, and of those of one user's processes: nobody can take the traces from all others. */
#define GM_RINGS_BYTES_MAX      ((uint64_t)2 << 30)
#define GM_RINGS_BYTES_USER_MAX ((uint64_t)512 << 20)

struct gm_ring {
    const struct gmlake_ctl_ring *at;
    size_t bytes;
    uint64_t slots;
    uint64_t tail; /* events read or lost so far */
    uint64_t lost;
    uint64_t untold; /* of lost: not told to a reader yet */
    bool on;
    uid_t uid;            /* whose share it counts in */
    struct gm_ring *next; /* in the list of all rings */
};

/*
 * A ring for a process of @uid; root has no share of its own. *fd is for the process; the caller closes it. -ENOSPC too
 * many bytes in rings; -EDQUOT in those of this user; -errno of the system calls.
 */
int gm_ring_create(uid_t uid, size_t bytes, struct gm_ring **out, int *fd);

/* NULL is allowed. */
void gm_ring_destroy(struct gm_ring *ring);

/*
 * Takes the next @room events at most, with one of kind LOST where some are missing. Gives how many; 0: there are none
 * now.
 * @ended: nobody writes any more; what is not whole never will be.
 */
size_t gm_ring_read(struct gm_ring *ring, bool ended, struct gmlake_ctl_event *out, size_t room);

/* Events begun so far, and those that were, or by now are, lost. */
uint64_t gm_ring_recorded(const struct gm_ring *ring);
uint64_t gm_ring_lost(const struct gm_ring *ring);

#endif
