/*
 * blocks.c - see blocks.h.
 */
#include "blocks.h"

#include "device.h"

#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PAGE         ((uint64_t)2 << 20)
#define WHOLE        ((uint64_t)8 << 10) /* blocks up to this are filled whole */
#define END_BYTES    ((uint64_t)1 << 10)
#define BORDER_BYTES ((uint64_t)128) /* on each side of a page border */
#define BORDERS_MOST 16u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *tree; /* guarded by lock */
static uint64_t live_count, live_of_driver;

/* Blocks that overlap compare equal. */
static int compare(const void *a, const void *b)
{
    const struct gm_live *x = a;
    const struct gm_live *y = b;
    return x->address + x->bytes <= y->address ? -1 : y->address + y->bytes <= x->address ? 1 : 0;
}

void gm_live_enter(const struct gm_live *block)
{
    if (block->address == 0 || block->address % GMLAKE_ALIGNMENT != 0) {
        fail("a block of %" PRIu64 " bytes at 0x%" PRIx64, block->bytes, block->address);
    }
    struct gm_live *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        fail("no memory for the test");
    }
    *copy = *block;
    pthread_mutex_lock(&lock);
    struct gm_live **place = tsearch(copy, &tree, compare);
    if (place == NULL || *place != copy) {
        fail("two blocks overlap: 0x%" PRIx64 " of %" PRIu64 " bytes is handed out, 0x%" PRIx64 " of %" PRIu64
             " is live",
             block->address, block->bytes, (*place)->address, (*place)->bytes);
    }
    live_count++;
    live_of_driver += block->driver;
    pthread_mutex_unlock(&lock);
}

void gm_live_leave(const struct gm_live *block)
{
    pthread_mutex_lock(&lock);
    struct gm_live **place = tfind(block, &tree, compare);
    if (place == NULL || (*place)->address != block->address) {
        fail("the block at 0x%" PRIx64 " is not in the tree", block->address);
    }
    struct gm_live *copy = *place;
    tdelete(block, &tree, compare);
    free(copy);
    live_count--;
    live_of_driver -= block->driver;
    pthread_mutex_unlock(&lock);
}

/* Calls @visit with the stretches of the block that carry its word. */
static void each_stretch(const struct gm_live *block, void (*visit)(void *arg, uint64_t start, uint64_t end), void *arg)
{
    uint64_t start = block->address;
    uint64_t end = start + block->bytes;
    if (block->bytes <= WHOLE) {
        visit(arg, start, end);
        return;
    }
    visit(arg, start, start + END_BYTES);
    uint64_t first = (start + END_BYTES + BORDER_BYTES) / PAGE + 1;
    uint64_t past = (end - END_BYTES - BORDER_BYTES) / PAGE;
    uint64_t step = past > first ? (past - first) / BORDERS_MOST + 1 : 1;
    for (uint64_t border = first; border < past; border += step) {
        visit(arg, border * PAGE - BORDER_BYTES, border * PAGE + BORDER_BYTES);
    }
    visit(arg, end - END_BYTES, end);
}

struct filling {
    uint32_t word;
    CUstream stream;
};

static void fill_stretch(void *arg, uint64_t start, uint64_t end)
{
    const struct filling *filling = arg;
    uint64_t words = (end - start) / sizeof filling->word;
    if (start % sizeof filling->word != 0 || words == 0) {
        works(device.fill_bytes(start, (unsigned char)filling->word, end - start, filling->stream));
        return;
    }
    works(device.fill_words(start, filling->word, words, filling->stream));
}

void gm_live_fill(const struct gm_live *block, uint32_t word, gmlake_stream stream)
{
    struct filling filling = {word, stream};
    each_stretch(block, fill_stretch, &filling);
}

