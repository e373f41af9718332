/*
 * events.h - counters of what has happened, on the machine and in a process. They only rise.
 *
 * STRUCTURE    A process's are rows of its statistics. The machine's are in the state, so that they outlive a daemon:
 *              processes come and go there, and what they publish is added as it is seen, which is whenever somebody
 *              reads them (gm_process_read), once a second by the socket's thread, and for the last time when they go.
 * CONCURRENCY  The machine's counters are atomics, raised and read anywhere.
 */
#ifndef GM_EVENTS_H
#define GM_EVENTS_H

#include "machine.h"

enum gm_machine_event {
#define GMLAKE_MACHINE_EVENT(name, help) GM_MACHINE_EVENT_##name,
#include <gmlake/events.def>
    GM_MACHINE_EVENTS
};

enum gm_process_event {
#define GMLAKE_PROCESS_EVENT(name, row, help) GM_PROCESS_EVENT_##name,
#include <gmlake/events.def>
    GM_PROCESS_EVENTS
};

/* Counters of one file. */
#define GM_COUNTS_MAX 8u

struct gm_counts {
    unsigned count;
    uint64_t value[GM_COUNTS_MAX]; /* in the order of events.def; the first count of them */
};

/* By the place of a counter. */
extern const char *const gm_machine_event_names[GM_MACHINE_EVENTS];
extern const char *const gm_process_event_names[GM_PROCESS_EVENTS];

void gm_event_raise(struct gm_state *state, enum gm_machine_event event, uint64_t by);

/*
 * Adds to the machine's counters what @snapshot has more than was added before, by the registration @row, and whether
 * the process has become @stale. The caller has the process's last_lock.
 */
void gm_events_note(struct gm_state *state, struct gm_state_process *row, const struct gm_snapshot *snapshot,
                    bool stale);

/* The counters of @process as last published, and with NULL of the machine as last seen. */
void gm_events_count(struct gm_machine *machine, struct gm_process *process, struct gm_counts *out);

/* Looks at every process, for the machine's counters. */
void gm_events_look(struct gm_machine *machine);

bool gm_counts_equal(const struct gm_counts *a, const struct gm_counts *b);

#endif
