/*
 * watch.h - who waits in poll(2) for an events file to change, and how he is woken.
 *
 * An open file is ready for POLLPRI while the counters differ from those that were last read from it. Once asked about
 * a file that is waited for, the kernel wants to be told, by its own number of the open file, when to ask again; that
 * is done once for each time it asked. Numbers and not the library's handles are kept: a number needs no freeing, means
 * nothing to the kernel once the file is closed, and is known to the next daemon, which wakes everybody to be asked.
 *
 * RHYTHM       While somebody waits, all processes are looked at every 100 ms, and soon after one has come or gone.
 *              While nobody does, nothing happens here.
 * CONCURRENCY  the file system's thread.
 */
#ifndef GM_WATCH_H
#define GM_WATCH_H

#include "events.h"
#include "session.h"

/* Of one open file. Invariant: it is in the list, and has a place in the state or none there is, while number is not 0.
 */
struct gm_watch {
    struct gm_counts shown; /* to its last reader; without a count: nobody has read yet */
    struct gm_counts told;  /* to the last who polled */
    uint64_t number;        /* by which the kernel wants to be told; 0: it does not */
    unsigned place;         /* in the state's pollers; GM_STATE_POLLERS: there was none */
    struct gm_process *process;
    struct gm_watch *next, **link;
};

struct gm_watches {
    struct gm_machine *machine;
    struct gm_session *session;
    struct gm_watch *first;
    int64_t looked_ms;
};

/* Begins; whoever waited through an earlier daemon is woken. */
void gm_watches_init(struct gm_watches *watches, struct gm_machine *machine, struct gm_session *session);

/*
 * What poll(2) says of an events file of @process (NULL: the machine's), which stays held as long as the watch is
 * there. @number: whom to tell of a change, 0: nobody waits.
 */
unsigned gm_watch_poll(struct gm_watches *watches, struct gm_watch *watch, struct gm_process *process, uint64_t number);

/* The file is closed. */
void gm_watch_forget(struct gm_watches *watches, struct gm_watch *watch);

/* Wakes whom a change concerns. @woken: something may have happened. Gives the milliseconds to the next look; -1: none.
 */
int gm_watches_run(struct gm_watches *watches);

#endif
