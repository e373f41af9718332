/*
 * charged.c - see charged.h.
 */
#include "charged.h"

#include "account.h"
#include "capture.h"
#include "hooks.h"
#include "lock.h"
#include "process.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 512u

/* No device has as much: the driver will say so. */
#define BYTES_MAX ((size_t)1 << 46)

struct record {
    CUdeviceptr address; /* 0: unused */
    struct gm_charged charged;
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
    count--;
}

/* A record that is there already is of a block that went in a way unknown to us: its bytes are given. */
static bool put(CUdeviceptr address, const struct gm_charged *charged, uint64_t *replaced)
{
    *replaced = 0;
    gm_lock_take(&lock);
    bool room = (count + 1) * 2 <= capacity || grow();
    if (room) {
        struct record *record = locate(records, capacity, address);
        *replaced = record->address != 0 ? record->charged.bytes : 0;
        count += record->address == 0;
        *record = (struct record){address, *charged};
    }
    gm_lock_drop(&lock);
    return room;
}

/* What of an allocation is counted. In a process without allocators of ours there are no limits, either. */
static size_t counted(size_t bytes)
{
    bool none = bytes > BYTES_MAX || !gm_process_is_served() ||
                atomic_load_explicit(&gm_capture_count, memory_order_relaxed) != 0;
    return none ? 0 : bytes;
}

bool gm_charged_begin(size_t bytes, size_t *charge)
{
    *charge = counted(bytes);
    return *charge == 0 || gm_account_charge(*charge) != GM_CHARGE_REFUSED;
}

void gm_charged_end(size_t charge, CUdeviceptr address)
{
    struct gm_charged charged = {charge, NULL};
    uint64_t replaced = 0;
    if (charge == 0) {
        return;
    }
    if (address == 0 || gm_driver_ctx_get_current(&charged.context) != CUDA_SUCCESS ||
        !put(address, &charged, &replaced)) {
        gm_account_uncharge(charge);
    }
    gm_account_uncharge(replaced);
}

struct gm_charged gm_charged_take(CUdeviceptr address)
{
    struct gm_charged taken = {0, NULL};
    /* In a forked child the lock may be one that nobody gives back. */
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0 || !gm_process_is_served()) {
        return taken;
    }
    gm_lock_take(&lock);
    struct record *record = count == 0 ? NULL : locate(records, capacity, address);
    if (record != NULL && record->address != 0) {
        taken = record->charged;
        close_gap((size_t)(record - records));
    }
    gm_lock_drop(&lock);
    gm_account_uncharge(taken.bytes);
    return taken;
}

void gm_charged_put_back(CUdeviceptr address, const struct gm_charged *charged)
{
    uint64_t replaced;
    if (charged->bytes != 0 && gm_account_charge(charged->bytes) != GM_CHARGE_REFUSED &&
        !put(address, charged, &replaced)) {
        gm_account_uncharge(charged->bytes);
    }
}

void gm_charged_forget(CUcontext context)
{
    uint64_t bytes = 0;
    gm_lock_take(&lock);
    for (size_t i = 0; count != 0 && i < capacity;) {
        if (records[i].address != 0 && records[i].charged.context == context) {
            bytes += records[i].charged.bytes;
            close_gap(i); /* another one may be here now */
        } else {
            i++;
        }
    }
    gm_lock_drop(&lock);
    gm_account_uncharge(bytes);
}
