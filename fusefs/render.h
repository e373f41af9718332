/*
 * render.h - the texts of the files that show something: one function a file, named in the table of node.c.
 *
 * Flat keyed files have lines "key value", nested keyed ones "key name=value ..."; more keys may come, anywhere. Sizes
 * are bytes. Names and forms are an interface: they only grow.
 */
#ifndef GM_RENDER_H
#define GM_RENDER_H

#include "node.h"
#include "text.h"

/* Of the machine. */
int gm_show_version(const struct gm_view *view, struct gm_text *out);
int gm_show_machine_stats(const struct gm_view *view, struct gm_text *out);
int gm_show_metrics(const struct gm_view *view, struct gm_text *out);
int gm_show_machine_tunable(const struct gm_view *view, struct gm_text *out);

/* Of a GPU. */
int gm_show_gpu_uuid(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_capacity(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_reserved(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_allocated(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_largest_free(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_stats(const struct gm_view *view, struct gm_text *out);
int gm_show_gpu_procs(const struct gm_view *view, struct gm_text *out);

/* Of machine or process. */
int gm_show_events(const struct gm_view *view, struct gm_text *out);

/* Of a process; -ESRCH when it is gone. */
int gm_show_comm(const struct gm_view *view, struct gm_text *out);
int gm_show_uid(const struct gm_view *view, struct gm_text *out);
int gm_show_start_time(const struct gm_view *view, struct gm_text *out);
int gm_show_container(const struct gm_view *view, struct gm_text *out);
int gm_show_serial(const struct gm_view *view, struct gm_text *out);
int gm_show_state(const struct gm_view *view, struct gm_text *out);
int gm_show_stats(const struct gm_view *view, struct gm_text *out);
int gm_show_pools(const struct gm_view *view, struct gm_text *out);
int gm_show_tunable(const struct gm_view *view, struct gm_text *out);
int gm_show_applied(const struct gm_view *view, struct gm_text *out);

#endif
