/*
 * recorder.c - see recorder.h.
 */
#include "recorder.h"

#include "connection.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Atomic(struct gmlake_ctl_ring *) gm_recorder_ring;

/* Of the ring in use. Written before the ring is shown, and not while it is in use. */
static size_t mapped_bytes;
static uint64_t slots;

void gm_recorder_note(const struct gmlake_ctl_event *event)
{
    struct gmlake_ctl_ring *ring = atomic_load_explicit(&gm_recorder_ring, memory_order_acquire);
    if (ring == NULL) {
        return;
    }
    uint64_t words[GMLAKE_CTL_EVENT_WORDS];
    memcpy(words, event, sizeof words);
    uint64_t number = atomic_fetch_add_explicit(&ring->head, 1, memory_order_relaxed);
    struct gmlake_ctl_ring_slot *slot = &ring->slot[number % slots];
    atomic_store_explicit(&slot->sequence, 0, memory_order_relaxed);
    /* Released word by word: who sees a word of a later event sees, too, that the slot is being written. */
    for (size_t i = 0; i < GMLAKE_CTL_EVENT_WORDS; i++) {
        atomic_store_explicit(&slot->word[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&slot->sequence, number + 1, memory_order_release);
}

int gm_recorder_start(int fd, size_t size, void (*watch)(void))
{
    void *at;
    if (size < sizeof(struct gmlake_ctl_ring) + sizeof(struct gmlake_ctl_ring_slot)) {
        return -EINVAL;
    }
    int rc = gm_connection_map(fd, size, PROT_READ | PROT_WRITE, &at);
    if (rc < 0) {
        return rc;
    }
    gm_recorder_stop(watch);
    madvise(at, size, MADV_DONTFORK);
    mapped_bytes = size;
    slots = (size - sizeof(struct gmlake_ctl_ring)) / sizeof(struct gmlake_ctl_ring_slot);
    atomic_store_explicit(&gm_recorder_ring, at, memory_order_release);
    watch();
    return 0;
}

void gm_recorder_stop(void (*watch)(void))
{
    struct gmlake_ctl_ring *ring = atomic_exchange(&gm_recorder_ring, NULL);
    if (ring != NULL) {
        watch();
        munmap(ring, mapped_bytes);
    }
}

void gm_recorder_forget(void)
{
    atomic_store(&gm_recorder_ring, NULL);
}
