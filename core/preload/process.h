/*
 * process.h - whether this process is served: off, not yet, now, or never again.
 *
 * STRUCTURE    A process starts to be served at its first allocation on a device, and only when it has made a context
 *              current: cuInit() has then succeeded, and nothing is ever initialised on the program's behalf. Until
 *              then, in a child forked after that, and in a process with GMLAKE_ENABLE=0, every call is the driver's.
 *              The core gets a driver table of its own, filled with the driver's true functions.
 * CONCURRENCY  one atomic state. A thread that calls while another one starts is passed on to the driver; nobody waits.
 */
#ifndef GM_PROCESS_H
#define GM_PROCESS_H

#include <stdbool.h>

/* The kill switch: GMLAKE_ENABLE=0 in the environment when it was first asked. Nothing is replaced then. */
bool gm_process_is_off(void);

/*
 * Enters the part that may call the core, starting if need be. False: leave the call to the driver; so it is, too, in
 * a call that the core's own work has led to on this thread. True: gm_process_leave() must follow.
 */
bool gm_process_enter(void);
void gm_process_leave(void);

/* Whether there can be memory of ours in this process. */
bool gm_process_is_served(void);

#endif
