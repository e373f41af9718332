/*
 * query.c - what a program hears about memory: how much there is, and where a block begins and ends.
 *
 * Of memory that is not ours the driver's answer is passed on as it is.
 *
 * CONCURRENCY  no state here.
 */
#include "hooks.h"
#include "process.h"
#include "registry.h"
#include "target.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes that the core holds on the current device and no block of the program's uses: what is free at once, and what
 * still waits for the work that used it, which the driver would count as free after the program's own wait.
 */
static size_t idle_bytes(void)
{
    struct gm_target target;
    struct gmlake_stats stats = {.size = sizeof stats};
    size_t idle = 0;
    if (!gm_process_is_served() || !gm_process_enter()) {
        return 0;
    }
    if (gm_target_current_served(&target)) {
        if (gmlake_get_stats(target.allocator, &stats) == 0) {
            idle = stats.reserved - stats.allocated;
        }
        gm_target_leave(&target);
    }
    gm_process_leave();
    return idle;
}

/* Memory that we hold and nobody uses is free to the program: an allocation would get it. */
CUresult gm_hook_mem_get_info(size_t *free_bytes, size_t *total_bytes)
{
    CUresult rc = gm_driver_mem_get_info(free_bytes, total_bytes);
    size_t idle = rc == CUDA_SUCCESS && free_bytes != NULL ? idle_bytes() : 0;
    size_t unused;
    size_t total;
    if (idle == 0 || gm_driver_mem_get_info(&unused, &total) != CUDA_SUCCESS) {
        return rc;
    }
    *free_bytes = idle < total - *free_bytes ? *free_bytes + idle : total;
    return rc;
}

/* Finds the live block around @address; false: it is not in one of ours. */
static bool find(CUdeviceptr address, struct gmlake_block *out)
{
    struct gmlake *owner = gm_process_is_served() ? gm_registry_owner(address) : NULL;
    if (owner == NULL || !gm_process_enter()) {
        return false;
    }
    bool found = gmlake_find(owner, address, out) == 0;
    gm_process_leave();
    return found;
}

CUresult gm_hook_mem_get_address_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct gmlake_block block;
    if (!find(address, &block)) {
        return gm_driver_mem_get_address_range(base, size, address);
    }
    if (base != NULL) {
        *base = block.address;
    }
    if (size != NULL) {
        *size = block.requested;
    }
    return CUDA_SUCCESS;
}
