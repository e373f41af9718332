/*
 * verify.c - see verify.h.
 */
#include "verify.h"

#include <errno.h>
#include <gmlake/gmlake.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES   (2ull << 20)
#define BUFFER_BYTES (64ull << 20)

enum { CHECKS_MAX = 4096, COMPLAINTS_MAX = 10 };

/* A live block's range. Ranges that overlap compare equal, so inserting one finds the block it collides with. */
struct range {
    uint64_t start;
    uint64_t end; /* exclusive */
    uint32_t block;
};

/* A piece of a block, within one page, on its way to the host buffer. */
struct check {
    uint64_t address;
    size_t offset; /* in the buffer */
    size_t bytes;
    uint32_t block;
    uint32_t word; /* what it must be filled with */
};

/* Invariant: checks[0..check_count) lie back to back in buffer[0..buffer_used). */
struct verify {
    struct gm_door door; /* first */
    struct gm_door *inner;
    const struct gm_driver *driver;
    void *ranges;          /* search tree of struct range */
    CUstream *last_stream; /* by block: where it was filled */
    CUevent order;         /* lets one stream wait for another */
    char *buffer;
    size_t buffer_used;
    struct check checks[CHECKS_MAX];
    size_t check_count;
    uint64_t errors;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct range *left = a;
    const struct range *right = b;
    return left->end <= right->start ? -1 : right->end <= left->start ? 1 : 0;
}

