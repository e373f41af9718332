/*
 * pools.c - follows the program's pools, and answers for them.
 */
#include "pools.h"

#include "capture.h"
#include "hooks.h"
#include "process.h"
#include "target.h"

#include <stddef.h>

#define KNOWN   64 /* pools beyond that are the driver's */
#define DEVICES 64
#define PAGE    ((uint64_t)2 << 20)

/*
 * Invariant: a record is in use while key is not NULL or blocks is not 0; else it may be taken for another pool. Those
 * of default pools never are, and do not count their blocks: each count takes as long as a tenth of an allocation.
 */
struct gm_pool_record {
    _Atomic(CUmemoryPool) key;              /* the pool's handle; NULL: none, or destroyed */
    CUmemoryPool name;                      /* the handle for good. Written before key */
    CUdevice device;                        /* the same */
    enum { DRIVERS, BOUNDED, SERVED } kind; /* the same; DRIVERS: in the list for what is idle in it */
    uint64_t most;                          /* the same; BOUNDED: the bound */
    _Atomic uint64_t blocks;                /* of ours that the program has */
    _Atomic uint64_t used;                  /* their bytes */
    _Atomic uint64_t elsewhere; /* bytes of the pool that the driver serves, as last heard while used was not 0 */
    _Atomic uint64_t used_high; /* the most that used and elsewhere were together */
    _Atomic uint64_t reserved_high;
};

/* Pools that the program has created. Taken by one thread at a time. */
static struct gm_pool_record known[KNOWN];
static atomic_flag taking = ATOMIC_FLAG_INIT;

/* The default pools; key is NULL until they are asked for. They live as long as the process. */
static struct gm_pool_record defaults[DEVICES];

/* The current pools; NULL: the default one. */
static _Atomic(CUmemoryPool) currents[DEVICES];

/* The driver has served an allocation from some pool: elsewhere may be other than 0. */
static atomic_bool mixed;

static bool in_range(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

static __attribute__((noinline)) void ask_default(struct gm_pool_record *record, CUdevice device)
{
    CUmemoryPool pool;
    if (gm_driver_device_get_default_mem_pool(&pool, device) == CUDA_SUCCESS) {
        record->name = pool; /* the same from every thread */
        record->device = device;
        atomic_store_explicit(&record->key, pool, memory_order_release);
    }
}

struct gm_pool_record *gm_pools_default(CUdevice device)
{
    if (!in_range(device)) {
        return NULL;
    }
    struct gm_pool_record *record = &defaults[device];
    if (__builtin_expect(atomic_load_explicit(&record->key, memory_order_acquire) == NULL, 0)) {
        ask_default(record, device);
    }
    return record;
}

/* Among those that the program has created. */
static inline struct gm_pool_record *find_known(CUmemoryPool pool)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (atomic_load_explicit(&known[i].key, memory_order_acquire) == pool) {
            return &known[i];
        }
    }
    return NULL;
}

struct gm_pool_record *gm_pools_find(CUmemoryPool pool, CUdevice device)
{
    struct gm_pool_record *record = gm_pools_default(device);
    if (pool == NULL || record == NULL) {
        return NULL;
    }
    if (atomic_load_explicit(&record->key, memory_order_relaxed) == pool) {
        return record;
    }
    record = find_known(pool);
    return record != NULL && record->kind == SERVED && record->device == device ? record : NULL;
}

static CUmemoryPool current_of(CUdevice device)
{
    return in_range(device) ? atomic_load_explicit(&currents[device], memory_order_relaxed) : NULL;
}

/* Whether @bytes more are beyond the bound of a bounded pool, wherever they come from. */
static bool is_beyond_bound(const struct gm_pool_record *record, uint64_t bytes)
{
    cuuint64_t elsewhere = 0;
    if (gm_driver_mem_pool_get_attribute(record->name, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &elsewhere) != CUDA_SUCCESS) {
        return true;
    }
    uint64_t used = elsewhere + atomic_load_explicit(&record->used, memory_order_relaxed);
    return bytes > record->most || used > record->most - bytes;
}

struct gm_pool_record *gm_pools_find_bounded(CUmemoryPool pool, CUdevice device)
{
    pool = pool == NULL ? current_of(device) : pool;
    struct gm_pool_record *record = pool == NULL ? NULL : find_known(pool);
    return record != NULL && record->kind == BOUNDED ? record : NULL;
}

