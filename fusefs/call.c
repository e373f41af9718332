/*
 * call.c - see call.h.
 */
#include "call.h"

#include "machine.h"
#include "monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The largest errno that there is. */
#define ERRNO_MAX 4095

struct gm_call {
    struct gm_call *next;
    struct gm_process *process; /* held */
    uint64_t id;
    uint64_t deadline_ns;
    gm_call_done *done;
    void *context;
    bool decided;
    int error;
    uint64_t value;
    bool unsent; /* the file system's thread alone looks at these: a request that waits for the line, and its file */
    struct gmlake_ctl_request request;
    int fd;
};

int gm_calls_init(struct gm_calls *calls)
{
    *calls = (struct gm_calls){.next_id = 1, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (calls->wake_fd < 0) {
        return -errno;
    }
    pthread_mutex_init(&calls->lock, NULL);
    return 0;
}

void gm_calls_finish(struct gm_calls *calls)
{
    gm_calls_cancel(calls, -ENODEV);
    close(calls->wake_fd);
    pthread_mutex_destroy(&calls->lock);
}

/* ---- the line ------------------------------------------------------------------------------------------------- */

void gm_line_init(struct gm_line *line)
{
    *line = (struct gm_line){.fd = -1};
    pthread_mutex_init(&line->lock, NULL);
}

void gm_line_finish(struct gm_line *line)
{
    pthread_mutex_destroy(&line->lock);
}

void gm_line_expect(struct gm_line *line, uint64_t features)
{
    pthread_mutex_lock(&line->lock);
    line->expected = true;
    line->features = features;
    pthread_mutex_unlock(&line->lock);
}

void gm_line_open(const struct gm_calls *calls, struct gm_line *line, int fd, uint64_t features)
{
    pthread_mutex_lock(&line->lock);
    bool expected = line->expected;
    line->expected = false;
    line->fd = fd;
    line->features = features;
    pthread_mutex_unlock(&line->lock);
    if (expected) {
        eventfd_write(calls->wake_fd, 1);
    }
}

void gm_line_close(struct gm_line *line)
{
    pthread_mutex_lock(&line->lock);
    line->fd = -1;
    line->expected = false;
    pthread_mutex_unlock(&line->lock);
}

bool gm_line_takes_requests(struct gm_line *line)
{
    pthread_mutex_lock(&line->lock);
    bool takes = (line->features & GMLAKE_CTL_FEATURE_REQUESTS) != 0;
    pthread_mutex_unlock(&line->lock);
    return takes;
}

static int send_locked(const struct gm_line *line, const struct gmlake_ctl_request *request, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    /* NOLINTNEXTLINE(cppcoreguidelines-pro-type-cstyle-cast): sendmsg() only reads */
    struct iovec part = {(void *)(uintptr_t)request, sizeof *request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return sendmsg(line->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -EAGAIN : 0;
}

/* -EINPROGRESS: later, the process is expected back. */
static int send_request(struct gm_line *line, struct gmlake_ctl_request *request, int fd)
{
    request->header =
        (struct gmlake_ctl_header){GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, request->header.type, sizeof *request, 0};
    pthread_mutex_lock(&line->lock);
    int rc = line->fd >= 0 ? 0 : line->expected ? -EINPROGRESS : -EAGAIN;
    if (rc == 0) {
        rc = (line->features & GMLAKE_CTL_FEATURE_REQUESTS) == 0 ? -EOPNOTSUPP : send_locked(line, request, fd);
    }
    pthread_mutex_unlock(&line->lock);
    return rc;
}

void gm_line_tell(struct gm_line *line, enum gmlake_ctl_type type)
{
    struct gmlake_ctl_request request = {.header.type = (uint16_t)type};
    (void)send_request(line, &request, -1);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

/* When the process last published; 0: never. */
static uint64_t last_shown_ns(struct gm_process *process)
{
    struct gm_reading reading;
    gm_process_read(process, &reading);
    return reading.snapshot.published_ns;
}

/* Enters a call that is not sent yet. NULL: it is not to be. */
static struct gm_call *enter(struct gm_calls *calls, struct gm_process *process, gm_call_done *done, void *context)
{
    uint64_t shown_ns = last_shown_ns(process);
    struct gm_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return NULL;
    }
    *call = (struct gm_call){.process = process,
                             .deadline_ns = gm_monotonic_ns() + GM_CALL_DEADLINE_MS * 1000000ull,
                             .done = done,
                             .context = context,
                             .fd = -1};
    pthread_mutex_lock(&calls->lock);
    bool refused = calls->count >= GM_CALLS_MAX || process->line.calls >= GM_CALLS_PER_PROCESS ||
                   (process->line.late_ns != 0 && shown_ns <= process->line.late_ns);
    if (!refused) {
        call->id = calls->next_id++;
        call->next = calls->first;
        calls->first = call;
        calls->count++;
        process->line.calls++;
        gm_process_hold(process);
    }
    pthread_mutex_unlock(&calls->lock);
    if (refused) {
        free(call);
        return NULL;
    }
    return call;
}

static void unlink_locked(struct gm_calls *calls, struct gm_call *call)
{
    struct gm_call **link = &calls->first;
    while (*link != call) {
        link = &(*link)->next;
    }
    *link = call->next;
    calls->count--;
    call->process->line.calls--;
}

static void drop(struct gm_call *call)
{
    if (call->fd >= 0) {
        close(call->fd);
    }
    gm_process_release(call->process);
    free(call);
}

/* Keeps a request until its process is back, at the longest until the deadline. */
static int put_off(const struct gm_calls *calls, struct gm_call *call, const struct gmlake_ctl_request *request, int fd)
{
    call->request = *request;
    call->request.deadline_ns += GM_CALL_RETURN_MS * 1000000ull;
    call->deadline_ns += GM_CALL_RETURN_MS * 1000000ull;
    call->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd >= 0 && call->fd < 0) {
        return -EAGAIN;
    }
    call->unsent = true;
    eventfd_write(calls->wake_fd, 1); /* the process may have come back just now */
    return 0;
}

int gm_call(struct gm_calls *calls, struct gm_process *process, enum gmlake_ctl_type type, uint64_t argument, int fd,
            gm_call_done *done, void *context)
{
    struct gm_call *call = enter(calls, process, done, context);
    if (call == NULL) {
        return -EAGAIN;
    }
    struct gmlake_ctl_request request = {
        .header.type = (uint16_t)type,
        .id = call->id,
        .argument = argument,
        .deadline_ns = call->deadline_ns - GM_CALL_MARGIN_MS * 1000000ull,
    };
    int rc = send_request(&process->line, &request, fd);
    if (rc == -EINPROGRESS) {
        rc = put_off(calls, call, &request, fd);
    }
    if (rc == 0) {
        return 0;
    }
    pthread_mutex_lock(&calls->lock);
    unlink_locked(calls, call);
    pthread_mutex_unlock(&calls->lock);
    drop(call);
    return rc;
}

static void decide_locked(const struct gm_calls *calls, struct gm_call *call, int error, uint64_t value)
{
    if (!call->decided) {
        call->decided = true;
        call->error = error;
        call->value = value;
        eventfd_write(calls->wake_fd, 1);
    }
}

bool gm_calls_answer(struct gm_calls *calls, const struct gm_process *process, const void *bytes, size_t length)
{
    struct gmlake_ctl_answer answer;
    if (length < sizeof answer) {
        return false;
    }
    memcpy(&answer, bytes, sizeof answer);
    if (answer.header.magic != GMLAKE_CTL_MAGIC || answer.header.abi != GMLAKE_CTL_ABI ||
        answer.header.type != GMLAKE_CTL_ANSWER || answer.header.length != length || answer.error < 0 ||
        answer.error > ERRNO_MAX) {
        return false;
    }
    pthread_mutex_lock(&calls->lock);
    struct gm_call *call = calls->first;
    while (call != NULL && (call->id != answer.id || call->process != process)) {
        call = call->next;
    }
    bool awaited = call != NULL && !call->decided;
    if (awaited) {
        decide_locked(calls, call, -answer.error, answer.value);
    }
    pthread_mutex_unlock(&calls->lock);
    return awaited;
}

void gm_calls_gone(struct gm_calls *calls, const struct gm_process *process)
{
    pthread_mutex_lock(&calls->lock);
    for (struct gm_call *call = calls->first; call != NULL; call = call->next) {
        if (call->process == process) {
            decide_locked(calls, call, -ESRCH, 0);
        }
    }
    pthread_mutex_unlock(&calls->lock);
}

/* Takes a call out that is decided; NULL: there is none. *next_ns: the earliest deadline of the others. */
static struct gm_call *take_decided(struct gm_calls *calls, uint64_t now, uint64_t *next_ns)
{
    pthread_mutex_lock(&calls->lock);
    struct gm_call *call = calls->first;
    *next_ns = UINT64_MAX;
    for (; call != NULL; call = call->next) {
        if (call->deadline_ns <= now && !call->decided) {
            /* Not if it was never asked. */
            call->process->line.late_ns = call->unsent ? call->process->line.late_ns : now;
            decide_locked(calls, call, -EAGAIN, 0);
        }
        if (call->decided) {
            unlink_locked(calls, call);
            break;
        }
        *next_ns = call->deadline_ns < *next_ns ? call->deadline_ns : *next_ns;
    }
    pthread_mutex_unlock(&calls->lock);
    return call;
}

/* Sends what waited for processes that are back. */
static void send_waiting(struct gm_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    for (struct gm_call *call = calls->first; call != NULL; call = call->next) {
        int rc = call->unsent ? send_request(&call->process->line, &call->request, call->fd) : -EINPROGRESS;
        if (rc != -EINPROGRESS) {
            call->unsent = false;
        }
        if (rc < 0 && rc != -EINPROGRESS) {
            decide_locked(calls, call, rc, 0);
        }
    }
    pthread_mutex_unlock(&calls->lock);
}

int gm_calls_run(struct gm_calls *calls)
{
    eventfd_t woken;
    uint64_t now = gm_monotonic_ns();
    uint64_t next_ns;
    struct gm_call *call;
    if (eventfd_read(calls->wake_fd, &woken) == 0) {
        send_waiting(calls);
    }
    while ((call = take_decided(calls, now, &next_ns)) != NULL) {
        call->done(call->context, call->error, call->value);
        drop(call);
    }
    return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now + 999999) / 1000000);
}

void gm_calls_wake(const struct gm_calls *calls)
{
    eventfd_write(calls->wake_fd, 1);
}

void gm_calls_cancel(struct gm_calls *calls, int error)
{
    pthread_mutex_lock(&calls->lock);
    for (struct gm_call *call = calls->first; call != NULL; call = call->next) {
        decide_locked(calls, call, error, 0);
    }
    pthread_mutex_unlock(&calls->lock);
    (void)gm_calls_run(calls);
}
