/*
 * render.c - see render.h. Nothing here waits: figures come from shared memory and from /proc.
 */
#include "render.h"

#include "events.h"
#include "gpus.h"
#include "metrics.h"
#include "procfs.h"
#include "tunables.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

static int read_process(const struct gm_view *view, struct gm_reading *out)
{
    if (atomic_load(&view->process->gone)) {
        return -ESRCH;
    }
    gm_process_read(view->process, out);
    return 0;
}

/* What /proc said is about our process only if that still lives: the pid could be another's. */
static int still_alive(const struct gm_process *process)
{
    struct pollfd dead = {process->identity.pidfd, POLLIN, 0};
    return atomic_load(&process->gone) || poll(&dead, 1, 0) != 0 ? -ESRCH : 0;
}

static void sum_devices(const struct gm_snapshot *snapshot, uint64_t sum[GM_STAT_COUNT])
{
    for (unsigned i = 0; i < snapshot->device_count; i++) {
        gm_stats_add(sum, snapshot->device[i].stat);
    }
}

static void add_stat_lines(struct gm_text *out, const uint64_t sum[GM_STAT_COUNT])
{
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        gm_text_add(out, "%s %" PRIu64 "\n", gm_stat_rows[row].name, sum[row]);
    }
}

static void add_value(struct gm_text *out, uint64_t value)
{
    if (value == GMLAKE_UNLIMITED) {
        gm_text_add(out, "max");
    } else {
        gm_text_add(out, "%" PRIu64, value);
    }
}

/* ---- the machine ---------------------------------------------------------------------------------------------- */

int gm_show_version(const struct gm_view *view, struct gm_text *out)
{
    (void)view;
    gm_text_add(out, "gmlake %s abi %u\n", GMLAKE_VERSION_STRING, GMLAKE_CTL_ABI);
    return 0;
}

/* True if @uuid is in the list; adds it if there is room. The all-zero one stands for an unknown device. */
static bool seen_before(uint8_t seen[][16], unsigned *count, unsigned room, const uint8_t uuid[16])
{
    for (unsigned i = 0; i < *count; i++) {
        if (memcmp(seen[i], uuid, 16) == 0) {
            return true;
        }
    }
    if (*count < room) {
        memcpy(seen[(*count)++], uuid, 16);
    }
    return false;
}

int gm_show_machine_stats(const struct gm_view *view, struct gm_text *out)
{
    uint64_t sum[GM_STAT_COUNT] = {0};
    uint8_t seen[64][16];
    unsigned devices = 0;
    unsigned processes = 0;
    struct gm_process *process = NULL;
    for (pid_t pid = 0; (process = gm_machine_next(view->machine, pid)) != NULL; processes++) {
        struct gm_reading reading;
        pid = process->identity.pid;
        gm_process_read(process, &reading);
        gm_process_release(process);
        sum_devices(&reading.snapshot, sum);
        for (unsigned i = 0; i < reading.snapshot.device_count; i++) {
            seen_before(seen, &devices, 64, reading.snapshot.device[i].uuid);
        }
    }
    gm_text_add(out, "processes %u\ndevices %u\n", processes, devices);
    add_stat_lines(out, sum);
    return 0;
}

int gm_show_metrics(const struct gm_view *view, struct gm_text *out)
{
    return gm_metrics_render(view->machine, out);
}

int gm_show_machine_tunable(const struct gm_view *view, struct gm_text *out)
{
    uint64_t value = gm_machine_tunable(view->machine, view->argument);
    if (value == GMLAKE_CTL_NO_OVERRIDE) {
        gm_text_add(out, "default\n");
    } else {
        add_value(out, value);
        gm_text_add(out, "\n");
    }
    return 0;
}

/* ---- a GPU ---------------------------------------------------------------------------------------------------- */

/* Adds one line with a figure of the GPU. */
static int add_gpu_figure(const struct gm_view *view, struct gm_text *out, enum gm_stat row)
{
    struct gm_gpus gpus;
    gm_gpus_read(view->machine, &gpus);
    const struct gm_gpu *gpu = gm_gpus_find(&gpus, view->gpu);
    gm_text_add(out, "%" PRIu64 "\n", gpu != NULL ? gpu->stat[row] : 0);
    return 0;
}

int gm_show_gpu_uuid(const struct gm_view *view, struct gm_text *out)
{
    uint8_t uuid[16];
    gm_gpu_uuid_of(view->machine, view->gpu, uuid);
    gm_gpu_uuid(out, uuid);
    gm_text_add(out, "\n");
    return 0;
}

