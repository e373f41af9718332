/*
 * metrics.c - see metrics.h.
 */
#include "metrics.h"

#include "procfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Families that are not rows of stats.def. They come first. */
enum own_family { FAMILY_INFO, FAMILY_STALE, FAMILY_CAPACITY, OWN_FAMILIES };

static const struct {
    const char *name;
    const char *help;
} own_families[OWN_FAMILIES] = {
    {"gmlake_process_info", "An attached process."},
    {"gmlake_snapshot_stale", "1 while the figures of a process are not current."},
    {"gmlake_device_capacity_bytes", "Memory of the device."},
};

/* The samples of each family, collected process by process. */
struct families {
    struct gm_text own[OWN_FAMILIES];
    struct gm_text row[GM_STAT_COUNT];
};

void gm_metric_name(enum gm_stat row, char *out, size_t size)
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
    snprintf(out, size, "gmlake_%.*s%s%s", length, name, unit, info->kind == GM_STAT_COUNTER ? "_total" : "");
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

static void add_value(struct gm_text *out, enum gm_stat row, uint64_t value)
{
    if (strcmp(gm_stat_rows[row].unit, "nanoseconds") == 0) {
        gm_text_add(out, "%" PRIu64 ".%09" PRIu64 "\n", value / 1000000000u, value % 1000000000u);
    } else {
        gm_text_add(out, "%" PRIu64 "\n", value);
    }
}

static void add_uuid(struct gm_text *out, const uint8_t uuid[16])
{
    gm_text_add(out, "GPU-");
    for (unsigned i = 0; i < 16; i++) {
        gm_text_add(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
}

static void add_device(struct families *families, const char *labels, const struct gm_device *device)
{
    char name[128];
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        gm_metric_name((enum gm_stat)row, name, sizeof name);
        gm_text_add(&families->row[row], "%s{%s,gpu=\"%u\"} ", name, labels, device->ordinal);
        add_value(&families->row[row], (enum gm_stat)row, device->stat[row]);
    }
    struct gm_text *capacity = &families->own[FAMILY_CAPACITY];
    gm_text_add(capacity, "%s{%s,gpu=\"%u\",UUID=\"", own_families[FAMILY_CAPACITY].name, labels, device->ordinal);
    add_uuid(capacity, device->uuid);
    gm_text_add(capacity, "\"} %" PRIu64 "\n", device->capacity);
}

static void add_process(struct families *families, struct gm_process *process)
{
    struct gm_reading reading;
    struct gm_text labels = {0};
    char comm[GM_COMM_SIZE];
    if (gm_proc_comm(process->identity.pid, comm) < 0) {
        return; /* it has just died */
    }
    gm_process_read(process, &reading);
    gm_text_add(&labels, "pid=\"%d\",comm=", (int)process->identity.pid);
    gm_metric_label(&labels, comm);
    if (!labels.failed) {
        gm_text_add(&families->own[FAMILY_INFO], "%s{%s,uid=\"%u\"} 1\n", own_families[FAMILY_INFO].name, labels.data,
                    (unsigned)process->identity.uid);
        gm_text_add(&families->own[FAMILY_STALE], "%s{%s} %d\n", own_families[FAMILY_STALE].name, labels.data,
                    reading.stale);
        for (unsigned i = 0; i < reading.snapshot.device_count; i++) {
            add_device(families, labels.data, &reading.snapshot.device[i]);
        }
    }
    gm_text_clear(&labels);
}

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

int gm_metrics_render(struct gm_machine *machine, struct gm_text *out)
{
    struct families families = {0};
    struct gm_process *process;
    unsigned processes = 0;
    for (pid_t pid = 0; (process = gm_machine_next(machine, pid)) != NULL; processes++) {
        pid = process->identity.pid;
        add_process(&families, process);
        gm_process_release(process);
    }
    gm_text_add(out, "# HELP gmlake_build_info The version of gmlaked.\n# TYPE gmlake_build_info gauge\n"
                     "gmlake_build_info{version=\"" GMLAKE_VERSION_STRING "\"} 1\n");
    gm_text_add(out,
                "# HELP gmlake_processes Processes attached to gmlaked.\n# TYPE gmlake_processes gauge\n"
                "gmlake_processes %u\n",
                processes);
    for (unsigned i = 0; i < OWN_FAMILIES; i++) {
        add_family(out, own_families[i].name, own_families[i].help, "gauge", &families.own[i]);
    }
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        char name[128];
        gm_metric_name((enum gm_stat)row, name, sizeof name);
        const char *type = gm_stat_rows[row].kind == GM_STAT_COUNTER ? "counter" : "gauge";
        add_family(out, name, gm_stat_rows[row].help, type, &families.row[row]);
    }
    return 0;
}
