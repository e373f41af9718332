/*
 * graph.c - the nodes of captured graphs.
 */
#include "graph.h"

#include "objects.h"

#include <stdlib.h>

struct sim_graph *sim_graph_create(struct sim_context *context)
{
    struct sim_graph *graph = calloc(1, sizeof *graph);
    uint64_t handle = graph == NULL ? 0 : sim_object_add(SIM_GRAPH, graph);
    if (handle == 0) {
        free(graph);
        return NULL;
    }
    graph->handle = handle;
    graph->context = context;
    graph->users = 1;
    return graph;
}

void sim_graph_append(struct sim_graph *graph, struct sim_op *op)
{
    op->next = NULL;
    if (graph->last == NULL) {
        graph->first = op;
    } else {
        graph->last->next = op;
    }
    graph->last = op;
    graph->nodes++;
}

void sim_graph_own(struct sim_graph *graph, struct sim_pooled *pooled)
{
    pooled->graph = graph;
    pooled->next_owned = graph->memory;
    graph->memory = pooled;
    graph->nodes++;
}

void sim_graph_disown(struct sim_pooled *pooled)
{
    if (pooled->graph == NULL) {
        return;
    }
    struct sim_pooled **place = &pooled->graph->memory;
    while (*place != pooled) {
        place = &(*place)->next_owned;
    }
    *place = pooled->next_owned;
    pooled->graph = NULL;
}

void sim_graph_instance(const struct sim_op *node, struct sim_op *op)
{
    *op = *node;
    op->next = NULL;
}

void sim_graph_drop_user(struct sim_graph *graph)
{
    if (--graph->users > 0) {
        return;
    }
    while (graph->first != NULL) {
        struct sim_op *op = graph->first;
        graph->first = op->next;
        sim_op_drop(op);
    }
    while (graph->memory != NULL) {
        (void)sim_pool_free(graph->memory, NULL);
    }
    free(graph);
}

void sim_graph_destroy(struct sim_graph *graph)
{
    sim_object_remove(graph->handle);
    graph->handle = 0;
    sim_graph_drop_user(graph);
}
