/*
 * notify.h - readiness notices to the service manager, by its datagram protocol.
 */
#ifndef GM_NOTIFY_H
#define GM_NOTIFY_H

/* Sends @state ("READY=1") to $NOTIFY_SOCKET; does nothing if no service manager listens. */
void gm_notify(const char *state);

#endif
