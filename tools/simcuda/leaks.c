/*
 * leaks.c - the summary at exit.
 */
#include "leaks.h"

#include "plain.h"
#include "space.h"
#include "vmm.h"

#include <stdio.h>

typedef unsigned long long ull;

struct plain_totals {
    uint64_t plain, plain_bytes;
    uint64_t pooled, pooled_bytes;
};

static struct plain_totals count_allocations(void)
{
    struct plain_totals totals = {0};
    for (const struct sim_range *range = sim_space_next(0); range != NULL;
         range = sim_space_next(range->node.key + 1)) {
        if (range->kind == SIM_PLAIN) {
            totals.plain++;
            totals.plain_bytes += range->size;
        } else if (range->kind == SIM_POOLED) {
            totals.pooled++;
            totals.pooled_bytes += range->size;
        }
    }
    return totals;
}

void sim_leaks_tell(void)
{
    struct sim_vmm_totals vmm;
    sim_vmm_count(&vmm);
    struct plain_totals plain = count_allocations();
    if (vmm.chunks + vmm.mappings + vmm.reservations + plain.plain + plain.pooled == 0) {
        return;
    }
    fprintf(stderr,
            "simcuda: held at exit: %llu handles (%llu bytes), %llu mappings, %llu reservations (%llu bytes), "
            "%llu allocations (%llu bytes), %llu stream-ordered ones (%llu bytes)\n",
            (ull)vmm.chunks, (ull)vmm.chunk_bytes, (ull)vmm.mappings, (ull)vmm.reservations, (ull)vmm.reserved_bytes,
            (ull)plain.plain, (ull)plain.plain_bytes, (ull)plain.pooled, (ull)plain.pooled_bytes);
}
