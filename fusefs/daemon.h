/*
 * daemon.h - the daemon proper: serves the mount, the socket and the text file with the descriptors it is given, which
 * an earlier daemon may have served before.
 *
 * STRUCTURE    What needs rights and places in the file system is done before, by main.c. The parts are brought up in
 *              the order state, text file, file system, socket, and taken down in the opposite one; whatever fails on
 *              the way up ends in the same way down. The main thread then serves the file system until a signal says to
 *              end.
 * CONCURRENCY  Threads: file system (main), socket (server.c), text file (textfile.c). They share struct gm_machine.
 *              Signals are taken from a descriptor by the main thread and blocked everywhere.
 */
#ifndef GM_DAEMON_H
#define GM_DAEMON_H

#include "kept.h"
#include "options.h"

/*
 * Serves until a signal (SIGTERM, SIGINT, SIGHUP) or until the mount is gone; the exit code. @kept has the mount, the
 * socket and the state, which stay there, and what there is of processes, which does not. @settle is called once all is
 * up.
 */
int gm_daemon_serve(const struct gm_options *options, struct gm_kept *kept, void (*settle)(void));

#endif
