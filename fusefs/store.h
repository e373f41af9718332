/*
 * store.h - what writing a file does: one function a kind of file, named in the table of node.c.
 */
#ifndef GM_STORE_H
#define GM_STORE_H

#include "node.h"

/* The longest command; -E2BIG beyond it. */
#define GM_STORE_MAX 4095u

/* Takes blanks and newlines off both ends. */
void gm_trim(const char **text, size_t *length);

/*
 * Sets a tunable of the process, or of the machine when there is none; "default" clears it. -EINVAL not a value,
 * -ERANGE outside the tunable's range, -ESRCH the process is gone.
 */
int gm_store_tunable(const struct gm_view *view, const char *text, size_t length);

#endif
