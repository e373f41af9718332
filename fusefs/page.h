/*
 * page.h - the two memory files of a registration: created, sized and sealed here, so that the process they are sent
 * to can neither shrink them under the daemon nor write the one that is the daemon's.
 */
#ifndef GM_PAGE_H
#define GM_PAGE_H

#include <gmlake/ctl_abi.h>

/* The daemon's side of both pages. Invariant: both mapped or both NULL. */
struct gm_pages {
    const struct gmlake_ctl_stats_page *stats; /* read-only here; the process writes it whenever it likes */
    struct gmlake_ctl_tunables_page *tunables; /* read-only there */
};

/*
 * Creates both pages, the tunables without any override. fds[0] (statistics, read and write) and fds[1] (tunables,
 * read-only) are for the process; the caller closes them once they are sent. -errno of the system calls.
 */
int gm_pages_create(struct gm_pages *out, int fds[2]);

/* Unmaps both. */
void gm_pages_destroy(struct gm_pages *pages);

#endif
