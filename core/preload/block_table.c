/*
 * block_table.c - see block_table.h.
 */
#include "block_table.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 512u

static CUdeviceptr *place(const struct gm_block_table *table, size_t i)
{
    return (CUdeviceptr *)(void *)(table->records + i * table->record_size);
}

static size_t home_of(const struct gm_block_table *table, CUdeviceptr address)
{
    return (size_t)((address >> 9) * 0x9e3779b97f4a7c15u >> 32) & (table->capacity - 1);
}

/* The place of @address, or the unused one where it would be. The table is not full. */
static CUdeviceptr *locate(const struct gm_block_table *table, CUdeviceptr address)
{
    size_t i = home_of(table, address);
    while (*place(table, i) != 0 && *place(table, i) != address) {
        i = (i + 1) & (table->capacity - 1);
    }
    return place(table, i);
}

static bool grow(struct gm_block_table *table)
{
    struct gm_block_table larger = {.record_size = table->record_size,
                                    .capacity = table->capacity == 0 ? FIRST_CAPACITY : table->capacity * 2};
    size_t size = larger.capacity * larger.record_size;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    larger.records = memory;
    for (size_t i = 0; i < table->capacity; i++) {
        CUdeviceptr *record = place(table, i);
        if (*record != 0) {
            memcpy(locate(&larger, *record), record, table->record_size);
        }
    }
    if (table->records != NULL) {
        munmap(table->records, table->capacity * table->record_size);
    }
    table->records = larger.records;
    table->capacity = larger.capacity;
    return true;
}

void *gm_block_table_find(const struct gm_block_table *table, CUdeviceptr address)
{
    CUdeviceptr *record = table->capacity == 0 ? NULL : locate(table, address);
    return record != NULL && *record != 0 ? record : NULL;
}

void *gm_block_table_make(struct gm_block_table *table, CUdeviceptr address)
{
    void *found = gm_block_table_find(table, address);
    if (found != NULL) {
        return found;
    }
    if ((table->count + 1) * 2 > table->capacity && !grow(table)) {
        return NULL;
    }
    CUdeviceptr *record = locate(table, address);
    memset(record, 0, table->record_size);
    *record = address;
    table->count++;
    return record;
}

/* What a search would no longer find is moved back into the gap. */
void gm_block_table_remove(struct gm_block_table *table, void *record)
{
    size_t mask = table->capacity - 1;
    size_t hole = (size_t)((unsigned char *)record - table->records) / table->record_size;
    for (size_t i = (hole + 1) & mask; *place(table, i) != 0; i = (i + 1) & mask) {
        size_t distance = (i - home_of(table, *place(table, i))) & mask;
        if (distance >= ((i - hole) & mask)) {
            memcpy(place(table, hole), place(table, i), table->record_size);
            hole = i;
        }
    }
    *place(table, hole) = 0;
    table->count--;
}

void *gm_block_table_at(const struct gm_block_table *table, size_t i)
{
    CUdeviceptr *record = place(table, i);
    return *record != 0 ? record : NULL;
}
