/*
 * machine.h - what the daemon knows: the processes that are attached, and the tunables of the machine.
 *
 * STRUCTURE    A table of processes in rising order of pid. A process is counted by its holders: the table, and every
 *              open file of its directory; the pages go with the last of them, so a file that is still open after the
 *              process died finds it marked as gone.
 * CONCURRENCY  machine->lock guards the table, the machine's tunables and every change of a tunables page; it is held
 *              for lookups and stores only, never over a system call that can wait. The socket thread adds and
 *              removes, the file system and text file threads look up.
 *              process->last_lock guards process->last and what goes with it; it is a leaf.
 */
#ifndef GM_MACHINE_H
#define GM_MACHINE_H

#include "call.h"
#include "page.h"
#include "ring.h"
#include "snapshot.h"
#include "state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gm_watermark;

/* Processes with metrics of their own, and the most one may ask for: some fifty series each. */
#define GM_METRICS_PROCESSES     32u
#define GM_METRICS_PROCESSES_MAX 1000u

/* Who the kernel says is at the other end, and what is registered for it. */
struct gm_identity {
    pid_t pid;
    uid_t uid;
    gid_t gid;
    uint64_t start_time; /* clock ticks after boot, field 22 of /proc/<pid>/stat */
    int pidfd;           /* the identity does not own it */
};

struct gm_process {
    struct gm_identity identity;                       /* fixed; pidfd is this process's own duplicate */
    uint64_t serial;                                   /* fixed; never used twice */
    unsigned place;                                    /* fixed; of its row in the machine's state */
    uint64_t since_ns;                                 /* fixed; CLOCK_MONOTONIC of the registration */
    struct gm_pages pages;                             /* fixed */
    _Atomic uint64_t changed_at[GMLAKE_TUNABLE_COUNT]; /* the page's change count after a word's last change; 0 never */
    pthread_mutex_t last_lock;
    struct gm_snapshot last;         /* guarded by last_lock: the last snapshot that made sense */
    uint64_t last_sequence;          /* guarded by last_lock: of the page before that was read; 0: read again */
    struct gm_state *state;          /* fixed; the machine's */
    struct gm_state_process *row;    /* guarded by last_lock; NULL once the process is gone */
    struct gm_line line;             /* what the daemon asks of it */
    struct gm_watermark *watermarks; /* the file system's: files whose peak was reset (ask.h) */
    struct gm_ring *ring;            /* the file system's: the last trace that was switched on; NULL: none was */
    _Atomic bool gone;
    _Atomic unsigned holders;
};

struct gm_machine {
    struct gm_calls calls;
    pthread_mutex_t lock;
    struct gm_process **process; /* guarded by lock, as are the rest */
    unsigned process_count;
    unsigned process_room;
    struct gm_state *state; /* fixed; the tunables of the machine, the numbers given, the registrations */
    bool owns_state;
    unsigned metrics_processes; /* fixed before threads start: processes with series of their own, see metrics.h */
};

/* What a reader is shown of a process: its last good snapshot and how old it is. */
struct gm_reading {
    struct gm_snapshot snapshot;
    uint64_t age_us; /* since the publication, or the registration if nothing was published */
    bool stale;      /* the process has not shown itself for a while, or its page makes no sense now */
};

/* With a @state that outlives it (state.h), or with NULL one of its own. Nobody is attached yet. -ENOMEM, -EMFILE. */
int gm_machine_init(struct gm_machine *machine, struct gm_state *state);
void gm_machine_finish(struct gm_machine *machine);

/*
 * Registers a process with @pages, which pass into its hands on success, and with what it @wanted of an earlier
 * daemon (GMLAKE_TUNABLE_COUNT words; values out of range count as none). *out is held for the caller.
 * -EEXIST the pid is registered; -EDQUOT the machine is full; -ENOMEM, -EMFILE.
 */
int gm_machine_add(struct gm_machine *machine, const struct gm_identity *identity, const struct gm_pages *pages,
                   const uint64_t *wanted, struct gm_process **out);

/*
 * The same for the registration at @place of the state, which an earlier daemon made: it keeps its serial, and @pages
 * are copies of what it had.
 */
int gm_machine_restore(struct gm_machine *machine, const struct gm_identity *identity, const struct gm_pages *pages,
                       unsigned place, struct gm_process **out);

/* Takes the process out of the table and marks it as gone. */
void gm_machine_remove(struct gm_machine *machine, struct gm_process *process);

/* The process of a pid or of a serial, held for the caller; NULL: none. */
struct gm_process *gm_machine_find_pid(struct gm_machine *machine, pid_t pid);
struct gm_process *gm_machine_find_serial(struct gm_machine *machine, uint64_t serial);

/* The first process with a pid above @pid, held for the caller; NULL: none. Walks the table without holding it. */
struct gm_process *gm_machine_next(struct gm_machine *machine, pid_t pid);

unsigned gm_machine_process_count(struct gm_machine *machine);

/* Holds a process that the caller holds, or that the table has, once more; lets go of it, NULL being allowed. */
void gm_process_hold(struct gm_process *process);
void gm_process_release(struct gm_process *process);

/*
 * Sets (or with GMLAKE_CTL_NO_OVERRIDE clears) a tunable of one process, or with @process NULL of the machine, which
 * is the override of every process without its own. The value is in range. In force when this returns.
 */
void gm_machine_set_tunable(struct gm_machine *machine, struct gm_process *process, unsigned which, uint64_t value);

/* The machine-wide override, or GMLAKE_CTL_NO_OVERRIDE. */
uint64_t gm_machine_tunable(struct gm_machine *machine, unsigned which);

/* Reads what @process published, and counts what has happened (events.h). */
void gm_process_read(struct gm_process *process, struct gm_reading *out);

/* The same without a copy: what is there is process->last. The caller has last_lock. Gives its age and staleness. */
struct gm_age {
    uint64_t us;
    bool stale;
} gm_process_look_locked(struct gm_process *process);

/* What @process has published so far is in the machine's counters already, from an earlier registration. */
void gm_process_has_past(struct gm_process *process);

#endif
