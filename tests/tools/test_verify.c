/*
 * test_verify.c - that --verify finds what it is for: overlapping blocks, blocks whose bytes are shared through two
 * mappings, a page twice in one block, and memory handed out before the work on it has completed.
 *
 * The device is host memory: one memfd, mapped as the test wants. Streams run late: work waits in a queue until
 * something synchronises.
 */
#include "gmtest.h"
#include "verify.h"

#include <sys/mman.h>

#define PAGE (2ull << 20)

enum { QUEUE_MAX = 4096, PAGES = 8 };

static int memory;
static char *base; /* PAGES pages of device memory, in order */

/* --- a driver that works late ------------------------------------------------------------------------------------- */

struct work {
    void *target;
    const void *source; /* NULL: a fill */
    size_t bytes;
    uint32_t word;
    size_t width;
};

static struct work queue[QUEUE_MAX];
static size_t queued;

static void run_queue(void)
{
    for (size_t i = 0; i < queued; i++) {
        const struct work *work = &queue[i];
        if (work->source != NULL) {
            memcpy(work->target, work->source, work->bytes);
            continue;
        }
        for (size_t at = 0; at < work->bytes; at += work->width) {
            memcpy((char *)work->target + at, &work->word, work->width);
        }
    }
    queued = 0;
}

/* Stream 2 does not wait: what it is given happens at once, before what the others still have to do. */
static CUresult submit(struct work work, CUstream stream)
{
    if (stream == (CUstream)2) {
        struct work kept[QUEUE_MAX];
        size_t count = queued;
        memcpy(kept, queue, count * sizeof kept[0]);
        queue[0] = work;
        queued = 1;
        run_queue();
        memcpy(queue, kept, count * sizeof kept[0]);
        queued = count;
        return CUDA_SUCCESS;
    }
    assert_true(queued < QUEUE_MAX);
    queue[queued++] = work;
    return CUDA_SUCCESS;
}

