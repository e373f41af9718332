/*
 * trace.c - reads and checks a trace.
 *
 * STRUCTURE    A reader pulls lines out of zlib, which reads plain text as well; each line is parsed strictly and
 *              appended. An open-addressing table turns the file's IDs into block indices.
 */
#include "trace.h"

#include "id_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { LINE_MAX_BYTES = 256, READ_BUFFER = 1 << 17 };

/* Invariant: ids holds every block of @trace; freed[block] says whether its free has been seen. */
struct reader {
    gzFile file;
    struct gm_trace trace;
    struct gm_trace_error *error;
    struct gm_id_map ids;
    uint64_t *block_bytes; /* by block */
    bool *freed;           /* by block */
    size_t line;
    size_t op_room, mark_room, block_room;
    uint64_t latest_ns;
    uint64_t live_bytes;
};

static int fail(struct reader *reader, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct reader *reader, int rc, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    reader->error->line = reader->line;
    vsnprintf(reader->error->reason, sizeof reader->error->reason, format, arguments);
    va_end(arguments);
    return rc;
}

/* Makes room for one more element of @size bytes in *array, which holds @count and has room for *room. */
static int make_room(struct reader *reader, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room) {
        return 0;
    }
    size_t wanted = *room == 0 ? 1024 : *room * 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *bigger = reallocarray(old, wanted, size);
    if (bigger == NULL) {
        return fail(reader, -ENOMEM, "out of memory after %zu operations", reader->trace.op_count);
    }
    memcpy(array, &bigger, sizeof bigger);
    *room = wanted;
    return 0;
}

static int add_op(struct reader *reader, struct gm_trace_op op)
{
    int rc = make_room(reader, &reader->trace.ops, reader->trace.op_count, &reader->op_room, sizeof op);
    if (rc == 0) {
        reader->trace.ops[reader->trace.op_count++] = op;
    }
    return rc;
}

/* The next number of a line: blanks, digits, then a blank or the end. Gives the name of what is wrong, or NULL. */
static const char *take_number(const char **cursor, uint64_t maximum, uint64_t *out)
{
    const char *c = *cursor;
    while (*c == ' ' || *c == '\t') {
        c++;
    }
    if (*c == '\0') {
        return "is missing";
    }
    uint64_t value = 0;
    const char *start = c;
    bool overflow = false;
    for (; *c >= '0' && *c <= '9'; c++) {
        overflow |= __builtin_mul_overflow(value, (uint64_t)10, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value);
    }
    if (c == start || (*c != '\0' && *c != ' ' && *c != '\t')) {
        return "is not a number";
    }
    if (overflow || value > maximum) {
        return "is out of range";
    }
    *cursor = c;
    *out = value;
    return NULL;
}

/* One field of a line: its name for the message and the largest value allowed. */
struct field {
    const char *name;
    uint64_t maximum;
};

static int take_fields(struct reader *reader, const char *cursor, const struct field *fields, size_t count,
                       uint64_t *values)
{
    for (size_t i = 0; i < count; i++) {
        const char *trouble = take_number(&cursor, fields[i].maximum, &values[i]);
        if (trouble != NULL) {
            return fail(reader, -EINVAL, "%s %s", fields[i].name, trouble);
        }
    }
    cursor += strspn(cursor, " \t");
    return *cursor == '\0' ? 0 : fail(reader, -EINVAL, "more fields than expected: '%.40s'", cursor);
}

static const struct field id_field = {"ID", UINT64_MAX - 1};
static const struct field bytes_field = {"BYTES", GM_TRACE_BYTES_MAX};
static const struct field stream_field = {"STREAM", GM_TRACE_STREAMS_MAX - 1};
static const struct field time_field = {"US", GM_TRACE_US_MAX};
static const struct field number_field = {"N", UINT64_MAX};

static uint64_t take_time(struct reader *reader, uint64_t us)
{
    uint64_t ns = us * 1000;
    if (ns > reader->latest_ns) {
        reader->latest_ns = ns;
    }
    return reader->latest_ns;
}

static void saw_stream(struct reader *reader, uint64_t stream)
{
    if (stream >= reader->trace.streams) {
        reader->trace.streams = (uint32_t)stream + 1;
    }
}

