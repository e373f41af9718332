/*
 * ask.c - see ask.h.
 */
#include "ask.h"

#include "parse.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static bool is_gone(const struct gm_view *view)
{
    return atomic_load(&view->process->gone);
}

/* What a process may say went wrong; anything else is no business of whoever asked. */
static int sane_error(int error)
{
    switch (error) {
    case 0:
    case -EAGAIN:
    case -ESRCH:
    case -ENOMEM:
    case -EOPNOTSUPP:
    case -ENODEV:
        return error;
    default:
        return -EIO;
    }
}

/* ---- current and peak ----------------------------------------------------------------------------------------- */

static uint64_t account_word(const struct gm_view *view, const _Atomic uint64_t *word, enum gm_stat row)
{
    if (gm_line_takes_requests(&view->process->line)) {
        return atomic_load_explicit(word, memory_order_relaxed);
    }
    /* A process from before there was an account: what its devices say, the sum of the peaks being an upper bound. */
    struct gm_reading reading;
    uint64_t sum[GM_STAT_COUNT] = {0};
    gm_process_read(view->process, &reading);
    for (unsigned i = 0; i < reading.snapshot.device_count; i++) {
        gm_stats_add(sum, reading.snapshot.device[i].stat);
    }
    return sum[row];
}

int gm_show_current(const struct gm_view *view, struct gm_text *out)
{
    if (is_gone(view)) {
        return -ESRCH;
    }
    const struct gmlake_ctl_account *account = &view->process->pages.stats->account;
    gm_text_add(out, "%" PRIu64 "\n", account_word(view, &account->current, GM_STAT_reserved));
    return 0;
}

int gm_show_peak(const struct gm_view *view, struct gm_text *out)
{
    struct gm_watermark *mark = view->watermark;
    const struct gmlake_ctl_account *account = &view->process->pages.stats->account;
    if (is_gone(view)) {
        return -ESRCH;
    }
    uint64_t peak;
    if (!mark->is_reset) {
        peak = account_word(view, &account->peak, GM_STAT_reserved_peak);
    } else {
        peak = atomic_load_explicit(&account->segment_peak, memory_order_relaxed);
        peak = peak > mark->ended ? peak : mark->ended;
        /* While somebody else's reset is under way, a segment may have ended that is not in yet: never go back. */
        peak = peak > mark->shown ? peak : mark->shown;
        mark->shown = peak;
    }
    gm_text_add(out, "%" PRIu64 "\n", peak);
    return 0;
}

void gm_watermark_forget(struct gm_process *process, struct gm_watermark *watermark)
{
    if (!watermark->is_reset) {
        return;
    }
    struct gm_watermark **link = &process->watermarks;
    while (*link != watermark) {
        link = &(*link)->next;
    }
    *link = watermark->next;
    watermark->is_reset = false;
}

/* A segment has ended: its peak belongs to whoever reset before it, and the new one to the one that reset now. */
static int finish_peak(const struct gm_view *view, const struct gm_question *question, int error, uint64_t value)
{
    (void)question;
    if (error < 0) {
        return sane_error(error);
    }
    struct gm_watermark *mark = view->watermark;
    gm_watermark_forget(view->process, mark);
    for (struct gm_watermark *each = view->process->watermarks; each != NULL; each = each->next) {
        each->ended = value > each->ended ? value : each->ended;
    }
    *mark = (struct gm_watermark){.is_reset = true, .next = view->process->watermarks};
    view->process->watermarks = mark;
    return 0;
}

int gm_store_peak(const struct gm_view *view, const char *text, size_t length)
{
    (void)text, (void)length; /* whatever is written, as with memory.peak of a cgroup */
    *view->question = (struct gm_question){.type = GMLAKE_CTL_PEAK, .fd = -1, .answer = finish_peak};
    return GM_ASKED;
}

/* ---- reclaim -------------------------------------------------------------------------------------------------- */

static int finish_reclaim(const struct gm_view *view, const struct gm_question *question, int error, uint64_t value)
{
    (void)view, (void)question, (void)value;
    return sane_error(error);
}

int gm_store_reclaim(const struct gm_view *view, const char *text, size_t length)
{
    uint64_t bytes;
    int rc = gm_parse_size(text, length, &bytes);
    if (rc < 0) {
        return rc;
    }
    *view->question =
        (struct gm_question){.type = GMLAKE_CTL_RECLAIM, .argument = bytes, .fd = -1, .answer = finish_reclaim};
    return GM_ASKED;
}

/* ---- map ------------------------------------------------------------------------------------------------------ */

static const char *const kinds[] = {
    [GMLAKE_CTL_BLOCK_PRIMITIVE] = "live",
    [GMLAKE_CTL_BLOCK_STITCHED] = "live",
    [GMLAKE_CTL_BLOCK_FREE] = "free",
};

static void add_block(struct gm_text *out, const struct gmlake_ctl_block *block)
{
    bool known = block->kind < sizeof kinds / sizeof kinds[0];
    gm_text_add(out, "0x%" PRIx64 " %" PRIu64 " %s %u:%s %" PRIu64 " %" PRIu64 " %u\n", block->address, block->size,
                known ? kinds[block->kind] : "unknown", block->device,
                block->kind == GMLAKE_CTL_BLOCK_STITCHED ? "stitched" : "primitive", block->operations,
                block->kind == GMLAKE_CTL_BLOCK_FREE ? block->usable : block->requested, block->chunks);
}

