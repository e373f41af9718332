/*
 * plain.h - plain allocations (cuMemAlloc): owned by a context, freed by address.
 *
 * STRUCTURE    above 1 MB an allocation has its own span of 2 MB pages; smaller ones share 2 MB pages of their
 *              context's device, 512 bytes apart, by best fit.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_PLAIN_H
#define SIM_PLAIN_H

#include "context.h"
#include "space.h"

/* Invariant: exactly one of @block (shares a page) and @span.size (has its own) is set. */
struct sim_plain {
    struct sim_range range;
    struct sim_context *context;
    struct sim_plain *next, *previous; /* in its context */
    struct sim_block *block;
    struct sim_span span;
    uint64_t offset; /* in the device's file, with its own span */
};

CUresult sim_plain_allocate(struct sim_context *context, uint64_t size, struct sim_plain **out);

/* Gives the memory back behind the work of @stream (cuMemFreeAsync). */
CUresult sim_plain_free_behind(struct sim_plain *plain, struct sim_stream *stream);

/* Where in the device's file the allocation is: the pages, and how far into them it begins. */
void sim_plain_place(const struct sim_plain *plain, uint64_t *offset, uint64_t *size, uint64_t *inside);

/* Gives the memory back. */
void sim_plain_drop(struct sim_plain *plain);

#endif
