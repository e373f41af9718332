/*
 * server.c - see server.h.
 */
#include "server.h"

#include "log.h"
#include "procfs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

#define HELLO_DEADLINE_MS 2000
#define ACCEPT_PAUSE_MS   100
/* HELLO is all that this version sends; a later one may say a little more, nobody says much. */
#define MESSAGES_MAX 64u
#define UNREAD_MAX   64

/* What an epoll event stands for. */
enum watch_kind { WATCH_STOP, WATCH_LISTEN, WATCH_SOCKET, WATCH_LIFE };

struct connection;

struct watch {
    enum watch_kind kind;
    struct connection *connection;
};

/* Invariant: process is set from WELCOME on. A closed one (fd < 0) waits in the list for the end of the event round. */
struct connection {
    struct connection *next;
    struct watch socket_watch;
    struct watch life_watch;
    int fd;
    struct gm_identity identity; /* owns its pidfd */
    int64_t deadline_ms;         /* for HELLO */
    unsigned messages;
    struct gm_process *process;
};

struct gm_server {
    struct gm_machine *machine;
    pthread_t thread;
    int listen_fd;
    int epoll_fd;
    int stop_fd;
    struct watch stop_watch;
    struct watch listen_watch;
    struct connection *connections;
    int64_t listen_again_ms; /* accepting pauses until then; 0: it does not */
    bool complained;         /* the log has it that accepting fails */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int watch_fd(struct gm_server *server, int fd, struct watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = watch};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- one connection ------------------------------------------------------------------------------------------- */

static void close_connection(struct gm_server *server, struct connection *connection)
{
    if (connection->fd < 0) {
        return;
    }
    if (connection->process != NULL) {
        gm_machine_remove(server->machine, connection->process);
        gm_process_release(connection->process);
        connection->process = NULL;
    }
    /* Closing alone does not end the watch while a duplicate is open: open files keep one of the pidfd. */
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->identity.pidfd, NULL);
    close(connection->fd);
    close(connection->identity.pidfd);
    connection->fd = -1;
}

static void refuse(int fd, int error)
{
    struct gmlake_ctl_refused refused = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_REFUSED, sizeof refused, 0}, .error = error};
    char unread[GMLAKE_CTL_MESSAGE_MAX];
    /* Closed with a message unread, a socket gives its peer ECONNRESET before what was sent to it. A peer that goes on
     * sending does not hold up the others. */
    for (int i = 0; i < UNREAD_MAX && recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0; i++) {
    }
    /* Whether the peer gets to read it is its own affair. */
    (void)!send(fd, &refused, sizeof refused, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int send_welcome(int fd, uint64_t serial, const int fds[2])
{
    struct gmlake_ctl_welcome welcome = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_WELCOME, sizeof welcome, 0},
        .serial = serial,
        .stats_size = sizeof(struct gmlake_ctl_stats_page),
        .tunables_size = sizeof(struct gmlake_ctl_tunables_page),
    };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {&welcome, sizeof welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int gm_hello_parse(const void *bytes, size_t length, struct gmlake_ctl_hello *out)
{
    struct gmlake_ctl_hello hello = {.serial = 0};
    if (length < GMLAKE_CTL_HELLO_MIN) {
        return -EPROTO;
    }
    memcpy(&hello, bytes, length < sizeof hello ? length : sizeof hello);
    if (hello.header.magic != GMLAKE_CTL_MAGIC || hello.header.abi != GMLAKE_CTL_ABI ||
        hello.header.type != GMLAKE_CTL_HELLO || hello.header.length != length ||
        hello.stat_count > GMLAKE_CTL_STATS_MAX || hello.tunable_count > GMLAKE_CTL_TUNABLES_MAX) {
        return -EPROTO;
    }
    /* Rows the peer does not know hold nothing it wants. */
    for (unsigned i = hello.tunable_count; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        hello.wanted[i] = GMLAKE_CTL_NO_OVERRIDE;
    }
    *out = hello;
    return 0;
}

/* A program that called exec() has let go of its old connection; that may not have been noticed here yet. */
static void close_left_by_exec(struct gm_server *server, pid_t pid)
{
    for (struct connection *c = server->connections; c != NULL; c = c->next) {
        struct pollfd ended = {c->fd, POLLRDHUP, 0};
        if (c->fd >= 0 && c->process != NULL && c->identity.pid == pid && poll(&ended, 1, 0) > 0) {
            close_connection(server, c);
        }
    }
}

static int register_process(struct gm_server *server, struct connection *connection,
                            const struct gmlake_ctl_hello *hello)
{
    struct gm_pages pages;
    int fds[2];
    close_left_by_exec(server, connection->identity.pid);
    int rc = gm_pages_create(&pages, fds);
    if (rc < 0) {
        return rc;
    }
    struct gm_process *process = NULL;
    rc = gm_machine_add(server->machine, &connection->identity, &pages, hello->wanted, &process);
    if (rc < 0) {
        gm_pages_destroy(&pages);
    } else {
        connection->process = process;
        rc = send_welcome(connection->fd, process->serial, fds);
    }
    close(fds[0]);
    close(fds[1]);
    return rc;
}

/* The first message; every other is ignored. A negative result closes the connection. */
static int handle_message(struct gm_server *server, struct connection *connection, const void *bytes, size_t length)
{
    if (++connection->messages > MESSAGES_MAX) {
        return -EDQUOT;
    }
    if (connection->process != NULL) {
        return 0;
    }
    struct gmlake_ctl_hello hello;
    int rc = gm_hello_parse(bytes, length, &hello);
    if (rc == 0) {
        rc = register_process(server, connection, &hello);
    }
    if (rc < 0) {
        refuse(connection->fd, -rc);
    }
    return rc;
}

static void read_connection(struct gm_server *server, struct connection *connection)
{
    char bytes[GMLAKE_CTL_MESSAGE_MAX];
    /* Descriptors that a peer sends along are dropped by the kernel: nobody asks for them here. */
    ssize_t length = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (length <= 0 || (size_t)length > sizeof bytes || handle_message(server, connection, bytes, (size_t)length) < 0) {
        close_connection(server, connection);
    }
}

/* ---- accepting ------------------------------------------------------------------------------------------------ */

static int pidfd_of(int fd, pid_t pid)
{
    int pidfd;
    socklen_t size = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
        return pidfd;
    }
    /* An older kernel. Were the pid somebody else's by now, the peer would be dead and its socket closed. */
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        return -errno;
    }
    struct pollfd ended = {fd, POLLRDHUP, 0};
    if (poll(&ended, 1, 0) != 0) {
        close(pidfd);
        return -ESRCH;
    }
    return pidfd;
}

