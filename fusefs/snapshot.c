/*
 * snapshot.c - see snapshot.h.
 */
#include "snapshot.h"

#include "latch.h"
#include "tunables.h"

#include <errno.h>
#include <string.h>

/* An honest process publishes 20 times a second: a copy, which takes a microsecond, is hardly ever disturbed. */
#define COPY_TRIES 64

const struct gm_stat_row gm_stat_rows[GM_STAT_COUNT] = {
#define GMLAKE_STAT(name, kind, unit, help) {#name, unit, help, GM_STAT_##kind},
#include <gmlake/stats.def>
#undef GMLAKE_STAT
};

void gm_snapshot_empty(struct gm_snapshot *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        out->own[i] = gm_tunable_table[i].initial;
        out->now[i] = gm_tunable_table[i].initial;
    }
}

void gm_stats_add(uint64_t sum[GM_STAT_COUNT], const uint64_t stat[GM_STAT_COUNT])
{
    for (unsigned row = 0; row < GM_STAT_COUNT; row++) {
        if (row == GM_STAT_largest_free) {
            sum[row] = stat[row] > sum[row] ? stat[row] : sum[row];
        } else {
            sum[row] = gm_add_bounded(sum[row], stat[row]);
        }
    }
}

/* The slot of @ordinal in @out, made if it is new. */
static struct gm_device *device_slot(struct gm_snapshot *out, unsigned ordinal)
{
    unsigned at = 0;
    while (at < out->device_count && out->device[at].ordinal < ordinal) {
        at++;
    }
    if (at == out->device_count || out->device[at].ordinal != ordinal) {
        memmove(&out->device[at + 1], &out->device[at], (out->device_count - at) * sizeof out->device[0]);
        memset(&out->device[at], 0, sizeof out->device[at]);
        out->device[at].ordinal = ordinal;
        out->device_count++;
    }
    return &out->device[at];
}

static void take_device(struct gm_snapshot *out, const struct gmlake_ctl_device *from, unsigned rows)
{
    uint64_t stat[GM_STAT_COUNT] = {0};
    struct gm_device *device = device_slot(out, from->ordinal);
    memcpy(stat, from->stat, rows * sizeof stat[0]);
    memcpy(device->uuid, from->uuid, sizeof device->uuid);
    device->capacity = from->capacity;
    gm_stats_add(device->stat, stat);
}

int gm_snapshot_read(const struct gmlake_ctl_stats_page *page, struct gm_snapshot *out)
{
    struct gmlake_ctl_snapshot copy;
    int rc = gm_latch_read(page, COPY_TRIES, &copy);
    if (rc < 0) {
        return rc;
    }
    if (copy.device_count > GMLAKE_CTL_DEVICES_MAX || copy.stat_count > GMLAKE_CTL_STATS_MAX ||
        copy.tunable_count > GMLAKE_CTL_TUNABLES_MAX || copy.generation == 0) {
        return -EBADMSG;
    }
    for (unsigned i = 0; i < copy.device_count; i++) {
        if (copy.device[i].ordinal > GM_ORDINAL_MAX) {
            return -EBADMSG;
        }
    }
    gm_snapshot_empty(out);
    out->generation = copy.generation;
    out->published_ns = copy.published_ns;
    out->changes_seen = copy.changes_seen;
    for (unsigned i = 0; i < copy.tunable_count && i < GMLAKE_TUNABLE_COUNT; i++) {
        out->own[i] = copy.own[i];
        out->now[i] = copy.now[i];
    }
    for (unsigned i = 0; i < copy.device_count; i++) {
        take_device(out, &copy.device[i], copy.stat_count < GM_STAT_COUNT ? copy.stat_count : GM_STAT_COUNT);
    }
    return 0;
}
