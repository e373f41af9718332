/*
 * clock.h - virtual time and the price list.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>

enum sim_cost {
#define SIM_COST(name, ...) SIM_COST_##name,
#include "costs.def"
#undef SIM_COST
    SIM_COST_COUNT
};

uint64_t sim_clock_now(void);

/* Lets the time of one @cost for @bytes pass. */
void sim_clock_charge(enum sim_cost cost, uint64_t bytes);

/* A wait: moves the clock to @ns if that is later. */
void sim_clock_wait(uint64_t ns);

/* All that was ever charged; waits are not in it. */
uint64_t sim_clock_charged(void);

#endif
