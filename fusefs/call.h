/*
 * call.h - questions put to a process, which answers later or not at all.
 *
 * STRUCTURE    A process has a line, its socket, while it is connected. A call sends a request of ctl_abi.h on it and
 *              is kept until the answer comes, the process goes, or the deadline passes: one of the three it is, and
 *              then the caller is told, once. A process that has let a call go unanswered is not asked again until it
 *              has shown itself: its callers, whom the kernel lets in one by one, would wait for one another.
 * CONCURRENCY  gm_call() and gm_calls_run() belong to the file system's thread, which is told there; lines are opened,
 *              closed and answered on by the socket's thread. Nothing here waits: what does not fit into the socket of
 *              a process that does not read is refused.
 */
#ifndef GM_CALL_H
#define GM_CALL_H

#include <gmlake/ctl_abi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_process;

/* How long a process may take. It is told a little less, so that what it has done by then is heard of. */
#define GM_CALL_DEADLINE_MS 1000
#define GM_CALL_MARGIN_MS   100
/* What it has in addition to come back to this daemon from an earlier one, on a machine that is busy, too. */
#define GM_CALL_RETURN_MS 3000

/* Calls under way to one process, and to all. */
#define GM_CALLS_PER_PROCESS 8u
#define GM_CALLS_MAX         1024u

/* Invariant: fd is -1 or the socket of the connected process; whoever sends has the lock. */
struct gm_line {
    pthread_mutex_t lock;
    int fd;            /* guarded by lock */
    bool expected;     /* guarded by lock; it was connected to an earlier daemon and will be to this one */
    uint64_t features; /* guarded by lock; of the process */
    unsigned calls;    /* guarded by the lock of the calls, as is the next */
    uint64_t late_ns;  /* when it last let a call go unanswered; 0: it never did */
};

struct gm_calls {
    pthread_mutex_t lock;
    struct gm_call *first; /* guarded by lock, as are the rest but wake_fd */
    unsigned count;
    uint64_t next_id;
    int wake_fd; /* becomes readable when gm_calls_run() has something to do */
};

/* What became of a call: @error 0 and the answer's @value; or -errno: what the process said, -EAGAIN late, -ESRCH gone.
 */
typedef void gm_call_done(void *context, int error, uint64_t value);

int gm_calls_init(struct gm_calls *calls);
void gm_calls_finish(struct gm_calls *calls);

void gm_line_init(struct gm_line *line);
void gm_line_finish(struct gm_line *line);

/*
 * The process was connected to an earlier daemon and is expected back: calls wait for it. It is connected by the socket
 * @fd, which stays the caller's, and what waits is sent; and it is not connected any more.
 */
void gm_line_expect(struct gm_line *line, uint64_t features);
void gm_line_open(const struct gm_calls *calls, struct gm_line *line, int fd, uint64_t features);
void gm_line_close(struct gm_line *line);

/* Whether the process knows requests. */
bool gm_line_takes_requests(struct gm_line *line);

/* Sends a request without an answer; if there is no room, one is there already that the process has not read. */
void gm_line_tell(struct gm_line *line, enum gmlake_ctl_type type);

/*
 * Asks @process, with the file @fd (-1: none; it stays the caller's). @done is called from gm_calls_run().
 * -EOPNOTSUPP the process does not know requests; -EAGAIN it is not connected, has too many before it, has not shown
 * itself since it last left one unanswered; or there is no memory.
 */
int gm_call(struct gm_calls *calls, struct gm_process *process, enum gmlake_ctl_type type, uint64_t argument, int fd,
            gm_call_done *done, void *context);

/* A message of @process; false: it is no answer that somebody waits for. */
bool gm_calls_answer(struct gm_calls *calls, const struct gm_process *process, const void *bytes, size_t length);

/* @process is gone. */
void gm_calls_gone(struct gm_calls *calls, const struct gm_process *process);

/* Tells of every call that is decided. Gives the milliseconds until the next deadline; -1: there is none. */
int gm_calls_run(struct gm_calls *calls);

/* Has the file system's thread come by, from any thread. */
void gm_calls_wake(const struct gm_calls *calls);

/* Ends every call with @error. */
void gm_calls_cancel(struct gm_calls *calls, int error);

#endif
