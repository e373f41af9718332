/*
 * metrics.c - see metrics.h.
 */
#include "metrics.h"

#include "gpus.h"
#include "procfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Families that are not rows of stats.def, in their order. */
enum own_family { FAMILY_INFO, FAMILY_STALE, FAMILY_LIMIT, FAMILY_CAPACITY, FAMILY_USERS, OWN_FAMILIES };

static const struct {
    const char *name;
    const char *help;
} own_families[OWN_FAMILIES] = {
    {"gmlake_process_info", "An attached process."},
    {"gmlake_snapshot_stale", "1 while the figures of a process are not current."},
    {"gmlake_process_limit_bytes", "The memory a process may hold, where it is limited."},
    {"gmlake_device_capacity_bytes", "Memory of the device."},
    {"gmlake_device_processes", "Processes that use the device."},
};

/* The samples of each family, collected process by process. */
struct families {
    struct gm_text own[OWN_FAMILIES];
    struct gm_text device[GM_STAT_COUNT];
    struct gm_text process[GM_STAT_COUNT];
};

/* ---- forms ---------------------------------------------------------------------------------------------------- */

void gm_metric_name(const char *kind, enum gm_stat row, char *out, size_t size)
{
    const struct gm_stat_row *info = &gm_stat_rows[row];
    const char *name = info->name;
    int length = (int)strlen(name);
    const char *unit = "";
    if (strcmp(info->unit, "bytes") == 0) {
        unit = length > 6 && strcmp(name + length - 6, "_bytes") == 0 ? "" : "_bytes";
    } else if (strcmp(info->unit, "nanoseconds") == 0) {
        length -= length > 3 && strcmp(name + length - 3, "_ns") == 0 ? 3 : 0;
        unit = "_seconds";
    }
    snprintf(out, size, "gmlake_%s_%.*s%s%s", kind, length, name, unit, info->kind == GM_STAT_COUNTER ? "_total" : "");
}

void gm_metric_label(struct gm_text *out, const char *value)
{
    gm_text_append(out, "\"", 1);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\n') {
            gm_text_append(out, "\\n", 2);
            continue;
        }
        if (*c == '\\' || *c == '"') {
            gm_text_append(out, "\\", 1);
        }
        gm_text_append(out, c, 1);
    }
    gm_text_append(out, "\"", 1);
}

/* One sample of each row. The high marks of several processes have no sum: those are left out. */
static void add_rows(struct gm_text *rows, const char *kind, const char *labels, const uint64_t stat[GM_STAT_COUNT],
                     bool summed)
{
    char name[128];
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        if (summed && gm_stat_rows[row].kind == GM_STAT_PEAK) {
            continue;
        }
        gm_metric_name(kind, (enum gm_stat)row, name, sizeof name);
        gm_text_add(&rows[row], "%s{%s} ", name, labels);
        if (strcmp(gm_stat_rows[row].unit, "nanoseconds") == 0) {
            gm_text_add(&rows[row], "%" PRIu64 ".%09" PRIu64 "\n", stat[row] / 1000000000u, stat[row] % 1000000000u);
        } else {
            gm_text_add(&rows[row], "%" PRIu64 "\n", stat[row]);
        }
    }
}

/* ---- who gets series of his own ------------------------------------------------------------------------------- */

struct shown_process {
    struct gm_process *process; /* held */
    uint64_t reserved;
    struct gm_reading reading;
};

/* Invariant: of the processes seen so far those that hold most are in shown, the figures of the others in rest. */
struct selection {
    struct gm_machine *machine;
    struct shown_process *shown;
    unsigned room;
    unsigned count;
    unsigned processes; /* seen */
    struct gm_gpus all;
    struct gm_gpus rest;
};

static uint64_t reserved_of(const struct gm_snapshot *snapshot)
{
    uint64_t sum[GM_STAT_COUNT] = {0};
    for (unsigned i = 0; i < snapshot->device_count; i++) {
        gm_stats_add(sum, snapshot->device[i].stat);
    }
    return sum[GM_STAT_reserved];
}

