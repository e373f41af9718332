/*
 * graph.h - graphs made by capture.
 *
 * STRUCTURE    the captured operations in the order they came, which is an order they may run in: a launch queues them
 *              one after the other. Memory that was allocated during the capture belongs to the graph.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "pool.h"
#include "stream.h"

struct sim_graph {
    uint64_t handle;
    struct sim_context *context;
    struct sim_op *first, *last;
    struct sim_pooled *memory; /* allocated in the capture, linked by next_owned */
    size_t nodes;
    unsigned users; /* the handle, and each executable made from it */
};

/* NULL: no host memory. */
struct sim_graph *sim_graph_create(struct sim_context *context);
void sim_graph_append(struct sim_graph *graph, struct sim_op *op);

/* Makes @pooled the graph's: it lives as long as the graph, unless the program frees it after a launch. */
void sim_graph_own(struct sim_graph *graph, struct sim_pooled *pooled);
void sim_graph_disown(struct sim_pooled *pooled);

/* Fills *op, which is blank, to do what the captured @node does. */
void sim_graph_instance(const struct sim_op *node, struct sim_op *op);

/* Ends the handle; nodes and memory go with the last user. */
void sim_graph_destroy(struct sim_graph *graph);
void sim_graph_drop_user(struct sim_graph *graph);

#endif
