/*
 * fuzz_trace.c - the trace reader on any bytes: either a trace that keeps its invariant, or a reason. Plain text and,
 * where the bytes start like it, gzip.
 */
#include "fuzz.h"
#include "trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_trace(const struct gm_trace *trace)
{
    bool *allocated = calloc(trace->blocks, sizeof *allocated);
    bool *freed = calloc(trace->blocks, sizeof *freed);
    FUZZ_EXPECT(allocated != NULL && freed != NULL);
    uint64_t live = 0;
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct gm_trace_op *op = &trace->ops[i];
        FUZZ_EXPECT(op->block < trace->blocks && op->stream < trace->streams);
        FUZZ_EXPECT(i == 0 || op->time_ns >= trace->ops[i - 1].time_ns);
        FUZZ_EXPECT(allocated[op->block] == op->frees && !freed[op->block]);
        (op->frees ? freed : allocated)[op->block] = true;
        live = op->frees ? live - op->bytes : live + op->bytes;
        FUZZ_EXPECT(live <= trace->peak_bytes);
    }
    for (size_t i = 0; i < trace->mark_count; i++) {
        FUZZ_EXPECT(trace->marks[i] <= trace->op_count && (i == 0 || trace->marks[i] >= trace->marks[i - 1]));
    }
    free(allocated);
    free(freed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_trace trace;
    struct gm_trace_error error = {.line = 0, .reason = ""};
    int fd = memfd_create("trace", MFD_CLOEXEC);
    FUZZ_EXPECT(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    int rc = gm_trace_read_fd(fd, &trace, &error);
    close(fd);
    if (rc == 0) {
        FUZZ_EXPECT(trace.op_count > 0);
        check_trace(&trace);
        gm_trace_scale(&trace, 0.75);
        check_trace(&trace);
        gm_trace_finish(&trace);
        return 0;
    }
    FUZZ_EXPECT(rc == -EINVAL);
    FUZZ_EXPECT(error.reason[0] != '\0' && memchr(error.reason, '\0', sizeof error.reason) != NULL);
    return 0;
}
