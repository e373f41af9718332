/*
 * point.h - a moment in a stream: what was queued before it is done.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_POINT_H
#define SIM_POINT_H

#include <stdbool.h>
#include <stdint.h>

struct sim_stream;

/* A stream's own numbers say whether it has got there, so a point may be kept for as long as one likes. */
struct sim_point {
    struct sim_stream *stream; /* NULL: always past */
    uint64_t seq;
    uint64_t due;
};

bool sim_point_past(const struct sim_point *point);

/* Waits for it: runs what is needed and moves the clock. */
void sim_point_wait(const struct sim_point *point);

#endif
