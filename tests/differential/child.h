/*
 * child.h - one run of a random program, in a process of its own.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct plan {
    uint64_t seed;
    unsigned long steps;
    const bool *kept; /* of each step, whether it is done; NULL: all are */
    bool tight;       /* small devices */
    bool delayed;     /* streams run late */
    bool single;      /* one device, and one context for all of the run */
};

/*
 * Runs the program with the driver that the process finds and writes what it hears to standard output. @expected holds
 * the results of allocations in a run before, so that both runs have the same blocks; NULL: this is that run.
 * Returns the exit status.
 */
int run_child(const struct plan *plan, const char *expected);

#endif
