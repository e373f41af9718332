/*
 * session.h - the talk with the kernel over one mount: requests in, answers out, and how a daemon goes on with the talk
 * of one that died.
 *
 * TAKE-OVER  The library wants to have heard the kernel's first request, which comes once in the life of a mount. It is
 *            kept (state.h), and told to the successor's library, whose answer goes nowhere. Then the kernel is asked
 * to say again what it said to the predecessor and got no answer to.
 */
#ifndef GM_SESSION_H
#define GM_SESSION_H

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)

#include "state.h"

#include <fuse_lowlevel.h>

struct gm_session;

/*
 * Begins to serve the mount behind @fd, which stays the caller's, by @operations on behalf of @owner. @head has the
 * first request if there was one, and gets it if it comes.
 */
int gm_session_open(const struct fuse_lowlevel_ops *operations, void *owner, struct gm_state_head *head, int fd,
                    struct gm_session **out);

/* On whose behalf a request is handled. */
void *gm_session_owner(fuse_req_t request);

/* While a poll is handled: the kernel's number of the open file if somebody waits for a change of it; else 0. */
uint64_t gm_session_poller(const struct gm_session *session);

/* Has the kernel ask again about an open file that somebody waits for. From the thread that serves. */
void gm_session_wake(const struct gm_session *session, uint64_t poller);

/* What is due for the owner, before each wait; gives the milliseconds to when something is due again, -1: nothing is.
 */
typedef int gm_session_turn(void *owner);

/* The earlier of two such times. */
int gm_session_earlier(int a, int b);

/* See gm_fs_run(). @turn comes after each request, when @wake_fd is readable, which it ends, and when it is due. */
int gm_session_run(struct gm_session *session, gm_session_turn *turn, int wake_fd, int signal_fd, int beat_ms,
                   void (*beat)(void *), void *argument);

void gm_session_close(struct gm_session *session);

#endif
