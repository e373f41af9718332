/*
 * watch.c - see watch.h.
 */
#include "watch.h"

#include "monotonic.h"

#include <poll.h>
#include <string.h>

#define LOOK_MS   100 /* while somebody waits */
#define NO_SOONER 10  /* between two looks, whatever happens */

/* Remembers a number for the next daemon, where there is room. Numbers rise, so its own place is free as a rule. */
static unsigned keep_number(struct gm_state *state, uint64_t number)
{
    for (unsigned i = 0; i < GM_STATE_POLLERS; i++) {
        unsigned place = (unsigned)((number + i) % GM_STATE_POLLERS);
        if (atomic_load_explicit(&state->poller[place], memory_order_relaxed) == 0) {
            atomic_store(&state->poller[place], number);
            return place;
        }
    }
    return GM_STATE_POLLERS;
}

void gm_watches_init(struct gm_watches *watches, struct gm_machine *machine, struct gm_session *session)
{
    *watches = (struct gm_watches){.machine = machine, .session = session};
    for (unsigned i = 0; i < GM_STATE_POLLERS; i++) {
        uint64_t number = atomic_load(&machine->state->poller[i]);
        if (number != 0) {
            gm_session_wake(session, number);
            atomic_store(&machine->state->poller[i], 0);
        }
    }
}

static void begin_to_wait(struct gm_watches *watches, struct gm_watch *watch, uint64_t number)
{
    watch->number = number;
    watch->place = keep_number(watches->machine->state, number);
    watch->next = watches->first;
    watch->link = &watches->first;
    if (watch->next != NULL) {
        watch->next->link = &watch->next;
    }
    watches->first = watch;
}

void gm_watch_forget(struct gm_watches *watches, struct gm_watch *watch)
{
    if (watch->number == 0) {
        return;
    }
    if (watch->place < GM_STATE_POLLERS) {
        atomic_store(&watches->machine->state->poller[watch->place], 0);
    }
    *watch->link = watch->next;
    if (watch->next != NULL) {
        watch->next->link = watch->link;
    }
    watch->number = 0;
}

unsigned gm_watch_poll(struct gm_watches *watches, struct gm_watch *watch, struct gm_process *process, uint64_t number)
{
    gm_watch_forget(watches, watch);
    gm_events_count(watches->machine, process, &watch->told);
    watch->process = process;
    if (process != NULL && atomic_load(&process->gone)) {
        return POLLIN | POLLRDNORM | POLLPRI | POLLERR | POLLHUP;
    }
    if (number != 0) {
        begin_to_wait(watches, watch, number);
    }
    bool changed = !gm_counts_equal(&watch->told, &watch->shown);
    return changed ? POLLIN | POLLRDNORM | POLLPRI | POLLERR : POLLIN | POLLRDNORM;
}

static bool is_over(const struct gm_watches *watches, const struct gm_watch *watch)
{
    struct gm_counts now;
    if (watch->process != NULL && atomic_load(&watch->process->gone)) {
        return true;
    }
    gm_events_count(watches->machine, watch->process, &now);
    return !gm_counts_equal(&now, &watch->told);
}

int gm_watches_run(struct gm_watches *watches)
{
    if (watches->first == NULL) {
        return -1;
    }
    int64_t now = gm_monotonic_ms();
    int64_t left = watches->looked_ms + NO_SOONER - now;
    if (left > 0) {
        return (int)left;
    }
    watches->looked_ms = now;
    gm_events_look(watches->machine);
    for (struct gm_watch *watch = watches->first, *next; watch != NULL; watch = next) {
        next = watch->next;
        if (is_over(watches, watch)) {
            uint64_t number = watch->number;
            gm_watch_forget(watches, watch);
            gm_session_wake(watches->session, number);
        }
    }
    return LOOK_MS;
}
