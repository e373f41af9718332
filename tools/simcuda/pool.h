/*
 * pool.h - stream-ordered memory pools.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "space.h"
#include "stream.h"

/* Gives back what idle pools of the device hold above their thresholds: due whenever something was waited for. */
void sim_pool_trim_idle(struct sim_device *device);

/* Frees a pooled range behind the work of @stream; NULL: at once. */
CUresult sim_pool_free(struct sim_range *range, struct sim_stream *stream);

#endif
