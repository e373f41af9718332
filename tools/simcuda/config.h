/*
 * config.h - the knobs of the simulated driver, from the environment.
 *
 *   SIMCUDA_MEMORY=SIZE          memory of each device (K M G T), default that of an H200
 *   SIMCUDA_DEVICES=N            1 to 16, default 1
 *   SIMCUDA_COST=X               scale of the modelled times (costs.def), default 1; 0: calls take no virtual time
 *   SIMCUDA_BACKING=0            no bytes behind the addresses, bookkeeping only
 *   SIMCUDA_STREAM_DELAY_US=D    work on a stream completes D virtual microseconds after it was queued;
 *                                LO-HI draws each delay from that span (repeatably), so streams overtake one another
 *   SIMCUDA_FAIL=NAME:N:CODE,... the N-th call of NAME ("*": any that can fail) returns CODE
 *   SIMCUDA_LOG=FILE             a line for each call; - is stderr
 *   SIMCUDA_VMM=0                a device without virtual memory management
 *   SIMCUDA_LEAKS=0              no summary of leaks at exit
 *
 * A value that does not parse is reported on stderr and the default used.
 * CONCURRENCY  read once, under the driver's lock, before the first call does anything; constant from then on.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_MAX_DEVICES 16

struct sim_config {
    uint64_t memory;
    int devices;
    double cost;
    bool backing;
    bool vmm;
    bool leaks;
    uint64_t delay_low_ns; /* low <= high */
    uint64_t delay_high_ns;
    const char *fail; /* NULL or the text, read by faults.c */
    const char *log;  /* NULL or a file name */
};

extern struct sim_config sim_config;

void sim_config_read(void);

#endif
