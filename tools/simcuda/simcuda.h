/*
 * simcuda.h - what the simulated driver answers beyond the CUDA driver API.
 *
 * Only the simulated libcuda.so.1 exports these; look them up with dlsym() and treat NULL as "a real driver".
 * Thread-safe. Times are virtual nanoseconds: they advance by the modelled cost of each driver call, by waits, and
 * by simcuda_advance_to_ns().
 */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

/* The virtual clock; starts at 0. */
uint64_t simcuda_now_ns(void);

/* Moves the virtual clock to @ns if that is later than now. Work that is due by then completes. */
void simcuda_advance_to_ns(uint64_t ns);

struct simcuda_device {
    uint64_t capacity; /* bytes */
    uint64_t in_use;   /* physical bytes: created handles, plain allocations, pool reserves */
    uint64_t in_use_peak;
    uint64_t handles;  /* cuMemCreate handles alive */
    uint64_t mappings; /* cuMemMap mappings alive */
    uint64_t mappings_peak;
    uint64_t va_bytes; /* reserved address space */
    uint64_t va_peak;
};

/* Fills *out for device @ordinal; -1: no such device. */
int simcuda_query_device(int ordinal, struct simcuda_device *out);

struct simcuda_call {
    const char *name; /* exported driver function */
    uint64_t calls;
    uint64_t ns; /* modelled time, virtual */
};

/* Copies at most @max rows, one for each function called so far; returns how many there are. */
size_t simcuda_query_calls(struct simcuda_call *out, size_t max);

/* Starts peaks and call counts anew. */
void simcuda_reset_counts(void);

/*
 * Makes the @nth next call of function @name (NULL: of any function that can fail) return @code; 0 in @nth clears
 * it. As SIMCUDA_FAIL does at start.
 */
void simcuda_fail(const char *name, unsigned nth, int code);

/* Misuse seen so far: use after unmap or release, partial unmap, frees of what is not there, and so on. */
unsigned simcuda_violations(void);

#endif
