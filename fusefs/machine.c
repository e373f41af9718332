/*
 * machine.c - see machine.h.
 */
#include "machine.h"

#include "events.h"
#include "monotonic.h"
#include "tunables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process shows itself each second (core/ctl/agent.c). */
#define STALE_NS 3000000000ull

int gm_machine_init(struct gm_machine *machine, struct gm_state *state)
{
    bool owned = state == NULL;
    if (owned) {
        state = calloc(1, sizeof *state);
        if (state == NULL) {
            return -ENOMEM;
        }
        gm_state_init(state);
    }
    *machine = (struct gm_machine){.state = state, .owns_state = owned, .metrics_processes = GM_METRICS_PROCESSES};
    int rc = gm_calls_init(&machine->calls);
    if (rc < 0) {
        if (owned) {
            free(state);
        }
        return rc;
    }
    pthread_mutex_init(&machine->lock, NULL);
    return 0;
}

void gm_machine_finish(struct gm_machine *machine)
{
    while (machine->process_count > 0) {
        gm_machine_remove(machine, machine->process[0]);
    }
    free(machine->process);
    gm_calls_finish(&machine->calls);
    if (machine->owns_state) {
        free(machine->state);
    }
    pthread_mutex_destroy(&machine->lock);
}

void gm_process_hold(struct gm_process *process)
{
    atomic_fetch_add(&process->holders, 1);
}

static struct gm_process *hold(struct gm_process *process)
{
    gm_process_hold(process);
    return process;
}

static void destroy_process(struct gm_process *process)
{
    gm_pages_destroy(&process->pages);
    gm_ring_destroy(process->ring);
    gm_line_finish(&process->line);
    close(process->identity.pidfd);
    pthread_mutex_destroy(&process->last_lock);
    free(process);
}

void gm_process_release(struct gm_process *process)
{
    if (process != NULL && atomic_fetch_sub(&process->holders, 1) == 1) {
        destroy_process(process);
    }
}

