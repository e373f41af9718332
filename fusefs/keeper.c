/*
 * keeper.c - see keeper.h.
 */
#include "keeper.h"

#include "log.h"
#include "monotonic.h"
#include "notify.h"
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENCE_MS    20000 /* of a child before it is killed */
#define END_MS        10000 /* for a child to end after it was told to */
#define BACKOFF_FIRST 10    /* ms before the next child, doubled with each that died of itself within a second */
#define CRASHES_MAX   6     /* in a row: then children start with nothing, and after as many again not at all */

struct keeper {
    const struct gm_keeper_ops *ops;
    struct gm_kept *kept;
    int signal_fd;
    int child_fd; /* the child's notices */
    pid_t child;
    bool ever_ready; /* one child was */
    bool ending;
    int64_t started_ms; /* the child */
    int64_t heard_ms;   /* the child's last sign of life */
    int64_t end_ms;     /* when a child that was told to end is killed */
};

/* ---- notices -------------------------------------------------------------------------------------------------- */

/* The value of a line KEY=value in @text; NULL: no such line. Ends it with a NUL in @value. */
static const char *value_of(const char *text, const char *key, char value[GM_NOTICE_MAX])
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == '=') {
            size_t end = strcspn(line + length + 1, "\n");
            memcpy(value, line + length + 1, end);
            value[end] = '\0';
            return value;
        }
    }
    return NULL;
}

/* Acts on one notice; @fd came with it, or is -1. */
static void heed(struct keeper *keeper, const char *text, int fd)
{
    char value[GM_NOTICE_MAX];
    char name[GM_NOTICE_MAX];
    keeper->heard_ms = gm_monotonic_ms();
    bool named = value_of(text, "FDNAME", name) != NULL && strlen(name) < GM_KEPT_NAME_SIZE;
    if (value_of(text, "FDSTORE", value) != NULL && named && fd >= 0) {
        if (gm_kept_put(keeper->kept, name, fd) < 0) {
            gm_log("no room to keep %s", name);
        }
        return;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (value_of(text, "FDSTOREREMOVE", value) != NULL) {
        if (named) {
            gm_kept_drop(keeper->kept, name);
        }
        return;
    }
    if (value_of(text, "READY", value) != NULL && !keeper->ever_ready) {
        keeper->ever_ready = true;
        keeper->ops->ready(keeper->ops->argument);
    }
    /* A service manager may watch over the keeper; how it lives is for whoever asked. */
    if (value_of(text, "WATCHDOG", value) == NULL || getenv("WATCHDOG_USEC") != NULL) {
        gm_notify(text);
    }
}

/* Takes one notice; false: there is none. */
static bool take_notice(struct keeper *keeper)
{
    char text[GM_NOTICE_MAX + 1];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(keeper->child_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length <= 0) {
        return length < 0 && errno == EINTR;
    }
    text[length] = '\0';
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
    heed(keeper, text, fd);
    return true;
}

/* ---- the child ------------------------------------------------------------------------------------------------ */

/* The machine's memory running out shall not end the one process that all others' mounts depend on. */
static void spare_from_oom(const char *score, char before[16])
{
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t length = before != NULL ? read(fd, before, 15) : 0;
    if (before != NULL) {
        before[length > 0 ? length : 0] = '\0';
    }
    (void)!write(fd, score, strlen(score)); /* lowering it is root's right */
    close(fd);
}

static int start_child(struct keeper *keeper, const char *oom_score)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return -errno;
    }
    pid_t child = fork();
    if (child < 0) {
        int error = errno;
        close(pair[0]);
        close(pair[1]);
        return -error;
    }
    if (child == 0) {
        close(pair[0]);
        close(keeper->signal_fd);
        prctl(PR_SET_NAME, "gmlaked");
        spare_from_oom(oom_score, NULL);
        sigset_t of_keeper;
        sigemptyset(&of_keeper);
        sigaddset(&of_keeper, SIGCHLD);
        sigprocmask(SIG_UNBLOCK, &of_keeper, NULL); /* the others the daemon blocks as well: none may fall between */
        gm_notify_through(pair[1]);
        exit(keeper->ops->serve(keeper->ops->argument, keeper->kept));
    }
    close(pair[1]);
    keeper->child_fd = pair[0];
    keeper->child = child;
    keeper->started_ms = keeper->heard_ms = gm_monotonic_ms();
    return 0;
}

static void tell_to_end(struct keeper *keeper)
{
    if (!keeper->ending) {
        keeper->ending = true;
        keeper->end_ms = gm_monotonic_ms() + END_MS;
        kill(keeper->child, SIGTERM);
    }
}

/* Reads what signals came: one that says to end, or that of a child's death, which is only a reason to look. */
static bool take_signals(int signal_fd)
{
    struct signalfd_siginfo info;
    bool end = false;
    while (read(signal_fd, &info, sizeof info) == sizeof info) {
        end |= info.ssi_signo != SIGCHLD;
    }
    return end;
}

