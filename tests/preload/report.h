/*
 * report.h - what the simulated driver was asked, as lines "driver: NAME COUNT".
 */
#ifndef REPORT_H
#define REPORT_H

/*
 * Prints a line for each call that tells who serves memory, and how often the driver was misused, which does not
 * depend on that; nothing on a real driver.
 */
void report_driver_calls(void);

#endif
