/*
 * api.c - the functions of gmlake.h: checks the arguments, then the pool does the work.
 */
#include "account.h"
#include "allocator.h"
#include "errors.h"
#include "node.h"
#include "registry.h"
#include "stream.h"
#include "tend.h"
#include "tunables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

static bool is_usable(const struct gmlake *allocator)
{
    return allocator->process == gm_registry_process();
}

EXPORTED int gmlake_create(int device, struct gmlake **out)
{
    const struct gm_cu *cu;
    int rc = gm_cu_get(&cu);
    if (rc < 0) {
        return rc;
    }
    gm_tunables_from_environment();
    struct gmlake *allocator = calloc(1, sizeof *allocator);
    if (allocator == NULL) {
        return -ENOMEM;
    }
    rc = gm_pool_init(&allocator->pool, cu, device);
    if (rc < 0) {
        free(allocator);
        return rc;
    }
    allocator->device = device;
    allocator->process = gm_registry_process();
    gm_registry_add(allocator);
    *out = allocator;
    return 0;
}

/* The blocks that the driver served while the tunable enabled was off. */
static void free_driver_blocks(struct gmlake *allocator)
{
    const struct gm_driver_block *blocks = allocator->driver_blocks.data;
    for (uint32_t i = 0; i < allocator->driver_blocks.count; i++) {
        (void)allocator->pool.vmm.cu->mem_free(blocks[i].address);
        gm_account_uncharge(blocks[i].bytes);
    }
}

EXPORTED void gmlake_destroy(struct gmlake *allocator)
{
    if (allocator == NULL) {
        return;
    }
    gm_registry_remove(allocator);
    if (is_usable(allocator)) {
        free_driver_blocks(allocator);
        gm_pool_finish(&allocator->pool);
        gm_array_finish(&allocator->driver_blocks); /* in a child, tables of the parent are nobody's */
    }
    free(allocator);
}

static int note_driver_block(struct gmlake *allocator, struct gm_driver_block block)
{
    struct gm_array *blocks = &allocator->driver_blocks;
    gm_lock_take(&allocator->pool.lock);
    int rc = gm_array_reserve(blocks, blocks->count + 1, sizeof block);
    if (rc == 0) {
        ((struct gm_driver_block *)blocks->data)[blocks->count++] = block;
    }
    gm_lock_drop(&allocator->pool.lock);
    return rc;
}

/* Takes the block at @address out of the list; false: it is not there. Newest first, for what is freed soon. */
static bool forget_driver_block(struct gmlake *allocator, gmlake_ptr address, struct gm_driver_block *out)
{
    struct gm_array *blocks = &allocator->driver_blocks;
    gm_lock_take(&allocator->pool.lock);
    struct gm_driver_block *list = blocks->data;
    uint32_t i = blocks->count;
    while (i > 0 && list[i - 1].address != address) {
        i--;
    }
    if (i > 0) {
        *out = list[i - 1];
        list[i - 1] = list[--blocks->count];
    }
    gm_lock_drop(&allocator->pool.lock);
    return i > 0;
}

