/*
 * ipc.c - memory handles for other processes, which the driver has for its own plain allocations alone.
 *
 * A program that asks for one of ours gets the driver's refusal, and once a line that says how to run it: whether to
 * serve must be decided before the first allocation (process.h).
 *
 * CONCURRENCY  one atomic flag.
 */
#include "hooks.h"
#include "origin.h"
#include "process.h"
#include "registry.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether memory at @address could be shared if it were the driver's: memory of its pools cannot, either. */
static bool is_plain_of_ours(CUdeviceptr address)
{
    struct gmlake_block block;
    bool is_plain = false;
    struct gmlake *owner = gm_process_is_served() ? gm_registry_owner(address) : NULL;
    if (owner != NULL && gm_process_enter()) {
        is_plain = gmlake_find(owner, address, &block) == 0 && gm_origin_of(block.address).context != NULL;
        gm_process_leave();
    }
    return is_plain;
}

CUresult gm_hook_ipc_get_mem_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
    static atomic_bool told;
    if (is_plain_of_ours(address) && !atomic_exchange_explicit(&told, true, memory_order_relaxed)) {
        fputs("gmlake: cuIpcGetMemHandle: memory that GMLake serves cannot be shared between processes; "
              "start the program with 'gmlake run --ipc' (GMLAKE_IPC=1) to leave its memory to the driver\n",
              stderr);
    }
    return gm_driver_ipc_get_mem_handle(handle, address);
}
