/*
 * ring.c - see ring.h.
 */
#include "ring.h"

#include "page.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An event that is still not whole when so many more were begun never will be: its writer is dead or no honest one. */
#define LAGGING_MAX 4096u

/* Guards the list, whose entries never change their sizes and owners. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_ring *rings;

/* Whether the ring keeps within what all rings, and those of its user, may take. Then it is in the list. */
static int enlist(struct gm_ring *ring)
{
    uint64_t all = 0;
    uint64_t of_user = 0;
    pthread_mutex_lock(&lock);
    for (const struct gm_ring *each = rings; each != NULL; each = each->next) {
        all += each->bytes;
        of_user += each->uid == ring->uid ? each->bytes : 0;
    }
    int rc = all + ring->bytes > GM_RINGS_BYTES_MAX                              ? -ENOSPC
             : of_user + ring->bytes > GM_RINGS_BYTES_USER_MAX && ring->uid != 0 ? -EDQUOT
                                                                                 : 0;
    if (rc == 0) {
        ring->next = rings;
        rings = ring;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static void strike_off(const struct gm_ring *ring)
{
    pthread_mutex_lock(&lock);
    struct gm_ring **link = &rings;
    while (*link != ring) {
        link = &(*link)->next;
    }
    *link = ring->next;
    pthread_mutex_unlock(&lock);
}

/* Makes the file and maps it. */
static int open_file(struct gm_ring *ring, int *fd)
{
    int file = gm_memory_file("gmlake-trace", ring->bytes);
    if (file < 0) {
        return file;
    }
    void *at = mmap(NULL, ring->bytes, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        close(file);
        return -ENOMEM;
    }
    ring->at = at;
    *fd = file;
    return 0;
}

int gm_ring_create(uid_t uid, size_t bytes, struct gm_ring **out, int *fd)
{
    struct gm_ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        return -ENOMEM;
    }
    ring->uid = uid;
    ring->bytes = bytes;
    ring->slots = (bytes - sizeof(struct gmlake_ctl_ring)) / sizeof(struct gmlake_ctl_ring_slot);
    int rc = enlist(ring);
    if (rc < 0) {
        free(ring);
        return rc;
    }
    rc = open_file(ring, fd);
    if (rc < 0) {
        strike_off(ring);
        free(ring);
        return rc;
    }
    *out = ring;
    return 0;
}

void gm_ring_destroy(struct gm_ring *ring)
{
    if (ring != NULL) {
        strike_off(ring);
        munmap((void *)(uintptr_t)ring->at, ring->bytes);
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