/* The place for one that holds @reserved: a free one, or that of who holds least and less; NULL: none. */
static struct shown_process *place_for(struct selection *selection, uint64_t reserved)
{
    if (selection->count < selection->room) {
        return &selection->shown[selection->count++];
    }
    struct shown_process *least = NULL;
    for (unsigned i = 0; i < selection->count; i++) {
        if (selection->shown[i].reserved < (least != NULL ? least->reserved : reserved)) {
            least = &selection->shown[i];
        }
    }
    if (least != NULL) {
        gm_gpus_add(selection->machine, &selection->rest, &least->reading.snapshot);
        gm_process_release(least->process);
    }
    return least;
}

/* Takes over the hold on @process. */
static void select_process(struct selection *selection, struct gm_process *process)
{
    struct gm_reading reading;
    gm_process_read(process, &reading);
    selection->processes++;
    gm_gpus_add(selection->machine, &selection->all, &reading.snapshot);
    uint64_t reserved = reserved_of(&reading.snapshot);
    struct shown_process *place = place_for(selection, reserved);
    if (place == NULL) {
        gm_gpus_add(selection->machine, &selection->rest, &reading.snapshot);
        gm_process_release(process);
    } else {
        *place = (struct shown_process){.process = process, .reserved = reserved, .reading = reading};
    }
}

static int by_pid(const void *a, const void *b)
{
    pid_t left = ((const struct shown_process *)a)->process->identity.pid;
    pid_t right = ((const struct shown_process *)b)->process->identity.pid;
    return (left > right) - (left < right);
}

/* ---- samples -------------------------------------------------------------------------------------------------- */

static void add_gpu(struct families *families, const struct gm_gpu *gpu)
{
    struct gm_text labels = {0};
    gm_text_add(&labels, "gpu=\"%u\",UUID=\"", gpu->index);
    gm_gpu_uuid(&labels, gpu->uuid);
    gm_text_append(&labels, "\"", 1);
    if (!labels.failed) {
        gm_text_add(&families->own[FAMILY_CAPACITY], "%s{%s} %" PRIu64 "\n", own_families[FAMILY_CAPACITY].name,
                    labels.data, gpu->capacity);
        gm_text_add(&families->own[FAMILY_USERS], "%s{%s} %u\n", own_families[FAMILY_USERS].name, labels.data,
                    gpu->processes);
        add_rows(families->device, "device", labels.data, gpu->stat, true);
    }
    gm_text_clear(&labels);
}

/* A process's own samples, and one set for each of its devices. @who: its labels. */
static void add_shown(struct families *families, struct gm_machine *machine, const struct shown_process *shown,
                      const char *who)
{
    const struct gm_identity *identity = &shown->process->identity;
    const struct gm_snapshot *snapshot = &shown->reading.snapshot;
    uint64_t limit = snapshot->now[GMLAKE_TUNABLE_memory_max];
    char container[GM_CONTAINER_SIZE];
    gm_proc_container(identity->pid, container);
    gm_text_add(&families->own[FAMILY_INFO], "%s{%s,uid=\"%u\",container_id=\"%s\"} 1\n",
                own_families[FAMILY_INFO].name, who, (unsigned)identity->uid, container);
    gm_text_add(&families->own[FAMILY_STALE], "%s{%s} %d\n", own_families[FAMILY_STALE].name, who,
                shown->reading.stale);
    if (limit != GMLAKE_UNLIMITED) {
        gm_text_add(&families->own[FAMILY_LIMIT], "%s{%s} %" PRIu64 "\n", own_families[FAMILY_LIMIT].name, who, limit);
    }
    for (unsigned i = 0; i < snapshot->device_count; i++) {
        const struct gm_device *device = &snapshot->device[i];
        char labels[512];
        unsigned index;
        if (gm_gpu_index(machine, device, &index) == 0 &&
            snprintf(labels, sizeof labels, "%s,gpu=\"%u\"", who, index) < (int)sizeof labels) {
            add_rows(families->process, "process", labels, device->stat, false);
        }
    }
}

