/*
 * test_trace.c - the trace reader: what a good file becomes, and every kind of bad one named by line and reason.
 */
#include "gmtest.h"
#include "trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>

/* A file in memory with the given bytes, at its start. */
static int file_of(const void *bytes, size_t length)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* The same, compressed; *out_length bytes of it are kept. */
static int gzip_of(const char *text, size_t *out_length)
{
    int fd = memfd_create("trace.gz", MFD_CLOEXEC);
    gzFile file = gzdopen(fcntl(fd, F_DUPFD_CLOEXEC, 0), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    *out_length = (size_t)lseek(fd, 0, SEEK_END);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void read_ok(const char *text, struct gm_trace *out)
{
    struct gm_trace_error error = {0};
    int fd = file_of(text, strlen(text));
    int rc = gm_trace_read_fd(fd, out, &error);
    if (rc != 0) {
        fail_msg("line %zu: %s", error.line, error.reason);
    }
    close(fd);
}

/* The bytes are refused at @line with a reason that contains @words, and the output stays untouched. */
static void refused_bytes(const void *bytes, size_t length, size_t line, const char *words)
{
    struct gm_trace_error error = {0};
    struct gm_trace trace;
    struct gm_trace before;
    memset(&trace, 0x5a, sizeof trace);
    before = trace;
    int fd = file_of(bytes, length);
    assert_error(gm_trace_read_fd(fd, &trace, &error), EINVAL);
    close(fd);
    if (error.line != line || strstr(error.reason, words) == NULL) {
        fail_msg("line %zu: %s; expected line %zu: %s", error.line, error.reason, line, words);
    }
    assert_memory_equal(&trace, &before, sizeof trace);
}

static void refused(const char *text, size_t line, const char *words)
{
    refused_bytes(text, strlen(text), line, words);
}

static void a_good_trace_is_read(void **state)
{
    (void)state;
    struct gm_trace trace;
    read_ok("# gmtrace 1\na 10 512 0 3\n\na 7 1024 2 5\ni 0\nf 10 0 9\na 11 0 0 9\r\ni 1\n  f 7\t2 12  ", &trace);
    assert_int_equal(trace.op_count, 5);
    assert_int_equal(trace.blocks, 3);
    assert_int_equal(trace.streams, 3);
    assert_int_equal(trace.mark_count, 2);
    assert_int_equal(trace.marks[0], 2);
    assert_int_equal(trace.marks[1], 4);
    assert_int_equal(trace.peak_bytes, 1536);
    const struct gm_trace_op expected[] = {
        {512, 3000, 0, 0, false}, {1024, 5000, 1, 2, false}, {512, 9000, 0, 0, true},
        {0, 9000, 2, 0, false},   {1024, 12000, 1, 2, true},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(expected); i++) {
        assert_int_equal(trace.ops[i].bytes, expected[i].bytes);
        assert_int_equal(trace.ops[i].time_ns, expected[i].time_ns);
        assert_int_equal(trace.ops[i].block, expected[i].block);
        assert_int_equal(trace.ops[i].stream, expected[i].stream);
        assert_int_equal(trace.ops[i].frees, expected[i].frees);
    }
    gm_trace_finish(&trace);
    assert_null(trace.ops);
}

static void time_never_falls(void **state)
{
    (void)state;
    struct gm_trace trace;
    read_ok("a 1 1 0 50\na 2 1 0 20\nf 1 0 60\n", &trace);
    assert_int_equal(trace.ops[0].time_ns, 50000);
    assert_int_equal(trace.ops[1].time_ns, 50000);
    assert_int_equal(trace.ops[2].time_ns, 60000);
    gm_trace_finish(&trace);
}

static void bad_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t line;
        const char *words;
    } cases[] = {
        {"", 0, "no operations"},
        {"# nothing\ni 1\n", 0, "no operations"},
        {"a 1 1 0 0\nx 1 1\n", 2, "unknown operation 'x 1 1'"},
        {"alloc 1 1 0 0\n", 1, "unknown operation"},
        {"A 1 1 0 0\n", 1, "unknown operation"},
        {"a\n", 1, "ID is missing"},
        {"a 1\n", 1, "BYTES is missing"},
        {"a 1 2\n", 1, "STREAM is missing"},
        {"a 1 2 0\n", 1, "US is missing"},
        {"a 1 2 0 0 7\n", 1, "more fields than expected: '7'"},
        {"a 1 2 0 0 # new\n", 1, "more fields than expected"},
        {"a one 2 0 0\n", 1, "ID is not a number"},
        {"a 1 -2 0 0\n", 1, "BYTES is not a number"},
        {"a 1 2.5 0 0\n", 1, "BYTES is not a number"},
        {"a 1 0x10 0 0\n", 1, "BYTES is not a number"},
        {"a 1 2 0 1e6\n", 1, "US is not a number"},
        {"a 1 140737488355329 0 0\n", 1, "BYTES is out of range"},
        {"a 1 99999999999999999999999 0 0\n", 1, "BYTES is out of range"},
        {"a 18446744073709551615 1 0 0\n", 1, "ID is out of range"},
        {"a 1 1 4096 0\n", 1, "STREAM is out of range"},
        {"a 1 1 0 1125899906842625\n", 1, "US is out of range"},
        {"a 1 1 0 0\na 1 1 0 0\n", 2, "block 1 is allocated twice"},
        {"a 1 1 0 0\nf 1 0 0\na 1 1 0 0\n", 3, "block 1 is allocated twice"},
        {"f 1 0 0\n", 1, "block 1 is freed but was never allocated"},
        {"a 1 1 0 0\nf 2 0 0\na 2 1 0 0\n", 2, "block 2 is freed but was never allocated"},
        {"a 1 1 0 0\nf 1 0 0\nf 1 0 0\n", 3, "block 1 is freed twice"},
        {"a 1 1 0 0\nf\n", 2, "ID is missing"},
        {"a 1 1 0 0\nf 1 0\n", 2, "US is missing"},
        {"a 1 1 0 0\nf 1 0 0 0\n", 2, "more fields"},
        {"a 1 1 0 0\ni\n", 2, "N is missing"},
        {"a 1 1 0 0\ni one\n", 2, "N is not a number"},
        {"a 1 1 0 0\ni 1 2\n", 2, "more fields"},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        refused(cases[i].text, cases[i].line, cases[i].words);
    }
}

