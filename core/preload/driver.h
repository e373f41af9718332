/*
 * driver.h - which loaded object is the driver, and which hook replaces which of its functions.
 *
 * STRUCTURE    The first object called libcuda.so.1 that a program shows us (an answer of dlsym(), or, for a program
 *              linked with the driver, the one the process has loaded) is adopted: held, and its functions written
 *              into gm_originals[]. An address is replaced by a hook if and only if it is one of these, so versions,
 *              per-thread variants and fallbacks are the driver's own choice. A second copy of the driver in the same
 *              process is left alone.
 *              The originals are the driver's own functions, not the next definition after us: libraries that load
 *              the driver lazily export stubs of the same names, whose dlsym() would lead back here.
 * CONCURRENCY  no lock: adopting is reading tables and writing values that are the same for every thread. No call into
 *              the driver, so a look-up never initialises it.
 */
#ifndef GM_DRIVER_H
#define GM_DRIVER_H

#include <link.h>
#include <stdbool.h>

/* The object's own name (DT_SONAME), wherever it lies and whichever version it is. */
#define GM_DRIVER_NAME "libcuda.so.1"

/* Adopts the driver the process has loaded, if it has and none is adopted yet. Whether there is one now. */
bool gm_driver_adopt_loaded(void);

/* The adopted driver; NULL: none yet. */
const struct link_map *gm_driver_object(void);

/* What a program gets in place of @address, which some look-up has answered: a hook, or @address itself. */
void *gm_driver_substitute(void *address);

/* Whether @name is a row of hooks.def that is hooked. */
bool gm_driver_hooks(const char *name);

#endif
