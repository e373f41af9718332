/*
 * keeper.h - a process that does next to nothing, so that it lives: it keeps the descriptors by which the mount lives
 * and starts the daemon anew, as its child, whenever that dies. What is in the mount waits meanwhile and goes on.
 *
 * It is for machines without a service manager that does the same (systemd: FileDescriptorStoreMax=, Restart=). It has
 * one thread, allocates only to keep a descriptor, and looks at nothing but its child's notices. A child that says
 * nothing for a while (WATCHDOG=1), and has not been stopped by somebody, is killed.
 */
#ifndef GM_KEEPER_H
#define GM_KEEPER_H

#include "kept.h"

struct gm_keeper_ops {
    /* The daemon, in a child: its exit code. Its notices go to the keeper; @kept is its own copy. */
    int (*serve)(void *argument, struct gm_kept *kept);
    /* In the keeper: the first child is ready. */
    void (*ready)(void *argument);
    /* In the keeper, before each child but the first: what has gone missing in the file system is made anew. */
    void (*renew)(void *argument);
    /* In the keeper: children die again and again; what made them so is to be left out of @kept. */
    void (*forget)(void *argument, struct gm_kept *kept);
    void *argument;
    int pause_ms; /* the longest between two children; the first ones are short, and each is twice the one before */
};

/*
 * Serves until a child ends by itself or a signal (SIGTERM, SIGINT, SIGHUP) says to end: the exit code. A child that
 * fails before any was ready is not tried again.
 */
int gm_keeper_run(const struct gm_keeper_ops *ops, struct gm_kept *kept);

#endif