/*
 * A child that is told to end does so soon, also one that somebody has stopped; any other shows itself, unless it is
 * stopped. Only who is stopped is sent SIGCONT: it would take away the SIGSTOP by which a debugger, or a leak checker
 * at the child's end, attaches, and both would wait for each other for ever.
 */
static void watch(struct keeper *keeper)
{
    int64_t now = gm_monotonic_ms();
    struct gm_proc_stat stat = {0};
    bool silent = now - keeper->heard_ms >= SILENCE_MS / 2;
    if (silent || keeper->ending) {
        (void)gm_proc_stat(keeper->child, &stat);
    }
    if (keeper->ending && stat.state == 'T') {
        kill(keeper->child, SIGCONT);
    }
    if (silent && (stat.state == 'T' || stat.state == 't')) {
        keeper->heard_ms = now - SILENCE_MS / 2; /* its time begins when it goes on */
    }
    if (keeper->ending ? now >= keeper->end_ms : now - keeper->heard_ms >= SILENCE_MS) {
        gm_log("the daemon (pid %d) does not %s; killing it", (int)keeper->child,
               keeper->ending ? "end" : "show itself any more");
        kill(keeper->child, SIGKILL);
    }
}

/* Serves the child until it is dead; its wait status. */
static int tend_child(struct keeper *keeper)
{
    struct pollfd wait[2] = {{keeper->signal_fd, POLLIN, 0}, {keeper->child_fd, POLLIN, 0}};
    int status;
    while (waitpid(keeper->child, &status, WNOHANG) == 0) {
        poll(wait, 2, 1000);
        if (take_signals(keeper->signal_fd)) {
            tell_to_end(keeper);
        }
        while (take_notice(keeper)) {
        }
        if ((wait[1].revents & POLLHUP) != 0) {
            wait[1].fd = -1; /* its end is all that is left to hear of */
        }
        watch(keeper);
    }
    while (take_notice(keeper)) {
    }
    close(keeper->child_fd);
    return status;
}

/* ---- from child to child -------------------------------------------------------------------------------------- */

static void report_death(pid_t child, int status)
{
    char how[64];
    if (WIFSIGNALED(status)) {
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    } else {
        snprintf(how, sizeof how, "ended with code %d", WEXITSTATUS(status));
    }
    gm_log("the daemon (pid %d) %s; the next one takes over", (int)child, how);
}

/* Waits before the next child; true: it is time to end. */
static bool pause_between(struct keeper *keeper, int ms)
{
    struct pollfd wait = {keeper->signal_fd, POLLIN, 0};
    int64_t until = gm_monotonic_ms() + ms;
    for (int64_t left = ms; left > 0; left = until - gm_monotonic_ms()) {
        if (poll(&wait, 1, (int)left) > 0 && take_signals(keeper->signal_fd)) {
            return true;
        }
    }
    return false;
}

static int keep(struct keeper *keeper, const char *oom_score)
{
    int backoff = BACKOFF_FIRST;
    unsigned crashes = 0;
    for (;;) {
        int rc = start_child(keeper, oom_score);
        if (rc < 0 && !keeper->ever_ready) {
            gm_log("cannot start the daemon: %s", strerror(-rc));
            return 1;
        }
        int status = rc < 0 ? 1 << 8 : tend_child(keeper);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (keeper->ending || !keeper->ever_ready || (WIFEXITED(status) && code == 0)) {
            return code;
        }
        bool lived = rc == 0 && gm_monotonic_ms() - keeper->started_ms >= 1000;
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; /* from outside: no fault of its own */
        if (rc < 0) {
            gm_log("cannot start the next daemon: %s", strerror(-rc));
        } else {
            report_death(keeper->child, status);
        }
        backoff = lived || killed                       ? BACKOFF_FIRST
                  : backoff * 2 < keeper->ops->pause_ms ? backoff * 2
                                                        : keeper->ops->pause_ms;
        crashes = lived || killed ? 0 : crashes + 1;
        if (crashes == CRASHES_MAX) {
            gm_log("the daemon died %u times in a row; the next one starts without what it knew of processes", crashes);
            keeper->ops->forget(keeper->ops->argument, keeper->kept);
        } else if (crashes == 2 * CRASHES_MAX) {
            gm_log("the daemon died %u times in a row; giving up", crashes);
            return 1;
        }
        if (pause_between(keeper, backoff)) {
            return 0;
        }
        keeper->ops->renew(keeper->ops->argument);
    }
}

int gm_keeper_run(const struct gm_keeper_ops *ops, struct gm_kept *kept)
{
    struct keeper keeper = {.ops = ops, .kept = kept};
    char oom_score[16] = "";
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    keeper.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (keeper.signal_fd < 0) {
        gm_log("cannot start the keeper: %s", strerror(errno));
        return 1;
    }
    /* Another name, so that who kills all processes called gmlaked does not kill this one. */
    prctl(PR_SET_NAME, "gmlake-keeper");
    spare_from_oom("-1000", oom_score);
    int code = keep(&keeper, oom_score);
    close(keeper.signal_fd);
    return code;
}
