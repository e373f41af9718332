/*
 * notify.h - notices to whoever watches over the daemon: a service manager, by the datagrams of sd_notify(3), or the
 * keeper (keeper.h), by the same messages on a socket of its own.
 *
 * CONCURRENCY  gm_notify_through() before the threads start; the rest from any thread. A watcher that does not read is
 *              waited for a fifth of a second at the most.
 */
#ifndef GM_NOTIFY_H
#define GM_NOTIFY_H

#include <stdint.h>

/* No notice is longer. */
#define GM_NOTICE_MAX 512

/* From now on notices go to @fd, a connected SEQPACKET socket, and not to $NOTIFY_SOCKET. */
void gm_notify_through(int fd);

/* Sends @state ("READY=1") to the watcher; does nothing if there is none. */
void gm_notify(const char *state);

/* Has the watcher keep @fd as @name for the next daemon; the caller's stays his own. */
void gm_notify_keep(const char *name, int fd);

/* Has the watcher let go of what it keeps as @name. */
void gm_notify_drop(const char *name);

/* How often the watcher wants to hear WATCHDOG=1, in milliseconds; -1: never. */
int gm_notify_watchdog_ms(void);

#endif
