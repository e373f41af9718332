/*
 * snapshot.h - what a process published, made safe to show.
 *
 * The statistics page is written by a stranger. It is copied once; only the copy is looked at: counts are bounded,
 * devices named twice are merged, rows the process does not know are 0. A copy that makes no sense is not shown.
 */
#ifndef GM_SNAPSHOT_H
#define GM_SNAPSHOT_H

#include <gmlake/ctl_abi.h>
#include <gmlake/gmlake.h>
#include <stdbool.h>

enum gm_stat {
#define GMLAKE_STAT(name, kind, unit, help) GM_STAT_##name,
#include <gmlake/stats.def>
#undef GMLAKE_STAT
    GM_STAT_COUNT
};

enum gm_stat_kind { GM_STAT_GAUGE, GM_STAT_PEAK, GM_STAT_COUNTER };

/* The rows of stats.def. */
struct gm_stat_row {
    const char *name;
    const char *unit;
    const char *help;
    enum gm_stat_kind kind;
};
extern const struct gm_stat_row gm_stat_rows[GM_STAT_COUNT];

/* Device ordinals a process may name. */
#define GM_ORDINAL_MAX 1023u

struct gm_device {
    unsigned ordinal;
    uint8_t uuid[16];
    uint64_t capacity;
    uint64_t stat[GM_STAT_COUNT];
};

/* Invariant: devices are in rising order of ordinal, each once. */
struct gm_snapshot {
    uint64_t generation; /* 0: nothing published yet */
    uint64_t published_ns;
    uint64_t changes_seen;
    uint64_t own[GMLAKE_TUNABLE_COUNT];
    uint64_t now[GMLAKE_TUNABLE_COUNT];
    unsigned device_count;
    struct gm_device device[GMLAKE_CTL_DEVICES_MAX];
};

/* Before anything was published: no devices, tunables at their start values. */
void gm_snapshot_empty(struct gm_snapshot *out);

/*
 * Copies and checks the published snapshot. -ENODATA nothing was published; -EAGAIN it was being rewritten all the
 * time; -EBADMSG it makes no sense. *out is untouched on failure.
 */
int gm_snapshot_read(const struct gmlake_ctl_stats_page *page, struct gm_snapshot *out);

/* The sum of figures that a stranger gave: the highest number where it would wrap. */
static inline uint64_t gm_add_bounded(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Adds one device's figures to @sum: largest_free is the largest, everything else is added without wrapping. */
void gm_stats_add(uint64_t sum[GM_STAT_COUNT], const uint64_t stat[GM_STAT_COUNT]);

#endif
