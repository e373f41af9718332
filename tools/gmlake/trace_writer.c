/*
 * trace_writer.c - see trace_writer.h.
 */
#include "trace_writer.h"

#include "id_map.h"
#include "trace.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#define BUFFER (256u << 10)

/* In place of a block's number: there is none at the address now. */
#define FREE_ADDRESS UINT32_MAX

/* Invariant: every number in @blocks but FREE_ADDRESS is below counts.allocs, and stream_of[] has its stream. */
struct gm_trace_writer {
    gzFile file;
    int device;
    bool begun;
    uint64_t start_ns;
    uint64_t last_us;
    struct gm_id_map blocks;  /* address to number */
    struct gm_id_map streams; /* handle to number */
    uint16_t *stream_of;      /* of each block ever allocated */
    size_t room;
    struct gm_trace_counts counts;
};

int gm_trace_writer_open(const char *path, int device, struct gm_trace_writer **out)
{
    size_t length = strlen(path);
    bool compressed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    struct gm_trace_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return -ENOMEM;
    }
    writer->device = device;
    errno = 0;
    writer->file = gzopen(path, compressed ? "wb6e" : "wbTe");
    if (writer->file == NULL) {
        int error = errno != 0 ? errno : ENOMEM;
        free(writer);
        return -error;
    }
    gzbuffer(writer->file, BUFFER);
    *out = writer;
    return 0;
}

/* Microseconds since the first event; events of several threads are only nearly in order. */
static uint64_t time_of(struct gm_trace_writer *writer, const struct gmlake_ctl_event *event)
{
    if (!writer->begun) {
        writer->begun = true;
        writer->start_ns = event->time_ns;
    }
    uint64_t us = event->time_ns > writer->start_ns ? (event->time_ns - writer->start_ns) / 1000 : 0;
    writer->last_us = us > writer->last_us && us <= GM_TRACE_US_MAX ? us : writer->last_us;
    return writer->last_us;
}

/* Streams beyond what a trace may have share the last number. */
static int stream_number(struct gm_trace_writer *writer, uint64_t handle, uint16_t *out)
{
    uint32_t number = 0;
    if (handle != 0 && !gm_id_map_find(&writer->streams, handle, &number)) {
        size_t next = writer->streams.used + 1;
        number = next < GM_TRACE_STREAMS_MAX ? (uint32_t)next : GM_TRACE_STREAMS_MAX - 1;
        int rc = gm_id_map_insert(&writer->streams, handle, number);
        if (rc < 0) {
            return rc;
        }
    }
    *out = (uint16_t)number;
    return 0;
}

/* What has become of a line that gzprintf() gave @length for. */
static int written(const struct gm_trace_writer *writer, int length)
{
    int error = errno;
    int code;
    if (length > 0) {
        return 0;
    }
    (void)gzerror(writer->file, &code);
    return code == Z_ERRNO && error != 0 ? -error : -EIO;
}

static int write_free(struct gm_trace_writer *writer, uint32_t block, uint16_t stream, uint64_t us)
{
    writer->counts.frees++;
    return written(writer, gzprintf(writer->file, "f %" PRIu32 " %u %" PRIu64 "\n", block, stream, us));
}

/* The slot of @address, made if it is new. */
static int slot_of(struct gm_trace_writer *writer, uint64_t address, struct gm_id_map_slot **out)
{
    int rc = gm_id_map_insert(&writer->blocks, address, FREE_ADDRESS);
    if (rc < 0 && rc != -EEXIST) {
        return rc;
    }
    *out = gm_id_map_slot(&writer->blocks, address);
    return 0;
}

static int note_stream(struct gm_trace_writer *writer, uint32_t block, uint16_t stream)
{
    if (block >= writer->room) {
        size_t room = writer->room == 0 ? 4096 : 2 * writer->room;
        uint16_t *grown = reallocarray(writer->stream_of, room, sizeof *grown);
        if (grown == NULL) {
            return -ENOMEM;
        }
        writer->stream_of = grown;
        writer->room = room;
    }
    writer->stream_of[block] = stream;
    return 0;
}

static int add_alloc(struct gm_trace_writer *writer, const struct gmlake_ctl_event *event, uint16_t stream, uint64_t us)
{
    struct gm_id_map_slot *slot;
    uint32_t block = (uint32_t)writer->counts.allocs;
    int rc = block == FREE_ADDRESS ? -ENOMEM : slot_of(writer, event->address, &slot);
    if (rc == 0) {
        rc = note_stream(writer, block, stream);
    }
    if (rc == 0 && slot->value != FREE_ADDRESS) {
        rc = write_free(writer, slot->value, writer->stream_of[slot->value], us);
    }
    if (rc < 0) {
        return rc;
    }
    slot->value = block;
    writer->counts.allocs++;
    return written(
        writer, gzprintf(writer->file, "a %" PRIu32 " %" PRIu64 " %u %" PRIu64 "\n", block, event->bytes, stream, us));
}

static int add_free(struct gm_trace_writer *writer, const struct gmlake_ctl_event *event, uint16_t stream, uint64_t us)
{
    uint32_t block;
    if (!gm_id_map_find(&writer->blocks, event->address, &block) || block == FREE_ADDRESS) {
        writer->counts.unknown++;
        return 0;
    }
    gm_id_map_slot(&writer->blocks, event->address)->value = FREE_ADDRESS;
    if (event->kind == GMLAKE_CTL_EVENT_FREE_SYNC) {
        stream = writer->stream_of[block]; /* no stream was named: the one that had it */
    }
    return write_free(writer, block, stream, us);
}

static int add_event(struct gm_trace_writer *writer, const struct gmlake_ctl_event *event)
{
    if (event->kind == GMLAKE_CTL_EVENT_LOST) {
        writer->counts.lost += event->bytes;
        return written(writer, gzprintf(writer->file, "# %" PRIu64 " events are missing here\n", event->bytes));
    }
    bool known = event->kind >= GMLAKE_CTL_EVENT_ALLOC && event->kind <= GMLAKE_CTL_EVENT_FREE_SYNC;
    bool sane =
        event->address != GM_ID_MAP_EMPTY && event->stream != GM_ID_MAP_EMPTY && event->bytes <= GM_TRACE_BYTES_MAX;
    if (!known || !sane || (writer->device >= 0 && event->device != (uint32_t)writer->device)) {
        return 0;
    }
    uint16_t stream;
    uint64_t us = time_of(writer, event);
    int rc = stream_number(writer, event->stream, &stream);
    if (rc < 0) {
        return rc;
    }
    return event->kind == GMLAKE_CTL_EVENT_ALLOC ? add_alloc(writer, event, stream, us)
                                                 : add_free(writer, event, stream, us);
}

int gm_trace_writer_add(struct gm_trace_writer *writer, const struct gmlake_ctl_event *events, size_t count)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = add_event(writer, &events[i]);
    }
    return rc;
}

int gm_trace_writer_close(struct gm_trace_writer *writer, struct gm_trace_counts *counts)
{
    errno = 0;
    int rc = gzclose(writer->file) == Z_OK ? 0 : errno != 0 ? -errno : -EIO;
    if (counts != NULL) {
        *counts = writer->counts;
    }
    gm_id_map_finish(&writer->blocks);
    gm_id_map_finish(&writer->streams);
    free(writer->stream_of);
    free(writer);
    return rc;
}