static int add_block(struct reader *reader, uint64_t id, uint64_t bytes, uint32_t *out)
{
    uint32_t block = reader->trace.blocks;
    if (block == UINT32_MAX) {
        return fail(reader, -EINVAL, "more than %u blocks", UINT32_MAX - 1);
    }
    size_t room = reader->block_room;
    int rc = make_room(reader, &reader->block_bytes, block, &room, sizeof *reader->block_bytes);
    if (rc == 0) {
        rc = make_room(reader, &reader->freed, block, &reader->block_room, sizeof *reader->freed);
    }
    if (rc < 0) {
        return rc;
    }
    rc = gm_id_map_insert(&reader->ids, id, block);
    if (rc == -EEXIST) {
        return fail(reader, -EINVAL, "block %llu is allocated twice", (unsigned long long)id);
    }
    if (rc < 0) {
        return fail(reader, rc, "out of memory after %u blocks", block);
    }
    reader->block_bytes[block] = bytes;
    reader->freed[block] = false;
    reader->trace.blocks++;
    *out = block;
    return 0;
}

static int take_alloc(struct reader *reader, const char *rest)
{
    const struct field fields[] = {id_field, bytes_field, stream_field, time_field};
    uint64_t value[4];
    int rc = take_fields(reader, rest, fields, 4, value);
    if (rc < 0) {
        return rc;
    }
    uint32_t block = 0;
    rc = add_block(reader, value[0], value[1], &block);
    if (rc < 0) {
        return rc;
    }
    if (__builtin_add_overflow(reader->live_bytes, value[1], &reader->live_bytes)) {
        return fail(reader, -EINVAL, "the live blocks together exceed 64 bits");
    }
    saw_stream(reader, value[2]);
    return add_op(reader,
                  (struct gm_trace_op){value[1], take_time(reader, value[3]), block, (uint16_t)value[2], false});
}

static int take_free(struct reader *reader, const char *rest)
{
    const struct field fields[] = {id_field, stream_field, time_field};
    uint64_t value[3];
    int rc = take_fields(reader, rest, fields, 3, value);
    if (rc < 0) {
        return rc;
    }
    uint32_t block = 0;
    if (!gm_id_map_find(&reader->ids, value[0], &block)) {
        return fail(reader, -EINVAL, "block %llu is freed but was never allocated", (unsigned long long)value[0]);
    }
    if (reader->freed[block]) {
        return fail(reader, -EINVAL, "block %llu is freed twice", (unsigned long long)value[0]);
    }
    reader->freed[block] = true;
    uint64_t bytes = reader->block_bytes[block];
    reader->live_bytes -= bytes;
    saw_stream(reader, value[1]);
    return add_op(reader, (struct gm_trace_op){bytes, take_time(reader, value[2]), block, (uint16_t)value[1], true});
}

static int take_mark(struct reader *reader, const char *rest)
{
    uint64_t number;
    int rc = take_fields(reader, rest, &number_field, 1, &number);
    if (rc < 0) {
        return rc;
    }
    rc = make_room(reader, &reader->trace.marks, reader->trace.mark_count, &reader->mark_room, sizeof(size_t));
    if (rc == 0) {
        reader->trace.marks[reader->trace.mark_count++] = reader->trace.op_count;
    }
    return rc;
}

static int take_line(struct reader *reader, const char *line)
{
    line += strspn(line, " \t");
    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    bool separated = line[1] == ' ' || line[1] == '\t' || line[1] == '\0';
    if (separated && line[0] == 'a') {
        return take_alloc(reader, line + 1);
    }
    if (separated && line[0] == 'f') {
        return take_free(reader, line + 1);
    }
    if (separated && line[0] == 'i') {
        return take_mark(reader, line + 1);
    }
    char shown[24];
    size_t length = 0;
    for (; length < sizeof shown - 1 && line[length] != '\0'; length++) {
        shown[length] = line[length];
        if (line[length] < 0x20 || line[length] >= 0x7f) {
            shown[length] = '?';
        }
    }
    shown[length] = '\0';
    return fail(reader, -EINVAL, "unknown operation '%s'; a line starts with a, f, i or #", shown);
}

/* What zlib says where the lines end: truncated and damaged files are found here. */
static int check_end(struct reader *reader)
{
    int code;
    const char *words = gzerror(reader->file, &code);
    switch (code) {
    case Z_OK:
    case Z_STREAM_END:
        return 0;
    case Z_BUF_ERROR:
        return fail(reader, -EINVAL, "the gzip data ends too early: the file is truncated");
    case Z_ERRNO:
        return fail(reader, -EIO, "cannot be read: %s", strerror(errno));
    default:
        words = strrchr(words, ':') != NULL ? strrchr(words, ':') + 2 : words; /* zlib names the file in front */
        return fail(reader, -EINVAL, "the gzip data is damaged: %s", words);
    }
}

