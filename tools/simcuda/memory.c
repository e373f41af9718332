/*
 * memory.c - physical memory and addresses together.
 */
#include "memory.h"

bool sim_memory_open(struct sim_device *device, uint64_t size, struct sim_span *span, uint64_t *offset)
{
    if (!sim_device_take(device, size, true, offset)) {
        return false;
    }
    if (sim_address_reserve(size, SIM_PAGE, 0, span)) {
        if (sim_address_map(span->address, size, device->file, *offset, SIM_ACCESS_WRITE)) {
            return true;
        }
        sim_address_free(span);
    }
    sim_device_give(device, size, true, *offset);
    return false;
}

void sim_memory_close(struct sim_device *device, const struct sim_span *span, uint64_t offset)
{
    sim_address_free(span);
    sim_device_give(device, span->size, true, offset);
}
