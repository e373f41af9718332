/*
 * errors.h - results are 0 or -errno; the driver's own code behind a -errno is kept per thread.
 *
 * CONCURRENCY  thread-local storage only.
 */
#ifndef GM_ERRORS_H
#define GM_ERRORS_H

/* Remembers @driver_code (a CUresult) for this thread and returns the -errno it stands for. */
int gm_error_from_driver(int driver_code);

/* The driver's code of the last failure on this thread; 0 if none. */
int gm_error_driver_code(void);

/* The words for a result; never NULL. */
const char *gm_error_text(int result);

#endif
