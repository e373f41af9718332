/*
 * place.h - the daemon's places in the file system: directories, the socket and its lock, the mountpoint. What is made
 * here is removed again.
 */
#ifndef GM_PLACE_H
#define GM_PLACE_H

#include <limits.h>
#include <stdbool.h>

#define GM_MADE_MAX 16

/* Directories that were made, in the order of making. */
struct gm_made {
    unsigned count;
    char *path[GM_MADE_MAX];
};

/* Makes @path and what is missing above it. Errors are in the log. */
int gm_directory_make(const char *path, unsigned mode, struct gm_made *made);

/* Removes the directories that were made, as far as they are empty. */
void gm_directories_remove(struct gm_made *made);

/*
 * Makes @path ready to be mounted on: makes it if it is missing, takes away mounts whose daemon died. @absolute gets
 * its full name. -EBUSY a living file system is mounted there.
 */
int gm_mountpoint_prepare(const char *path, struct gm_made *made, char absolute[PATH_MAX]);

/* A socket somebody may connect to. Invariant: lock_fd holds the lock as long as the socket is there. */
struct gm_socket {
    int fd;
    int lock_fd;
    char path[PATH_MAX];
};

/*
 * Listens at @path, where root's socket is for everybody and a user's for himself. A socket that a dead daemon left is
 * replaced. -EADDRINUSE another daemon serves it; the reason for any error is in the log.
 */
int gm_socket_open(const char *path, struct gm_made *made, struct gm_socket *out);

/* Whether the socket @fd still has the name in the file system that it was bound to. True where that cannot be told. */
bool gm_socket_is_named(int fd);

/* Closes the socket and removes it. */
void gm_socket_close(struct gm_socket *socket);

#endif
