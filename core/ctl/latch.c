/*
 * latch.c - see latch.h.
 */
#include "latch.h"

#include <errno.h>
#include <string.h>

void gm_latch_write(struct gmlake_ctl_stats_page *page, const struct gmlake_ctl_snapshot *snapshot)
{
    uint64_t next = atomic_load_explicit(&page->sequence, memory_order_relaxed) + 1;
    _Atomic uint64_t *copy = page->copy[next & 1];
    const char *from = (const char *)snapshot;
    for (size_t i = 0; i < GMLAKE_CTL_SNAPSHOT_WORDS; i++) {
        uint64_t word;
        memcpy(&word, from + i * sizeof word, sizeof word);
        atomic_store_explicit(&copy[i], word, memory_order_release);
    }
    atomic_store_explicit(&page->sequence, next, memory_order_release);
}

int gm_latch_read(const struct gmlake_ctl_stats_page *page, unsigned tries, struct gmlake_ctl_snapshot *out)
{
    while (tries-- > 0) {
        uint64_t sequence = atomic_load_explicit(&page->sequence, memory_order_acquire);
        if (sequence == 0) {
            return -ENODATA;
        }
        const _Atomic uint64_t *copy = page->copy[sequence & 1];
        char *to = (char *)out;
        for (size_t i = 0; i < GMLAKE_CTL_SNAPSHOT_WORDS; i++) {
            uint64_t word = atomic_load_explicit(&copy[i], memory_order_acquire);
            memcpy(to + i * sizeof word, &word, sizeof word);
        }
        if (atomic_load_explicit(&page->sequence, memory_order_relaxed) == sequence) {
            return 0;
        }
    }
    return -EAGAIN;
}
