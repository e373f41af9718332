/*
 * tend.c - see tend.h.
 */
#include "tend.h"

#include "allocator.h"
#include "monotonic.h"
#include "reclaim.h"

#include <errno.h>
#include <time.h>

/* Between two looks at whether the device is done. */
#define LOOK_AGAIN_NS 5000000

/* What entering an allocator's context has changed on this thread. */
struct visit {
    const struct gm_cu *cu;
    CUstreamCaptureMode mode;
};

/* Makes the allocator's context current; false: it is no more. */
static bool enter(struct gmlake *allocator, struct visit *out)
{
    const struct gm_cu *cu = allocator->pool.vmm.cu;
    if (atomic_load(&allocator->ended) || cu->ctx_push_current(allocator->pool.context) != CUDA_SUCCESS) {
        return false;
    }
    *out = (struct visit){cu, CU_STREAM_CAPTURE_MODE_RELAXED};
    (void)cu->thread_exchange_capture_mode(&out->mode);
    return true;
}

static void leave(struct visit *visit)
{
    CUcontext popped;
    (void)visit->cu->thread_exchange_capture_mode(&visit->mode);
    (void)visit->cu->ctx_pop_current(&popped);
}

/* One round over all allocators but @other; what more may come later is *pending. */
static uint64_t reclaim_round(const struct gmlake *other, uint64_t bytes, bool *pending)
{
    uint64_t released = 0;
    *pending = false;
    for (struct gmlake *each = NULL; (each = gm_registry_pin_next(each)) != NULL;) {
        struct visit visit;
        bool more;
        if (each != other && released < bytes && enter(each, &visit)) {
            released += gm_pool_reclaim(&each->pool, bytes - released, &more);
            *pending |= more;
            leave(&visit);
        }
    }
    return released;
}

static void settle_all(void)
{
    for (struct gmlake *each = NULL; (each = gm_registry_pin_next(each)) != NULL;) {
        struct visit visit;
        if (enter(each, &visit)) {
            gm_pool_settle(&each->pool);
            leave(&visit);
        }
    }
}

int gm_tend_reclaim(uint64_t bytes, uint64_t deadline_ns, uint64_t *released)
{
    bool pending;
    bool settled = false;
    uint64_t all = reclaim_round(NULL, bytes, &pending);
    while (all < bytes && pending && gm_monotonic_ns() < deadline_ns) {
        if (settled) {
            nanosleep(&(struct timespec){0, LOOK_AGAIN_NS}, NULL);
        } else {
            settle_all();
            settled = true;
        }
        all += reclaim_round(NULL, bytes - all, &pending);
    }
    *released = all;
    return all >= bytes || (bytes == UINT64_MAX && !pending) ? 0 : -EAGAIN;
}

void gm_tend_watch(void)
{
    for (struct gmlake *each = NULL; (each = gm_registry_pin_next(each)) != NULL;) {
        gm_pool_watch(&each->pool);
    }
}

void gm_tend_idle(void)
{
    for (struct gmlake *each = NULL; (each = gm_registry_pin_next(each)) != NULL;) {
        struct visit visit;
        if (enter(each, &visit)) {
            gm_pool_tend(&each->pool);
            leave(&visit);
        }
    }
}

bool gm_tend_make_room(const struct gmlake *allocator, uint64_t bytes)
{
    bool pending;
    return reclaim_round(allocator, bytes, &pending) > 0;
}

/* ---- the map -------------------------------------------------------------------------------------------------- */

struct map {
    struct gmlake_ctl_block *out;
    uint64_t room;
    uint64_t count;
    uint64_t operations; /* of the pool at hand */
    uint32_t device;
};

static int note_block(void *arg, const struct gmlake_block *block)
{
    struct map *map = arg;
    if (map->count < map->room) {
        map->out[map->count] = (struct gmlake_ctl_block){
            .address = block->address,
            .size = block->size,
            .requested = block->requested,
            .usable = block->usable,
            .operations = map->operations,
            .device = map->device,
            .chunks = block->chunks,
            .kind = (uint32_t)block->kind,
        };
    }
    map->count++;
    return 0;
}

uint64_t gm_tend_map(struct gmlake_ctl_block *out, uint64_t room)
{
    struct map map = {.out = out, .room = room};
    for (struct gmlake *each = NULL; (each = gm_registry_pin_next(each)) != NULL;) {
        map.device = (uint32_t)each->device;
        gm_pool_map(&each->pool, note_block, &map, &map.operations);
    }
    return map.count;
}
