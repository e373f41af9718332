/*
 * faults.h - calls that fail on demand (SIMCUDA_FAIL, simcuda_fail()).
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "entry.h"

/* Reads "NAME:N:CODE,..."; says on stderr what it does not understand. */
void sim_fault_parse(const char *text);

/* The @nth next call of @name (exported or base name; NULL: of any that can fail) gives @code; 0: clears it. */
void sim_fault_set(const char *name, unsigned nth, CUresult code);

/* Counts a call; the code it is to fail with, or CUDA_SUCCESS. */
CUresult sim_fault_check(enum sim_function function);

#endif
