/*
 * calls.h - the driver's functions, found through one of the doors that programs use.
 */
#ifndef CALLS_H
#define CALLS_H

#include <cuda.h>

struct calls {
#define CALL(name, version, kind) __typeof__(name) *name##_;
#include "calls.def"
#undef CALL
};

/*
 * The doors, by name:
 *   linked          the program's own references to libcuda.so.1 (only in a program that is linked with it)
 *   dlsym           look-ups in the handle that dlopen("libcuda.so.1") gives
 *   dlvsym          the same with glibc's first dlsym(), found by dlvsym()
 *   default         dlsym(RTLD_DEFAULT)
 *   proc            cuGetProcAddress, from dlsym
 *   proc0           cuGetProcAddress_v2 with flags 0 (default), 1 (legacy stream) or 2 (per-thread stream), from dlsym
 *   proc1, proc2
 * Fills *out; on failure says on standard error what is missing and returns -1.
 */
int calls_find(const char *door, struct calls *out);

#endif
