/*
 * registry.c - see registry.h; and what the agent is told of the allocators.
 */
#include "registry.h"

#include "account.h"
#include "agent.h"
#include "allocator.h"
#include "table.h"
#include "tend.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define DEVICES_MAX 64

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_REGISTRY); /* guards everything below */
static struct gmlake *allocators;
static struct gmlake *_Atomic shared[DEVICES_MAX]; /* written under the lock, read without */
static bool cannot_be_served[DEVICES_MAX];

/* One thread makes a shared allocator at a time. */
static struct gm_lock making = GM_LOCK_INIT(GM_RANK_CREATE);

/* Counts the forks between the first process and this one. Only written where there is one thread: in a new child. */
static unsigned process;

static void in_child(void)
{
    process++;
    gm_table_forget();
    gm_account_forget();
    allocators = NULL;
    memset(cannot_be_served, 0, sizeof cannot_be_served);
    for (int i = 0; i < DEVICES_MAX; i++) {
        atomic_store(&shared[i], NULL);
    }
    gm_lock_init(&lock, GM_RANK_REGISTRY);
    gm_lock_init(&making, GM_RANK_CREATE);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

unsigned gm_registry_process(void)
{
    return process;
}

/* The allocator that is the @index-th of those that are the first of their device; NULL: there are fewer. */
static struct gmlake *first_of_device(unsigned index)
{
    for (struct gmlake *each = allocators; each != NULL; each = each->next) {
        struct gmlake *earlier = allocators;
        while (earlier != each && earlier->device != each->device) {
            earlier = earlier->next;
        }
        if (earlier == each && index-- == 0) {
            return each;
        }
    }
    return NULL;
}

static unsigned device_count(void)
{
    unsigned count = 0;
    gm_lock_take(&lock);
    while (first_of_device(count) != NULL) {
        count++;
    }
    gm_lock_drop(&lock);
    return count;
}

/* Peaks of several allocators need not have met, so their sum is an upper bound, as cgroups have it. */
static void add_stats(struct gmlake_stats *sum, const struct gmlake_stats *each)
{
#define GMLAKE_STAT(name, kind, unit, help) sum->name += each->name;
#include <gmlake/stats.def>
#undef GMLAKE_STAT
}

static int describe_device(unsigned index, struct gm_agent_device *out)
{
    gm_lock_take(&lock);
    const struct gmlake *first = first_of_device(index);
    if (first == NULL) {
        gm_lock_drop(&lock);
        return -ENODEV;
    }
    memset(out, 0, sizeof *out);
    out->ordinal = (unsigned)first->device;
    out->capacity = first->pool.vmm.capacity;
    memcpy(out->uuid, first->pool.vmm.uuid, sizeof out->uuid);
    out->stats.size = sizeof out->stats;
    for (struct gmlake *each = allocators; each != NULL; each = each->next) {
        if (each->device == first->device) {
            struct gmlake_stats stats;
            memset(&stats, 0, sizeof stats);
            gm_pool_stats(&each->pool, &stats);
            add_stats(&out->stats, &stats);
        }
    }
    gm_lock_drop(&lock);
    return 0;
}

static const struct gm_agent_ops agent_ops = {
    .device_count = device_count,
    .device = describe_device,
    .reclaim = gm_tend_reclaim,
    .tend = gm_tend_idle,
    .map = gm_tend_map,
    .watch = gm_tend_watch,
};

void gm_registry_add(struct gmlake *allocator)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    gm_lock_take(&lock);
    allocator->next = allocators;
    allocators = allocator;
    gm_lock_drop(&lock);
    (void)gm_agent_start(&agent_ops); /* without it there is no live view, and nothing else is amiss */
}

struct gmlake *gm_registry_pin_next(struct gmlake *pinned)
{
    gm_lock_take(&lock);
    struct gmlake *next = pinned != NULL ? pinned->next : allocators;
    if (pinned != NULL) {
        pinned->pins--;
    }
    if (next != NULL) {
        next->pins++;
    }
    gm_lock_drop(&lock);
    return next;
}

/* Who has it pinned will be done soon, or waits for the device, as who destroys it would. */
static void wait_until_unpinned_locked(const struct gmlake *allocator)
{
    while (allocator->pins > 0) {
        gm_lock_drop(&lock);
        nanosleep(&(struct timespec){0, 100000}, NULL);
        gm_lock_take(&lock);
    }
}

void gm_registry_remove(struct gmlake *allocator)
{
    gm_lock_take(&lock);
    wait_until_unpinned_locked(allocator);
    for (struct gmlake **link = &allocators; *link != NULL; link = &(*link)->next) {
        if (*link == allocator) {
            *link = allocator->next;
            break;
        }
    }
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (atomic_load(&shared[i]) == allocator) {
            atomic_store(&shared[i], NULL);
        }
    }
    gm_lock_drop(&lock);
}

int gm_registry_get(int device, struct gmlake **out)
{
    if (device < 0 || device >= DEVICES_MAX) {
        return -ENODEV;
    }
    struct gmlake *allocator = atomic_load_explicit(&shared[device], memory_order_acquire);
    if (allocator != NULL) {
        *out = allocator;
        return 0;
    }
    int rc = 0;
    gm_lock_take(&making);
    allocator = atomic_load(&shared[device]);
    if (allocator == NULL) {
        rc = cannot_be_served[device] ? -ENOTSUP : gmlake_create(device, &allocator);
        cannot_be_served[device] = rc == -ENOTSUP;
        if (rc == 0) {
            atomic_store_explicit(&shared[device], allocator, memory_order_release);
        }
    }
    gm_lock_drop(&making);
    if (rc == 0) {
        *out = allocator;
    }
    return rc;
}

int gm_registry_device(const struct gmlake *allocator)
{
    return allocator->device;
}

int gm_registry_free(struct gmlake *allocator, gmlake_ptr address, gmlake_stream stream, uint64_t *bytes)
{
    return allocator->process == process ? gm_pool_free(&allocator->pool, address, stream, bytes) : -ECHILD;
}

int gm_registry_free_sync(struct gmlake *allocator, gmlake_ptr address, uint64_t *bytes)
{
    return allocator->process == process ? gm_pool_free_sync(&allocator->pool, address, bytes) : -ECHILD;
}

void gm_registry_end(struct gmlake *allocator)
{
    atomic_store(&allocator->ended, true);
    gm_lock_take(&lock);
    wait_until_unpinned_locked(allocator);
    gm_lock_drop(&lock);
}

void gm_registry_expect_capture(struct gmlake *allocator)
{
    gm_pool_expect_capture(&allocator->pool);
}

void gm_registry_orphan(struct gmlake *allocator)
{
    gm_pool_orphan(&allocator->pool);
}

void gm_registry_adopt(struct gmlake *allocator, CUcontext context)
{
    gm_pool_adopt(&allocator->pool, context);
    atomic_store(&allocator->ended, false);
}

struct gmlake *gm_registry_owner(gmlake_ptr address)
{
    struct gm_pool *pool = gm_pool_owner(address);
    return pool == NULL ? NULL : (struct gmlake *)((char *)pool - offsetof(struct gmlake, pool));
}

int gm_registry_each(int (*visit)(void *arg, struct gmlake *allocator, int device), void *arg)
{
    int rc = 0;
    gm_lock_take(&lock);
    for (struct gmlake *each = allocators; rc == 0 && each != NULL; each = each->next) {
        rc = visit(arg, each, each->device);
    }
    gm_lock_drop(&lock);
    return rc;
}
