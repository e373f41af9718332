/*
 * leaks.h - what is still held when the process ends.
 *
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_LEAKS_H
#define SIM_LEAKS_H

/* Writes a summary to stderr, if anything is held. */
void sim_leaks_tell(void);

#endif
