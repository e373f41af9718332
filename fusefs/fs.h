/*
 * fs.h - the mount: kernel requests to nodes and back, nothing else.
 *
 * Files say size 0 and are read past the page cache (direct_io), as in procfs. A file's text is rendered when a read
 * starts at its beginning, and kept for that open file: however small the pieces, a reader sees one moment. write(2)
 * is the one point where a value is taken: opening, truncating, flushing and closing change nothing, offsets do not
 * matter.
 *
 * TAKE-OVER    The kernel's first request, by whose answer the mount goes, is in the machine's state: a successor
 *              answers it again, to nobody, and then asks for what its predecessor left unanswered. Inode numbers need
 *              no memory (node.h); an open file that is not known here is made anew from them.
 * CONCURRENCY  Requests are handled one after the other on the thread that calls gm_fs_run(); none of them waits.
 */
#ifndef GM_FS_H
#define GM_FS_H

#include "machine.h"

struct gm_fs;

/*
 * Begins to serve the mount behind @fd (which stays the caller's) with what @machine knows. If an earlier daemon served
 * it, files that are open stay open, and requests that it had taken and not answered are answered here. -errno, with
 * the reason in the log.
 */
int gm_fs_open(struct gm_machine *machine, int fd, struct gm_fs **out);

/*
 * Serves until @signal_fd becomes readable (0) or the file system is unmounted by somebody else (-ENODEV); other
 * errors as the system gives them. Every @beat_ms (-1: never) @beat is called.
 */
int gm_fs_run(struct gm_fs *fs, int signal_fd, int beat_ms, void (*beat)(void *), void *argument);

/* Lets go of the mount, which stays; NULL is allowed. */
void gm_fs_close(struct gm_fs *fs);

#endif