static void limits_are_inclusive(void **state)
{
    (void)state;
    struct gm_trace trace;
    read_ok("a 18446744073709551614 140737488355328 4095 1125899906842624\n", &trace);
    assert_int_equal(trace.streams, 4096);
    assert_int_equal(trace.peak_bytes, GM_TRACE_BYTES_MAX);
    gm_trace_finish(&trace);
}

/* @head, padded with @filler to @length, and @tail. */
static char *long_text(const char *head, char filler, size_t length, const char *tail)
{
    char *text = NULL;
    char padding[1024];
    memset(padding, filler, sizeof padding);
    assert_true(asprintf(&text, "%s%.*s%s", head, (int)(length - strlen(head)), padding, tail) > 0);
    return text;
}

static void long_lines_are_refused_unless_comments(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        char filler;
        const char *tail;
        size_t line;
        const char *words;
    } cases[] = {
        {"a 1 1 0 0", ' ', "\n", 1, "longer than"},
        {"a 1 1 0 0", ' ', "", 1, "longer than"},
        {"#", 'c', "\na 1 1 0 0\nq\n", 3, "unknown operation 'q'"},
        {"#", 'c', "", 0, "no operations"},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        char *text = long_text(cases[i].head, cases[i].filler, 1000, cases[i].tail);
        refused(text, cases[i].line, cases[i].words);
        free(text);
    }
    for (size_t length = 250; length < 260; length++) {
        struct gm_trace trace;
        char *text = long_text("#", 'c', length, "\na 1 1 0 0\n");
        read_ok(text, &trace);
        assert_int_equal(trace.op_count, 1);
        gm_trace_finish(&trace);
        free(text);
    }
}

static void nul_bytes_hide_nothing(void **state)
{
    (void)state;
    static const char inside[] = "a 1 1 0 0\na 2 1 0\0 0\n";
    refused_bytes(inside, sizeof inside - 1, 2, "NUL");
    static const char last[] = "a 1 1 0 0\n#\0\0\0";
    refused_bytes(last, sizeof last - 1, 2, "NUL");
    static const char first[] = "\0a 1 1 0 0\n";
    refused_bytes(first, sizeof first - 1, 1, "NUL");
}

static void more_live_bytes_than_64_bits_are_refused(void **state)
{
    (void)state;
    /* 2^17 blocks of 2^47 bytes are 2^64. */
    size_t room = 40 * (1u << 17) + 64;
    char *text = malloc(room);
    size_t length = 0;
    for (unsigned i = 0; i <= 1u << 17; i++) {
        length += (size_t)snprintf(text + length, room - length, "a %u 140737488355328 0 0\n", i);
    }
    refused_bytes(text, length, 1u << 17, "exceed 64 bits");
    free(text);
}

static void gzip_is_read(void **state)
{
    (void)state;
    size_t length;
    struct gm_trace trace;
    struct gm_trace_error error;
    int fd = gzip_of("a 1 4096 0 1\nf 1 0 2\n", &length);
    assert_ok(gm_trace_read_fd(fd, &trace, &error));
    assert_int_equal(trace.op_count, 2);
    gm_trace_finish(&trace);
    close(fd);
}

