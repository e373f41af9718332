/*
 * objects.h - handles: every context, stream, event, pool, chunk and graph is known to the caller by a number.
 *
 * STRUCTURE    one table; a handle is an index and a generation, so a handle kept after its object is gone is found
 *              out instead of followed. Handles look like pointers (never below 0x10000) but point nowhere.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_OBJECTS_H
#define SIM_OBJECTS_H

#include <stdint.h>

enum sim_kind { SIM_FREE_SLOT, SIM_CONTEXT, SIM_STREAM, SIM_EVENT, SIM_POOL, SIM_CHUNK, SIM_GRAPH, SIM_EXECUTABLE };

/* A new handle for @object; 0: no host memory. */
uint64_t sim_object_add(enum sim_kind kind, void *object);

/* The object, or NULL: no such handle, already gone, or of another kind. */
void *sim_object_get(enum sim_kind kind, uint64_t handle);

void sim_object_remove(uint64_t handle);

#endif
