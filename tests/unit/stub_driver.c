/*
 * stub_driver.c - a library that exports every function the core asks a driver for, and nothing behind them.
 *
 * For the loader's tests. Built several times: whole, under the driver's own soname, without one function (by a
 * linker map), and with the clock that marks a simulated driver (STUB_CLOCK_NS).
 */
#include <cuda.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* The exported name differs from the C name: <cuda.h> renames some functions by macro. */
#define GM_CU_SYMBOL(need, field, name, parameters)                                                                    \
    CUresult stub_##field parameters __asm__(name);                                                                    \
    CUresult stub_##field parameters                                                                                   \
    {                                                                                                                  \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }
#include "symbols.def"
#undef GM_CU_SYMBOL

#ifdef STUB_CLOCK_NS
uint64_t simcuda_now_ns(void);
uint64_t simcuda_now_ns(void)
{
    return STUB_CLOCK_NS;
}
#endif

#pragma GCC visibility pop