bool gm_pools_have_room(const struct gm_pool_record *record, uint64_t bytes, bool in_driver)
{
    bool drivers_alone = atomic_load_explicit(&record->used, memory_order_relaxed) == 0;
    return (in_driver && drivers_alone) || !is_beyond_bound(record, bytes);
}

CUdevice gm_pools_device(const struct gm_pool_record *record)
{
    return record->device;
}

struct gm_pool_record *gm_pools_find_current(CUdevice device)
{
    CUmemoryPool current = current_of(device);
    return current == NULL ? gm_pools_default(device) : gm_pools_find(current, device);
}

CUmemoryPool gm_pools_handle(const struct gm_pool_record *record)
{
    return record->name;
}

bool gm_pools_is_default(const struct gm_pool_record *record)
{
    return record >= defaults && record < defaults + DEVICES;
}

/* The record of @pool on whichever device; NULL: nothing of ours comes from it. */
static struct gm_pool_record *find_anywhere(CUmemoryPool pool)
{
    int count = 0;
    struct gm_pool_record *record = pool == NULL ? NULL : find_known(pool);
    if (record != NULL) {
        return record->kind == DRIVERS ? NULL : record;
    }
    if (gm_driver_device_get_count(&count) == CUDA_SUCCESS) {
        for (CUdevice device = 0; record == NULL && device < count; device++) {
            record = gm_pools_find(pool, device);
        }
    }
    return record;
}

int gm_pools_device_of(CUmemoryPool pool)
{
    const struct gm_pool_record *record = find_anywhere(pool);
    return record == NULL ? -1 : record->device;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static void lift(_Atomic uint64_t *high, uint64_t value)
{
    uint64_t known_high = atomic_load_explicit(high, memory_order_relaxed);
    while (known_high < value && !atomic_compare_exchange_weak_explicit(high, &known_high, value, memory_order_relaxed,
                                                                        memory_order_relaxed)) {
    }
}

static uint64_t load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Hears what the driver's part of the pool holds. */
static void refresh(struct gm_pool_record *record)
{
    cuuint64_t elsewhere = 0;
    CUmemoryPool pool = atomic_load_explicit(&record->key, memory_order_relaxed);
    if (pool != NULL &&
        gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &elsewhere) == CUDA_SUCCESS) {
        atomic_store_explicit(&record->elsewhere, elsewhere, memory_order_relaxed);
        lift(&record->used_high, load(&record->used) + elsewhere);
    }
}

void gm_pools_add(struct gm_pool_record *record, uint64_t bytes)
{
    if (!gm_pools_is_default(record)) {
        atomic_fetch_add_explicit(&record->blocks, 1, memory_order_relaxed);
    }
    uint64_t before = atomic_fetch_add_explicit(&record->used, bytes, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&mixed, memory_order_relaxed), 0) && before == 0) {
        refresh(record);
    }
    lift(&record->used_high, before + bytes + load(&record->elsewhere));
}

void gm_pools_remove(struct gm_pool_record *record, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&record->used, bytes, memory_order_relaxed);
    if (!gm_pools_is_default(record)) {
        atomic_fetch_sub_explicit(&record->blocks, 1, memory_order_release);
    }
}

/* While nothing of ours is in a pool, the driver's own high mark is that of the whole. */
static void refresh_all(struct gm_pool_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (load(&records[i].used) != 0) {
            refresh(&records[i]);
        }
    }
}

void gm_pools_note_driver_free(void)
{
    struct gm_capture_scope capture;
    if (gm_process_is_served() && atomic_load_explicit(&mixed, memory_order_relaxed)) {
        gm_capture_enter(&capture);
        refresh_all(defaults, DEVICES);
        refresh_all(known, KNOWN);
        gm_capture_leave(&capture);
    }
}

void gm_pools_note_driver_alloc(void)
{
    atomic_store_explicit(&mixed, true, memory_order_relaxed);
    gm_pools_note_driver_free();
}

/* What the driver's part of a pool holds beyond what it keeps. */
static uint64_t idle_in(CUmemoryPool pool)
{
    cuuint64_t held = 0;
    cuuint64_t used = 0;
    cuuint64_t keep = 0;
    if (gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) != CUDA_SUCCESS ||
        gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS ||
        gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep) != CUDA_SUCCESS) {
        return 0;
    }
    keep = keep > used ? keep : used;
    return held > keep ? held - keep : 0;
}