/* The place of the first process whose pid is not below @pid. */
static unsigned place_of_locked(const struct gm_machine *machine, pid_t pid)
{
    unsigned low = 0;
    unsigned high = machine->process_count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (machine->process[middle]->identity.pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Writes the word that is in force for @process after a change of its own or of the machine's. */
static void publish_word_locked(struct gm_machine *machine, struct gm_process *process, unsigned which)
{
    struct gmlake_ctl_tunables_page *page = process->pages.tunables;
    uint64_t wanted = atomic_load_explicit(&page->wanted[which], memory_order_relaxed);
    uint64_t word = wanted != GMLAKE_CTL_NO_OVERRIDE ? wanted : atomic_load(&machine->state->tunable[which]);
    if (atomic_load_explicit(&page->word[which], memory_order_relaxed) == word) {
        return;
    }
    atomic_store_explicit(&page->word[which], word, memory_order_release);
    uint64_t change = atomic_fetch_add_explicit(&page->changes, 1, memory_order_release) + 1;
    atomic_store_explicit(&process->changed_at[which], change, memory_order_relaxed);
    gm_line_tell(&process->line, GMLAKE_CTL_LOOK);
}

static bool in_range(unsigned which, uint64_t value)
{
    return value >= gm_tunable_table[which].minimum && value <= gm_tunable_table[which].maximum &&
           value != GMLAKE_CTL_NO_OVERRIDE;
}

static void set_wanted_locked(struct gm_machine *machine, struct gm_process *process, unsigned which, uint64_t value)
{
    atomic_store_explicit(&process->pages.tunables->wanted[which], value, memory_order_relaxed);
    publish_word_locked(machine, process, which);
}

void gm_machine_set_tunable(struct gm_machine *machine, struct gm_process *process, unsigned which, uint64_t value)
{
    pthread_mutex_lock(&machine->lock);
    if (process != NULL) {
        set_wanted_locked(machine, process, which, value);
    } else {
        atomic_store(&machine->state->tunable[which], value);
        for (unsigned i = 0; i < machine->process_count; i++) {
            publish_word_locked(machine, machine->process[i], which);
        }
    }
    pthread_mutex_unlock(&machine->lock);
}

uint64_t gm_machine_tunable(struct gm_machine *machine, unsigned which)
{
    return atomic_load(&machine->state->tunable[which]);
}

static struct gm_process *create_process(const struct gm_identity *identity)
{
    struct gm_process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    process->identity = *identity;
    process->since_ns = gm_monotonic_ns();
    process->identity.pidfd = fcntl(identity->pidfd, F_DUPFD_CLOEXEC, 0);
    if (process->identity.pidfd < 0) {
        free(process);
        return NULL;
    }
    pthread_mutex_init(&process->last_lock, NULL);
    gm_line_init(&process->line);
    gm_snapshot_empty(&process->last);
    atomic_init(&process->holders, 2); /* the table and the caller */
    return process;
}

/* Shifts the table's end that begins at @from so that it begins at @to. */
static void shift_table_locked(struct gm_machine *machine, unsigned to, unsigned from)
{
    size_t each = sizeof machine->process[0]; /* NOLINT(bugprone-sizeof-expression): of a pointer, as meant */
    memmove(&machine->process[to], &machine->process[from], (machine->process_count - from) * each);
}

static int make_room_locked(struct gm_machine *machine)
{
    if (machine->process_count < machine->process_room) {
        return 0;
    }
    unsigned room = machine->process_room > 0 ? 2 * machine->process_room : 16;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): of a pointer, as meant */
    struct gm_process **table = reallocarray(machine->process, room, sizeof *table);
    if (table == NULL) {
        return -ENOMEM;
    }
    machine->process = table;
    machine->process_room = room;
    return 0;
}

static int insert_locked(struct gm_machine *machine, struct gm_process *process)
{
    unsigned at = place_of_locked(machine, process->identity.pid);
    if (at < machine->process_count && machine->process[at]->identity.pid == process->identity.pid) {
        return -EEXIST;
    }
    int rc = make_room_locked(machine);
    if (rc < 0) {
        return rc;
    }
    shift_table_locked(machine, at + 1, at);
    machine->process[at] = process;
    machine->process_count++;
    return 0;
}

static bool remove_locked(struct gm_machine *machine, const struct gm_process *process)
{
    unsigned at = place_of_locked(machine, process->identity.pid);
    if (at == machine->process_count || machine->process[at] != process) {
        return false;
    }
    shift_table_locked(machine, at, at + 1);
    machine->process_count--;
    return true;
}

/* A row of the state for @process, with the next serial. */
static int register_locked(struct gm_machine *machine, struct gm_process *process)
{
    process->state = machine->state;
    const struct gm_identity *who = &process->identity;
    for (unsigned i = 0; i < GM_STATE_PROCESSES; i++) {
        struct gm_state_process *row = &machine->state->process[i];
        if (atomic_load(&row->serial) == 0) {
            row->start_time = who->start_time;
            row->pid = who->pid;
            row->uid = who->uid;
            row->gid = who->gid;
            atomic_store(&row->features, 0);
            process->place = i;
            row->stale = row->has_past = 0;
            memset(row->counted, 0, sizeof row->counted);
            process->row = row;
            process->serial = atomic_fetch_add(&machine->state->head.next_serial, 1);
            atomic_store(&row->serial, process->serial);
            return 0;
        }
    }
    return -EDQUOT;
}

int gm_machine_add(struct gm_machine *machine, const struct gm_identity *identity, const struct gm_pages *pages,
                   const uint64_t *wanted, struct gm_process **out)
{
    struct gm_process *process = create_process(identity);
    if (process == NULL) {
        return -errno;
    }
    pthread_mutex_lock(&machine->lock);
    int rc = insert_locked(machine, process);
    if (rc == 0) {
        rc = register_locked(machine, process);
        if (rc < 0) {
            remove_locked(machine, process);
        }
    }
    if (rc == 0) {
        process->pages = *pages;
        for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
            set_wanted_locked(machine, process, i, in_range(i, wanted[i]) ? wanted[i] : GMLAKE_CTL_NO_OVERRIDE);
        }
    }
    pthread_mutex_unlock(&machine->lock);
    if (rc < 0) {
        destroy_process(process);
        return rc;
    }
    gm_event_raise(machine->state, GM_MACHINE_EVENT_register, 1);
    gm_calls_wake(&machine->calls);
    *out = process;
    return 0;
}

int gm_machine_restore(struct gm_machine *machine, const struct gm_identity *identity, const struct gm_pages *pages,
                       unsigned place, struct gm_process **out)
{
    struct gm_process *process = create_process(identity);
    if (process == NULL) {
        return -errno;
    }
    process->state = machine->state;
    process->place = place;
    process->row = &machine->state->process[place];
    process->serial = atomic_load(&process->row->serial);
    pthread_mutex_lock(&machine->lock);
    int rc = insert_locked(machine, process);
    if (rc == 0) {
        process->pages = *pages;
        uint64_t changes = atomic_load(&pages->tunables->changes);
        for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
            uint64_t word = atomic_load(&pages->tunables->wanted[i]);
            /* Which change was whose is forgotten: the last one that the process is sure to have seen. */
            atomic_store(&process->changed_at[i], word != GMLAKE_CTL_NO_OVERRIDE ? changes : 0);
            set_wanted_locked(machine, process, i, in_range(i, word) ? word : GMLAKE_CTL_NO_OVERRIDE);
        }
    }
    pthread_mutex_unlock(&machine->lock);
    if (rc < 0) {
        destroy_process(process);
        return rc;
    }
    *out = process;
    return 0;
}

