/*
 * page.h - the two memory files of a registration: created, sized and sealed here, so that the process they are sent
 * to can neither shrink them under the daemon nor write the one that is the daemon's.
 */
#ifndef GM_PAGE_H
#define GM_PAGE_H

#include <gmlake/ctl_abi.h>
#include <stddef.h>

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

/*
 * The pages of a process whose earlier daemon died, from what was kept of them, the same two descriptors: the
 * statistics are the very page, which the process goes on writing; of the tunables a copy is made, since nobody can
 * get to write the old page any more. *tunables_fd is the copy's, for the process. -EBADMSG: not such pages.
 */
int gm_pages_restore(struct gm_pages *out, const int old_fds[2], int *tunables_fd);

/* A memory file of @size zero bytes, sealed so that its size is fixed. The descriptor or -errno. */
int gm_memory_file(const char *name, size_t size);

/* Unmaps both. */
void gm_pages_destroy(struct gm_pages *pages);

#endif
