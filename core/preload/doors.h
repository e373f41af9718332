/*
 * doors.h - how a program finds functions of the driver, and where the hooks come in.
 *
 *   linked with libcuda.so.1          the exported hooks come first in the loader's order, being preloaded
 *   dlopen() + dlsym(), dlvsym()      replaced here, at both of their glibc versions (preload.map.in)
 *   cuGetProcAddress(), its _v2       hooks themselves; this is how the CUDA runtime finds everything
 *
 * STRUCTURE    dlsym() and dlvsym() are a few instructions of assembly: they ask gm_doors_dlsym() or gm_doors_dlvsym()
 *              where to go and jump there with arguments, stack and return address as the caller left them. For all
 *              but a look-up of a hooked name in a real handle that is the real function, which therefore sees its
 *              true caller: RTLD_NEXT and RTLD_DEFAULT mean what they mean without us.
 *              A hooked name is looked up first, then replaced by the address that came back (driver.h).
 * CONCURRENCY  no locks of ours, no allocation, no thread-local data: malloc() may depend on dlsym().
 */
#ifndef GM_DOORS_H
#define GM_DOORS_H

#include <stdint.h>

/*
 * The function that dlsym(@handle, @name), called from @caller, goes on with, and the same for dlvsym(). Called from
 * assembly alone.
 */
uintptr_t gm_doors_dlsym(void *handle, const char *name, const void *caller);
uintptr_t gm_doors_dlvsym(void *handle, const char *name, const void *caller);

#endif
