/*
 * ledger.c - see ledger.h. Entries that cannot be stored for lack of host memory count as unexplained.
 */
#include "ledger.h"

#include <search.h>
#include <stdbool.h>
#include <stdlib.h>

/* Physical memory behind a handle. Lives until it has neither a handle nor a mapping. */
struct chunk {
    uint64_t bytes;
    uint64_t maps;
    bool has_handle;
};

/* A node of any of the trees; @chunk is NULL for plain allocations. */
struct record {
    uint64_t key; /* handle or address; first, so that a bare key can be searched for */
    uint64_t bytes;
    struct chunk *chunk;
};

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static struct record *find(void *const *tree, uint64_t key)
{
    struct record **node = tfind(&key, tree, compare);
    return node != NULL ? *node : NULL;
}

static struct record *insert(struct gm_ledger *ledger, void **tree, uint64_t key, uint64_t bytes, struct chunk *chunk)
{
    struct record *record = malloc(sizeof *record);
    if (record == NULL) {
        ledger->unexplained++;
        return NULL;
    }
    *record = (struct record){key, bytes, chunk};
    struct record **node = tsearch(record, tree, compare);
    if (node == NULL || *node != record) {
        ledger->unexplained++;
        free(record);
        return NULL;
    }
    return record;
}

static void drop(void **tree, struct record *record)
{
    tdelete(record, tree, compare);
    free(record);
}

static void add(uint64_t *value, uint64_t *peak, uint64_t more)
{
    *value += more;
    if (*value > *peak) {
        *peak = *value;
    }
}

static void drop_chunk_if_unused(struct gm_ledger *ledger, struct chunk *chunk)
{
    if (!chunk->has_handle && chunk->maps == 0) {
        ledger->held -= chunk->bytes;
        free(chunk);
    }
}

void gm_ledger_created(struct gm_ledger *ledger, uint64_t handle, uint64_t bytes)
{
    struct chunk *chunk = malloc(sizeof *chunk);
    if (chunk == NULL) {
        ledger->unexplained++;
        return;
    }
    *chunk = (struct chunk){.bytes = bytes, .has_handle = true};
    if (insert(ledger, &ledger->handles, handle, bytes, chunk) == NULL) {
        free(chunk);
        return;
    }
    add(&ledger->held, &ledger->held_peak, bytes);
}

void gm_ledger_released(struct gm_ledger *ledger, uint64_t handle)
{
    struct record *record = find(&ledger->handles, handle);
    if (record == NULL) {
        ledger->unexplained++;
        return;
    }
    struct chunk *chunk = record->chunk;
    drop(&ledger->handles, record);
    chunk->has_handle = false;
    drop_chunk_if_unused(ledger, chunk);
}

void gm_ledger_mapped(struct gm_ledger *ledger, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct record *owner = find(&ledger->handles, handle);
    if (owner == NULL) {
        ledger->unexplained++;
        return;
    }
    if (insert(ledger, &ledger->maps, address, bytes, owner->chunk) != NULL) {
        owner->chunk->maps++;
        add(&ledger->mappings, &ledger->mappings_peak, 1);
    }
}

void gm_ledger_unmapped(struct gm_ledger *ledger, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;
    while (address < end) {
        struct record *record = find(&ledger->maps, address);
        if (record == NULL) {
            ledger->unexplained++;
            return;
        }
        struct chunk *chunk = record->chunk;
        address += record->bytes;
        drop(&ledger->maps, record);
        ledger->mappings--;
        chunk->maps--;
        drop_chunk_if_unused(ledger, chunk);
    }
}

void gm_ledger_allocated(struct gm_ledger *ledger, uint64_t address, uint64_t bytes)
{
    if (insert(ledger, &ledger->plain, address, bytes, NULL) != NULL) {
        add(&ledger->held, &ledger->held_peak, bytes);
    }
}

void gm_ledger_freed(struct gm_ledger *ledger, uint64_t address)
{
    struct record *record = find(&ledger->plain, address);
    if (record == NULL) {
        ledger->unexplained++;
        return;
    }
    ledger->held -= record->bytes;
    drop(&ledger->plain, record);
}

void gm_ledger_reserved(struct gm_ledger *ledger, uint64_t bytes)
{
    add(&ledger->va, &ledger->va_peak, bytes);
}

void gm_ledger_unreserved(struct gm_ledger *ledger, uint64_t bytes)
{
    ledger->va -= bytes;
}

static void drop_all(struct gm_ledger *ledger, void **tree, bool maps)
{
    while (*tree != NULL) {
        struct record *record = **(struct record ***)tree;
        if (maps) {
            gm_ledger_unmapped(ledger, record->key, record->bytes);
        } else if (record->chunk != NULL) {
            gm_ledger_released(ledger, record->key);
        } else {
            gm_ledger_freed(ledger, record->key);
        }
    }
}

void gm_ledger_finish(struct gm_ledger *ledger)
{
    drop_all(ledger, &ledger->maps, true);
    drop_all(ledger, &ledger->handles, false);
    drop_all(ledger, &ledger->plain, false);
    *ledger = (struct gm_ledger){0};
}
