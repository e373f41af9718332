/*
 * latch.h - publishing a snapshot in shared memory without locks.
 *
 * STRUCTURE    Two copies; the parity of a sequence number selects the published one. The writer fills the other and
 *              then raises the number, so it may be stopped or killed at any instruction and the published copy stays
 *              whole. A reader copies and then looks at the number again.
 * CONCURRENCY  One writer, any number of readers, in any processes. Words are released by the writer and acquired by
 *              the reader: whoever sees a word of a later publication also sees the number that forbids it.
 */
#ifndef GM_LATCH_H
#define GM_LATCH_H

#include <gmlake/ctl_abi.h>

/* Publishes *snapshot. */
void gm_latch_write(struct gmlake_ctl_stats_page *page, const struct gmlake_ctl_snapshot *snapshot);

/*
 * Copies the published snapshot to *out, which is untouched on failure only for -ENODATA: nothing was published yet.
 * -EAGAIN: the writer published during each of @tries copies (an honest writer never does); *out is scratch then.
 */
int gm_latch_read(const struct gmlake_ctl_stats_page *page, unsigned tries, struct gmlake_ctl_snapshot *out);

#endif
