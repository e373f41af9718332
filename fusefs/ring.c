/*
 * ring.c - see ring.h.
 */
#include "ring.h"

#include "page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An event that is still not whole when so many more were begun never will be: its writer is dead or no honest one. */
#define LAGGING_MAX 4096u

static _Atomic uint64_t bytes_in_rings;

int gm_ring_create(size_t bytes, struct gm_ring **out, int *fd)
{
    if (atomic_fetch_add(&bytes_in_rings, bytes) + bytes > GM_RINGS_BYTES_MAX) {
        atomic_fetch_sub(&bytes_in_rings, bytes);
        return -ENOSPC;
    }
    struct gm_ring *ring = calloc(1, sizeof *ring);
    int rc = ring == NULL ? -ENOMEM : gm_memory_file("gmlake-trace", bytes);
    void *at = rc < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, rc, 0);
    if (at == MAP_FAILED) {
        if (rc >= 0) {
            close(rc);
            rc = -ENOMEM;
        }
        free(ring);
        atomic_fetch_sub(&bytes_in_rings, bytes);
        return rc;
    }
    ring->at = at;
    ring->bytes = bytes;
    ring->slots = (bytes - sizeof(struct gmlake_ctl_ring)) / sizeof(struct gmlake_ctl_ring_slot);
    *out = ring;
    *fd = rc;
    return 0;
}

void gm_ring_destroy(struct gm_ring *ring)
{
    if (ring != NULL) {
        munmap((void *)(uintptr_t)ring->at, ring->bytes);
        atomic_fetch_sub(&bytes_in_rings, ring->bytes);
        free(ring);
    }
}

uint64_t gm_ring_recorded(const struct gm_ring *ring)
{
    return atomic_load_explicit(&ring->at->head, memory_order_acquire);
}

/* Events that were overwritten before anybody read them. */
static uint64_t overwritten(const struct gm_ring *ring, uint64_t head)
{
    uint64_t unread = head > ring->tail ? head - ring->tail : 0;
    return unread > ring->slots ? unread - ring->slots : 0;
}

uint64_t gm_ring_lost(const struct gm_ring *ring)
{
    return ring->lost + overwritten(ring, gm_ring_recorded(ring));
}

static void lose(struct gm_ring *ring, uint64_t count)
{
    ring->tail += count;
    ring->lost += count;
    ring->untold += count;
}

enum copy { WHOLE, OVERWRITTEN, UNFINISHED };

static enum copy copy_slot(const struct gm_ring *ring, struct gmlake_ctl_event *out)
{
    const struct gmlake_ctl_ring_slot *slot = &ring->at->slot[ring->tail % ring->slots];
    uint64_t words[GMLAKE_CTL_EVENT_WORDS];
    uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
    if (before != ring->tail + 1) {
        return before > ring->tail + 1 ? OVERWRITTEN : UNFINISHED;
    }
    for (size_t i = 0; i < GMLAKE_CTL_EVENT_WORDS; i++) {
        words[i] = atomic_load_explicit(&slot->word[i], memory_order_acquire);
    }
    if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != before) {
        return OVERWRITTEN;
    }
    memcpy(out, words, sizeof *out);
    return WHOLE;
}

size_t gm_ring_read(struct gm_ring *ring, bool ended, struct gmlake_ctl_event *out, size_t room)
{
    size_t count = 0;
    uint64_t head = gm_ring_recorded(ring);
    lose(ring, overwritten(ring, head));
    for (size_t steps = 0; steps < room && ring->tail < head && count < room; steps++) {
        struct gmlake_ctl_event event;
        enum copy copy = copy_slot(ring, &event);
        if (copy == UNFINISHED && !ended && head - ring->tail < LAGGING_MAX) {
            break;
        }
        if (copy != WHOLE) {
            lose(ring, 1);
            continue;
        }
        if (ring->untold > 0) {
            out[count++] = (struct gmlake_ctl_event){.kind = GMLAKE_CTL_EVENT_LOST, .bytes = ring->untold};
            ring->untold = 0;
            if (count == room) {
                break; /* the event is taken the next time */
            }
        }
        out[count++] = event;
        ring->tail++;
    }
    if (count == 0 && ring->untold > 0 && room > 0) {
        out[count++] = (struct gmlake_ctl_event){.kind = GMLAKE_CTL_EVENT_LOST, .bytes = ring->untold};
        ring->untold = 0;
    }
    return count;
}
