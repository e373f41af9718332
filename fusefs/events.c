/*
 * events.c - see events.h.
 */
#include "events.h"

#include <string.h>

/* No honest process has more news at once; so a dishonest one cannot bring a counter to its end. */
#define NEWS_MAX ((uint64_t)1 << 30)

_Static_assert((unsigned)GM_MACHINE_EVENTS <= GM_COUNTS_MAX && (unsigned)GM_PROCESS_EVENTS <= GM_COUNTS_MAX,
               "the counters of a file have room");
_Static_assert((unsigned)GM_MACHINE_EVENTS <= GM_STATE_EVENTS, "those of the machine have room in the state");

const char *const gm_machine_event_names[GM_MACHINE_EVENTS] = {
#define GMLAKE_MACHINE_EVENT(name, help) #name,
#include <gmlake/events.def>
};

const char *const gm_process_event_names[GM_PROCESS_EVENTS] = {
#define GMLAKE_PROCESS_EVENT(name, row, help) #name,
#include <gmlake/events.def>
};

static const enum gm_stat rows[GM_PROCESS_EVENTS] = {
#define GMLAKE_PROCESS_EVENT(name, row, help) GM_STAT_##row,
#include <gmlake/events.def>
};

/* The machine's counter that an event of a process adds to; GM_MACHINE_EVENTS: none. */
static enum gm_machine_event machine_event(enum gm_process_event event)
{
    switch (event) {
    case GM_PROCESS_EVENT_oom:
        return GM_MACHINE_EVENT_oom;
    case GM_PROCESS_EVENT_high:
    case GM_PROCESS_EVENT_max:
        return GM_MACHINE_EVENT_limit;
    case GM_PROCESS_EVENT_reclaim:
        return GM_MACHINE_EVENT_reclaim;
    default:
        return GM_MACHINE_EVENTS;
    }
}

void gm_event_raise(struct gm_state *state, enum gm_machine_event event, uint64_t by)
{
    atomic_fetch_add(&state->event[event], by);
}

static void count_snapshot(const struct gm_snapshot *snapshot, struct gm_counts *out)
{
    *out = (struct gm_counts){.count = GM_PROCESS_EVENTS};
    for (unsigned i = 0; i < snapshot->device_count; i++) {
        for (unsigned event = 0; event < GM_PROCESS_EVENTS; event++) {
            out->value[event] = gm_add_bounded(out->value[event], snapshot->device[i].stat[rows[event]]);
        }
    }
}

/* Adds to each counter what there is more of than in the sums of before. */
static void add_new(struct gm_state *state, const uint64_t before[GM_STATE_EVENTS], const uint64_t now[GM_STATE_EVENTS])
{
    for (unsigned event = 0; event < GM_STATE_EVENTS; event++) {
        uint64_t news = now[event] > before[event] ? now[event] - before[event] : 0;
        if (news > 0) {
            gm_event_raise(state, (enum gm_machine_event)event, news < NEWS_MAX ? news : NEWS_MAX);
        }
    }
}

void gm_events_note(struct gm_state *state, struct gm_state_process *row, const struct gm_snapshot *snapshot,
                    bool stale)
{
    struct gm_counts counts;
    uint64_t sums[GM_STATE_EVENTS] = {0};
    if (stale && row->stale == 0) {
        gm_event_raise(state, GM_MACHINE_EVENT_stale, 1);
    }
    row->stale = stale;
    if (snapshot->generation == 0) {
        return;
    }
    count_snapshot(snapshot, &counts);
    for (unsigned event = 0; event < GM_PROCESS_EVENTS; event++) {
        enum gm_machine_event to = machine_event((enum gm_process_event)event);
        if (to != GM_MACHINE_EVENTS) {
            sums[to] = gm_add_bounded(sums[to], counts.value[event]);
        }
    }
    if (row->has_past == 0) {
        add_new(state, row->counted, sums);
    }
    row->has_past = 0;
    memcpy(row->counted, sums, sizeof sums);
}

void gm_events_count(struct gm_machine *machine, struct gm_process *process, struct gm_counts *out)
{
    if (process != NULL) {
        pthread_mutex_lock(&process->last_lock);
        gm_process_look_locked(process);
        count_snapshot(&process->last, out);
        pthread_mutex_unlock(&process->last_lock);
        return;
    }
    *out = (struct gm_counts){.count = GM_MACHINE_EVENTS};
    for (unsigned event = 0; event < GM_MACHINE_EVENTS; event++) {
        out->value[event] = atomic_load(&machine->state->event[event]);
    }
}

void gm_events_look(struct gm_machine *machine)
{
    struct gm_process *process;
    for (pid_t pid = 0; (process = gm_machine_next(machine, pid)) != NULL;) {
        pid = process->identity.pid;
        pthread_mutex_lock(&process->last_lock);
        gm_process_look_locked(process);
        pthread_mutex_unlock(&process->last_lock);
        gm_process_release(process);
    }
}

bool gm_counts_equal(const struct gm_counts *a, const struct gm_counts *b)
{
    return a->count == b->count && memcmp(a->value, b->value, a->count * sizeof a->value[0]) == 0;
}