static void compare_stretch(void *arg, uint64_t start, uint64_t end)
{
    const struct gm_live *block = arg;
    uint64_t words = (end - start) / sizeof block->word;
    if (start % sizeof block->word != 0 || words == 0) {
        for (uint64_t at = start; at < end; at++) {
            unsigned char byte = *(const volatile unsigned char *)(uintptr_t)at;
            if (byte != (unsigned char)block->word) {
                fail("block 0x%" PRIx64 " of %" PRIu64 " bytes: 0x%02x at byte %" PRIu64 ", not 0x%02x", block->address,
                     block->bytes, byte, at - block->address, (unsigned char)block->word);
            }
        }
        return;
    }
    const volatile uint32_t *at = (const volatile uint32_t *)(uintptr_t)start;
    for (uint64_t i = 0; i < words; i++) {
        if (at[i] != block->word) {
            fail("block 0x%" PRIx64 " of %" PRIu64 " bytes: 0x%08x at byte %" PRIu64 ", not 0x%08x", block->address,
                 block->bytes, at[i], start + i * sizeof *at - block->address, block->word);
        }
    }
}

void gm_live_compare(const struct gm_live *block)
{
    struct gm_live copy = *block;
    each_stretch(block, compare_stretch, &copy);
}

void gm_live_expect_found(struct gmlake *allocator, const struct gm_live *block)
{
    struct gmlake_block found;
    const uint64_t inside[] = {0, block->bytes / 2, block->bytes - 1};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        int rc = gmlake_find(allocator, block->address + inside[i], &found);
        if (block->driver) {
            if (rc == 0) {
                fail("the driver's block 0x%" PRIx64 " is found in the pool", block->address);
            }
        } else if (rc != 0 || found.address != block->address || found.requested != block->bytes ||
                   found.size < block->bytes || found.kind == GMLAKE_BLOCK_FREE) {
            fail("block 0x%" PRIx64 " of %" PRIu64 " bytes: byte %" PRIu64 " gives %d, 0x%" PRIx64 ", %" PRIu64
                 " bytes",
                 block->address, block->bytes, inside[i], rc, found.address, found.requested);
        }
    }
    if (gmlake_find(allocator, block->address + block->bytes, &found) == 0 && found.address <= block->address) {
        fail("the byte behind block 0x%" PRIx64 " of %" PRIu64 " bytes is taken for its own", block->address,
             block->bytes);
    }
}

struct walking {
    uint64_t end;  /* of the block before */
    uint64_t live; /* blocks that the tree knows */
};

static int visit(void *arg, const struct gmlake_block *block)
{
    struct walking *walking = arg;
    if (block->address < walking->end || block->size == 0) {
        fail("the walk comes to 0x%" PRIx64 " of %" PRIu64 " bytes after 0x%" PRIx64, block->address, block->size,
             walking->end);
    }
    walking->end = block->address + block->size;
    if (block->kind == GMLAKE_BLOCK_FREE) {
        if (block->requested != 0 || block->usable > block->size) {
            fail("a free block at 0x%" PRIx64 " has %" PRIu64 " bytes asked for, %" PRIu64 " usable", block->address,
                 block->requested, block->usable);
        }
        return 0;
    }
    struct gm_live wanted = {.address = block->address, .bytes = block->requested};
    struct gm_live **place = tfind(&wanted, &tree, compare);
    if (place == NULL || (*place)->address != block->address || (*place)->bytes != block->requested) {
        fail("the walk knows a live block at 0x%" PRIx64 " of %" PRIu64 " bytes that is none", block->address,
             block->requested);
    }
    walking->live++;
    return 0;
}

void gm_live_expect_walked(struct gmlake *allocator)
{
    struct walking walking = {0, 0};
    pthread_mutex_lock(&lock);
    int rc = gmlake_walk(allocator, visit, &walking);
    if (rc != 0 || walking.live != live_count - live_of_driver) {
        fail("the walk gives %d and visits %" PRIu64 " live blocks of %" PRIu64, rc, walking.live,
             live_count - live_of_driver);
    }
    pthread_mutex_unlock(&lock);
}
