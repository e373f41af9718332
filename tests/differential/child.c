/*
 * child.c - does the steps, one after the other.
 */
#include "child.h"

#include "simcuda.h"
#include "steps.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned weight;
    void (*run)(void);
} steps[] = {
#define STEP(name, weight) {#name, weight, step_##name},
#include "steps.def"
#undef STEP
};

static void *library;

/* --- the driver --------------------------------------------------------------------------------------------------- */

static bool find_function(const char *name, const char *variant, void *plain, void *per_thread)
{
    char full[80];
    void *address = dlsym(library, name);
    if (address == NULL) {
        fprintf(stderr, "libcuda.so.1 has no %s\n", name);
        return false;
    }
    memcpy(plain, &address, sizeof address);
    if (strcmp(variant, "NONE") != 0) {
        snprintf(full, sizeof full, "%s_%s", name, strcmp(variant, "PTSZ") == 0 ? "ptsz" : "ptds");
        address = dlsym(library, full);
    }
    memcpy(per_thread, &address, sizeof address);
    return address != NULL;
}

static bool find_driver(void)
{
    bool found = true;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...)                                            \
    found &= find_function(#symbol, #variant, &cu[0].symbol, &cu[1].symbol);
#include "exports.def"
#undef SIM_FUNCTION
    return found;
}

/* --- what the first run heard ------------------------------------------------------------------------------------- */

static const char *heard;

bool allocation_must_fail(void)
{
    static const char mark[] = "\n~room ";
    if (heard == NULL) {
        return false;
    }
    const char *next = strstr(heard, mark);
    if (next == NULL) {
        return false;
    }
    heard = next + strlen(mark);
    return atoi(heard) == CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static bool prepare(const struct plan *plan)
{
    world = (struct world){
        .seed = plan->seed, .tight = plan->tight, .delayed = plan->delayed, .devices = plan->single ? 1 : DEVICES};
    if (!find_driver() || cu[0].cuInit(0) != CUDA_SUCCESS) {
        return false;
    }
    void *misuses = dlsym(library, "simcuda_violations");
    memcpy(&world.misuses, &misuses, sizeof misuses);
    memset(world.peaks_shifted, plan->tight, sizeof world.peaks_shifted);
    for (int device = 0; device < (int)world.devices; device++) {
        world.contexts[device].device = device;
        if (cu[0].cuDevicePrimaryCtxRetain(&world.contexts[device].handle, device) != CUDA_SUCCESS ||
            cu[0].cuDeviceGetDefaultMemPool(&world.default_pools[device], device) != CUDA_SUCCESS) {
            return false;
        }
    }
    size_t unused;
    size_t total;
    if (cu[0].cuCtxSetCurrent(world.contexts[0].handle) != CUDA_SUCCESS ||
        cu[0].cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS) {
        return false;
    }
    world.capacity = total;
    return true;
}

static void do_step(unsigned long number)
{
    unsigned total = 0;
    world.draws = (world.seed * 0x100000001b3u + number) * 0xd1342543de82ef95u;
    for (size_t i = 0; i < LENGTH(steps); i++) {
        total += steps[i].weight;
    }
    unsigned left = (unsigned)draw(total);
    size_t which = 0;
    while (left >= steps[which].weight) {
        left -= steps[which++].weight;
    }
    say("#%lu %s", number, steps[which].name);
    steps[which].run();
    fflush(stdout);
}

/* Gives everything back, so that the figures are 0 again. */
static void end_program(void)
{
    say("#end");
    (void)cu[0].cuCtxSetCurrent(world.contexts[0].handle);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *block = &world.blocks[i];
        if ((ANY_OF(block->kind) & ANY_ALLOCATED) != 0) {
            settle(block->owner);
            say("  cuMemFree_v2(block %zu): %d", i, (int)CALL(cuMemFree_v2, block->address));
        }
    }
    for (int device = 0; device < (int)world.devices; device++) {
        cuuint64_t used = 0;
        CUresult rc = CALL(cuMemPoolGetAttribute, world.default_pools[device], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
        say("  used of device %d: %d, %llu", device, (int)rc, (unsigned long long)used);
    }
}

int run_child(const struct plan *plan, const char *expected)
{
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    heard = expected;
    if (!prepare(plan)) {
        fprintf(stderr, "the driver does not start\n");
        return 1;
    }
    for (unsigned long i = 0; i < plan->steps; i++) {
        if (plan->kept == NULL || plan->kept[i]) {
            do_step(i);
        }
    }
    end_program();
    say("  misuses: %u", count_misuses());
    say("#calls");
    say_related("calls", world.calls);
    fflush(stdout);
    return 0;
}
