/*
 * metrics.h - everything in the Prometheus text format, generated from stats.def.
 *
 * SERIES  gmlake_device_<figure>{gpu,UUID} sums all processes on a GPU; gpu and UUID are those of nvidia-smi and of
 *         NVIDIA's own exporter, so the two join. gmlake_process_<figure>{pid,comm,gpu} is there for the processes that
 *         hold most memory, machine->metrics_processes of them; the others are summed under pid="other". A process's
 *         series end with it. Pids are unbounded over time: keep them out of long-term rules.
 * FORM    A family's samples stand together under one HELP and TYPE. Label values a process chooses (its name) are made
 *         printable and escaped. There are no timestamps: a file that had them would be skipped as a whole.
 */
#ifndef GM_METRICS_H
#define GM_METRICS_H

#include "machine.h"
#include "text.h"

/* Appends the exposition. Always 0; memory trouble shows in @out. */
int gm_metrics_render(struct gm_machine *machine, struct gm_text *out);

/* The name of a statistics row as a metric of @kind ("device", "process"): prefix, base unit, _total for counters. */
void gm_metric_name(const char *kind, enum gm_stat row, char *out, size_t size);

/* Appends @value as a label value between quotes. */
void gm_metric_label(struct gm_text *out, const char *value);

#endif
