/*
 * test_trace_writer.c - events of a process become a trace that the reader takes, whatever the events are.
 */
#include "gmtest.h"
#include "trace.h"
#include "trace_writer.h"

#include <fcntl.h>

static const char *path_for(const char *suffix)
{
    static char path[128];
    snprintf(path, sizeof path, "/tmp/gmlake-test-writer-%d%s", (int)getpid(), suffix);
    return path;
}

static struct gmlake_ctl_event event(uint32_t kind, uint64_t us, uint64_t address, uint64_t bytes, uint64_t stream)
{
    return (struct gmlake_ctl_event){
        .time_ns = 7000000000u + us * 1000, .address = address, .bytes = bytes, .stream = stream, .kind = kind};
}

#define ALLOC(...)     event(GMLAKE_CTL_EVENT_ALLOC, __VA_ARGS__)
#define FREE(...)      event(GMLAKE_CTL_EVENT_FREE, __VA_ARGS__)
#define FREE_SYNC(...) event(GMLAKE_CTL_EVENT_FREE_SYNC, __VA_ARGS__)

/* What the plain file says. */
static const char *written(const struct gmlake_ctl_event *events, size_t count, int device,
                           struct gm_trace_counts *counts)
{
    static char text[4096];
    struct gm_trace_writer *writer;
    const char *path = path_for(".txt");
    assert_ok(gm_trace_writer_open(path, device, &writer));
    assert_ok(gm_trace_writer_add(writer, events, count));
    assert_ok(gm_trace_writer_close(writer, counts));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    assert_true(length >= 0);
    text[length] = '\0';
    return text;
}

static void events_become_lines(void **state)
{
    (void)state;
    struct gm_trace_counts counts;
    const struct gmlake_ctl_event events[] = {
        ALLOC(0, 0x1000, 700, 0),      ALLOC(5, 0x2000, 800, 0xabc), FREE(9, 0x1000, 0, 0),
        ALLOC(12, 0x1000, 900, 0xdef), FREE_SYNC(20, 0x2000, 0, 0),  FREE(21, 0x1000, 0, 0xabc),
    };
    assert_string_equal(written(events, GM_ARRAY_LENGTH(events), -1, &counts), "a 0 700 0 0\n"
                                                                               "a 1 800 1 5\n"
                                                                               "f 0 0 9\n"
                                                                               "a 2 900 2 12\n"
                                                                               "f 1 1 20\n"
                                                                               "f 2 1 21\n");
    assert_int_equal(counts.allocs, 3);
    assert_int_equal(counts.frees, 3);
    assert_int_equal(counts.lost, 0);
    assert_int_equal(counts.unknown, 0);
}

static void what_is_missing_is_made_up_for(void **state)
{
    (void)state;
    struct gm_trace_counts counts;
    const struct gmlake_ctl_event events[] = {
        FREE(0, 0x9000, 0, 0), /* older than the trace */
        ALLOC(1, 0x1000, 10, 0),         {.kind = GMLAKE_CTL_EVENT_LOST, .bytes = 3},
        ALLOC(2, 0x1000, 20, 0), /* its free is among the lost */
        FREE(1, 0x1000, 0, 0),   /* a little late */
        FREE(3, 0x1000, 0, 0),   /* twice: its allocation is among the lost */
        {.kind = 77, .address = 0x1000}, ALLOC(4, UINT64_MAX, 1, 0),
        ALLOC(5, 0x3000, UINT64_MAX, 0),
    };
    assert_string_equal(written(events, GM_ARRAY_LENGTH(events), -1, &counts), "a 0 10 0 1\n"
                                                                               "# 3 events are missing here\n"
                                                                               "f 0 0 2\n"
                                                                               "a 1 20 0 2\n"
                                                                               "f 1 0 2\n");
    assert_int_equal(counts.lost, 3);
    assert_int_equal(counts.unknown, 2);
}

static void one_device_can_be_chosen(void **state)
{
    (void)state;
    struct gmlake_ctl_event events[] = {ALLOC(0, 0x1000, 10, 0), ALLOC(1, 0x2000, 20, 0), FREE(2, 0x1000, 0, 0)};
    events[1].device = 1;
    assert_string_equal(written(events, 3, 1, NULL), "a 0 20 0 0\n");
    assert_string_equal(written(events, 3, 0, NULL), "a 0 10 0 0\nf 0 0 2\n");
}

/* Any bytes for events: the reader takes what comes of them. */
static void the_reader_takes_what_is_written(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static struct gmlake_ctl_event events[COUNT];
    struct gm_trace_writer *writer;
    struct gm_trace trace;
    struct gm_trace_error error;
    struct gm_trace_counts counts;
    unsigned seed = 1;
    for (size_t i = 0; i < COUNT; i++) {
        seed = seed * 1103515245u + 12345u;
        events[i] = event(seed >> 16 & 3, seed >> 8 & 0xffff, (seed >> 12 & 255) << 9, seed >> 4 & 0xfffff, seed >> 20);
        events[i].device = seed >> 30;
    }
    const char *path = path_for(".gz");
    assert_ok(gm_trace_writer_open(path, -1, &writer));
    assert_ok(gm_trace_writer_add(writer, events, COUNT));
    assert_ok(gm_trace_writer_close(writer, &counts));
    int rc = gm_trace_read(path, &trace, &error);
    unlink(path);
    if (rc < 0) {
        fail_msg("line %zu: %s", error.line, error.reason);
    }
    assert_int_equal(trace.blocks, counts.allocs);
    assert_int_equal(trace.op_count, counts.allocs + counts.frees);
    assert_true(trace.blocks > 1000);
    gm_trace_finish(&trace);
}

static void a_file_that_cannot_be_made(void **state)
{
    (void)state;
    struct gm_trace_writer *writer;
    assert_error(gm_trace_writer_open("/nowhere/at/all.gz", -1, &writer), ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_become_lines),        cmocka_unit_test(what_is_missing_is_made_up_for),
        cmocka_unit_test(one_device_can_be_chosen),   cmocka_unit_test(the_reader_takes_what_is_written),
        cmocka_unit_test(a_file_that_cannot_be_made),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