int gm_show_gpu_capacity(const struct gm_view *view, struct gm_text *out)
{
    struct gm_gpus gpus;
    gm_gpus_read(view->machine, &gpus);
    const struct gm_gpu *gpu = gm_gpus_find(&gpus, view->gpu);
    gm_text_add(out, "%" PRIu64 "\n", gpu != NULL ? gpu->capacity : 0);
    return 0;
}

int gm_show_gpu_reserved(const struct gm_view *view, struct gm_text *out)
{
    return add_gpu_figure(view, out, GM_STAT_reserved);
}

int gm_show_gpu_allocated(const struct gm_view *view, struct gm_text *out)
{
    return add_gpu_figure(view, out, GM_STAT_allocated);
}

int gm_show_gpu_largest_free(const struct gm_view *view, struct gm_text *out)
{
    return add_gpu_figure(view, out, GM_STAT_largest_free);
}

int gm_show_gpu_stats(const struct gm_view *view, struct gm_text *out)
{
    static const struct gm_gpu unused;
    struct gm_gpus gpus;
    gm_gpus_read(view->machine, &gpus);
    const struct gm_gpu *found = gm_gpus_find(&gpus, view->gpu);
    const struct gm_gpu *gpu = found != NULL ? found : &unused;
    gm_text_add(out, "processes %u\ncapacity %" PRIu64 "\n", gpu->processes, gpu->capacity);
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        if (gm_stat_rows[row].kind != GM_STAT_PEAK) { /* peaks of different moments have no sum */
            gm_text_add(out, "%s %" PRIu64 "\n", gm_stat_rows[row].name, gpu->stat[row]);
        }
    }
    return 0;
}

static bool uses_gpu(const struct gm_view *view, struct gm_process *process)
{
    struct gm_reading reading;
    bool uses = false;
    gm_process_read(process, &reading);
    for (unsigned i = 0; i < reading.snapshot.device_count; i++) {
        unsigned index;
        uses |= gm_gpu_index(view->machine, &reading.snapshot.device[i], &index) == 0 && index == view->gpu;
    }
    return uses;
}

