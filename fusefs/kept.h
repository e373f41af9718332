/*
 * kept.h - descriptors that outlive a daemon, each with a name: what one daemon hands to its successor.
 *
 * The mount, the socket, its lock and what the daemon knows (state.h) are kept, and the pages of each process. Whoever
 * keeps them is a service manager (its file descriptor store) or the keeper of keeper.h; both speak the same protocol
 * (notify.h), and to the successor it is the same table.
 */
#ifndef GM_KEPT_H
#define GM_KEPT_H

#include <stdint.h>

#define GM_KEPT_NAME_SIZE 40

/* Two pages of each process, and the daemon's own four. */
#define GM_KEPT_MAX    8200u

#define GM_KEPT_MOUNT  "mount"
#define GM_KEPT_SOCKET "socket"
#define GM_KEPT_LOCK   "lock"
#define GM_KEPT_STATE  "state"
/* The pages of a process are called by these and the serial of its registration. */
#define GM_KEPT_STATS    "stats-"
#define GM_KEPT_TUNABLES "tunables-"

struct gm_kept_fd {
    char name[GM_KEPT_NAME_SIZE];
    int fd;
};

/* Invariant: names differ; every descriptor is open and closed on exec. */
struct gm_kept {
    struct gm_kept_fd *at;
    unsigned count;
    unsigned room;
};

/* What a service manager passed to this process (sd_listen_fds(3)); empty if none did. */
void gm_kept_from_environment(struct gm_kept *out);

/* Adds @fd, which passes into the table's hands in any case, in the place of one of that name. -ENOMEM, -ENOSPC. */
int gm_kept_put(struct gm_kept *kept, const char *name, int fd);

/* The descriptor of a name, which stays the table's; -1: none. */
int gm_kept_find(const struct gm_kept *kept, const char *name);

/* Takes a descriptor out of the table: it is the caller's now; -1: none. */
int gm_kept_take(struct gm_kept *kept, const char *name);

/* Closes the descriptor of a name, if there is one. */
void gm_kept_drop(struct gm_kept *kept, const char *name);

/* Closes those of processes, or all. */
void gm_kept_drop_processes(struct gm_kept *kept);
void gm_kept_clear(struct gm_kept *kept);

/* Writes @prefix and @serial to @out. */
void gm_kept_name(char out[GM_KEPT_NAME_SIZE], const char *prefix, uint64_t serial);

#endif
