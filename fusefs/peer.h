/*
 * peer.h - one peer at the socket: who the kernel says it is, and the first words that pass between it and the daemon.
 */
#ifndef GM_PEER_H
#define GM_PEER_H

#include "machine.h"

#include <gmlake/ctl_abi.h>

/* Who is at the other end; *out owns its pidfd. -ESRCH: nobody any more, or nobody this daemon can see. */
int gm_peer_identify(int fd, struct gm_identity *out);

/*
 * Whether the process registered in @row is still there; *out owns its pidfd. -ESRCH: it is not, whoever has its pid.
 */
int gm_peer_find(const struct gm_state_process *row, struct gm_identity *out);

/*
 * Takes a first message apart. -EPROTO it is not a HELLO of a version that this daemon speaks; *out is untouched then.
 */
int gm_hello_parse(const void *bytes, size_t length, struct gmlake_ctl_hello *out);

/* Sends WELCOME with the two descriptors; does not wait. */
int gm_peer_welcome(int fd, uint64_t serial, const int fds[2]);

/* Sends REFUSED, as far as the peer listens. */
void gm_peer_refuse(int fd, int error);

#endif
