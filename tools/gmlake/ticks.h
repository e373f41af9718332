/*
 * ticks.h - the cheapest clock of the machine, for timing calls of some tens of nanoseconds one by one.
 */
#ifndef GM_TICKS_H
#define GM_TICKS_H

#include "monotonic.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t gm_ticks(void)
{
    unsigned processor;
    return __rdtscp(&processor);
}
#elif defined(__aarch64__)
static inline uint64_t gm_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
static inline uint64_t gm_ticks(void)
{
    return gm_monotonic_ns();
}
#endif

/* Ticks in nanoseconds; the rate is found once, in 10 ms. */
static inline double gm_ticks_to_ns(uint64_t ticks)
{
    static double ns_per_tick;
    if (ns_per_tick == 0) {
        uint64_t wall = gm_monotonic_ns();
        uint64_t start = gm_ticks();
        while (gm_monotonic_ns() - wall < 10000000) {
        }
        ns_per_tick = (double)(gm_monotonic_ns() - wall) / (double)(gm_ticks() - start);
    }
    return (double)ticks * ns_per_tick;
}

#endif
