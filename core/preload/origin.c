/*
 * origin.c - a hash table of plain blocks.
 */
#include "origin.h"

#include "lock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 512u

struct record {
    CUdeviceptr address; /* 0: unused */
    CUcontext context;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_ORIGIN); /* guards everything below */
static struct record *records;
static size_t capacity; /* 0 or a power of two */
static atomic_size_t count;

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

void gm_origin_note(CUdeviceptr address, CUcontext context)
{
    gm_lock_take(&lock);
    if ((count + 1) * 2 <= capacity || grow()) {
        struct record *record = locate(records, capacity, address);
        count += record->address == 0;
        *record = (struct record){.address = address, .context = context};
    }
    gm_lock_drop(&lock);
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

void gm_origin_drop(CUdeviceptr address)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0) {
        return;
    }
    gm_lock_take(&lock);
    struct record *record = count == 0 ? NULL : locate(records, capacity, address);
    if (record != NULL && record->address != 0) {
        close_gap((size_t)(record - records));
        count--;
    }
    gm_lock_drop(&lock);
}

bool gm_origin_drop_next_of(CUcontext context, size_t *cursor, CUdeviceptr *address)
{
    bool found = false;
    gm_lock_take(&lock);
    for (size_t i = *cursor; !found && i < capacity; i++) {
        if (records[i].address != 0 && records[i].context == context) {
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

bool gm_origin_is_plain(CUdeviceptr address, CUcontext *context)
{
    bool found = false;
    gm_lock_take(&lock);
    if (count != 0) {
        const struct record *record = locate(records, capacity, address);
        found = record->address != 0;
        *context = found ? record->context : *context;
    }
    gm_lock_drop(&lock);
    return found;
}
