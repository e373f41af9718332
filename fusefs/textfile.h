/*
 * textfile.h - the metrics as a plain file that the node exporter picks up.
 *
 * It lives on an ordinary file system and is replaced by rename: were it in the mount, a daemon that hangs would hang
 * the whole exporter.
 * CONCURRENCY  A thread of its own, since the file system may be slow.
 */
#ifndef GM_TEXTFILE_H
#define GM_TEXTFILE_H

#include "machine.h"

struct gm_textfile;

/*
 * Whether @directory can be opened, with the reason in the log. To be asked before the mount is made: a name that leads
 * into it would wait for a daemon that waits for it.
 */
int gm_textfile_check(const char *directory);

/*
 * Writes @directory/gmlake.prom now and every @seconds; @directory stays the caller's and is there as long. -errno,
 * with the reason in the log. A @successor has a mount to serve, which nothing here may keep it from: what cannot be
 * written is tried again next time.
 */
int gm_textfile_start(struct gm_machine *machine, const char *directory, unsigned seconds, bool successor,
                      struct gm_textfile **out);

/* Ends the thread and removes the file, whose figures would be old; NULL is allowed. */
void gm_textfile_stop(struct gm_textfile *textfile);

#endif
