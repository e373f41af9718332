/*
 * session.c - see session.h.
 */
#include "session.h"

#include "monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The longest request: a write of 256 pages, as the library settles with the kernel, and its head. */
#define REQUEST_MAX (256u * 4096 + 4096)

/* Of the kernel's protocol, which the library does not show. */
#define OPCODE_INIT   26u
#define OPCODE_POLL   40u
#define POLL_WAITS    1u /* flag: somebody does, who wants to be told */
#define NOTICE_POLL   1
#define NOTICE_RESEND 7 /* Linux 6.9 */

/* The start of every request. */
struct request_head {
    uint32_t length;
    uint32_t opcode;
    uint64_t unique;
    uint64_t inode;
    uint32_t uid, gid, pid;
    uint32_t reserved;
};

struct poll_request {
    struct request_head head;
    uint64_t file;
    uint64_t number; /* by which the kernel wants to be told of a change */
    uint32_t flags;
    uint32_t events;
};
_Static_assert(sizeof(struct poll_request) == 64, "as the kernel sends it");

/* An answer to no request: @error says which notice it is. */
struct notice {
    uint32_t length;
    int32_t error;
    uint64_t unique;
};

struct poll_notice {
    struct notice notice;
    uint64_t number;
};

struct gm_session {
    struct fuse_session *library;
    void *owner;
    struct gm_state_head *head;
    int fd;          /* the library's duplicate of the mount's descriptor */
    bool replaying;  /* answers go nowhere */
    uint64_t poller; /* of the request at hand: whom to tell; 0: nobody, or it is no poll */
};

void *gm_session_owner(fuse_req_t request)
{
    const struct gm_session *session = fuse_req_userdata(request);
    return session->owner;
}

uint64_t gm_session_poller(const struct gm_session *session)
{
    return session->poller;
}

void gm_session_wake(const struct gm_session *session, uint64_t poller)
{
    const struct poll_notice wake = {{sizeof wake, NOTICE_POLL, 0}, poller};
    /* The kernel refuses the number of a file that was closed meanwhile, which is as well. */
    (void)!write(session->fd, &wake, sizeof wake);
}

/* ---- what the library reads and writes through ------------------------------------------------------------------ */

static ssize_t send_answer(int fd, struct iovec *parts, int count, void *userdata)
{
    const struct gm_session *session = userdata;
    if (!session->replaying) {
        return writev(fd, parts, count);
    }
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        length += parts[i].iov_len;
    }
    return (ssize_t)length;
}

/* The library wants one; the loop below reads by itself. */
static ssize_t read_request(int fd, void *bytes, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, bytes, size);
}

static const struct fuse_custom_io transport = {.writev = send_answer, .read = read_request};

static void process_request(struct gm_session *session, void *bytes, size_t length)
{
    const struct fuse_buf buffer = {.mem = bytes, .size = length};
    fuse_session_process_buf(session->library, &buffer);
}

/* ---- taking over ---------------------------------------------------------------------------------------------- */

static void take_over(struct gm_session *session)
{
    union {
        uint64_t align;
        uint8_t bytes[GM_STATE_INIT_MAX];
    } init;
    uint32_t length = atomic_load(&session->head->init_length);
    if (length > 0) {
        memcpy(init.bytes, session->head->init, length);
        session->replaying = true;
        process_request(session, init.bytes, length);
        session->replaying = false;
    }
    const struct notice resend = {sizeof resend, NOTICE_RESEND, 0};
    /* An older kernel refuses: who waits for an answer of the predecessor then waits until the mount is aborted. */
    (void)!write(session->fd, &resend, sizeof resend);
}

static void note_init(struct gm_session *session, const void *bytes, size_t length)
{
    if (length <= GM_STATE_INIT_MAX) {
        memcpy(session->head->init, bytes, length);
        atomic_store(&session->head->init_length, (uint32_t)length);
    }
}

static int open_library(struct gm_session *session, const struct fuse_lowlevel_ops *operations, int fd)
{
    char program[] = "gmlaked";
    char *arguments[] = {program};
    struct fuse_args args = FUSE_ARGS_INIT(1, arguments);
    session->library = fuse_session_new(&args, operations, sizeof *operations, session);
    fuse_opt_free_args(&args);
    if (session->library == NULL) {
        return -ENOMEM;
    }
    session->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int rc = session->fd < 0 ? -errno : fuse_session_custom_io(session->library, &transport, session->fd);
    if (rc < 0) {
        fuse_session_destroy(session->library);
        if (session->fd >= 0) {
            close(session->fd);
        }
    }
    return rc;
}

int gm_session_open(const struct fuse_lowlevel_ops *operations, void *owner, struct gm_state_head *head, int fd,
                    struct gm_session **out)
{
    struct gm_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return -ENOMEM;
    }
    session->owner = owner;
    session->head = head;
    int rc = open_library(session, operations, fd);
    if (rc < 0) {
        free(session);
        return rc;
    }
    take_over(session);
    *out = session;
    return 0;
}

void gm_session_close(struct gm_session *session)
{
    fuse_session_destroy(session->library); /* closes its descriptor as well */
    free(session);
}

/* ---- loop ----------------------------------------------------------------------------------------------------- */

/* Whom to tell of a change, if @bytes are a poll that waits for one. */
static uint64_t poller_of(const void *bytes, size_t length)
{
    const struct poll_request *poll = bytes;
    bool waits = poll->head.opcode == OPCODE_POLL && length >= sizeof *poll && (poll->flags & POLL_WAITS) != 0;
    return waits ? poll->number : 0;
}

/* Reads and serves one request. -ENODEV: the mount is gone. */
static int serve_request(struct gm_session *session, void *bytes)
{
    ssize_t length = read(session->fd, bytes, REQUEST_MAX);
    if (length < 0) {
        /* ENOENT: the one who asked was interrupted meanwhile. */
        return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
    }
    const struct request_head *head = bytes;
    if ((size_t)length < sizeof *head) {
        return -EIO;
    }
    if (head->opcode == OPCODE_INIT) {
        note_init(session, bytes, (size_t)length);
    }
    session->poller = poller_of(bytes, (size_t)length);
    process_request(session, bytes, (size_t)length);
    return 0;
}

int gm_session_earlier(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

int gm_session_run(struct gm_session *session, gm_session_turn *turn, int wake_fd, int signal_fd, int beat_ms,
                   void (*beat)(void *), void *argument)
{
    struct pollfd wait[3] = {{session->fd, POLLIN, 0}, {signal_fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    void *bytes = malloc(REQUEST_MAX);
    int rc = bytes == NULL ? -ENOMEM : 0;
    int64_t next_beat = gm_monotonic_ms();
    while (rc == 0) {
        int timeout = turn(session->owner);
        if (beat_ms >= 0) {
            int64_t now = gm_monotonic_ms();
            if (next_beat <= now) {
                beat(argument);
                next_beat = now + beat_ms;
            }
            timeout = gm_session_earlier(timeout, (int)(next_beat - now));
        }
        if (poll(wait, 3, timeout) < 0) {
            rc = errno == EINTR ? 0 : -errno;
        } else if (wait[1].revents != 0) {
            break;
        } else if (wait[0].revents != 0) {
            rc = serve_request(session, bytes);
        }
    }
    free(bytes);
    return rc;
}
