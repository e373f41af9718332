/*
 * monotonic.h - the time that deadlines and durations are made of: the system's monotonic clock.
 */
#ifndef GM_MONOTONIC_H
#define GM_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gm_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline int64_t gm_monotonic_ms(void)
{
    return (int64_t)(gm_monotonic_ns() / 1000000u);
}

#endif