/* Has the driver's part of a pool give back all that is free in it, whatever its threshold. The bytes. */
static uint64_t release_in(CUmemoryPool pool)
{
    cuuint64_t before = 0;
    cuuint64_t after = 0;
    bool done = gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before) == CUDA_SUCCESS &&
                gm_driver_mem_pool_trim_to(pool, 0) == CUDA_SUCCESS &&
                gm_driver_mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after) == CUDA_SUCCESS;
    return done && before > after ? before - after : 0;
}

bool gm_pools_are_mixed(void)
{
    return atomic_load_explicit(&mixed, memory_order_relaxed);
}

/* Of the default pool and those that the program has created on @device. */
static uint64_t sum_of(uint64_t (*bytes)(CUmemoryPool pool), CUdevice device)
{
    uint64_t sum = 0;
    if (!in_range(device) || !gm_pools_are_mixed()) {
        return 0;
    }
    for (size_t i = 0; i <= KNOWN; i++) {
        const struct gm_pool_record *record = i < KNOWN ? &known[i] : &defaults[device];
        CUmemoryPool pool = atomic_load_explicit(&record->key, memory_order_acquire);
        sum += pool != NULL && record->device == device ? bytes(pool) : 0;
    }
    return sum;
}

uint64_t gm_pools_idle(CUdevice device)
{
    return sum_of(idle_in, device);
}

uint64_t gm_pools_release_idle(CUdevice device)
{
    return sum_of(release_in, device);
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static uint64_t idle_of(CUdevice device)
{
    struct gmlake *allocator;
    uint64_t idle = 0;
    for (unsigned i = 0; (allocator = gm_target_allocator(device, i)) != NULL; i++) {
        struct gmlake_stats stats = {.size = sizeof stats};
        idle += gmlake_get_stats(allocator, &stats) == 0 ? stats.free : 0;
    }
    return idle;
}

/*
 * Bytes that we hold for the pool: what its blocks need, and, for the device's current pool, what is idle, as far as
 * the driver would keep it for that pool. What is idle beyond that counts as free (cuMemGetInfo).
 */
static uint64_t reserved(struct gm_pool_record *record)
{
    uint64_t used = whole_pages(load(&record->used));
    cuuint64_t threshold = 0;
    uint64_t kept = 0;
    if (record == gm_pools_find_current(record->device) &&
        gm_driver_mem_pool_get_attribute(record->name, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS &&
        threshold > used) {
        uint64_t idle = idle_of(record->device);
        kept = idle < threshold - used ? idle : threshold - used;
    }
    lift(&record->reserved_high, used + kept);
    return used + kept;
}

/* Adds what is ours to the driver's answer. */
static void complete(struct gm_pool_record *record, CUmemPool_attribute attribute, cuuint64_t *value)
{
    uint64_t high;
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *value += load(&record->used);
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        high = load(&record->used_high);
        *value = high > *value ? high : *value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *value += reserved(record);
        lift(&record->reserved_high, *value);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        reserved(record);
        lift(&record->reserved_high, whole_pages(load(&record->used_high)));
        high = load(&record->reserved_high);
        *value = high > *value ? high : *value;
        break;
    default:
        break;
    }
}

CUresult gm_hook_mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    struct gm_capture_scope capture;
    CUresult rc = gm_driver_mem_pool_get_attribute(pool, attribute, value);
    struct gm_pool_record *record = rc == CUDA_SUCCESS && gm_process_is_served() ? find_anywhere(pool) : NULL;
    if (record != NULL && gm_process_enter()) {
        gm_capture_enter(&capture);
        complete(record, attribute, value);
        gm_capture_leave(&capture);
        gm_process_leave();
    }
    return rc;
}

/* A high mark that was reset starts again at its figure, which the driver has checked to be what was wanted. */
CUresult gm_hook_mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult rc = gm_driver_mem_pool_set_attribute(pool, attribute, value);
    struct gm_pool_record *record = rc == CUDA_SUCCESS && gm_process_is_served() ? find_anywhere(pool) : NULL;
    if (record != NULL && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        atomic_store_explicit(&record->used_high, load(&record->used), memory_order_relaxed);
        refresh(record);
    } else if (record != NULL && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
        atomic_store_explicit(&record->reserved_high, 0, memory_order_relaxed);
    }
    return rc;
}

