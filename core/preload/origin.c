/*
 * origin.c - see origin.h.
 */
#include "origin.h"

#include "lock.h"

/* The driver counts its identities from 1: ours are far above. */
#define FIRST_IDENTITY ((uint64_t)1 << 56)

struct record {
    CUdeviceptr address;
    struct gm_origin origin;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_ORIGIN); /* guards everything below */
struct gm_block_table gm_origin_records = GM_BLOCK_TABLE_OF(struct record);
static uint64_t identities; /* given out */

bool gm_origin_note(CUdeviceptr address, const struct gm_origin *origin)
{
    gm_lock_take(&lock);
    struct record *record = gm_block_table_make(&gm_origin_records, address);
    if (record != NULL) {
        record->origin = *origin;
    }
    gm_lock_drop(&lock);
    return record != NULL;
}

struct gm_origin gm_origin_of(CUdeviceptr address)
{
    struct gm_origin origin = {.context = NULL};
    if (gm_origin_is_empty()) {
        return origin;
    }
    gm_lock_take(&lock);
    const struct record *record = gm_block_table_find(&gm_origin_records, address);
    if (record != NULL) {
        origin = record->origin;
    }
    gm_lock_drop(&lock);
    return origin;
}

struct gm_origin gm_origin_take(CUdeviceptr address)
{
    struct gm_origin origin = {.context = NULL};
    if (gm_origin_is_empty()) {
        return origin;
    }
    gm_lock_take(&lock);
    struct record *record = gm_block_table_find(&gm_origin_records, address);
    if (record != NULL) {
        origin = record->origin;
        gm_block_table_remove(&gm_origin_records, record);
    }
    gm_lock_drop(&lock);
    return origin;
}

uint64_t gm_origin_identity(CUdeviceptr address)
{
    uint64_t id = 0;
    gm_lock_take(&lock);
    struct record *record = gm_block_table_make(&gm_origin_records, address);
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
    struct record *record = gm_block_table_make(&gm_origin_records, address);
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
    for (size_t i = *cursor; !found && i < gm_origin_records.capacity; i++) {
        struct record *record = gm_block_table_at(&gm_origin_records, i);
        if (record != NULL && record->origin.context == context) {
            *address = record->address;
            *cursor = i; /* what closes the gap may be another one */
            gm_block_table_remove(&gm_origin_records, record);
            found = true;
        }
    }
    gm_lock_drop(&lock);
    return found;
}
