/*
 * api.c - placeholder: forwards to the driver until the pool lands.
 */
#include "cu.h"
#include "errors.h"
#include "registry.h"
#include "tunables.h"

#include <errno.h>
#include <gmlake/gmlake.h>
#include <stdlib.h>
#include <string.h>

struct gmlake {
    const struct gm_cu *cu;
    int device;
};

#pragma GCC visibility push(default)
int gmlake_create(int device, struct gmlake **out)
{
    struct gmlake *allocator = calloc(1, sizeof *allocator);
    int rc = gm_cu_get(&allocator->cu);
    if (rc < 0) {
        return rc;
    }
    allocator->device = device;
    *out = allocator;
    return 0;
}
void gmlake_destroy(struct gmlake *allocator)
{
    free(allocator);
}
int gmlake_alloc(struct gmlake *allocator, size_t bytes, gmlake_stream stream, gmlake_ptr *out)
{
    CUdeviceptr address = 0;
    (void)stream;
    CUresult rc = bytes == 0 ? CUDA_SUCCESS : allocator->cu->mem_alloc(&address, bytes);
    if (rc != CUDA_SUCCESS) {
        return gm_error_from_driver((int)rc);
    }
    *out = address;
    return 0;
}
int gmlake_free(struct gmlake *allocator, gmlake_ptr address, gmlake_stream stream)
{
    (void)stream;
    CUresult rc = allocator->cu->mem_free(address);
    return rc == CUDA_SUCCESS ? 0 : gm_error_from_driver((int)rc);
}
int gmlake_free_sync(struct gmlake *allocator, gmlake_ptr address)
{
    return gmlake_free(allocator, address, NULL);
}
int gmlake_find(struct gmlake *allocator, gmlake_ptr address, struct gmlake_block *out)
{
    (void)allocator, (void)address, (void)out;
    return -ENOENT;
}
int gmlake_trim(struct gmlake *allocator, size_t keep, size_t *released)
{
    (void)allocator, (void)keep, (void)released;
    return 0;
}
int gmlake_get_stats(struct gmlake *allocator, struct gmlake_stats *out)
{
    (void)allocator;
    size_t size = out->size;
    memset(out, 0, size);
    out->size = size;
    return 0;
}
int gmlake_walk(struct gmlake *allocator, int (*visit)(void *arg, const struct gmlake_block *block), void *arg)
{
    (void)allocator, (void)visit, (void)arg;
    return 0;
}
int gmlake_check(struct gmlake *allocator)
{
    (void)allocator;
    return 0;
}
int gmlake_set_tunable(const char *name, const char *value)
{
    int which = gm_tunable_find(name, strlen(name));
    uint64_t number;
    if (which < 0) {
        return which;
    }
    int rc = gm_tunable_parse((enum gmlake_tunable)which, value, strlen(value), &number);
    return rc < 0 ? rc : gm_tunable_set((enum gmlake_tunable)which, number);
}
int gmlake_get_tunable(const char *name, uint64_t *out)
{
    int which = gm_tunable_find(name, strlen(name));
    if (which < 0) {
        return which;
    }
    *out = gm_tunable((enum gmlake_tunable)which);
    return 0;
}
const char *gmlake_strerror(int result)
{
    return gm_error_text(result);
}
int gmlake_driver_error(void)
{
    return gm_error_driver_code();
}
#pragma GCC visibility pop

static struct gmlake *shared[64];
int gm_registry_get(int device, struct gmlake **out)
{
    if (shared[device] == NULL) {
        int rc = gmlake_create(device, &shared[device]);
        if (rc < 0) {
            return rc;
        }
    }
    *out = shared[device];
    return 0;
}
struct gmlake *gm_registry_owner(gmlake_ptr address)
{
    (void)address;
    return NULL;
}
int gm_registry_each(int (*visit)(void *arg, struct gmlake *allocator, int device), void *arg)
{
    for (int i = 0; i < 64; i++) {
        if (shared[i] != NULL) {
            int rc = visit(arg, shared[i], i);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}
