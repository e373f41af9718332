/*
 * charged.h - memory that the driver served because we could not: it counts towards the limits of the process, too.
 *
 * What is counted are plain and stream-ordered allocations, by the bytes asked for; not what a capture puts into a
 * graph, nor the program's own virtual memory, which is only refused beyond the limit.
 *
 * STRUCTURE    A table from address to bytes and context (block_table.h). Where there is no memory for it, a block is
 *              not counted.
 * CONCURRENCY  one lock, GM_RANK_ORIGIN, under which nothing is called; looking into an empty table takes none.
 */
#ifndef GM_CHARGED_H
#define GM_CHARGED_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Before the driver is asked for @bytes: false if that would go beyond the limit. Else gm_charged_end() must follow,
 * with *charge, which is what of it counts.
 */
bool gm_charged_begin(size_t bytes, size_t *charge);

/* The driver has given the block @address under the current context; 0: it has not. */
void gm_charged_end(size_t charge, CUdeviceptr address);

/*
 * Before the driver is asked to free @address, for after that another thread may be given it: what is taken out of the
 * account, to be put back when the free fails. *bytes 0: it was not counted.
 */
struct gm_charged {
    uint64_t bytes;
    CUcontext context;
};
struct gm_charged gm_charged_take(CUdeviceptr address);
void gm_charged_put_back(CUdeviceptr address, const struct gm_charged *charged);

/* @context has ended, and its memory with it. */
void gm_charged_forget(CUcontext context);

#endif
