/*
 * tree.h - an ordered map with nodes inside the objects it holds.
 *
 * STRUCTURE    a treap: a search tree by (key, tie) and at the same time a heap by random priority, which keeps it
 *              balanced on average. The owner embeds a struct sim_node and gets back to its object by offset.
 * CONCURRENCY  none of its own: the driver's lock guards every tree.
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include <stddef.h>
#include <stdint.h>

struct sim_node {
    struct sim_node *child[2];
    uint64_t key; /* (key, tie) is unique in a tree and fixed while the node is in it */
    uint64_t tie;
    uint32_t priority;
};

struct sim_tree {
    struct sim_node *root;
};

/* The object of @type whose field @member is @node; @node may not be NULL. */
#define SIM_OWNER(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

void sim_tree_insert(struct sim_tree *tree, struct sim_node *node);
void sim_tree_remove(struct sim_tree *tree, const struct sim_node *node);

/* The greatest node not above (key, tie); NULL if none. */
struct sim_node *sim_tree_floor(const struct sim_tree *tree, uint64_t key, uint64_t tie);

/* The least node not below (key, tie); NULL if none. */
struct sim_node *sim_tree_ceiling(const struct sim_tree *tree, uint64_t key, uint64_t tie);

#endif
