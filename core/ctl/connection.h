/*
 * connection.h - one attachment of this process to gmlaked: find it, say hello, map the two pages.
 *
 * CONCURRENCY  none of its own; the agent's thread uses it. Nothing here waits for more than a second, prints, or
 *              fails harder than with a -errno.
 */
#ifndef GM_CONNECTION_H
#define GM_CONNECTION_H

#include <gmlake/ctl_abi.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* The rows of stats.def that this process knows. */
enum {
#define GMLAKE_STAT(name, kind, unit, help) GM_STAT_ROW_##name,
#include <gmlake/stats.def>
#undef GMLAKE_STAT
    GM_STAT_ROWS
};

/* The sockets to try, in order; read from the environment once. */
struct gm_addresses {
    unsigned count;
    struct sockaddr_un at[2];
};

/*
 * Invariant: fd >= 0 exactly while attached, and then both pages are mapped. The host may close descriptors it does not
 * know and get the same number again for its own: inode tells whether fd is still our socket.
 */
struct gm_connection {
    int fd;
    ino_t inode;
    uint64_t serial;                     /* of the last registration; 0: there was none */
    struct gmlake_ctl_stats_page *stats; /* ours to write; the account only if there is one */
    size_t stats_size;                   /* bytes mapped of it */
    bool has_account;
    const struct gmlake_ctl_tunables_page *tunables; /* never unmapped: the overrides stay in force without a daemon */
};

#define GM_CONNECTION_NONE                                                                                             \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/*
 * $GMLAKE_SOCKET alone if it is set, else the machine's daemon and then the user's. Set-uid programs see only the
 * machine's: their caller chose the environment.
 */
void gm_addresses_find(struct gm_addresses *out);

/*
 * Attaches to the first daemon that answers. *connection is not attached; its tunables page, if it has one from a
 * daemon that is gone, tells the new daemon what was wanted and is then replaced. A daemon that took over from that one
 * knows the process by its serial and shows it as the same.
 * Errors: -ECONNREFUSED or -ENOENT no daemon; -EPROTO it does not speak our language or sent pages that are not
 * sealed; the daemon's own reason when it refused; others as the system calls give them.
 */
int gm_connection_open(struct gm_connection *connection, const struct gm_addresses *addresses);

/* A request of the daemon. *fd came along, or is -1; it belongs to the receiver. */
struct gm_request {
    struct gmlake_ctl_request message;
    int fd;
};

/*
 * Takes the next request of the daemon; what is none is dropped. -EAGAIN: there is none now; -ECONNRESET: the daemon is
 * gone, or asked to be left.
 */
int gm_connection_receive(struct gm_connection *connection, struct gm_request *out);

/* Answers the request @id with 0 or an errno. What the daemon has no room for is lost: it does not wait for ever. */
void gm_connection_answer(const struct gm_connection *connection, uint64_t id, int error, uint64_t value);

/* Waits until the daemon may have said something, @timeout_ms at most. */
void gm_connection_wait(const struct gm_connection *connection, int timeout_ms);

/* Maps a file that the daemon sent. -EPROTO: somebody could shrink it, or it is shorter than @size. */
int gm_connection_map(int fd, size_t size, int protection, void **out);

/* Detaches; the tunables page stays mapped. */
void gm_connection_close(struct gm_connection *connection);

/* In a child made by fork(): drops what was inherited. */
void gm_connection_forget(struct gm_connection *connection);

#endif