/* Who is there. -ESRCH: nobody any more, or nobody this daemon can see. */
static int identify(int fd, struct gm_identity *out)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        return -errno;
    }
    if (peer.pid <= 0) {
        return -ESRCH;
    }
    int pidfd = pidfd_of(fd, peer.pid);
    if (pidfd < 0) {
        return pidfd;
    }
    struct gm_proc_stat stat;
    struct pollfd dead = {pidfd, POLLIN, 0};
    int rc = gm_proc_stat(peer.pid, &stat);
    if (rc < 0 || poll(&dead, 1, 0) != 0) {
        close(pidfd);
        return rc < 0 ? rc : -ESRCH;
    }
    *out = (struct gm_identity){
        .pid = peer.pid, .uid = peer.uid, .gid = peer.gid, .start_time = stat.start_time, .pidfd = pidfd};
    return 0;
}

static bool over_quota(const struct gm_server *server, uid_t uid)
{
    unsigned all = 0;
    unsigned of_user = 0;
    for (const struct connection *c = server->connections; c != NULL; c = c->next) {
        all += c->fd >= 0;
        of_user += c->fd >= 0 && c->identity.uid == uid;
    }
    return all >= GM_CONNECTIONS_MAX || of_user >= GM_CONNECTIONS_PER_USER;
}

static int add_connection(struct gm_server *server, int fd)
{
    struct gm_identity identity = {.pidfd = -1};
    int rc = identify(fd, &identity);
    if (rc < 0) {
        return rc;
    }
    struct connection *connection = over_quota(server, identity.uid) ? NULL : calloc(1, sizeof *connection);
    if (connection == NULL) {
        close(identity.pidfd);
        return -EDQUOT;
    }
    connection->fd = fd;
    connection->identity = identity;
    connection->deadline_ms = now_ms() + HELLO_DEADLINE_MS;
    connection->socket_watch = (struct watch){WATCH_SOCKET, connection};
    connection->life_watch = (struct watch){WATCH_LIFE, connection};
    rc = watch_fd(server, fd, &connection->socket_watch);
    if (rc == 0) {
        rc = watch_fd(server, identity.pidfd, &connection->life_watch);
    }
    if (rc < 0) {
        close(identity.pidfd);
        free(connection);
        return rc;
    }
    connection->next = server->connections;
    server->connections = connection;
    return 0;
}

