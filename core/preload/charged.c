/*
 * charged.c - see charged.h.
 */
#include "charged.h"

#include "account.h"
#include "block_table.h"
#include "capture.h"
#include "hooks.h"
#include "lock.h"
#include "process.h"

#include <stdatomic.h>

/* No device has as much: the driver will say so. */
#define BYTES_MAX ((size_t)1 << 46)

struct record {
    CUdeviceptr address;
    struct gm_charged charged;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_ORIGIN); /* guards the records */
static struct gm_block_table records = GM_BLOCK_TABLE_OF(struct record);

/* A record that is there already is of a block that went in a way unknown to us: its bytes are given. */
static bool put(CUdeviceptr address, const struct gm_charged *charged, uint64_t *replaced)
{
    gm_lock_take(&lock);
    struct record *record = gm_block_table_make(&records, address);
    *replaced = record != NULL ? record->charged.bytes : 0;
    if (record != NULL) {
        record->charged = *charged;
    }
    gm_lock_drop(&lock);
    return record != NULL;
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
    if (gm_block_table_is_empty(&records) || !gm_process_is_served()) {
        return taken;
    }
    gm_lock_take(&lock);
    struct record *record = gm_block_table_find(&records, address);
    if (record != NULL) {
        taken = record->charged;
        gm_block_table_remove(&records, record);
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
    for (size_t i = 0; i < records.capacity;) {
        struct record *record = gm_block_table_at(&records, i);
        if (record != NULL && record->charged.context == context) {
            bytes += record->charged.bytes;
            gm_block_table_remove(&records, record); /* another one may be here now */
        } else {
            i++;
        }
    }
    gm_lock_drop(&lock);
    gm_account_uncharge(bytes);
}