static void skip_to_newline(struct reader *reader)
{
    int c = 0;
    while (c != -1 && c != '\n') {
        c = gzgetc(reader->file);
    }
}

/*
 * Looks at the line that gzgets() left in @line, which was filled with ones before: sets *length to that of its text.
 * A comment that does not fit is read to its end.
 */
static int measure_line(struct reader *reader, const char line[LINE_MAX_BYTES], size_t *length)
{
    const char *newline = memchr(line, '\n', LINE_MAX_BYTES);
    /* The terminator is the last NUL: one of the file's own hides nothing. */
    const char *end = newline != NULL ? newline : memrchr(line, '\0', LINE_MAX_BYTES);
    *length = (size_t)(end - line);
    if (newline == NULL && *length == LINE_MAX_BYTES - 1) {
        if (line[0] != '#') {
            return fail(reader, -EINVAL, "the line is longer than %d bytes", LINE_MAX_BYTES - 2);
        }
        skip_to_newline(reader);
        return 0;
    }
    if (memchr(line, '\0', *length) != NULL) {
        return fail(reader, -EINVAL, "the line contains a NUL byte");
    }
    /* A last line without newline may be one that is cut off. */
    return newline == NULL ? check_end(reader) : 0;
}

static int take_lines(struct reader *reader)
{
    char line[LINE_MAX_BYTES];
    memset(line, 1, sizeof line);
    while (gzgets(reader->file, line, sizeof line) != NULL) {
        size_t length;
        reader->line++;
        int rc = measure_line(reader, line, &length);
        if (rc < 0) {
            return rc;
        }
        if (length > 0 && line[length - 1] == '\r') {
            length--;
        }
        line[length] = '\0';
        rc = take_line(reader, line);
        if (rc < 0) {
            return rc;
        }
        memset(line, 1, sizeof line);
    }
    reader->line++; /* what is missing comes after the last line seen */
    return check_end(reader);
}

static int read_all(struct reader *reader)
{
    int rc = take_lines(reader);
    if (rc < 0) {
        return rc;
    }
    reader->line = 0;
    if (reader->trace.op_count == 0) {
        return fail(reader, -EINVAL, "the trace has no operations");
    }
    reader->trace.peak_bytes = gm_trace_peak(&reader->trace, NULL);
    return 0;
}

int gm_trace_read_fd(int fd, struct gm_trace *out, struct gm_trace_error *error)
{
    struct reader reader = {.error = error};
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        return fail(&reader, -EIO, "is a directory");
    }
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    reader.file = copy < 0 ? NULL : gzdopen(copy, "rb");
    if (reader.file == NULL) {
        int rc = fail(&reader, -EIO, "cannot be opened: %s", strerror(errno));
        if (copy >= 0) {
            close(copy);
        }
        return rc;
    }
    gzbuffer(reader.file, READ_BUFFER);
    int rc = read_all(&reader);
    gzclose(reader.file);
    gm_id_map_finish(&reader.ids);
    free(reader.block_bytes);
    free(reader.freed);
    if (rc < 0) {
        gm_trace_finish(&reader.trace);
        return rc;
    }
    *out = reader.trace;
    return 0;
}

int gm_trace_read(const char *path, struct gm_trace *out, struct gm_trace_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        struct reader reader = {.error = error};
        return fail(&reader, -EIO, "cannot be opened: %s", strerror(errno));
    }
    int rc = gm_trace_read_fd(fd, out, error);
    close(fd);
    return rc;
}

void gm_trace_scale(struct gm_trace *trace, double factor)
{
    for (size_t i = 0; i < trace->op_count; i++) {
        uint64_t bytes = trace->ops[i].bytes;
        if (bytes != 0) {
            uint64_t scaled = (uint64_t)((double)bytes * factor + 0.5);
            trace->ops[i].bytes = scaled == 0 ? 1 : scaled;
        }
    }
    trace->peak_bytes = gm_trace_peak(trace, NULL);
}

uint64_t gm_trace_peak(const struct gm_trace *trace, const bool *without)
{
    uint64_t live = 0;
    uint64_t peak = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct gm_trace_op *op = &trace->ops[i];
        if (without != NULL && without[op->block]) {
            continue;
        }
        live = op->frees ? live - op->bytes : live + op->bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

void gm_trace_finish(struct gm_trace *trace)
{
    free(trace->ops);
    free(trace->marks);
    *trace = (struct gm_trace){0};
}
