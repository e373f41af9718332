/*
 * meter.h - counts and times every driver call of the core, at the table it makes them through (struct gm_cu).
 *
 * The core is measured from outside: what it holds, what it calls and how long that takes does not depend on what it
 * says about itself.
 *
 * STRUCTURE    gm_meter.table holds one wrapper a row of symbols.def and is given to the core with gm_cu_use().
 *              Time is the driver's own clock: virtual on the simulated driver, whose clock is first moved to
 *              @trace_ns, the time of the operation being replayed. Only a driver call can see that clock, so moving
 *              it there and nowhere else is the same as moving it at every operation, and costs the others nothing.
 * CONCURRENCY  One meter a process (the wrappers have no argument to find it by), one thread.
 */
#ifndef GM_METER_H
#define GM_METER_H

#include "ledger.h"

#include <cu.h>
#include <stdint.h>

enum gm_meter_call {
#define GM_CU_SYMBOL(need, field, name, parameters) GM_METER_##field,
#include <symbols.def>
#undef GM_CU_SYMBOL
    GM_METER_CALLS
};

struct gm_meter_row {
    const char *name; /* exported driver function */
    uint64_t calls;
    uint64_t ns;
};

struct gm_meter {
    struct gm_cu table;                 /* what the core gets */
    struct gm_cu driver;                /* what it forwards to; fixed while metering */
    void (*advance_to_ns)(uint64_t ns); /* NULL on a real driver */
    uint64_t trace_ns;                  /* where the virtual clock has to be at the next driver call */
    uint64_t calls;                     /* driver calls made */
    uint64_t memory_calls;              /* those of them that manage memory: cuMem... */
    uint64_t driver_ns;                 /* time in them, by the driver's clock */
    uint64_t wall_ns;                   /* time in the wrappers, by the machine's clock: to be taken off the CPU time */
    struct gm_ledger ledger;
    struct gm_meter_row rows[GM_METER_CALLS];
};

extern struct gm_meter gm_meter;

/* Starts metering @driver and makes the core use it. @advance_to_ns may be NULL. */
void gm_meter_start(const struct gm_cu *driver, void (*advance_to_ns)(uint64_t ns));

/* Gives the core its own driver back and forgets the ledger; counts stay readable. */
void gm_meter_stop(void);

#endif
