/*
 * door.c - the three doors of door.h.
 */
#include "door.h"

#include <errno.h>
#include <errors.h>
#include <gmlake/gmlake.h>
#include <stdlib.h>

struct core_door {
    struct gm_door door; /* first: a door pointer is a core_door pointer */
    struct gmlake *allocator;
};

static int core_alloc(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address)
{
    return gmlake_alloc(((struct core_door *)door)->allocator, op->bytes, stream, address);
}

static int core_free(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address)
{
    (void)op;
    return gmlake_free(((struct core_door *)door)->allocator, address, stream);
}

int gm_door_core_open(int device, struct gm_door **out)
{
    struct core_door *core = calloc(1, sizeof *core);
    if (core == NULL) {
        return -ENOMEM;
    }
    core->door = (struct gm_door){core_alloc, core_free};
    int rc = gmlake_create(device, &core->allocator);
    if (rc < 0) {
        free(core);
        return rc;
    }
    *out = &core->door;
    return 0;
}

void gm_door_core_close(struct gm_door *door)
{
    struct core_door *core = (struct core_door *)door;
    gmlake_destroy(core->allocator);
    free(core);
}

struct driver_door {
    struct gm_door door; /* first */
    const struct gm_driver *driver;
};

static int driver_alloc(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address)
{
    const struct gm_driver *driver = ((struct driver_door *)door)->driver;
    CUdeviceptr out = 0;
    CUresult rc = driver->mem_alloc_async(&out, op->bytes, stream);
    if (__builtin_expect(rc != CUDA_SUCCESS, 0)) {
        return gm_error_from_driver((int)rc);
    }
    *address = out;
    return 0;
}

static int driver_free(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address)
{
    (void)op;
    const struct gm_driver *driver = ((struct driver_door *)door)->driver;
    CUresult rc = address == 0 ? CUDA_SUCCESS : driver->mem_free_async(address, stream);
    return __builtin_expect(rc == CUDA_SUCCESS, 1) ? 0 : gm_error_from_driver((int)rc);
}

struct gm_door *gm_door_driver(const struct gm_driver *driver)
{
    static struct driver_door door;
    if (driver->mem_alloc_async == NULL || driver->mem_free_async == NULL) {
        return NULL;
    }
    door = (struct driver_door){{driver_alloc, driver_free}, driver};
    return &door.door;
}

static int nothing_alloc(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address)
{
    (void)door, (void)stream;
    *address = op->block + 1ull;
    return 0;
}

static int nothing_free(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address)
{
    (void)door, (void)op, (void)stream, (void)address;
    return 0;
}

struct gm_door gm_door_nothing = {nothing_alloc, nothing_free};
