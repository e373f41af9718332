/*
 * hooks.h - the hook functions, and the driver's own functions behind them.
 *
 * STRUCTURE    hooks.def in C: gm_hook_<field>() is declared here with its exported name and defined in the file that
 *              holds its meaning; gm_driver_<field>() calls the driver's function of that name.
 * CONCURRENCY  gm_originals[] holds 0 until a driver is adopted (driver.h), then one value for ever; threads that
 *              adopt at the same time write the same values. Relaxed reads are enough: the value is an address of
 *              code that was mapped before it was written.
 */
#ifndef GM_HOOKS_H
#define GM_HOOKS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdint.h>

#include "driver.h"

#define GM_EXPORT __attribute__((visibility("default")))

/* Position in hooks.def: GM_HOOK rows and GM_NEED rows counted together. */
enum gm_hook {
#define GM_HOOK(field, name, parameters, arguments) GM_HOOK_##field,
#define GM_NEED(field, name, parameters, arguments) GM_HOOK_##field,
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED
    GM_HOOK_COUNT
};

/* The driver's functions; 0: no driver yet, or it has no such function. */
extern _Atomic uintptr_t gm_originals[GM_HOOK_COUNT];

/* The exported name is given as an assembler name, so <cuda.h> and its renaming macros have no say in it. */
#define GM_HOOK(field, name, parameters, arguments) GM_EXPORT CUresult gm_hook_##field parameters __asm__(#name);
#define GM_NEED(field, name, parameters, arguments)
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED

/*
 * Calls the driver. Without one: CUDA_ERROR_NOT_INITIALIZED, which is what a driver says that nobody has called
 * cuInit() of; a function that the driver lacks: CUDA_ERROR_NOT_SUPPORTED.
 */
#define GM_CALLS_DRIVER(field, name, parameters, arguments)                                                            \
    static inline CUresult gm_driver_##field parameters                                                                \
    {                                                                                                                  \
        uintptr_t original = atomic_load_explicit(&gm_originals[GM_HOOK_##field], memory_order_relaxed);               \
        if (__builtin_expect(original == 0, 0)) {                                                                      \
            if (!gm_driver_adopt_loaded()) {                                                                           \
                return CUDA_ERROR_NOT_INITIALIZED;                                                                     \
            }                                                                                                          \
            original = atomic_load_explicit(&gm_originals[GM_HOOK_##field], memory_order_relaxed);                     \
            if (original == 0) {                                                                                       \
                return CUDA_ERROR_NOT_SUPPORTED;                                                                       \
            }                                                                                                          \
        }                                                                                                              \
        return ((CUresult(CUDAAPI *) parameters)original)arguments;                                                    \
    }
#define GM_HOOK(field, name, parameters, arguments) GM_CALLS_DRIVER(field, name, parameters, arguments)
#define GM_NEED(field, name, parameters, arguments) GM_CALLS_DRIVER(field, name, parameters, arguments)
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED
#undef GM_CALLS_DRIVER

#endif