/* Looks at the process for the last time: its row is another's soon. */
static struct gm_state_process *take_row(struct gm_process *process)
{
    pthread_mutex_lock(&process->last_lock);
    (void)gm_process_look_locked(process);
    struct gm_state_process *row = process->row;
    process->row = NULL;
    pthread_mutex_unlock(&process->last_lock);
    return row;
}

void gm_machine_remove(struct gm_machine *machine, struct gm_process *process)
{
    struct gm_state_process *row = take_row(process);
    pthread_mutex_lock(&machine->lock);
    bool found = remove_locked(machine, process);
    if (found) {
        atomic_store(&row->serial, 0);
    }
    atomic_store(&process->gone, true);
    pthread_mutex_unlock(&machine->lock);
    if (found) {
        gm_event_raise(machine->state, GM_MACHINE_EVENT_exit, 1);
    }
    gm_calls_gone(&machine->calls, process);
    gm_calls_wake(&machine->calls); /* who polls hears of it */
    if (found) {
        gm_process_release(process);
    }
}

struct gm_process *gm_machine_find_pid(struct gm_machine *machine, pid_t pid)
{
    struct gm_process *found = gm_machine_next(machine, pid - 1);
    if (found != NULL && found->identity.pid != pid) {
        gm_process_release(found);
        return NULL;
    }
    return found;
}

struct gm_process *gm_machine_find_serial(struct gm_machine *machine, uint64_t serial)
{
    struct gm_process *found = NULL;
    pthread_mutex_lock(&machine->lock);
    for (unsigned i = 0; i < machine->process_count && found == NULL; i++) {
        if (machine->process[i]->serial == serial) {
            found = hold(machine->process[i]);
        }
    }
    pthread_mutex_unlock(&machine->lock);
    return found;
}

struct gm_process *gm_machine_next(struct gm_machine *machine, pid_t pid)
{
    pthread_mutex_lock(&machine->lock);
    unsigned at = place_of_locked(machine, pid + 1);
    struct gm_process *found = at < machine->process_count ? hold(machine->process[at]) : NULL;
    pthread_mutex_unlock(&machine->lock);
    return found;
}

unsigned gm_machine_process_count(struct gm_machine *machine)
{
    pthread_mutex_lock(&machine->lock);
    unsigned count = machine->process_count;
    pthread_mutex_unlock(&machine->lock);
    return count;
}

struct gm_age gm_process_look_locked(struct gm_process *process)
{
    int rc = 0;
    /* The number before the copy: what was published meanwhile is read again next time. */
    uint64_t sequence = atomic_load_explicit(&process->pages.stats->sequence, memory_order_acquire);
    if (sequence != process->last_sequence || sequence == 0) {
        rc = gm_snapshot_read(process->pages.stats, &process->last);
        process->last_sequence = rc == 0 ? sequence : 0;
    }
    uint64_t now_ns = gm_monotonic_ns();
    /* One that is stopped before it published anything is stale after a while, too. */
    uint64_t since = process->last.published_ns > 0 ? process->last.published_ns : process->since_ns;
    uint64_t age_ns = since < now_ns ? now_ns - since : 0;
    struct gm_age age = {age_ns / 1000, (rc < 0 && rc != -ENODATA) || age_ns > STALE_NS};
    if (process->row != NULL) {
        gm_events_note(process->state, process->row, &process->last, age.stale);
    }
    return age;
}

void gm_process_read(struct gm_process *process, struct gm_reading *out)
{
    pthread_mutex_lock(&process->last_lock);
    struct gm_age age = gm_process_look_locked(process);
    out->snapshot = process->last;
    pthread_mutex_unlock(&process->last_lock);
    out->age_us = age.us;
    out->stale = age.stale;
}

void gm_process_has_past(struct gm_process *process)
{
    pthread_mutex_lock(&process->last_lock);
    if (process->row != NULL) {
        process->row->has_past = 1;
    }
    pthread_mutex_unlock(&process->last_lock);
}