/* What the driver says to an allocation of its own, within the limit of the process. */
static CUresult ask_driver(struct gmlake *allocator, size_t bytes, CUdeviceptr *out)
{
    if (gm_account_charge(bytes) == GM_CHARGE_REFUSED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult code = allocator->pool.vmm.cu->mem_alloc(out, bytes);
    if (code != CUDA_SUCCESS) {
        gm_account_uncharge(bytes);
    }
    return code;
}

/*
 * With the tunable enabled off: the driver's own allocator. What the pool has free is the driver's when it needs it; it
 * is asked again also where there was nothing, for others give memory back, too: other threads, and the one that keeps
 * the process within its limits.
 */
static int alloc_from_driver(struct gmlake *allocator, size_t bytes, gmlake_ptr *out)
{
    CUdeviceptr address;
    CUresult code = ask_driver(allocator, bytes, &address);
    uint64_t released;
    if (code == CUDA_ERROR_OUT_OF_MEMORY && gm_pool_trim(&allocator->pool, 0, &released) == 0) {
        code = ask_driver(allocator, bytes, &address);
    }
    if (code != CUDA_SUCCESS) {
        return gm_error_from_driver((int)code);
    }
    int rc = note_driver_block(allocator, (struct gm_driver_block){address, bytes});
    if (rc < 0) {
        (void)allocator->pool.vmm.cu->mem_free(address);
        gm_account_uncharge(bytes);
        return rc;
    }
    *out = address;
    return 0;
}

/* At the limit of the process its other devices may have idle memory, which is given up then. Tried once. */
static __attribute__((cold)) bool has_room_elsewhere(struct gmlake *allocator, size_t bytes, bool *tried)
{
    bool first = !*tried;
    *tried = true;
    if (!first || !gm_account_refuses(bytes) || !gm_tend_make_room(allocator, bytes)) {
        return false;
    }
    gm_lock_take(&allocator->pool.lock);
    allocator->pool.counts.oom--; /* it is not refused yet */
    gm_lock_drop(&allocator->pool.lock);
    return true;
}

static inline __attribute__((always_inline)) int serve(struct gmlake *allocator, size_t bytes, gmlake_stream stream,
                                                       gmlake_ptr *out)
{
    CUdeviceptr address;
    bool retried = false;
    int rc;
    do {
        rc = gm_pool_alloc(&allocator->pool, bytes, stream, &address);
    } while (__builtin_expect(rc == -ENOMEM, 0) && has_room_elsewhere(allocator, bytes, &retried));
    if (rc == 0) {
        *out = address;
    }
    return rc;
}

int gm_registry_alloc(struct gmlake *allocator, size_t bytes, gmlake_stream stream, gmlake_ptr *out)
{
    return is_usable(allocator) ? serve(allocator, bytes, stream, out) : -ECHILD;
}

EXPORTED int gmlake_alloc(struct gmlake *allocator, size_t bytes, gmlake_stream stream, gmlake_ptr *out)
{
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    if (bytes == 0) {
        *out = 0;
        return 0;
    }
    if (!gm_tunables_are_plain() && !gm_tunables_enable()) {
        return alloc_from_driver(allocator, bytes, out);
    }
    return serve(allocator, bytes, stream, out);
}

/* A block outside the pool's ranges: the driver's if it was made while enabled was off, else not ours to free. */
static int free_to_driver(struct gmlake *allocator, gmlake_ptr address)
{
    struct gm_driver_block block;
    if (!forget_driver_block(allocator, address, &block)) {
        return -EINVAL;
    }
    CUresult code = allocator->pool.vmm.cu->mem_free(address);
    gm_account_uncharge(block.bytes);
    return code == CUDA_SUCCESS ? 0 : gm_error_from_driver((int)code);
}

EXPORTED int gmlake_free(struct gmlake *allocator, gmlake_ptr address, gmlake_stream stream)
{
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    if (address == 0) {
        return 0;
    }
    uint64_t bytes;
    int rc = gm_pool_free(&allocator->pool, address, stream, &bytes);
    if (__builtin_expect(rc == -EINVAL, 0) && gm_pool_owner(address) != &allocator->pool) {
        return free_to_driver(allocator, address);
    }
    return rc;
}

EXPORTED int gmlake_free_sync(struct gmlake *allocator, gmlake_ptr address)
{
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    if (address == 0) {
        return 0;
    }
    if (gm_pool_owner(address) != &allocator->pool) {
        return free_to_driver(allocator, address);
    }
    uint64_t bytes;
    return gm_pool_free_sync(&allocator->pool, address, &bytes);
}

EXPORTED int gmlake_forget_stream(struct gmlake *allocator, gmlake_stream stream)
{
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    gm_pool_enter(&allocator->pool);
    gm_stream_retire(&allocator->pool, stream);
    gm_lock_drop(&allocator->pool.lock);
    return 0;
}

EXPORTED int gmlake_admit(struct gmlake *allocator, int device)
{
    return is_usable(allocator) ? gm_pool_admit(&allocator->pool, device) : -ECHILD;
}

EXPORTED int gmlake_find(struct gmlake *allocator, gmlake_ptr address, struct gmlake_block *out)
{
    return is_usable(allocator) ? gm_pool_find(&allocator->pool, address, out) : -ECHILD;
}

EXPORTED int gmlake_trim(struct gmlake *allocator, size_t keep, size_t *released)
{
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    uint64_t bytes = 0;
    int rc = gm_pool_trim(&allocator->pool, keep, &bytes);
    if (rc == 0 && released != NULL) {
        *released = bytes;
    }
    return rc;
}

EXPORTED int gmlake_get_stats(struct gmlake *allocator, struct gmlake_stats *out)
{
    size_t size = out->size;
    if (size < sizeof out->size) {
        return -EINVAL;
    }
    if (!is_usable(allocator)) {
        return -ECHILD;
    }
    struct gmlake_stats stats;
    memset(&stats, 0, sizeof stats);
    gm_pool_stats(&allocator->pool, &stats);
    stats.size = size;
    if (size > sizeof stats) {
        memset((char *)out + sizeof stats, 0, size - sizeof stats);
    }
    memcpy(out, &stats, size < sizeof stats ? size : sizeof stats);
    return 0;
}

EXPORTED int gmlake_walk(struct gmlake *allocator, int (*visit)(void *arg, const struct gmlake_block *block), void *arg)
{
    return is_usable(allocator) ? gm_pool_walk(&allocator->pool, visit, arg) : -ECHILD;
}

EXPORTED int gmlake_check(struct gmlake *allocator)
{
    return is_usable(allocator) ? gm_pool_check(&allocator->pool) : -ECHILD;
}

EXPORTED int gmlake_set_tunable(const char *name, const char *value)
{
    gm_tunables_from_environment(); /* so that the environment cannot overwrite this later */
    int which = gm_tunable_find(name, strlen(name));
    if (which < 0) {
        return which;
    }
    uint64_t number;
    int rc = gm_tunable_parse((enum gmlake_tunable)which, value, strlen(value), &number);
    return rc < 0 ? rc : gm_tunable_set((enum gmlake_tunable)which, number);
}

EXPORTED int gmlake_get_tunable(const char *name, uint64_t *out)
{
    gm_tunables_from_environment();
    int which = gm_tunable_find(name, strlen(name));
    if (which < 0) {
        return which;
    }
    gm_tunables_look();
    *out = gm_tunable((enum gmlake_tunable)which);
    return 0;
}

EXPORTED const char *gmlake_strerror(int result)
{
    return gm_error_text(result);
}

EXPORTED int gmlake_driver_error(void)
{
    return gm_error_driver_code();
}
