/*
 * cu.h - the driver as a table of functions, loaded at run time; never linked.
 *
 * STRUCTURE    struct gm_cu holds one typed pointer for each row of symbols.def, and the clock that goes with the
 *              driver: the machine's, or the virtual one that a simulated driver brings along.
 *              The table is the seam of the core: tools and tests wrap it to count or to fail calls.
 * CONCURRENCY  a table is fixed once gm_cu_load() or gm_cu_use() has returned.
 */
#ifndef GM_CU_H
#define GM_CU_H

#include <cuda.h>
#include <stdint.h>

struct gm_cu {
#define GM_CU_SYMBOL(need, field, name, parameters) CUresult(CUDAAPI *field) parameters;
#include "symbols.def"
#undef GM_CU_SYMBOL
    /* Nanoseconds of a clock that only rises. */
    uint64_t (*now_ns)(void);
};

/*
 * Gives the process's driver table, loading libcuda.so.1 on first use (an instance the process has already loaded
 * is preferred). Never initialises CUDA. -ENODEV: no driver, or one that lacks a required function.
 */
int gm_cu_get(const struct gm_cu **out);

/* Fills *out from the library at @path. The library stays loaded. Errors as gm_cu_get(). */
int gm_cu_load(const char *path, struct gm_cu *out);

/*
 * Fills *out with what @look_up gives for each name in @library: dlsym() and a handle, or a caller's own way to find
 * functions. -ENODEV: a required function is missing, *out is untouched.
 */
int gm_cu_fill(void *(*look_up)(void *library, const char *name), void *library, struct gm_cu *out);

/* Makes @table (which must outlive its use) what gm_cu_get() answers from now on; NULL restores the loaded driver. */
void gm_cu_use(const struct gm_cu *table);

#endif