/* What is idle belongs to the device's current pool: trimming another one leaves it. */
CUresult gm_hook_mem_pool_trim_to(CUmemoryPool pool, size_t keep)
{
    struct gm_capture_scope capture;
    CUresult rc = gm_driver_mem_pool_trim_to(pool, keep);
    struct gm_pool_record *record = rc == CUDA_SUCCESS && gm_process_is_served() ? find_anywhere(pool) : NULL;
    if (record == NULL || record != gm_pools_find_current(record->device) || !gm_process_enter()) {
        return rc;
    }
    gm_capture_enter(&capture);
    uint64_t used = whole_pages(load(&record->used));
    (void)gm_target_trim_device(record->device, keep > used ? keep - used : 0);
    gm_capture_leave(&capture);
    gm_process_leave();
    return rc;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/*
 * Device memory with no property but its device, and perhaps a bound. What later versions of the driver have put, or
 * will put, behind the fields known here (a usage) is not ours to reproduce either.
 */
static bool is_simple(const CUmemPoolProps *properties)
{
    const unsigned char *bytes = (const unsigned char *)properties;
    size_t bound = offsetof(CUmemPoolProps, maxSize);
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return false;
    }
    for (size_t i = offsetof(CUmemPoolProps, win32SecurityAttributes); i < sizeof *properties; i++) {
        if ((i < bound || i >= bound + sizeof properties->maxSize) && bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_unused(const struct gm_pool_record *record)
{
    return atomic_load_explicit(&record->key, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&record->blocks, memory_order_acquire) == 0;
}

/* With no record left, or two threads at it, the pool is the driver's alone. */
static void learn(CUmemoryPool pool, const CUmemPoolProps *properties)
{
    if (atomic_flag_test_and_set_explicit(&taking, memory_order_acquire)) {
        return;
    }
    size_t i = 0;
    while (i < KNOWN && !is_unused(&known[i])) {
        i++;
    }
    if (i < KNOWN) {
        known[i].name = pool;
        known[i].device = properties->location.id;
        known[i].kind = !is_simple(properties) ? DRIVERS : properties->maxSize != 0 ? BOUNDED : SERVED;
        known[i].most = properties->maxSize;
        known[i].used = known[i].elsewhere = known[i].used_high = known[i].reserved_high = 0;
        atomic_store_explicit(&known[i].key, pool, memory_order_release);
    }
    atomic_flag_clear_explicit(&taking, memory_order_release);
}

/* Destroying the current pool makes the default one current. Whether @pool is one that the program has created. */
static bool forget(CUmemoryPool pool)
{
    bool created = false;
    for (size_t i = 0; i < KNOWN; i++) {
        CUmemoryPool key = pool;
        created |= atomic_compare_exchange_strong(&known[i].key, &key, NULL);
    }
    for (size_t i = 0; i < DEVICES; i++) {
        CUmemoryPool current = pool;
        atomic_compare_exchange_strong(&currents[i], &current, NULL);
    }
    return created;
}

/* Nothing can be allocated from it any more, nor can it be told to give back what is free in it: now it can. */
static void empty(CUmemoryPool pool)
{
    cuuint64_t none = 0;
    struct gm_capture_scope capture;
    gm_capture_enter(&capture);
    if (!capture.open && gm_pools_are_mixed()) {
        (void)gm_driver_mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
        (void)gm_driver_mem_pool_trim_to(pool, 0);
    }
    gm_capture_leave(&capture);
}

CUresult gm_hook_mem_pool_create(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    CUresult rc = gm_driver_mem_pool_create(out, properties);
    if (rc == CUDA_SUCCESS && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        learn(*out, properties);
    }
    return rc;
}

/* Blocks of ours that came from the pool stay, as the driver's do, until they are freed. */
CUresult gm_hook_mem_pool_destroy(CUmemoryPool pool)
{
    /* Before the call: another thread may be given the handle right after it. */
    if (pool != NULL && forget(pool) && gm_process_is_served()) {
        empty(pool);
    }
    return gm_driver_mem_pool_destroy(pool);
}

CUresult gm_hook_device_set_mem_pool(CUdevice device, CUmemoryPool pool)
{
    CUresult rc = gm_driver_device_set_mem_pool(device, pool);
    if (rc == CUDA_SUCCESS && in_range(device)) {
        atomic_store_explicit(&currents[device], pool, memory_order_relaxed);
    }
    return rc;
}

CUresult gm_hook_mem_set_mem_pool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult rc = gm_driver_mem_set_mem_pool(location, type, pool);
    if (rc == CUDA_SUCCESS && type == CU_MEM_ALLOCATION_TYPE_PINNED && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
        in_range(location->id)) {
        atomic_store_explicit(&currents[location->id], pool, memory_order_relaxed);
    }
    return rc;
}
