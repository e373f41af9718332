/*
 * faults.c - one scripted workload, again and again, with the n-th driver call failing, for every n in turn.
 *
 * WHAT IT DOES  The script allocates, frees and trims so that it grows, splits, stitches, waits, evicts and comes to
 *               the limit of a small device. It touches the blocks' bytes directly, so that every driver call is the
 *               allocator's own.
 * WHAT IT SEES  An operation may fail when its driver call does, and nothing else: every invariant holds, the other
 *               blocks keep their bytes, the device serves all of its memory afterwards, and nothing is left on it.
 *               For calls that give back (unmap, release), which do not fail on a driver in its senses, the process
 *               has to survive, no more.
 */
#include "device.h"

#include <errno.h>
#include <gmlake/gmlake.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB         ((uint64_t)1 << 20)
#define MEMORY      (96 * MIB)
#define SLOTS       64u
#define STEPS       260u
#define CALLS_TYPES 256u

struct slot {
    gmlake_ptr address;
    uint64_t bytes;
    unsigned char value;
};

static struct gmlake *allocator;
static CUstream streams[3];
static struct slot slots[SLOTS];
static bool lenient; /* a call that gives back fails: invariants may break */

static void expect_bytes(const struct slot *slot)
{
    const uint64_t at[] = {0, slot->bytes / 2, slot->bytes - 1};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        unsigned char byte = *(const volatile unsigned char *)(uintptr_t)(slot->address + at[i]);
        if (byte != slot->value) {
            fail("block 0x%" PRIx64 " of %" PRIu64 " bytes: 0x%02x at byte %" PRIu64 ", not 0x%02x", slot->address,
                 slot->bytes, byte, at[i], slot->value);
        }
    }
}

static void fill(const struct slot *slot)
{
    const uint64_t at[] = {0, slot->bytes / 2, slot->bytes - 1};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        *(volatile unsigned char *)(uintptr_t)(slot->address + at[i]) = slot->value;
    }
}

static void free_slot(struct slot *slot, uint64_t random)
{
    if (slot->address == 0) {
        return;
    }
    expect_bytes(slot);
    int rc = random % 5 == 0 ? gmlake_free_sync(allocator, slot->address)
                             : gmlake_free(allocator, slot->address, streams[random / 5 % 3]);
    if (rc != 0) {
        fail("a free gives %d", rc);
    }
    slot->address = 0;
}

static void allocate_slot(struct slot *slot, uint64_t bytes, uint64_t random)
{
    gmlake_ptr address;
    if (gmlake_alloc(allocator, bytes, streams[random % 3], &address) != 0) {
        return;
    }
    *slot = (struct slot){.address = address, .bytes = bytes, .value = (unsigned char)(random >> 8)};
    fill(slot);
}

/* The same operations every time: what they do depends on what has failed before. */
static void run_script(void)
{
    static const uint64_t sizes[] = {512,     3000,     20000,    300 * 1024, MIB,      3 * MIB,
                                     5 * MIB, 12 * MIB, 16 * MIB, 17 * MIB,   30 * MIB, 50 * MIB};
    uint64_t random = 0x5eed5eed5eed5eedu;
    memset(slots, 0, sizeof slots);
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t r = gm_random(&random);
        struct slot *slot = &slots[r % SLOTS];
        if (slot->address != 0) {
            free_slot(slot, r >> 8);
        } else {
            allocate_slot(slot, sizes[(r >> 8) % (sizeof sizes / sizeof sizes[0])] + (r >> 16) % 3 * 512, r >> 20);
        }
        if (i % 40 == 39) {
            (void)gmlake_trim(allocator, (r >> 30) % 3 * 16 * MIB, NULL);
        }
        if (!lenient && (i % 8 == 0 || i == STEPS - 1)) {
            works(gmlake_check(allocator));
        }
    }
}

/* Everything is freed; then the device serves all it has as one block. */
static void expect_nothing_lost(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        free_slot(&slots[i], i);
    }
    gmlake_ptr address;
    int rc = gmlake_alloc(allocator, MEMORY, streams[0], &address);
    if (lenient) {
        return;
    }
    if (rc != 0) {
        struct gmlake_stats stats = {.size = sizeof stats};
        works(gmlake_get_stats(allocator, &stats));
        fail("the whole device is refused with %d: %" PRIu64 " bytes held, %" PRIu64 " of them in free chunks", rc,
             stats.reserved, stats.free_chunks);
    }
    works(gmlake_check(allocator));
    works(gmlake_free(allocator, address, streams[1]));
}

static void run_once(const char *name, unsigned nth, int code)
{
    snprintf(gm_device_recipe, sizeof gm_device_recipe, "the script with call %u of %s giving %d", nth,
             name == NULL ? "all" : name, code);
    if (nth > 0) {
        device.fail_call(name, nth, code);
    }
    int rc = gmlake_create(0, &allocator);
    if (rc == 0) {
        run_script();
        device.fail_call(name, 0, 0);
        expect_nothing_lost();
        gmlake_destroy(allocator);
    }
    device.fail_call(name, 0, 0);
    if (!lenient) {
        gm_device_expect_empty();
    }
}

/* How often the script calls @name (NULL: anything). */
static unsigned count_calls(const char *name)
{
    static struct simcuda_call calls[CALLS_TYPES];
    uint64_t sum = 0;
    device.reset_counts();
    run_once(NULL, 0, 0);
    size_t count = device.query_calls(calls, CALLS_TYPES);
    for (size_t i = 0; i < count && i < CALLS_TYPES; i++) {
        sum += name == NULL || strcmp(calls[i].name, name) == 0 ? calls[i].calls : 0;
    }
    return (unsigned)sum;
}

static void fail_every_call(const char *name, int code, unsigned step)
{
    unsigned calls = count_calls(name);
    for (unsigned n = 1; n <= calls; n += step) {
        run_once(name, n, code);
    }
    printf("%-22s %4u calls, every %u-th made to give %d\n", name == NULL ? "any call" : name, calls, step, code);
    fflush(stdout);
}

/* From the n-th on, all further calls (as many as there can be faults) fail: the device is as good as full. */
static void refuse_many(const char *name, unsigned from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        device.fail_call(name, from + i, CUDA_ERROR_OUT_OF_MEMORY);
    }
    run_once(name, 0, 0);
}

int main(int argc, char **argv)
{
    static const char *const gives_back[] = {"cuMemUnmap", "cuMemRelease", "cuMemAddressFree", "cuEventDestroy_v2"};
    unsigned step = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    step = step == 0 ? 1 : step;
    gm_device_open(gm_device_path(), MEMORY, 300);
    for (unsigned i = 1; i < 3; i++) {
        works(device.stream_create(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    fail_every_call(NULL, CUDA_ERROR_OUT_OF_MEMORY, step);
    fail_every_call(NULL, CUDA_ERROR_UNKNOWN, 3 * step);
    for (unsigned from = 1; from < 120; from += 7) {
        refuse_many("cuMemCreate", from, 30);
        refuse_many("cuMemMap", from, 30);
    }
    gm_device_expect_no_violation();
    lenient = true;
    for (size_t i = 0; i < sizeof gives_back / sizeof gives_back[0]; i++) {
        fail_every_call(gives_back[i], CUDA_ERROR_INVALID_VALUE, 7 * step);
    }
    return 0;
}