static void add_process(struct families *families, struct gm_machine *machine, const struct shown_process *shown)
{
    struct gm_text who = {0};
    char comm[GM_COMM_SIZE];
    if (gm_proc_comm(shown->process->identity.pid, comm) < 0) {
        return; /* it has just died */
    }
    gm_text_add(&who, "pid=\"%d\",comm=", (int)shown->process->identity.pid);
    gm_metric_label(&who, comm);
    if (!who.failed) {
        add_shown(families, machine, shown, who.data);
    }
    gm_text_clear(&who);
}

static void add_samples(struct families *families, const struct selection *selection)
{
    for (unsigned i = 0; i < selection->all.count; i++) {
        add_gpu(families, &selection->all.gpu[i]);
    }
    for (unsigned i = 0; i < selection->count; i++) {
        add_process(families, selection->machine, &selection->shown[i]);
    }
    for (unsigned i = 0; i < selection->rest.count; i++) {
        char labels[64];
        snprintf(labels, sizeof labels, "pid=\"other\",comm=\"\",gpu=\"%u\"", selection->rest.gpu[i].index);
        add_rows(families->process, "process", labels, selection->rest.gpu[i].stat, true);
    }
}

/* ---- the exposition ------------------------------------------------------------------------------------------- */

/* Moves a family to the end of @out under its heading; a family without samples is left out. */
static void add_family(struct gm_text *out, const char *name, const char *help, const char *type,
                       struct gm_text *samples)
{
    if (samples->length > 0) {
        gm_text_add(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
        gm_text_append(out, samples->data, samples->length);
    }
    out->failed |= samples->failed;
    gm_text_clear(samples);
}

static void add_row_families(struct gm_text *out, const char *kind, struct gm_text *rows)
{
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        char name[128];
        gm_metric_name(kind, (enum gm_stat)row, name, sizeof name);
        const char *type = gm_stat_rows[row].kind == GM_STAT_COUNTER ? "counter" : "gauge";
        add_family(out, name, gm_stat_rows[row].help, type, &rows[row]);
    }
}

static void add_heading(struct gm_text *out, unsigned processes)
{
    gm_text_add(out,
                "# HELP gmlake_build_info The version of gmlaked.\n# TYPE gmlake_build_info gauge\n"
                "gmlake_build_info{version=\"%s\"} 1\n"
                "# HELP gmlake_up 1: gmlaked wrote this.\n# TYPE gmlake_up gauge\ngmlake_up 1\n"
                "# HELP gmlake_processes Processes attached to gmlaked.\n# TYPE gmlake_processes gauge\n"
                "gmlake_processes %u\n",
                GMLAKE_VERSION_STRING, processes);
}

static void render(struct selection *selection, struct families *families, struct gm_text *out)
{
    struct gm_process *process;
    for (pid_t pid = 0; (process = gm_machine_next(selection->machine, pid)) != NULL;) {
        pid = process->identity.pid;
        select_process(selection, process);
    }
    if (selection->count > 0) {
        qsort(selection->shown, selection->count, sizeof selection->shown[0], by_pid);
    }
    add_samples(families, selection);
    add_heading(out, selection->processes);
    for (unsigned i = 0; i < OWN_FAMILIES; i++) {
        add_family(out, own_families[i].name, own_families[i].help, "gauge", &families->own[i]);
    }
    add_row_families(out, "device", families->device);
    add_row_families(out, "process", families->process);
    for (unsigned i = 0; i < selection->count; i++) {
        gm_process_release(selection->shown[i].process);
    }
}

int gm_metrics_render(struct gm_machine *machine, struct gm_text *out)
{
    struct selection *selection = calloc(1, sizeof *selection);
    struct families *families = calloc(1, sizeof *families);
    unsigned room = machine->metrics_processes;
    struct shown_process *shown = calloc(room > 0 ? room : 1, sizeof *shown);
    if (selection == NULL || families == NULL || shown == NULL) {
        out->failed = true;
    } else {
        *selection = (struct selection){.machine = machine, .shown = shown, .room = room};
        render(selection, families, out);
    }
    free(shown);
    free(families);
    free(selection);
    return 0;
}