static void pause_listening(struct gm_server *server, int error)
{
    if (!server->complained) {
        gm_log("cannot accept a process: %s; raise the limit of open files", strerror(error));
        server->complained = true;
    }
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
    server->listen_again_ms = now_ms() + ACCEPT_PAUSE_MS;
}

static void accept_connection(struct gm_server *server)
{
    /* cppcheck-suppress nullPointer ; who it is, is asked in another way */
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            pause_listening(server, errno);
        }
        return;
    }
    server->complained = false;
    int rc = add_connection(server, fd);
    if (rc < 0) {
        refuse(fd, -rc);
        close(fd);
    }
}

/* ---- the thread ----------------------------------------------------------------------------------------------- */

/* Frees what was closed in this round of events, closes what never said HELLO; gives the time to the next look. */
static int tidy_up(struct gm_server *server)
{
    int64_t now = now_ms();
    int64_t next = INT64_MAX;
    if (server->listen_again_ms > 0 && server->listen_again_ms <= now) {
        server->listen_again_ms = 0;
        watch_fd(server, server->listen_fd, &server->listen_watch);
    }
    if (server->listen_again_ms > 0) {
        next = server->listen_again_ms;
    }
    for (struct connection **link = &server->connections; *link != NULL;) {
        struct connection *connection = *link;
        bool waiting = connection->fd >= 0 && connection->process == NULL;
        if (waiting && connection->deadline_ms <= now) {
            close_connection(server, connection);
        } else if (waiting && connection->deadline_ms < next) {
            next = connection->deadline_ms;
        }
        if (connection->fd < 0) {
            *link = connection->next;
            free(connection);
        } else {
            link = &connection->next;
        }
    }
    return next == INT64_MAX ? -1 : (int)(next - now);
}

/* Handles one event; true: end. */
static bool handle_event(struct gm_server *server, const struct epoll_event *event)
{
    const struct watch *watch = event->data.ptr;
    switch (watch->kind) {
    case WATCH_STOP:
        return true;
    case WATCH_LISTEN:
        accept_connection(server);
        break;
    case WATCH_SOCKET:
        if (watch->connection->fd >= 0) {
            read_connection(server, watch->connection);
        }
        break;
    case WATCH_LIFE:
        close_connection(server, watch->connection);
        break;
    }
    return false;
}

static void *server_main(void *argument)
{
    struct gm_server *server = argument;
    for (bool end = false; !end;) {
        struct epoll_event events[32];
        int count = epoll_wait(server->epoll_fd, events, 32, tidy_up(server));
        for (int i = 0; i < count; i++) {
            end |= handle_event(server, &events[i]);
        }
    }
    return NULL;
}

static int open_descriptors(struct gm_server *server)
{
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->epoll_fd < 0 || server->stop_fd < 0) {
        return -errno;
    }
    server->stop_watch = (struct watch){WATCH_STOP, NULL};
    server->listen_watch = (struct watch){WATCH_LISTEN, NULL};
    int rc = watch_fd(server, server->stop_fd, &server->stop_watch);
    return rc < 0 ? rc : watch_fd(server, server->listen_fd, &server->listen_watch);
}

static void destroy_server(struct gm_server *server)
{
    for (struct connection *c = server->connections; c != NULL; c = c->next) {
        close_connection(server, c);
    }
    tidy_up(server);
    if (server->stop_fd >= 0) {
        close(server->stop_fd);
    }
    if (server->epoll_fd >= 0) {
        close(server->epoll_fd);
    }
    free(server);
}

int gm_server_start(struct gm_machine *machine, int listen_fd, struct gm_server **out)
{
    struct gm_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return -ENOMEM;
    }
    server->machine = machine;
    server->listen_fd = listen_fd;
    int rc = open_descriptors(server);
    if (rc == 0) {
        rc = -pthread_create(&server->thread, NULL, server_main, server);
    }
    if (rc < 0) {
        destroy_server(server);
        return rc;
    }
    pthread_setname_np(server->thread, "gmlaked-socket");
    *out = server;
    return 0;
}

void gm_server_stop(struct gm_server *server)
{
    if (server == NULL) {
        return;
    }
    eventfd_write(server->stop_fd, 1);
    pthread_join(server->thread, NULL);
    destroy_server(server);
}
