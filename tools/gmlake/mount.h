/*
 * mount.h - the files of gmlaked's mount, as stat, get and set use them.
 *
 * CONCURRENCY  one thread.
 */
#ifndef GM_MOUNT_H
#define GM_MOUNT_H

#include "command.h"

/*
 * Opens the mount: @directory, or (NULL) /gmlake, or else $XDG_RUNTIME_DIR/gmlake. With @pid not NULL, the directory
 * of that process in it. GM_EXIT_OK with the directory in *out, else the exit status, after saying why.
 */
int gm_mount_open(const struct gm_command *command, const char *directory, const char *pid, int *out);

/* As above without a word: the open mount, or -errno. *where, to be freed, is the place looked at last (NULL: no
 * memory). */
int gm_mount_locate(const char *directory, char **where);

/* Reads the whole file @name of @directory into memory to be freed: *size bytes and a terminator. 0 or -errno. */
int gm_mount_read_bytes(int directory, const char *name, char **out, size_t *size);

/* The same as a string. */
int gm_mount_read(int directory, const char *name, char **out);

/* Writes @text to @name in one write. 0 or -errno. */
int gm_mount_write(int directory, const char *name, const char *text);

/* The tunable that @name stands for: "max" and "high" are short for memory_max and memory_high, as in the mount. */
const char *gm_mount_tunable(const char *name);

/* The options all of its users have. */
#define GM_MOUNT_OPTION_PID                                                                                            \
    {                                                                                                                  \
        "pid", 'p', "PID", "The process; without it, the machine."                                                     \
    }
#define GM_MOUNT_OPTION_MOUNT                                                                                          \
    {                                                                                                                  \
        "mount", 0, "DIR", "The mount (default /gmlake, then $XDG_RUNTIME_DIR/gmlake)."                                \
    }

#endif
