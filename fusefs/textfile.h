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

/* Writes @directory/gmlake.prom now and every @seconds. -errno, with the reason in the log. */
int gm_textfile_start(struct gm_machine *machine, const char *directory, unsigned seconds, struct gm_textfile **out);

/* Ends the thread and removes the file, whose figures would be old; NULL is allowed. */
void gm_textfile_stop(struct gm_textfile *textfile);

#endif
