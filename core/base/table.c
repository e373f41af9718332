/*
 * table.c - see table.h.
 */
#include "table.h"

#include "lock.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONED 1
#endif
#endif
#ifdef POISONED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes)   ((void)(from), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) ((void)(from), (void)(bytes))
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEAST_SHIFT 6u /* a cache line */
#define MOST_SHIFT  20u
#define SIZES       (MOST_SHIFT - LEAST_SHIFT + 1)
#define PIECE_BYTES ((size_t)2 << MOST_SHIFT)

/* At the start of a table that is not in use. */
struct unused {
    struct unused *next;
};

/* At the start of a piece: its first table of the least size, which is never given out. */
struct piece {
    struct piece *next;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLES);
static struct unused *unused[SIZES]; /* tables of 1 << (LEAST_SHIFT + i) bytes */
static struct piece *pieces;
static size_t in_use; /* tables given out of pieces */

/* Which of the sizes holds @bytes; SIZES or more: none. */
static unsigned size_of(size_t bytes)
{
    return bytes <= (size_t)1 << LEAST_SHIFT ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1) - LEAST_SHIFT;
}

static void put(void *table, unsigned size)
{
    struct unused *entry = table;
    entry->next = unused[size];
    unused[size] = entry;
    ASAN_POISON_MEMORY_REGION(entry + 1, ((size_t)1 << (LEAST_SHIFT + size)) - sizeof *entry);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    return memory;
}

static int add_piece(void)
{
    char *start = map(2 * PIECE_BYTES);
    if (start == NULL) {
        return -1;
    }
    size_t before = -(uintptr_t)start % PIECE_BYTES;
    if (before != 0) {
        munmap(start, before);
    }
    munmap(start + before + PIECE_BYTES, PIECE_BYTES - before);
    struct piece *piece = (struct piece *)(void *)(start + before);
    /* A kernel that knows neither gives the pages one by one when they are touched. */
    (void)madvise(piece, PIECE_BYTES, MADV_HUGEPAGE);
    (void)madvise(piece, PIECE_BYTES, MADV_POPULATE_WRITE);
    piece->next = pieces;
    pieces = piece;
    for (unsigned size = 0; size < SIZES; size++) {
        put((char *)piece + ((size_t)1 << (LEAST_SHIFT + size)), size);
    }
    return 0;
}

/* Takes a table of @size out of its list, or half of a larger one; NULL: there is none. */
static void *take(unsigned size)
{
    unsigned larger = size;
    while (larger < SIZES && unused[larger] == NULL) {
        larger++;
    }
    if (larger == SIZES) {
        return NULL;
    }
    struct unused *entry = unused[larger];
    unused[larger] = entry->next;
    ASAN_UNPOISON_MEMORY_REGION(entry, (size_t)1 << (LEAST_SHIFT + larger));
    while (larger > size) {
        larger--;
        put((char *)entry + ((size_t)1 << (LEAST_SHIFT + larger)), larger);
    }
    entry->next = NULL;
    return entry;
}

static void forget_pieces(void)
{
    memset(unused, 0, sizeof unused);
    while (pieces != NULL) {
        struct piece *piece = pieces;
        pieces = piece->next;
        ASAN_UNPOISON_MEMORY_REGION(piece, PIECE_BYTES);
        munmap(piece, PIECE_BYTES);
    }
}

void *gm_table_take(size_t bytes)
{
    unsigned size = size_of(bytes);
    if (size >= SIZES) {
        return map(bytes);
    }
    gm_lock_take(&lock);
    void *table = take(size);
    if (table == NULL && add_piece() == 0) {
        table = take(size);
    }
    in_use += table != NULL;
    gm_lock_drop(&lock);
    if (table != NULL) {
        ASAN_POISON_MEMORY_REGION((char *)table + bytes, ((size_t)1 << (LEAST_SHIFT + size)) - bytes);
    }
    return table;
}

void gm_table_give(void *table, size_t bytes)
{
    unsigned size = size_of(bytes);
    if (table == NULL) {
        return;
    }
    if (size >= SIZES) {
        munmap(table, bytes);
        return;
    }
    memset(table, 0, bytes);
    gm_lock_take(&lock);
    ASAN_UNPOISON_MEMORY_REGION(table, (size_t)1 << (LEAST_SHIFT + size));
    put(table, size);
    if (--in_use == 0) {
        forget_pieces();
    }
    gm_lock_drop(&lock);
}

/* Another thread may have been at it when the parent forked: neither the lock nor the lists are what they should be. */
void gm_table_forget(void)
{
    gm_lock_init(&lock, GM_RANK_TABLES);
    memset(unused, 0, sizeof unused);
    pieces = NULL;
    in_use = 0;
}