static void truncated_gzip_is_refused_at_every_length(void **state)
{
    (void)state;
    char text[4000];
    size_t filled = 0;
    unsigned lines = 0;
    for (; filled < sizeof text - 64; lines++) {
        filled +=
            (size_t)snprintf(text + filled, sizeof text - filled, "a %u %u 0 %u\n", lines, lines * 7919 % 5000, lines);
    }
    size_t length;
    int fd = gzip_of(text, &length);
    unsigned char *bytes = malloc(length);
    assert_int_equal(pread(fd, bytes, length, 0), (ssize_t)length);
    close(fd);
    for (size_t cut = 2; cut < length; cut++) {
        struct gm_trace trace;
        struct gm_trace_error error = {0};
        int shorter = file_of(bytes, cut);
        assert_error(gm_trace_read_fd(shorter, &trace, &error), EINVAL);
        assert_true(error.reason[0] != '\0');
        close(shorter);
    }
    refused_bytes(bytes, length - 1, lines + 1, "truncated");
    free(bytes);
}

static void damaged_gzip_is_refused(void **state)
{
    (void)state;
    size_t length;
    int fd = gzip_of("a 1 4096 0 1\nf 1 0 2\n", &length);
    unsigned char bytes[256];
    assert_true(length < sizeof bytes);
    assert_int_equal(pread(fd, bytes, length, 0), (ssize_t)length);
    close(fd);
    bytes[length - 6] ^= 0x40; /* the checksum */
    refused_bytes(bytes, length, 1, "damaged: incorrect data check");
}

static void files_that_cannot_be_read_say_why(void **state)
{
    (void)state;
    struct gm_trace trace;
    struct gm_trace_error error;
    assert_error(gm_trace_read("/nonexistent/trace.gz", &trace, &error), EIO);
    assert_non_null(strstr(error.reason, "No such file"));
    assert_error(gm_trace_read("/", &trace, &error), EIO);
    assert_non_null(strstr(error.reason, "directory"));
    assert_int_equal(error.line, 0);
}

static void scaling_keeps_zero_and_never_reaches_it(void **state)
{
    (void)state;
    struct gm_trace trace;
    read_ok("a 1 1000 0 0\na 2 1 0 0\na 3 0 0 0\nf 1 0 0\n", &trace);
    gm_trace_scale(&trace, 0.0015);
    assert_int_equal(trace.ops[0].bytes, 2);
    assert_int_equal(trace.ops[1].bytes, 1);
    assert_int_equal(trace.ops[2].bytes, 0);
    assert_int_equal(trace.ops[3].bytes, 2);
    assert_int_equal(trace.peak_bytes, 3);
    gm_trace_finish(&trace);
}

static void the_peak_without_refused_blocks(void **state)
{
    (void)state;
    struct gm_trace trace;
    read_ok("a 1 100 0 0\na 2 1000 0 0\nf 2 0 0\na 3 50 0 0\n", &trace);
    const bool without[] = {false, true, false};
    assert_int_equal(gm_trace_peak(&trace, NULL), 1100);
    assert_int_equal(gm_trace_peak(&trace, without), 150);
    gm_trace_finish(&trace);
}

static void the_traces_of_the_repository_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t ops;
        size_t iterations;
    } cases[] = {{"opt-1.3b-LR.gz", 58473, 7}, {"unet.gz", 33626, 31}};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        char path[4096];
        struct gm_trace trace;
        struct gm_trace_error error;
        snprintf(path, sizeof path, "%s/tests/data/%s", gm_test_setting("GMLAKE_TEST_SOURCE_DIR"), cases[i].name);
        assert_ok(gm_trace_read(path, &trace, &error));
        assert_int_equal(trace.op_count, cases[i].ops);
        assert_int_equal(trace.mark_count, cases[i].iterations);
        gm_trace_finish(&trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_trace_is_read),
        cmocka_unit_test(time_never_falls),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(limits_are_inclusive),
        cmocka_unit_test(long_lines_are_refused_unless_comments),
        cmocka_unit_test(nul_bytes_hide_nothing),
        cmocka_unit_test(more_live_bytes_than_64_bits_are_refused),
        cmocka_unit_test(gzip_is_read),
        cmocka_unit_test(truncated_gzip_is_refused_at_every_length),
        cmocka_unit_test(damaged_gzip_is_refused),
        cmocka_unit_test(files_that_cannot_be_read_say_why),
        cmocka_unit_test(scaling_keeps_zero_and_never_reaches_it),
        cmocka_unit_test(the_peak_without_refused_blocks),
        cmocka_unit_test(the_traces_of_the_repository_are_read),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