int gm_show_gpu_procs(const struct gm_view *view, struct gm_text *out)
{
    struct gm_process *process;
    for (pid_t pid = 0; (process = gm_machine_next(view->machine, pid)) != NULL;) {
        pid = process->identity.pid;
        if (uses_gpu(view, process)) {
            gm_text_add(out, "%d\n", (int)pid);
        }
        gm_process_release(process);
    }
    return 0;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

int gm_show_events(const struct gm_view *view, struct gm_text *out)
{
    bool of_process = view->process != NULL;
    const char *const *names = of_process ? gm_process_event_names : gm_machine_event_names;
    struct gm_counts counts;
    if (of_process && atomic_load(&view->process->gone)) {
        return -ESRCH;
    }
    if (!of_process) {
        gm_events_look(view->machine);
    }
    gm_events_count(view->machine, view->process, &counts);
    for (unsigned i = 0; i < counts.count; i++) {
        gm_text_add(out, "%s %" PRIu64 "\n", names[i], counts.value[i]);
    }
    *view->shown = counts;
    return 0;
}

/* ---- a process ------------------------------------------------------------------------------------------------ */

int gm_show_comm(const struct gm_view *view, struct gm_text *out)
{
    char comm[GM_COMM_SIZE];
    int rc = gm_proc_comm(view->process->identity.pid, comm);
    if (rc == 0) {
        rc = still_alive(view->process);
    }
    if (rc < 0) {
        return rc;
    }
    gm_text_add(out, "%s\n", comm);
    return 0;
}

int gm_show_container(const struct gm_view *view, struct gm_text *out)
{
    char container[GM_CONTAINER_SIZE];
    gm_proc_container(view->process->identity.pid, container);
    int rc = still_alive(view->process);
    if (rc < 0) {
        return rc;
    }
    gm_text_add(out, "%s\n", container);
    return 0;
}

int gm_show_uid(const struct gm_view *view, struct gm_text *out)
{
    gm_text_add(out, "%u\n", (unsigned)view->process->identity.uid);
    return 0;
}

int gm_show_start_time(const struct gm_view *view, struct gm_text *out)
{
    gm_text_add(out, "%" PRIu64 "\n", view->process->identity.start_time);
    return 0;
}

int gm_show_serial(const struct gm_view *view, struct gm_text *out)
{
    gm_text_add(out, "%" PRIu64 "\n", view->process->serial);
    return 0;
}

int gm_show_state(const struct gm_view *view, struct gm_text *out)
{
    struct gm_proc_stat stat;
    struct gm_reading reading;
    int rc = read_process(view, &reading);
    if (rc == 0) {
        rc = gm_proc_stat(view->process->identity.pid, &stat);
    }
    if (rc == 0) {
        rc = still_alive(view->process);
    }
    if (rc < 0) {
        return rc;
    }
    const char *state = reading.stale ? "unresponsive" : "running";
    if (stat.state == 'T' || stat.state == 't') {
        state = "stopped";
    } else if (stat.state == 'Z' || stat.state == 'X') {
        state = "exiting";
    }
    gm_text_add(out, "%s\n", state);
    return 0;
}

int gm_show_stats(const struct gm_view *view, struct gm_text *out)
{
    struct gm_reading reading;
    uint64_t sum[GM_STAT_COUNT] = {0};
    int rc = read_process(view, &reading);
    if (rc < 0) {
        return rc;
    }
    gm_text_add(out, "age_us %" PRIu64 "\nstale %d\ngeneration %" PRIu64 "\n", reading.age_us, reading.stale,
                reading.snapshot.generation);
    sum_devices(&reading.snapshot, sum);
    add_stat_lines(out, sum);
    return 0;
}

int gm_show_pools(const struct gm_view *view, struct gm_text *out)
{
    struct gm_reading reading;
    int rc = read_process(view, &reading);
    if (rc < 0) {
        return rc;
    }
    for (unsigned i = 0; i < reading.snapshot.device_count; i++) {
        const struct gm_device *device = &reading.snapshot.device[i];
        const uint64_t *stat = device->stat;
        gm_text_add(out,
                    "%u:primitive size=%" PRIu64 " live=%" PRIu64 " free=%" PRIu64 " blocks=%" PRIu64
                    " largest=%" PRIu64 " mappings=%" PRIu64 "\n",
                    device->ordinal, stat[GM_STAT_primitive_bytes] + stat[GM_STAT_primitive_free],
                    stat[GM_STAT_primitive_bytes], stat[GM_STAT_primitive_free], stat[GM_STAT_primitive_blocks],
                    stat[GM_STAT_largest_free], stat[GM_STAT_mappings]);
        gm_text_add(
            out,
            "%u:stitched size=%" PRIu64 " live=%" PRIu64 " idle=%" PRIu64 " blocks=%" PRIu64 " mapped=%" PRIu64 "\n",
            device->ordinal, stat[GM_STAT_stitched_bytes] + stat[GM_STAT_stitched_idle], stat[GM_STAT_stitched_bytes],
            stat[GM_STAT_stitched_idle], stat[GM_STAT_stitched_blocks], stat[GM_STAT_stitched_mapped]);
    }
    return 0;
}

int gm_show_tunable(const struct gm_view *view, struct gm_text *out)
{
    struct gm_reading reading;
    int rc = read_process(view, &reading);
    if (rc < 0) {
        return rc;
    }
    uint64_t word = atomic_load_explicit(&view->process->pages.tunables->word[view->argument], memory_order_relaxed);
    add_value(out, word != GMLAKE_CTL_NO_OVERRIDE ? word : reading.snapshot.own[view->argument]);
    gm_text_add(out, "\n");
    return 0;
}

int gm_show_applied(const struct gm_view *view, struct gm_text *out)
{
    struct gm_reading reading;
    int rc = read_process(view, &reading);
    if (rc < 0) {
        return rc;
    }
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        uint64_t word = atomic_load_explicit(&view->process->pages.tunables->word[i], memory_order_relaxed);
        gm_text_add(out, "%s want=", gm_tunable_table[i].name);
        if (word == GMLAKE_CTL_NO_OVERRIDE) {
            gm_text_add(out, "default");
        } else {
            add_value(out, word);
        }
        gm_text_add(out, " now=");
        add_value(out, reading.snapshot.now[i]);
        uint64_t serial = atomic_load_explicit(&view->process->changed_at[i], memory_order_relaxed);
        gm_text_add(out, " serial=%" PRIu64 " seen=%" PRIu64 "\n", serial, reading.snapshot.changes_seen);
    }
    return 0;
}
