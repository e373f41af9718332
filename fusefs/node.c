/*
 * node.c - see node.h.
 */
#include "node.h"

#include "ask.h"
#include "gpus.h"
#include "render.h"
#include "store.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define DIRECTORY(mode) (S_IFDIR | (mode))
#define READABLE        (S_IFREG | 0444)
#define WRITABLE        (S_IFREG | 0644)
#define WRITE_ONLY      (S_IFREG | 0200)
#define PRIVATE         (S_IFREG | 0400)

/* clang-format off */
const struct gm_node gm_nodes[] = {
    {"",           GM_IN_NOTHING, GM_IN_ROOT,             DIRECTORY(0555), 0, NULL, NULL, "the mount"},
    {"version",    GM_IN_ROOT,    GM_IN_NOTHING,          READABLE, 0, gm_show_version, NULL, "version of gmlaked and of its interface to processes"},
    {"stats",      GM_IN_ROOT,    GM_IN_NOTHING,          READABLE, 0, gm_show_machine_stats, NULL, "sums over all attached processes"},
    {"metrics",    GM_IN_ROOT,    GM_IN_NOTHING,          READABLE, 0, gm_show_metrics, NULL, "everything as Prometheus text"},
    {"events",     GM_IN_ROOT,    GM_IN_NOTHING,          READABLE, GM_NODE_EVENTS, gm_show_events, NULL, "what has happened on the machine; can be polled"},
    {"gpu",        GM_IN_ROOT,    GM_IN_GPUS,             DIRECTORY(0555), 0, NULL, NULL, "the GPUs, by number"},
    {NULL,         GM_IN_GPUS,    GM_IN_GPU,              DIRECTORY(0555), 0, NULL, NULL, "a GPU"},
    {"uuid",       GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_uuid, NULL, "the GPU's identity, as nvidia-smi writes it"},
    {"capacity",   GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_capacity, NULL, "memory of the GPU; 0 while nobody uses it"},
    {"reserved",   GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_reserved, NULL, "device memory held, all processes together"},
    {"allocated",  GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_allocated, NULL, "live bytes, all processes together"},
    {"largest_free", GM_IN_GPU,   GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_largest_free, NULL, "largest request that some process serves without new memory"},
    {"stats",      GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_stats, NULL, "figures of the GPU, all processes together"},
    {"procs",      GM_IN_GPU,     GM_IN_NOTHING,          READABLE, 0, gm_show_gpu_procs, NULL, "the processes that use it"},
    {"tunables",   GM_IN_ROOT,    GM_IN_MACHINE_TUNABLES, DIRECTORY(0555), 0, NULL, NULL, "overrides for every process without its own"},
    {"self",       GM_IN_ROOT,    GM_IN_NOTHING,          S_IFLNK | 0777, 0, NULL, NULL, "the reader's own directory"},
    {NULL,         GM_IN_ROOT,    GM_IN_PROCESS,          DIRECTORY(0500), 0, NULL, NULL, "a process"},
    {"comm",       GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_comm, NULL, "name of the process"},
    {"uid",        GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_uid, NULL, "user the process runs as"},
    {"start_time", GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_start_time, NULL, "clock ticks after boot, as in /proc/<pid>/stat"},
    {"container",  GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_container, NULL, "id of its container; an empty line: none"},
    {"serial",     GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_serial, NULL, "number of the registration"},
    {"state",      GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_state, NULL, "running, stopped, unresponsive or exiting"},
    {"stats",      GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_stats, NULL, "figures of the process, summed over its devices"},
    {"events",     GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, GM_NODE_EVENTS, gm_show_events, NULL, "what has happened to the process; can be polled"},
    {"pools",      GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_pools, NULL, "the pools of each device"},
    {"current",    GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_current, NULL, "device memory held now"},
    {"peak",       GM_IN_PROCESS, GM_IN_NOTHING,          WRITABLE, 0, gm_show_peak, gm_store_peak, "most held since the start; writing resets it for the open file"},
    {"high",       GM_IN_PROCESS, GM_IN_NOTHING,          WRITABLE, GMLAKE_TUNABLE_memory_high, gm_show_tunable, gm_store_tunable, "memory beyond which unused memory is given back"},
    {"max",        GM_IN_PROCESS, GM_IN_NOTHING,          WRITABLE, GMLAKE_TUNABLE_memory_max, gm_show_tunable, gm_store_tunable, "memory beyond which allocations fail"},
    {"reclaim",    GM_IN_PROCESS, GM_IN_NOTHING,          WRITE_ONLY, 0, NULL, gm_store_reclaim, "gives back an amount of unused memory"},
    {"map",        GM_IN_PROCESS, GM_IN_NOTHING,          READABLE, 0, gm_show_map, NULL, "every block, a line each"},
    {"trace",      GM_IN_PROCESS, GM_IN_NOTHING,          WRITABLE, 0, gm_show_trace, gm_store_trace, "records allocations and frees: on, on ring=SIZE, off"},
    {"trace_pipe", GM_IN_PROCESS, GM_IN_NOTHING,          PRIVATE, GM_NODE_STREAM, gm_show_trace_pipe, NULL, "what was recorded, taken by reading"},
    {"tunables",   GM_IN_PROCESS, GM_IN_PROCESS_TUNABLES, DIRECTORY(0500), 0, NULL, NULL, "values in force; a written one overrides, `default` clears it"},
    {".applied",   GM_IN_PROCESS_TUNABLES, GM_IN_NOTHING, READABLE, 0, gm_show_applied, NULL, "what was set and what the process says is in force"},
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help)                                                          \
    {#name,        GM_IN_MACHINE_TUNABLES, GM_IN_NOTHING, WRITABLE, GMLAKE_TUNABLE_##name, gm_show_machine_tunable, gm_store_tunable, help},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help)                                                          \
    {#name,        GM_IN_PROCESS_TUNABLES, GM_IN_NOTHING, WRITABLE, GMLAKE_TUNABLE_##name, gm_show_tunable, gm_store_tunable, help},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};
/* clang-format on */

const unsigned gm_node_count = sizeof gm_nodes / sizeof gm_nodes[0];
_Static_assert(sizeof gm_nodes / sizeof gm_nodes[0] < 256, "a position fits in the low byte of an inode number");

bool gm_node_of_process(const struct gm_node *node)
{
    return node->in == GM_IN_PROCESS || node->in == GM_IN_PROCESS_TUNABLES || node->holds == GM_IN_PROCESS;
}

bool gm_node_of_gpu(const struct gm_node *node)
{
    return node->in == GM_IN_GPU || node->holds == GM_IN_GPU;
}

uint64_t gm_node_inode(const struct gm_node *node, uint64_t instance)
{
    return instance << 8 | (uint64_t)(node - gm_nodes + 1);
}

const struct gm_node *gm_node_of_inode(uint64_t inode, uint64_t *instance)
{
    uint64_t position = inode & 255;
    if (position == 0 || position > gm_node_count) {
        return NULL;
    }
    const struct gm_node *node = &gm_nodes[position - 1];
    if ((gm_node_of_process(node) || gm_node_of_gpu(node)) != (inode >> 8 != 0)) {
        return NULL;
    }
    *instance = inode >> 8;
    return node;
}

int gm_node_resolve(struct gm_machine *machine, uint64_t inode, struct gm_object *out)
{
    struct gm_object found = {.process = NULL};
    found.node = gm_node_of_inode(inode, &found.instance);
    if (found.node == NULL) {
        return -ENOENT;
    }
    if (gm_node_of_gpu(found.node) && !gm_gpu_is_known(machine, found.instance - 1)) {
        return -ENOENT;
    }
    if (gm_node_of_process(found.node)) {
        found.process = gm_machine_find_serial(machine, found.instance);
        if (found.process == NULL) {
            return -ESRCH;
        }
    }
    *out = found;
    return 0;
}

/* The directory of a process or GPU that is named by its number. -ENOENT. */
static int look_number_up(struct gm_machine *machine, enum gm_place place, const char *name, struct gm_object *out)
{
    struct gm_object found = {.process = NULL};
    int number;
    if (gm_node_parse_number(name, &number) < 0) {
        return -ENOENT;
    }
    if (place == GM_IN_ROOT) {
        found.process = gm_machine_find_pid(machine, number);
        found.node = gm_node_holder(GM_IN_PROCESS);
        found.instance = found.process != NULL ? found.process->serial : 0;
    } else if (place == GM_IN_GPUS) {
        gm_gpus_notice(machine);
        found.node = gm_node_holder(GM_IN_GPU);
        found.instance = gm_gpu_is_known(machine, (uint64_t)number) ? (uint64_t)number + 1 : 0;
    }
    if (found.instance == 0) {
        return -ENOENT;
    }
    *out = found;
    return 0;
}

int gm_node_lookup(struct gm_machine *machine, const struct gm_object *in, const char *name, struct gm_object *out)
{
    const struct gm_node *node = gm_node_find(in->node->holds, name);
    if (node == NULL) {
        return look_number_up(machine, in->node->holds, name, out);
    }
    if (in->process != NULL) {
        gm_process_hold(in->process);
    }
    *out = (struct gm_object){node, in->instance, in->process};
    return 0;
}

void gm_object_release(struct gm_object *object)
{
    gm_process_release(object->process);
    object->process = NULL;
}

const struct gm_node *gm_node_find(enum gm_place place, const char *name)
{
    for (const struct gm_node *node = gm_nodes + 1; node < gm_nodes + gm_node_count; node++) {
        if (node->in == place && node->name != NULL && strcmp(node->name, name) == 0) {
            return node;
        }
    }
    return NULL;
}

const struct gm_node *gm_node_holder(enum gm_place place)
{
    const struct gm_node *node = gm_nodes;
    while (node->holds != place) {
        node++;
    }
    return node;
}

int gm_node_parse_number(const char *name, int *out)
{
    int number = 0;
    if (name[0] == '\0' || (name[0] == '0' && name[1] != '\0')) {
        return -ENOENT;
    }
    for (const char *c = name; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || number > (INT_MAX - (*c - '0')) / 10) {
            return -ENOENT;
        }
        number = number * 10 + (*c - '0');
    }
    *out = number;
    return 0;
}
