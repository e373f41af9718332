/*
 * ask.h - the files whose reading or writing needs the process: reclaim, peak, map, trace; and trace_pipe, which shows
 * what a trace has gathered. One function a file, named in the table of node.c.
 *
 * STRUCTURE    A show or store that cannot finish by itself fills in the question to be put to the process and gives
 *              GM_ASKED; its answer function finishes what it began. Rights are those of the files: whoever may open
 *              one may ask.
 * CONCURRENCY  the file system's thread.
 */
#ifndef GM_ASK_H
#define GM_ASK_H

#include "node.h"

/* What a show or store function gives when the process must be asked. */
#define GM_ASKED 1

struct gm_question;

/*
 * Finishes what was asked: with @error 0 the process has done it and says @value, else it is -errno. 0 or -errno, which
 * the reader or writer gets.
 */
typedef int gm_answer(const struct gm_view *view, const struct gm_question *question, int error, uint64_t value);

struct gm_question {
    enum gmlake_ctl_type type;
    uint64_t argument;
    int fd; /* goes along and is then closed; -1: none */
    gm_answer *answer;
    struct gm_ring *ring; /* TRACE */
};

/*
 * A peak that was reset through one open file: the highest of the segments that have ended since, and what was shown.
 * Invariant: it is in its process's list exactly when is_reset.
 */
struct gm_watermark {
    bool is_reset;
    uint64_t ended;
    uint64_t shown;
    struct gm_watermark *next;
};

/* Takes the watermark out of its process's list. */
void gm_watermark_forget(struct gm_process *process, struct gm_watermark *watermark);

/*
 * The blocks that a process described, of which the text of its map is made as it is read: it may be many MB.
 * Invariant: fd is -1 or a file of count blocks, of which the first next are in the text.
 */
struct gm_blocks {
    int fd;
    uint64_t count;
    uint64_t next;
    uint64_t more; /* blocks that had no room in the file */
};

#define GM_BLOCKS_NONE                                                                                                 \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Blocks that a map shows at most. */
#define GM_BLOCKS_MAX ((uint64_t)512 << 10)

/* Appends lines until @out is @length long or there are no more. */
int gm_blocks_add(struct gm_blocks *blocks, struct gm_text *out, size_t length);
void gm_blocks_forget(struct gm_blocks *blocks);

int gm_show_current(const struct gm_view *view, struct gm_text *out);
int gm_show_peak(const struct gm_view *view, struct gm_text *out);
int gm_store_peak(const struct gm_view *view, const char *text, size_t length);
int gm_store_reclaim(const struct gm_view *view, const char *text, size_t length);
int gm_show_map(const struct gm_view *view, struct gm_text *out);
int gm_show_trace(const struct gm_view *view, struct gm_text *out);
int gm_store_trace(const struct gm_view *view, const char *text, size_t length);

/* A stream: each read takes the events that have come since the last one, whoever made it; whole ones only. */
int gm_show_trace_pipe(const struct gm_view *view, struct gm_text *out);

#endif
