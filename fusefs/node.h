/*
 * node.h - the tree: one table of every file and directory, and the numbers by which the kernel knows them.
 *
 * STRUCTURE    Inode number = instance << 8 | position in the table + 1. The instance is 0 for the machine's nodes,
 *              else whose the node is: the serial of the process, or the number of the GPU + 1. So a number can be
 *              taken apart without remembering it, and the root is 1.
 * CONCURRENCY  The table is constant.
 */
#ifndef GM_NODE_H
#define GM_NODE_H

#include "machine.h"
#include "text.h"

#include <stdint.h>
#include <sys/stat.h>

/* Where a node is found. */
enum gm_place {
    GM_IN_NOTHING,
    GM_IN_ROOT,
    GM_IN_MACHINE_TUNABLES,
    GM_IN_GPUS,
    GM_IN_GPU,
    GM_IN_PROCESS,
    GM_IN_PROCESS_TUNABLES
};

struct gm_blocks;
struct gm_counts;
struct gm_question;

/* Whom a file is read or written for, and what is kept for the open file. */
struct gm_view {
    struct gm_machine *machine;
    struct gm_process *process;     /* NULL: a node of the machine, or of a GPU */
    unsigned gpu;                   /* of a node of a GPU: its number */
    unsigned argument;              /* of the node: which tunable */
    size_t room;                    /* of a stream: bytes that the reader takes */
    struct gm_question *question;   /* to be filled in where the process must be asked (ask.h) */
    struct gm_watermark *watermark; /* of peak */
    struct gm_blocks *blocks;       /* of map */
    struct gm_counts *shown;        /* of events: what the reader sees */
};

/* Appends the file's text: 0 or -errno, which the reader gets; or GM_ASKED. */
typedef int gm_show(const struct gm_view *view, struct gm_text *out);

/* Takes what one write(2) brought: 0 or -errno, which the writer gets; or GM_ASKED. */
typedef int gm_store(const struct gm_view *view, const char *text, size_t length);

/* Argument of a file that is no text of one moment: each read shows what has come since the last. */
#define GM_NODE_STREAM 0xffffffffu

/* Argument of a file of counters, which can be waited for in poll(2) until one changes. */
#define GM_NODE_EVENTS 0xfffffffeu

struct gm_node {
    const char *name;    /* NULL: a process's directory, named by its pid, or a GPU's, by its number */
    enum gm_place in;    /* the directory that has it */
    enum gm_place holds; /* directories: what it has */
    mode_t mode;
    unsigned argument; /* which tunable; or GM_NODE_STREAM, GM_NODE_EVENTS */
    gm_show *show;     /* files: what is read; NULL: cannot be read */
    gm_store *store;   /* NULL: cannot be written */
    const char *help;  /* one line for the manual */
};

/* The table. Its first row is the root. */
extern const struct gm_node gm_nodes[];
extern const unsigned gm_node_count;

/* A node of somebody. Invariant: process is held exactly when the node is a process's. */
struct gm_object {
    const struct gm_node *node;
    uint64_t instance;
    struct gm_process *process;
};

/* True for nodes that exist once for each process, and for each GPU. */
bool gm_node_of_process(const struct gm_node *node);
bool gm_node_of_gpu(const struct gm_node *node);

uint64_t gm_node_inode(const struct gm_node *node, uint64_t instance);

/* The node of an inode number and its instance; NULL: no number of ours. */
const struct gm_node *gm_node_of_inode(uint64_t inode, uint64_t *instance);

/* What an inode number stands for. -ENOENT no such number or GPU, -ESRCH the process is gone. */
int gm_node_resolve(struct gm_machine *machine, uint64_t inode, struct gm_object *out);

/* What is called @name in the directory @in. -ENOENT. */
int gm_node_lookup(struct gm_machine *machine, const struct gm_object *in, const char *name, struct gm_object *out);

/* Lets go of the process. */
void gm_object_release(struct gm_object *object);

/* The node called @name in @place, processes' and GPUs' directories excepted; NULL: none. */
const struct gm_node *gm_node_find(enum gm_place place, const char *name);

/* The directory that has the nodes in @place, GM_IN_PROCESS or GM_IN_GPU. */
const struct gm_node *gm_node_holder(enum gm_place place);

/* Reads a name as a number, as it is written without leading zeros; -ENOENT. */
int gm_node_parse_number(const char *name, int *out);

#endif
