/*
 * report.h - what the simulated driver is stricter about than a real one.
 *
 * A violation is misuse that a real driver may let pass or answer with a bare code: it is written to stderr (the
 * first hundred are) and counted. Leaks are told at exit and are not violations.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

/* Says "simcuda: <function>: <message>" and counts it. */
void sim_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

unsigned sim_report_count(void);

#endif
