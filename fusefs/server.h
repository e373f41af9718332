/*
 * server.h - the socket: who may attach, how long he stays.
 *
 * STRUCTURE    One thread and one epoll set: the listening socket, and for each connection the socket and the pidfd of
 *              the peer. A connection has its say (HELLO) within two seconds or is closed; then it is kept open as a
 *              sign of life. The peer is who the kernel says it is.
 * TAKE-OVER    Processes that an earlier daemon knew are shown from the first moment, out of what was kept of them,
 *              and are the same when they connect again. One that does not, in ten seconds, and could, is let go.
 * CONCURRENCY  Connections belong to the thread alone; it shares the machine with the file system. It never waits for
 *              a peer: all sockets are non-blocking and what does not fit is a reason to close.
 */
#ifndef GM_SERVER_H
#define GM_SERVER_H

#include "kept.h"
#include "machine.h"

struct gm_server;

/*
 * Serves @listen_fd, a listening SEQPACKET socket that stays the caller's. @kept has what an earlier daemon left; NULL
 * for nothing. -errno of the system calls.
 */
int gm_server_start(struct gm_machine *machine, int listen_fd, const struct gm_kept *kept, struct gm_server **out);

/* Ends the thread and closes every connection; NULL is allowed. */
void gm_server_stop(struct gm_server *server);

/* Whether the thread goes round. */
bool gm_server_is_alive(const struct gm_server *server);

#endif
