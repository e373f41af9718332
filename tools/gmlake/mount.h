/*
 * mount.h - the files of gmlaked's mount, as the commands that look at it and change it use them.
 *
 * CONCURRENCY  one thread.
 */
#ifndef GM_MOUNT_H
#define GM_MOUNT_H

#include "command.h"

/* What a command is about, as the options --mount and --pid say. */
struct gm_place {
    const char *mount; /* NULL: /gmlake, or else $XDG_RUNTIME_DIR/gmlake/mount */
    const char *pid;   /* NULL: the machine */
};

/* As gm_option_next(), of a command that has those options: their values go to @place, the others are returned. */
int gm_mount_option_next(const struct gm_command *command, int argc, char **argv, struct gm_place *place,
                         const char **value);

/* Opens the directory of @place. GM_EXIT_OK with it in *out, else the exit status, after saying why. */
int gm_mount_open(const struct gm_command *command, const struct gm_place *place, int *out);

/*
 * Says that @name at @place has failed with @rc (-errno), and gives the exit status, which tells the end of the
 * process and that of the daemon from other errors.
 */
int gm_mount_failed(const struct gm_command *command, const struct gm_place *place, const char *name, int rc);

/*
 * Without a word: the open mount, or -errno. @mount as in struct gm_place. *where, to be freed, is the place looked at
 * last (NULL: no memory).
 */
int gm_mount_locate(const char *mount, char **where);

/* Reads the whole file @name of @directory into memory to be freed: *size bytes and a terminator. 0 or -errno. */
int gm_mount_read_bytes(int directory, const char *name, char **out, size_t *size);

/* The same as a string. */
int gm_mount_read(int directory, const char *name, char **out);

/* Writes @text to @name in one write. 0 or -errno. */
int gm_mount_write(int directory, const char *name, const char *text);

/* The tunable that @name stands for: "max" and "high" are short for memory_max and memory_high, as in the mount. */
const char *gm_mount_tunable(const char *name);

/* The options that gm_mount_option_next() reads: --pid where it may be given, where it must be, and --mount. */
#define GM_MOUNT_OPTION_PID                                                                                            \
    {                                                                                                                  \
        "pid", 'p', "PID", "The process; without it, the machine."                                                     \
    }
#define GM_MOUNT_OPTION_PID_REQUIRED                                                                                   \
    {                                                                                                                  \
        "pid", 'p', "PID", "The process."                                                                              \
    }
#define GM_MOUNT_OPTION_MOUNT                                                                                          \
    {                                                                                                                  \
        "mount", 0, "DIR", "The mount (default /gmlake, then $XDG_RUNTIME_DIR/gmlake/mount)."                          \
    }

#endif
