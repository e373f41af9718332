/*
 * nodes.c - prints the table of nodes for tests that must not forget one: for each file its path, with PID and INDEX
 * where a process or a GPU is meant, whether it can be read and written (r, w, rw), what it is (text, stream, events,
 * tunable) and, of a tunable, its range.
 */
#include "node.h"
#include "tunables.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const directories[] = {
    [GM_IN_ROOT] = "",        [GM_IN_MACHINE_TUNABLES] = "tunables/",     [GM_IN_GPU] = "gpu/INDEX/",
    [GM_IN_PROCESS] = "PID/", [GM_IN_PROCESS_TUNABLES] = "PID/tunables/",
};

static bool is_tunable(const struct gm_node *node)
{
    return node->store != NULL && node->show != NULL && node->argument < GMLAKE_TUNABLE_COUNT &&
           gm_tunable_table[node->argument].name != NULL;
}

/* high and max are tunables by other names; peak and trace, whose argument is 0, are none. */
static const char *kind_of(const struct gm_node *node)
{
    if (node->argument == GM_NODE_STREAM) {
        return "stream";
    }
    if (node->argument == GM_NODE_EVENTS) {
        return "events";
    }
    bool named = node->in == GM_IN_MACHINE_TUNABLES || node->in == GM_IN_PROCESS_TUNABLES || node->argument > 0;
    return named && is_tunable(node) ? "tunable" : "text";
}

int main(void)
{
    for (unsigned i = 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        if (!S_ISREG(node->mode)) {
            continue;
        }
        const char *kind = kind_of(node);
        printf("%s%s %s%s %s", directories[node->in], node->name, node->show != NULL ? "r" : "",
               node->store != NULL ? "w" : "", kind);
        if (kind[0] == 't' && kind[1] == 'u') {
            const struct gm_tunable_info *tunable = &gm_tunable_table[node->argument];
            printf(" %" PRIu64 " %" PRIu64, tunable->minimum, tunable->maximum);
        }
        printf("\n");
    }
    return 0;
}
