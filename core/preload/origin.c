/*
 * origin.c - a hash table of blocks of which something must be kept.
 */
#include "origin.h"

#include "lock.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 512u

/* The driver counts its identities from 1: ours are far above. */
#define FIRST_IDENTITY ((uint64_t)1 << 56)

struct record {
    CUdeviceptr address; /* 0: unused */
    struct gm_origin origin;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_ORIGIN); /* guards everything below */
static struct record *records;
static size_t capacity; /* 0 or a power of two */
static atomic_size_t count;
static uint64_t identities; /* given out */

static size_t home_of(CUdeviceptr address, size_t slots)
{
    return (size_t)((address >> 9) * 0x9e3779b97f4a7c15u >> 32) & (slots - 1);
}

/* The record of @address, or the unused one where it would be. The table is not full. */
static struct record *locate(struct record *table, size_t slots, CUdeviceptr address)
{
    size_t i = home_of(address, slots);
    while (table[i].address != 0 && table[i].address != address) {
        i = (i + 1) & (slots - 1);
    }
    return &table[i];
}

static bool grow(void)
{
    size_t slots = capacity == 0 ? FIRST_CAPACITY : capacity * 2;
    struct record *table =
        mmap(NULL, slots * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) {
        return false;
    }
    for (size_t i = 0; i < capacity; i++) {
        if (records[i].address != 0) {
            *locate(table, slots, records[i].address) = records[i];
        }
    }
    if (records != NULL) {
        munmap(records, capacity * sizeof *records);
    }
    records = table;
    capacity = slots;
    return true;
}

/* The record of @address, made if there is none; NULL: no memory for it. */
static struct record *find_or_make(CUdeviceptr address)
{
    struct record *record = capacity == 0 ? NULL : locate(records, capacity, address);
    if (record != NULL && record->address != 0) {
        return record;
    }
    if ((count + 1) * 2 > capacity && !grow()) {
        return NULL;
    }
    record = locate(records, capacity, address);
    *record = (struct record){.address = address};
    count++;
    return record;
}

bool gm_origin_note(CUdeviceptr address, const struct gm_origin *origin)
{
    gm_lock_take(&lock);
    struct record *record = find_or_make(address);
    if (record != NULL) {
        record->origin = *origin;
    }
    gm_lock_drop(&lock);
    return record != NULL;
}

/* Empties @records[hole] and moves back what a search would no longer find. */
static void close_gap(size_t hole)
{
    size_t mask = capacity - 1;
    for (size_t i = (hole + 1) & mask; records[i].address != 0; i = (i + 1) & mask) {
        size_t distance = (i - home_of(records[i].address, capacity)) & mask;
        if (distance >= ((i - hole) & mask)) {
            records[hole] = records[i];
            hole = i;
        }
    }
    records[hole].address = 0;
}

static bool is_empty(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed) == 0;
}

struct gm_origin gm_origin_of(CUdeviceptr address)
{
    struct gm_origin origin = {.context = NULL};
    if (is_empty()) {
        return origin;
    }
    gm_lock_take(&lock);
    const struct record *record = locate(records, capacity, address);
    if (record->address != 0) {
        origin = record->origin;
    }
    gm_lock_drop(&lock);
    return origin;
}

struct gm_origin gm_origin_take(CUdeviceptr address)
{
    struct gm_origin origin = {.context = NULL};
    if (is_empty()) {
        return origin;
    }
    gm_lock_take(&lock);
    struct record *record = locate(records, capacity, address);
    if (record->address != 0) {
        origin = record->origin;
        close_gap((size_t)(record - records));
        count--;
    }
    gm_lock_drop(&lock);
    return origin;
}

uint64_t gm_origin_identity(CUdeviceptr address)
{
    uint64_t id = 0;
    gm_lock_take(&lock);
    struct record *record = find_or_make(address);
    if (record != NULL) {
        if (record->origin.id == 0) {
            record->origin.id = FIRST_IDENTITY + identities++;
        }
        id = record->origin.id;
    }
    gm_lock_drop(&lock);
    return id;
}

bool gm_origin_set_sync_memops(CUdeviceptr address, bool on)
{
    gm_lock_take(&lock);
    struct record *record = find_or_make(address);
    if (record != NULL) {
        record->origin.sync_memops = on;
    }
    gm_lock_drop(&lock);
    return record != NULL;
}

bool gm_origin_take_next_of(CUcontext context, size_t *cursor, CUdeviceptr *address)
{
    bool found = false;
    gm_lock_take(&lock);
    for (size_t i = *cursor; !found && i < capacity; i++) {
        if (records[i].address != 0 && records[i].origin.context == context) {
            *address = records[i].address;
            *cursor = i; /* what closes the gap may be another one */
            close_gap(i);
            count--;
            found = true;
        }
    }
    gm_lock_drop(&lock);
    return found;
}