static void complain(struct verify *verify, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(struct verify *verify, const char *format, ...)
{
    if (verify->errors++ >= COMPLAINTS_MAX) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    fputs("gmlake replay: verify: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* Well-mixed, so that no two pages of any two blocks are likely to agree. */
static uint32_t word_of(uint32_t block, uint64_t page)
{
    uint64_t x = ((uint64_t)block + 1) * 0x9e3779b97f4a7c15u ^ page * 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return (uint32_t)(x >> 32);
}

/* The end of the piece of [address, end) that lies in the page of @address. */
static uint64_t end_of_piece(uint64_t address, uint64_t end)
{
    uint64_t page_end = (address / PAGE_BYTES + 1) * PAGE_BYTES;
    return page_end < end ? page_end : end;
}

static int driver_failed(struct verify *verify, CUresult rc, const char *what, uint32_t block)
{
    if (rc == CUDA_SUCCESS) {
        return 0;
    }
    complain(verify, "block %u: %s failed with CUDA error %d", block, what, (int)rc);
    return -EIO;
}

/* Fills [address, address + bytes): whole words at once, the last bytes one by one, in the same pattern. */
static int fill_piece(struct verify *verify, uint64_t address, size_t bytes, uint32_t word, uint32_t block,
                      CUstream stream)
{
    const struct gm_driver *driver = verify->driver;
    CUresult rc = CUDA_SUCCESS;
    if (bytes >= sizeof word) {
        rc = driver->memset_d32_async(address, word, bytes / sizeof word, stream);
    }
    size_t tail = bytes % sizeof word;
    for (size_t i = bytes - tail; i < bytes && rc == CUDA_SUCCESS; i++) {
        rc = driver->memset_d8_async(address + i, ((unsigned char *)&word)[i % sizeof word], 1, stream);
    }
    return driver_failed(verify, rc, "cuMemset", block);
}

/* Fills the block with its pattern, or (@dirty) with anything but. */
static int fill(struct verify *verify, const struct gm_trace_op *op, uint64_t address, CUstream stream, bool dirty)
{
    uint64_t end = address + op->bytes;
    for (uint64_t piece = address; piece < end;) {
        uint64_t next = end_of_piece(piece, end);
        uint32_t word = word_of(op->block, piece / PAGE_BYTES);
        int rc = fill_piece(verify, piece, next - piece, dirty ? ~word : word, op->block, stream);
        if (rc < 0) {
            return rc;
        }
        piece = next;
    }
    return 0;
}

static void compare_piece(struct verify *verify, const struct check *check)
{
    const char *found = verify->buffer + check->offset;
    const char *word = (const char *)&check->word;
    for (size_t i = 0; i < check->bytes; i++) {
        if (found[i] != word[i % sizeof check->word]) {
            uint32_t seen = 0;
            size_t word_start = i - i % sizeof seen;
            size_t left = check->bytes - word_start;
            memcpy(&seen, found + word_start, left < sizeof seen ? left : sizeof seen);
            complain(verify, "block %u: byte at 0x%" PRIx64 " was overwritten: word 0x%08x, expected 0x%08x",
                     check->block, check->address + i, seen, check->word);
            return;
        }
    }
}

/* Whether @bytes at @found repeat the word: the first word, then each byte equals the one a word before. */
static bool repeats(const char *found, size_t bytes, uint32_t word)
{
    size_t head = bytes < sizeof word ? bytes : sizeof word;
    return memcmp(found, &word, head) == 0 &&
           (bytes <= sizeof word || memcmp(found, found + sizeof word, bytes - sizeof word) == 0);
}

static int compare_outstanding(struct verify *verify)
{
    CUresult rc = verify->driver->context_synchronize();
    if (rc != CUDA_SUCCESS) {
        complain(verify, "cuCtxSynchronize failed with CUDA error %d", (int)rc);
        return -EIO;
    }
    for (size_t i = 0; i < verify->check_count; i++) {
        const struct check *check = &verify->checks[i];
        if (!repeats(verify->buffer + check->offset, check->bytes, check->word)) {
            compare_piece(verify, check);
        }
    }
    verify->check_count = 0;
    verify->buffer_used = 0;
    return 0;
}

/* Copies the block to the host, to be compared later. */
static int read_back(struct verify *verify, const struct gm_trace_op *op, uint64_t address, CUstream stream)
{
    uint64_t end = address + op->bytes;
    for (uint64_t piece = address; piece < end;) {
        uint64_t next = end_of_piece(piece, end);
        size_t bytes = next - piece;
        if (verify->check_count == CHECKS_MAX || verify->buffer_used + bytes > BUFFER_BYTES) {
            int rc = compare_outstanding(verify);
            if (rc < 0) {
                return rc;
            }
        }
        char *host = verify->buffer + verify->buffer_used;
        CUresult result = verify->driver->copy_to_host_async(host, piece, bytes, stream);
        if (result != CUDA_SUCCESS) {
            return driver_failed(verify, result, "cuMemcpyDtoHAsync", op->block);
        }
        verify->checks[verify->check_count++] =
            (struct check){piece, verify->buffer_used, bytes, op->block, word_of(op->block, piece / PAGE_BYTES)};
        verify->buffer_used += bytes;
        piece = next;
    }
    return 0;
}

static int insert_range(struct verify *verify, const struct gm_trace_op *op, uint64_t address)
{
    struct range *range = malloc(sizeof *range);
    if (range == NULL) {
        return -ENOMEM;
    }
    *range = (struct range){address, address + op->bytes, op->block};
    struct range **node = tsearch(range, &verify->ranges, compare_ranges);
    if (node != NULL && *node == range) {
        return 0;
    }
    if (node != NULL) {
        complain(verify, "block %u at 0x%" PRIx64 " of %" PRIu64 " bytes overlaps live block %u at 0x%" PRIx64,
                 op->block, address, op->bytes, (*node)->block, (*node)->start);
    }
    free(range);
    return node == NULL ? -ENOMEM : 0;
}

static void remove_range(struct verify *verify, const struct gm_trace_op *op, uint64_t address)
{
    struct range wanted = {address, address + op->bytes, op->block};
    struct range **node = tfind(&wanted, &verify->ranges, compare_ranges);
    if (node != NULL && (*node)->block == op->block) {
        struct range *range = *node;
        tdelete(range, &verify->ranges, compare_ranges);
        free(range);
    }
}

static int verify_alloc(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address)
{
    struct verify *verify = (struct verify *)door;
    uint64_t out = 0;
    int rc = verify->inner->alloc(verify->inner, op, stream, &out);
    if (rc < 0) {
        return rc;
    }
    *address = out;
    if (op->bytes == 0) {
        return 0;
    }
    if (out == 0 || out % GMLAKE_ALIGNMENT != 0) {
        complain(verify, "block %u: address 0x%" PRIx64 " is not aligned to %u", op->block, out, GMLAKE_ALIGNMENT);
    }
    verify->last_stream[op->block] = stream;
    rc = insert_range(verify, op, out);
    return rc < 0 ? rc : fill(verify, op, out, stream, false);
}

static int verify_free(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address)
{
    struct verify *verify = (struct verify *)door;
    if (op->bytes > 0 && address != 0) {
        CUstream filled_on = verify->last_stream[op->block];
        if (filled_on != stream) {
            verify->driver->event_record(verify->order, filled_on);
            verify->driver->stream_wait_event(stream, verify->order, 0);
        }
        int rc = read_back(verify, op, address, stream);
        if (rc == 0) {
            rc = fill(verify, op, address, stream, true);
        }
        if (rc < 0) {
            return rc;
        }
        remove_range(verify, op, address);
    }
    return verify->inner->free(verify->inner, op, stream, address);
}

int gm_verify_open(const struct gm_trace *trace, const struct gm_driver *driver, struct gm_door *inner,
                   struct gm_door **out)
{
    struct verify *verify = calloc(1, sizeof *verify);
    if (verify == NULL) {
        return -ENOMEM;
    }
    verify->door = (struct gm_door){verify_alloc, verify_free};
    verify->inner = inner;
    verify->driver = driver;
    verify->last_stream = calloc(trace->blocks, sizeof(CUstream));
    verify->buffer = malloc(BUFFER_BYTES);
    if (verify->last_stream == NULL || verify->buffer == NULL ||
        driver->event_create(&verify->order, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        free(verify->buffer);
        free(verify->last_stream);
        free(verify);
        return -ENOMEM;
    }
    *out = &verify->door;
    return 0;
}

uint64_t gm_verify_errors(struct gm_door *door)
{
    struct verify *verify = (struct verify *)door;
    compare_outstanding(verify);
    return verify->errors;
}

void gm_verify_close(struct gm_door *door)
{
    struct verify *verify = (struct verify *)door;
    verify->driver->event_destroy(verify->order);
    tdestroy(verify->ranges, free);
    free(verify->buffer);
    free(verify->last_stream);
    free(verify);
}
