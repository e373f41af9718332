/*
 * process.h - whether this process is served: off, not yet, now, or never again.
 *
 * STRUCTURE    A process starts to be served at its first allocation on a device, and only when it has made a context
 *              current: cuInit() has then succeeded, and nothing is ever initialised on the program's behalf. Until
 *              then, in a child forked after that, and in a process with GMLAKE_ENABLE=0, every call is the driver's.
 *              So is it with GMLAKE_IPC=1, for a program that shares memory with other processes by IPC handles,
 *              which memory of ours cannot have (ipc.c): a block cannot be made the driver's once it is given out.
 *              The core gets a driver table of its own, filled with the driver's true functions.
 * CONCURRENCY  one atomic state. A thread that calls while another one starts is passed on to the driver; nobody waits.
 */
#ifndef GM_PROCESS_H
#define GM_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

enum gm_process_state { GM_PROCESS_UNSTARTED, GM_PROCESS_STARTING, GM_PROCESS_SERVED, GM_PROCESS_TRANSPARENT };

/* Written by process.c alone. */
extern atomic_int gm_process_state;

/* Set while this thread is between gm_process_enter() and gm_process_leave(). */
extern __thread bool gm_process_inside __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The kill switch: GMLAKE_ENABLE=0 in the environment when it was first asked. Nothing is replaced then. */
bool gm_process_is_off(void);

/* Starts to serve, if a context is current and nobody else is starting. Whether the process is served now. */
bool gm_process_start(void);

/* Whether there can be memory of ours in this process. */
static inline bool gm_process_is_served(void)
{
    return atomic_load_explicit(&gm_process_state, memory_order_acquire) == GM_PROCESS_SERVED;
}

/*
 * Enters the part that may call the core, starting if need be. False: leave the call to the driver; so it is, too, in
 * a call that the core's own work has led to on this thread. True: gm_process_leave() must follow.
 */
static inline bool gm_process_enter(void)
{
    if (gm_process_inside || (__builtin_expect(!gm_process_is_served(), 0) && !gm_process_start())) {
        return false;
    }
    gm_process_inside = true;
    return true;
}

static inline void gm_process_leave(void)
{
    gm_process_inside = false;
}

#endif
