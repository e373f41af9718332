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

#include "call.h"
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

/* See gm_fs_run(). Whoever waits for one of @calls is told here. */
int gm_session_run(struct gm_session *session, struct gm_calls *calls, int signal_fd, int beat_ms, void (*beat)(void *),
                   void *argument);

void gm_session_close(struct gm_session *session);

#endif
