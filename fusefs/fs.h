/*
 * fs.h - the mount: kernel requests to nodes and back, nothing else.
 *
 * Files say size 0 and are read past the page cache (direct_io), as in procfs. A file's text is rendered when a read
 * starts at its beginning, and kept for that open file: however small the pieces, a reader sees one moment. write(2)
 * is the one point where a value is taken: opening, truncating, flushing and closing change nothing, offsets do not
 * matter.
 *
 * CONCURRENCY  Requests are handled one after the other on the thread that calls gm_fs_run(); none of them waits.
 */
#ifndef GM_FS_H
#define GM_FS_H

#include "machine.h"

struct gm_fs;

/* Mounts at @path (absolute). As root everybody may look. -errno, with the reason in the log. */
int gm_fs_mount(struct gm_machine *machine, const char *path, struct gm_fs **out);

/*
 * Serves until @signal_fd becomes readable (0) or the file system is unmounted by somebody else (-ENODEV); other
 * errors as the system gives them.
 */
int gm_fs_run(struct gm_fs *fs, int signal_fd);

/* Unmounts; NULL is allowed. */
void gm_fs_unmount(struct gm_fs *fs);

#endif
