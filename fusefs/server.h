/*
 * server.h - the socket: who may attach, how long he stays.
 *
 * STRUCTURE    One thread and one epoll set: the listening socket, and for each connection the socket and the pidfd of
 *              the peer. A connection has its say (HELLO) within two seconds or is closed; then it is kept open as a
 *              sign of life. The peer is who the kernel says it is.
 * CONCURRENCY  Connections belong to the thread alone; it shares the machine with the file system. It never waits for
 *              a peer: all sockets are non-blocking and what does not fit is a reason to close.
 */
#ifndef GM_SERVER_H
#define GM_SERVER_H

#include "machine.h"

#include <gmlake/ctl_abi.h>

/* Processes of one user, and of all: bounds what strangers can make the daemon hold. */
#define GM_CONNECTIONS_PER_USER 256u
#define GM_CONNECTIONS_MAX      4096u

struct gm_server;

/* Serves @listen_fd, a listening SEQPACKET socket that stays the caller's. -errno of the system calls. */
int gm_server_start(struct gm_machine *machine, int listen_fd, struct gm_server **out);

/* Ends the thread and closes every connection; NULL is allowed. */
void gm_server_stop(struct gm_server *server);

/*
 * Takes a first message apart. -EPROTO it is not a HELLO of a version that this daemon speaks; *out is untouched then.
 */
int gm_hello_parse(const void *bytes, size_t length, struct gmlake_ctl_hello *out);

#endif
