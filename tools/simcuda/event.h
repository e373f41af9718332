/*
 * event.h - events: a point of a stream, kept by its context.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "stream.h"

struct sim_event {
    struct sim_event *next, *previous; /* in its context */
    struct sim_context *context;
    uint64_t handle;
    unsigned flags;
    bool recorded;
    struct sim_point point; /* past at once while not recorded */
    uint64_t captured;      /* the capture that it was last recorded in; 0: none */
};

/* NULL: no host memory. */
struct sim_event *sim_event_create(struct sim_context *context, unsigned flags);
void sim_event_destroy(struct sim_event *event);

#endif
