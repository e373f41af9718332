/*
 * host.h - what others ask about page-locked host memory.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "space.h"

/* The context that host memory was allocated or registered in. */
CUcontext sim_host_context(struct sim_range *range);

#endif
