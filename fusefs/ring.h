/*
 * ring.h - the daemon's side of a trace: the file that a process writes events into (ctl_abi.h), and reading them.
 *
 * The file is created, sized and sealed here, and mapped for reading only. What is in it is a stranger's: counts are
 * bounded, and an event is passed on as it is, for it is only ever shown.
 *
 * CONCURRENCY  the file system's thread; whoever lets go of the process last destroys the ring.
 */
#ifndef GM_RING_H
#define GM_RING_H

#include <gmlake/ctl_abi.h>
#include <stdbool.h>
#include <stddef.h>

#define GM_RING_BYTES_MIN     ((uint64_t)64 << 10)
#define GM_RING_BYTES_MAX     ((uint64_t)256 << 20)
#define GM_RING_BYTES_DEFAULT ((uint64_t)16 << 20)

/* Of all rings together. */
#define GM_RINGS_BYTES_MAX ((uint64_t)2 << 30)

struct gm_ring {
    const struct gmlake_ctl_ring *at;
    size_t bytes;
    uint64_t slots;
    uint64_t tail; /* events read or lost so far */
    uint64_t lost;
    uint64_t untold; /* of lost: not told to a reader yet */
    bool on;
};

/* *fd is for the process; the caller closes it. -ENOSPC too many bytes in rings; -errno of the system calls. */
int gm_ring_create(size_t bytes, struct gm_ring **out, int *fd);

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