int gm_blocks_add(struct gm_blocks *blocks, struct gm_text *out, size_t length)
{
    struct gmlake_ctl_block piece[256];
    while (out->length < length && blocks->next < blocks->count) {
        uint64_t left = blocks->count - blocks->next;
        size_t wanted = (left < 256 ? (size_t)left : 256) * sizeof piece[0];
        if (pread(blocks->fd, piece, wanted, (off_t)(blocks->next * sizeof piece[0])) != (ssize_t)wanted) {
            return -EIO;
        }
        for (size_t i = 0; i < wanted / sizeof piece[0]; i++) {
            add_block(out, &piece[i]);
        }
        blocks->next += wanted / sizeof piece[0];
        if (blocks->next == blocks->count && blocks->more > 0) {
            gm_text_add(out, "# %" PRIu64 " more\n", blocks->more);
        }
    }
    if (blocks->next == blocks->count) { /* all is text now */
        gm_blocks_forget(blocks);
    }
    return 0;
}

void gm_blocks_forget(struct gm_blocks *blocks)
{
    if (blocks->fd >= 0) {
        close(blocks->fd);
    }
    *blocks = (struct gm_blocks)GM_BLOCKS_NONE;
}

static int finish_map(const struct gm_view *view, const struct gm_question *question, int error, uint64_t value)
{
    if (error < 0) {
        return sane_error(error);
    }
    int fd = fcntl(question->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    uint64_t count = value < question->argument ? value : question->argument;
    *view->blocks = (struct gm_blocks){.fd = fd, .count = count, .more = value - count};
    return 0;
}

int gm_show_map(const struct gm_view *view, struct gm_text *out)
{
    (void)out;
    int fd = gm_memory_file("gmlake-map", GM_BLOCKS_MAX * sizeof(struct gmlake_ctl_block));
    if (fd < 0) {
        return fd;
    }
    *view->question =
        (struct gm_question){.type = GMLAKE_CTL_MAP, .argument = GM_BLOCKS_MAX, .fd = fd, .answer = finish_map};
    return GM_ASKED;
}

/* ---- trace ---------------------------------------------------------------------------------------------------- */

int gm_show_trace(const struct gm_view *view, struct gm_text *out)
{
    const struct gm_ring *ring = view->process->ring;
    if (is_gone(view)) {
        return -ESRCH;
    }
    gm_text_add(out, ring != NULL && ring->on ? "on" : "off");
    if (ring != NULL) {
        gm_text_add(out, " ring=%zu recorded=%" PRIu64 " lost=%" PRIu64, ring->bytes, gm_ring_recorded(ring),
                    gm_ring_lost(ring));
    }
    gm_text_add(out, "\n");
    return 0;
}

static int finish_trace(const struct gm_view *view, const struct gm_question *question, int error, uint64_t value)
{
    (void)value;
    struct gm_process *process = view->process;
    if (error < 0) {
        gm_ring_destroy(question->ring);
        return sane_error(error);
    }
    if (question->ring != NULL) {
        gm_ring_destroy(process->ring);
        process->ring = question->ring;
    }
    if (process->ring != NULL) {
        process->ring->on = question->ring != NULL;
    }
    return 0;
}

/* Reads "on" or "on ring=SIZE" into *bytes, 0 for "off". */
static int parse_trace(const char *text, size_t length, uint64_t *bytes)
{
    static const char on_ring[] = "on ring=";
    gm_trim(&text, &length);
    if (length == 3 && memcmp(text, "off", 3) == 0) {
        *bytes = 0;
        return 0;
    }
    if (length == 2 && memcmp(text, "on", 2) == 0) {
        *bytes = GM_RING_BYTES_DEFAULT;
        return 0;
    }
    if (length < sizeof on_ring || memcmp(text, on_ring, sizeof on_ring - 1) != 0 || text[sizeof on_ring - 1] == ' ') {
        return -EINVAL;
    }
    int rc = gm_parse_size(text + sizeof on_ring - 1, length - (sizeof on_ring - 1), bytes);
    if (rc == 0 && (*bytes < GM_RING_BYTES_MIN || *bytes > GM_RING_BYTES_MAX)) {
        rc = -ERANGE;
    }
    return rc;
}

int gm_store_trace(const struct gm_view *view, const char *text, size_t length)
{
    uint64_t bytes;
    struct gm_question question = {.type = GMLAKE_CTL_TRACE, .fd = -1, .answer = finish_trace};
    int rc = parse_trace(text, length, &bytes);
    if (rc == 0 && bytes > 0) {
        rc = gm_ring_create(view->process->identity.uid, bytes, &question.ring, &question.fd);
        question.argument = bytes;
    }
    if (rc < 0) {
        return rc;
    }
    *view->question = question;
    return GM_ASKED;
}

/*
 * Why a file of the tree and not a socket or a descriptor of the ring: who may read it is settled by the same mode bits
 * as everything else of the process, it works wherever the mount is seen, and the ring stays between two parties, of
 * which one only reads.
 */
int gm_show_trace_pipe(const struct gm_view *view, struct gm_text *out)
{
    struct gmlake_ctl_event events[64];
    struct gm_ring *ring = view->process->ring;
    bool ended = is_gone(view);
    size_t room = view->room / sizeof events[0];
    if (room == 0) {
        return -EINVAL;
    }
    while (ring != NULL && room > 0) {
        size_t count = gm_ring_read(ring, ended || !ring->on, events, room < 64 ? room : 64);
        if (count == 0) {
            break;
        }
        gm_text_append(out, (const char *)events, count * sizeof events[0]);
        room -= count;
    }
    return out->length == 0 && ended ? -ESRCH : 0;
}
