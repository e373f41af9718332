/*
 * tree.c - the treap of tree.h, without recursion.
 */
#include "tree.h"

#include <stdbool.h>

static bool below(const struct sim_node *node, uint64_t key, uint64_t tie)
{
    return node->key != key ? node->key < key : node->tie < tie;
}

/* Priorities need no seed: their order only has to be unrelated to that of the keys. */
static uint32_t next_priority(void)
{
    static uint32_t state = 0x9e3779b9u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Parts @root into the nodes below (key, tie) and the others. */
static void split(struct sim_node *root, uint64_t key, uint64_t tie, struct sim_node **low, struct sim_node **high)
{
    while (root != NULL) {
        if (below(root, key, tie)) {
            *low = root;
            low = &root->child[1];
            root = root->child[1];
        } else {
            *high = root;
            high = &root->child[0];
            root = root->child[0];
        }
    }
    *low = NULL;
    *high = NULL;
}

void sim_tree_insert(struct sim_tree *tree, struct sim_node *node)
{
    struct sim_node **place = &tree->root;
    node->priority = next_priority();
    while (*place != NULL && (*place)->priority >= node->priority) {
        place = &(*place)->child[below(*place, node->key, node->tie)];
    }
    split(*place, node->key, node->tie, &node->child[0], &node->child[1]);
    *place = node;
}

void sim_tree_remove(struct sim_tree *tree, const struct sim_node *node)
{
    struct sim_node **place = &tree->root;
    while (*place != node) {
        place = &(*place)->child[below(*place, node->key, node->tie)];
    }
    struct sim_node *low = node->child[0];
    struct sim_node *high = node->child[1];
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *place = low;
            place = &low->child[1];
            low = low->child[1];
        } else {
            *place = high;
            place = &high->child[0];
            high = high->child[0];
        }
    }
    *place = low != NULL ? low : high;
}

struct sim_node *sim_tree_floor(const struct sim_tree *tree, uint64_t key, uint64_t tie)
{
    struct sim_node *best = NULL;
    struct sim_node *node = tree->root;
    while (node != NULL) {
        if (below(node, key, tie)) {
            best = node;
            node = node->child[1];
        } else if (node->key == key && node->tie == tie) {
            return node;
        } else {
            node = node->child[0];
        }
    }
    return best;
}

struct sim_node *sim_tree_ceiling(const struct sim_tree *tree, uint64_t key, uint64_t tie)
{
    struct sim_node *best = NULL;
    struct sim_node *node = tree->root;
    while (node != NULL) {
        if (below(node, key, tie)) {
            node = node->child[1];
        } else {
            best = node;
            node = node->child[0];
        }
    }
    return best;
}
