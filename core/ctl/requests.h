/*
 * requests.h - what the daemon asks of this process, done or passed on to the worker; and what the process does of
 * itself to keep within its limits.
 *
 * CONCURRENCY  the agent's thread alone.
 */
#ifndef GM_REQUESTS_H
#define GM_REQUESTS_H

#include "agent.h"
#include "connection.h"

/*
 * Takes every request that is there. *look is set when one says that tunables have changed. -ECONNRESET as
 * gm_connection_receive().
 */
int gm_requests_take(struct gm_connection *connection, const struct gm_agent_ops *ops, bool *look);

/* Sends the answers that are ready. */
void gm_requests_answer(const struct gm_connection *connection);

/* Shows the account to the daemon. */
void gm_requests_show_account(const struct gm_connection *connection);

/* Ends what goes on for a daemon that is gone: the trace. */
void gm_requests_end(const struct gm_agent_ops *ops);

#endif