static void *at(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUresult CUDAAPI fill_words(CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
    return submit((struct work){at(address), NULL, count * 4, value, 4}, stream);
}

static CUresult CUDAAPI fill_bytes(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
    return submit((struct work){at(address), NULL, count, value, 1}, stream);
}

static CUresult CUDAAPI copy_out(void *host, CUdeviceptr address, size_t bytes, CUstream stream)
{
    return submit((struct work){host, at(address), bytes, 0, 1}, stream);
}

static CUresult CUDAAPI synchronize(void)
{
    run_queue();
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI create_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)1;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI record_event(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return synchronize();
}

static CUresult CUDAAPI destroy_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static const struct gm_driver driver = {
    .memset_d32_async = fill_words,
    .memset_d8_async = fill_bytes,
    .copy_to_host_async = copy_out,
    .context_synchronize = synchronize,
    .event_create = create_event,
    .event_record = record_event,
    .stream_wait_event = wait_event,
    .event_destroy = destroy_event,
};

/* --- a door that hands out what the test says --------------------------------------------------------------------- */

static uint64_t next_address;

static int give(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t *address)
{
    (void)door, (void)op, (void)stream;
    *address = next_address;
    return 0;
}

static int take(struct gm_door *door, const struct gm_trace_op *op, CUstream stream, uint64_t address)
{
    (void)door, (void)op, (void)stream, (void)address;
    return 0;
}

static struct gm_door inner = {give, take};
static struct gm_door *verify;

static void allocate(uint32_t block, uint64_t bytes, CUstream stream, const void *where)
{
    struct gm_trace_op op = {.bytes = bytes, .block = block};
    uint64_t address = 0;
    next_address = (uint64_t)(uintptr_t)where;
    assert_ok(verify->alloc(verify, &op, stream, &address));
    assert_true(address == next_address);
}

static void release(uint32_t block, uint64_t bytes, CUstream stream, const void *where)
{
    struct gm_trace_op op = {.bytes = bytes, .block = block, .frees = true};
    assert_ok(verify->free(verify, &op, stream, (uint64_t)(uintptr_t)where));
}

/* A second mapping of the page @number, alone or at @where. */
static char *alias(void *where, size_t number)
{
    int fixed = where != NULL ? MAP_FIXED : 0;
    char *address = mmap(where, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, memory, (off_t)(number * PAGE));
    assert_true(address != MAP_FAILED);
    return address;
}

static int set_up(void **state)
{
    (void)state;
    const struct gm_trace trace = {.blocks = 16};
    memory = memfd_create("device", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, (off_t)(PAGES * PAGE)), 0);
    char *room = mmap(NULL, (PAGES + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base = (char *)(((uintptr_t)room + PAGE - 1) / PAGE * PAGE);
    for (size_t i = 0; i < PAGES; i++) {
        alias(base + i * PAGE, i);
    }
    queued = 0;
    return gm_verify_open(&trace, &driver, &inner, &verify);
}

static int tear_down(void **state)
{
    (void)state;
    gm_verify_close(verify);
    munmap(base, PAGES * PAGE);
    close(memory);
    return 0;
}

static void honest_memory_passes(void **state)
{
    (void)state;
    allocate(0, 5 * PAGE / 2 + 3, NULL, base);
    allocate(1, 1, NULL, base + 3 * PAGE);
    allocate(2, 515, (CUstream)1, base + 3 * PAGE + 512);
    release(0, 5 * PAGE / 2 + 3, NULL, base);
    allocate(3, 2 * PAGE, NULL, base + PAGE);
    release(2, 515, NULL, base + 3 * PAGE + 512);
    release(3, 2 * PAGE, NULL, base + PAGE);
    release(1, 1, NULL, base + 3 * PAGE);
    assert_int_equal(gm_verify_errors(verify), 0);
}

static void overlapping_addresses_are_found(void **state)
{
    (void)state;
    allocate(0, 4096, NULL, base);
    allocate(1, 4096, NULL, base + 3584);
    assert_int_equal(gm_verify_errors(verify), 1);
}

static void bad_alignment_is_found(void **state)
{
    (void)state;
    allocate(0, 64, NULL, base + 256);
    assert_int_equal(gm_verify_errors(verify), 1);
}

static void bytes_shared_through_two_mappings_are_found(void **state)
{
    (void)state;
    char *second = alias(NULL, 1);
    allocate(0, 2 * PAGE, NULL, base);
    allocate(1, 512, NULL, second + 4096);
    release(0, 2 * PAGE, NULL, base);
    assert_int_equal(gm_verify_errors(verify), 1);
    munmap(second, PAGE);
}

static void a_page_twice_in_one_block_is_found(void **state)
{
    (void)state;
    alias(base + 2 * PAGE, 0);
    allocate(0, 3 * PAGE, NULL, base);
    release(0, 3 * PAGE, NULL, base);
    assert_int_equal(gm_verify_errors(verify), 1);
}

static void memory_still_in_use_by_another_stream_is_found(void **state)
{
    (void)state;
    allocate(0, 4096, NULL, base);
    release(0, 4096, NULL, base);
    /* Stream 2 gets the block although stream 0 has not come to its last use of it. */
    allocate(1, 4096, (CUstream)2, base);
    run_queue();
    release(1, 4096, (CUstream)2, base);
    assert_int_equal(gm_verify_errors(verify), 1);
}

static void more_than_the_buffer_holds_is_checked(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        allocate(i, PAGES * PAGE, NULL, base);
        if (i == 5) {
            run_queue();
            base[3 * PAGE + 17] ^= 1;
        }
        release(i, PAGES * PAGE, NULL, base);
    }
    assert_int_equal(gm_verify_errors(verify), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(honest_memory_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(overlapping_addresses_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_alignment_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_shared_through_two_mappings_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_twice_in_one_block_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_still_in_use_by_another_stream_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_the_buffer_holds_is_checked, set_up, tear_down),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
