/*
 * server.c - see server.h.
 */
#include "server.h"

#include "events.h"
#include "log.h"
#include "monotonic.h"
#include "notify.h"
#include "peer.h"
#include "procfs.h"
#include "quota.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_DEADLINE_MS 2000
#define ACCEPT_PAUSE_MS   100
#define BEAT_MS           1000  /* the thread shows itself as often at the least */
#define HANGING_MS        10000 /* without a beat */
#define QUIET_MS          50    /* for whom the quota has run out */
#define RETURN_MS         10000 /* for a process that an earlier daemon knew to come back */
#define STOPPED_MS        1000  /* how often to look again at one that cannot, being stopped */

/* What an epoll event stands for. */
enum watch_kind { WATCH_STOP, WATCH_LISTEN, WATCH_SOCKET, WATCH_LIFE };

struct connection;

struct watch {
    enum watch_kind kind;
    struct connection *connection;
};

/*
 * Invariant: process is set from WELCOME on, or from the start for a process that an earlier daemon knew and that has
 * not come back: that one has no fd, but the pages' descriptors to give it. A closed one waits in the list for the end
 * of the event round.
 */
struct connection {
    struct connection *next;
    struct watch socket_watch;
    struct watch life_watch;
    int fd;
    int pages[2]; /* -1 but as said above */
    bool closed;
    bool quiet;                  /* not listened to until deadline_ms */
    struct gm_identity identity; /* owns its pidfd */
    struct gm_user *user;        /* NULL for one that is expected back: its place is free for it */
    int64_t deadline_ms;         /* for HELLO, to come back, or of quiet; INT64_MAX none */
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
    struct gm_users users;
    int64_t listen_again_ms; /* accepting pauses until then; 0: it does not */
    bool complained;         /* the log has it that there is no room for another process */
    int64_t looked_ms;       /* at all processes */
    _Atomic int64_t beat_ms; /* when the thread last came by */
};

static int watch_fd(struct gm_server *server, int fd, struct watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = watch};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- one connection ------------------------------------------------------------------------------------------- */

static void close_pages(struct connection *connection)
{
    for (int i = 0; i < 2; i++) {
        if (connection->pages[i] >= 0) {
            close(connection->pages[i]);
            connection->pages[i] = -1;
        }
    }
}

/* Keeps the pages for the next daemon, in case this one is killed; or lets go of them. */
static void keep_pages(uint64_t serial, const int fds[2])
{
    char name[GM_KEPT_NAME_SIZE];
    gm_kept_name(name, GM_KEPT_STATS, serial);
    gm_notify_keep(name, fds[0]);
    gm_kept_name(name, GM_KEPT_TUNABLES, serial);
    gm_notify_keep(name, fds[1]);
}

static void drop_pages(uint64_t serial)
{
    char name[GM_KEPT_NAME_SIZE];
    gm_kept_name(name, GM_KEPT_STATS, serial);
    gm_notify_drop(name);
    gm_kept_name(name, GM_KEPT_TUNABLES, serial);
    gm_notify_drop(name);
}

static void close_connection(struct gm_server *server, struct connection *connection)
{
    if (connection->closed) {
        return;
    }
    if (connection->process != NULL) {
        uint64_t serial = connection->process->serial;
        gm_line_close(&connection->process->line);
        gm_machine_remove(server->machine, connection->process);
        gm_process_release(connection->process);
        connection->process = NULL;
        drop_pages(serial);
    }
    /* Closing alone does not end the watch while a duplicate is open: open files keep one of the pidfd. */
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->identity.pidfd, NULL);
    close(connection->identity.pidfd);
    if (connection->fd >= 0) {
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
        close(connection->fd);
    }
    close_pages(connection);
    if (connection->user != NULL) {
        gm_user_leave(&server->users, connection->user);
    }
    connection->closed = true;
}

/* Adds to the list who is already let in as @user; the descriptors of @identity and @fd pass over on success. */
static int list_connection(struct gm_server *server, const struct gm_identity *identity, int fd, struct gm_user *user,
                           struct connection **out)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        return -ENOMEM;
    }
    connection->fd = fd;
    connection->pages[0] = connection->pages[1] = -1;
    connection->identity = *identity;
    connection->user = user;
    connection->socket_watch = (struct watch){WATCH_SOCKET, connection};
    connection->life_watch = (struct watch){WATCH_LIFE, connection};
    int rc = fd >= 0 ? watch_fd(server, fd, &connection->socket_watch) : 0;
    if (rc == 0) {
        rc = watch_fd(server, identity->pidfd, &connection->life_watch);
    }
    if (rc < 0) {
        if (fd >= 0) {
            epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        }
        free(connection);
        return rc;
    }
    connection->next = server->connections;
    server->connections = connection;
    *out = connection;
    return 0;
}

/* A program that called exec() has let go of its old connection; that may not have been noticed here yet. */
static void close_left_by_exec(struct gm_server *server, pid_t pid)
{
    for (struct connection *c = server->connections; c != NULL; c = c->next) {
        struct pollfd ended = {c->fd, POLLRDHUP, 0};
        if (!c->closed && c->process != NULL && c->identity.pid == pid && (c->fd < 0 || poll(&ended, 1, 0) > 0)) {
            close_connection(server, c);
        }
    }
}

/* The entry of a process that an earlier daemon knew and that is back now; NULL: it was not known. */
static struct connection *find_expected(struct gm_server *server, const struct gm_identity *identity, uint64_t serial)
{
    for (struct connection *c = server->connections; c != NULL && serial != 0; c = c->next) {
        if (!c->closed && c->fd < 0 && c->process->serial == serial && c->identity.pid == identity->pid &&
            c->identity.start_time == identity->start_time) {
            return c;
        }
    }
    return NULL;
}

/* Notes how it went to take in a process: of a shortage the log has it once, until one was taken in. */
static bool note_shortage(struct gm_server *server, int error)
{
    bool shortage = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
    if (shortage && !server->complained) {
        gm_log("cannot take in a process: %s; raise the limit of open files or of memory", strerror(error));
    }
    server->complained = shortage || (server->complained && error != 0);
    return shortage;
}

static int welcome(struct gm_server *server, const struct connection *connection, const struct gmlake_ctl_hello *hello,
                   const int fds[2])
{
    int rc = gm_peer_welcome(connection->fd, connection->process->serial, fds);
    if (rc == 0) {
        struct gm_process *process = connection->process;
        atomic_store(&server->machine->state->process[process->place].features, hello->features);
        gm_line_open(&server->machine->calls, &process->line, connection->fd, hello->features);
    }
    return rc;
}

/* Gives the process of @expected, with its pages, to the connection through which it has come back. */
static int come_back(struct gm_server *server, struct connection *connection, const struct gmlake_ctl_hello *hello,
                     struct connection *expected)
{
    connection->process = expected->process;
    expected->process = NULL;
    int rc = welcome(server, connection, hello, expected->pages);
    close_connection(server, expected);
    return rc;
}

static int register_process(struct gm_server *server, struct connection *connection,
                            const struct gmlake_ctl_hello *hello)
{
    struct connection *expected = find_expected(server, &connection->identity, hello->serial);
    if (expected != NULL) {
        return come_back(server, connection, hello, expected);
    }
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
        if (hello->serial != 0) {
            gm_process_has_past(process);
        }
        keep_pages(process->serial, fds);
        rc = welcome(server, connection, hello, fds);
    }
    close(fds[0]);
    close(fds[1]);
    return rc;
}

/* The first message is HELLO, others are answers; what is neither is ignored. A negative result closes the connection.
 */
static int handle_message(struct gm_server *server, struct connection *connection, const void *bytes, size_t length)
{
    if (connection->process != NULL) {
        (void)gm_calls_answer(&server->machine->calls, connection->process, bytes, length);
        return 0;
    }
    struct gmlake_ctl_hello hello;
    int rc = gm_hello_parse(bytes, length, &hello);
    if (rc == 0) {
        rc = register_process(server, connection, &hello);
    }
    note_shortage(server, -rc);
    if (rc < 0) {
        gm_peer_refuse(connection->fd, -rc);
    }
    connection->deadline_ms = INT64_MAX;
    return rc;
}

static void listen_to(struct gm_server *server, struct connection *connection, bool quiet)
{
    struct epoll_event event = {.events = quiet ? EPOLLRDHUP : EPOLLIN | EPOLLRDHUP,
                                .data.ptr = &connection->socket_watch};
    epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    connection->quiet = quiet;
    connection->deadline_ms = quiet ? gm_monotonic_ms() + QUIET_MS : INT64_MAX;
}

static void read_connection(struct gm_server *server, struct connection *connection)
{
    char bytes[GMLAKE_CTL_MESSAGE_MAX];
    /* Whose words are used up is not read from for a while, which makes himself wait. */
    if (connection->process != NULL && !gm_user_speak(connection->user, gm_monotonic_ms())) {
        listen_to(server, connection, true);
        return;
    }
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

static int add_connection(struct gm_server *server, int fd)
{
    struct gm_identity identity = {.pidfd = -1};
    int rc = gm_peer_identify(fd, &identity);
    if (rc < 0) {
        return rc;
    }
    struct connection *connection;
    struct gm_user *user = gm_user_enter(&server->users, identity.uid, gm_monotonic_ms());
    rc = user == NULL ? -EDQUOT : list_connection(server, &identity, fd, user, &connection);
    if (rc < 0) {
        if (user != NULL) {
            gm_user_leave(&server->users, user);
        }
        close(identity.pidfd);
        return rc;
    }
    connection->deadline_ms = gm_monotonic_ms() + HELLO_DEADLINE_MS;
    return 0;
}

static void pause_listening(struct gm_server *server)
{
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
    server->listen_again_ms = gm_monotonic_ms() + ACCEPT_PAUSE_MS;
}

static void accept_connection(struct gm_server *server)
{
    /* cppcheck-suppress nullPointer ; who it is, is asked in another way */
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (note_shortage(server, errno)) {
            pause_listening(server);
        }
        return;
    }
    int rc = add_connection(server, fd);
    if (rc < 0) {
        note_shortage(server, -rc);
        gm_peer_refuse(fd, -rc);
        close(fd);
    }
}

/* ---- what an earlier daemon knew ------------------------------------------------------------------------------ */

/* The pages that were kept of @serial: the very statistics, a copy of the tunables in *fds, kept from now on. */
static int restore_pages(const struct gm_kept *kept, uint64_t serial, struct gm_pages *out, int fds[2])
{
    char name[GM_KEPT_NAME_SIZE];
    gm_kept_name(name, GM_KEPT_STATS, serial);
    int stats_fd = gm_kept_find(kept, name);
    gm_kept_name(name, GM_KEPT_TUNABLES, serial);
    const int old[2] = {stats_fd, gm_kept_find(kept, name)};
    int rc = old[0] < 0 || old[1] < 0 ? -ENOENT : gm_pages_restore(out, old, &fds[1]);
    if (rc < 0) {
        return rc;
    }
    fds[0] = fcntl(stats_fd, F_DUPFD_CLOEXEC, 0);
    if (fds[0] < 0) {
        rc = -errno;
        close(fds[1]);
        gm_pages_destroy(out);
        return rc;
    }
    gm_notify_drop(name); /* another by the same name would stand beside it */
    gm_notify_keep(name, fds[1]);
    return 0;
}

/* Shows the process registered at @place as before, until it comes back itself. */
static int expect_process(struct gm_server *server, const struct gm_kept *kept, unsigned place)
{
    const struct gm_state_process *row = &server->machine->state->process[place];
    struct gm_identity identity;
    struct gm_pages pages;
    struct gm_process *process = NULL;
    struct connection *connection = NULL;
    int fds[2] = {-1, -1};
    int rc = gm_peer_find(row, &identity);
    if (rc < 0) {
        return rc;
    }
    rc = restore_pages(kept, atomic_load(&row->serial), &pages, fds);
    if (rc == 0) {
        rc = gm_machine_restore(server->machine, &identity, &pages, place, &process);
        if (rc < 0) {
            gm_pages_destroy(&pages);
        }
    }
    if (rc == 0) {
        rc = list_connection(server, &identity, -1, NULL, &connection);
    }
    if (rc == 0) {
        connection->process = process;
        connection->pages[0] = fds[0];
        connection->pages[1] = fds[1];
        connection->deadline_ms = gm_monotonic_ms() + RETURN_MS;
        gm_line_expect(&process->line, atomic_load(&row->features));
        return 0;
    }
    if (process != NULL) {
        gm_machine_remove(server->machine, process);
        gm_process_release(process);
    }
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    close(identity.pidfd);
    return rc;
}

/* Every registration in the state is a process that is expected back, or it goes. */
static void expect_processes(struct gm_server *server, const struct gm_kept *kept)
{
    for (unsigned place = 0; place < GM_STATE_PROCESSES; place++) {
        struct gm_state_process *row = &server->machine->state->process[place];
        uint64_t serial = atomic_load(&row->serial);
        if (serial != 0 && expect_process(server, kept, place) < 0) {
            atomic_store(&row->serial, 0);
            drop_pages(serial);
        }
    }
}

/* ---- the thread ----------------------------------------------------------------------------------------------- */

/* What is due for a connection whose time has come. */
static void act_on_deadline(struct gm_server *server, struct connection *connection, int64_t now)
{
    struct gm_proc_stat stat;
    if (connection->quiet) {
        listen_to(server, connection, false);
    } else if (connection->process != NULL && gm_proc_stat(connection->identity.pid, &stat) == 0 &&
               strchr("TtD", stat.state) != NULL) {
        connection->deadline_ms = now + STOPPED_MS;
    } else {
        close_connection(server, connection);
    }
}

/* Frees what was closed in this round of events, acts on deadlines; gives the time to the next look. */
static int tidy_up(struct gm_server *server)
{
    int64_t now = gm_monotonic_ms();
    int64_t next = now + BEAT_MS;
    atomic_store(&server->beat_ms, now);
    if (server->listen_again_ms > 0 && server->listen_again_ms <= now) {
        server->listen_again_ms = 0;
        watch_fd(server, server->listen_fd, &server->listen_watch);
    }
    if (server->listen_again_ms > 0 && server->listen_again_ms < next) {
        next = server->listen_again_ms;
    }
    for (struct connection **link = &server->connections; *link != NULL;) {
        struct connection *connection = *link;
        if (!connection->closed && connection->deadline_ms <= now) {
            act_on_deadline(server, connection, now);
        }
        if (connection->closed) {
            *link = connection->next;
            free(connection);
            continue;
        }
        if (connection->deadline_ms < next) {
            next = connection->deadline_ms;
        }
        link = &connection->next;
    }
    gm_users_tidy(&server->users, now);
    if (now - server->looked_ms >= BEAT_MS) {
        server->looked_ms = now;
        gm_events_look(server->machine); /* who stops is noticed, whether anybody asks or not */
    }
    return next > now ? (int)(next - now) : 0;
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
        if (watch->connection->closed) {
            break;
        }
        if ((event->events & EPOLLIN) != 0) {
            read_connection(server, watch->connection);
        } else { /* it has hung up, and there is nothing left to read or no wish to */
            close_connection(server, watch->connection);
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
    gm_users_tidy(&server->users, INT64_MAX);
    if (server->stop_fd >= 0) {
        close(server->stop_fd);
    }
    if (server->epoll_fd >= 0) {
        close(server->epoll_fd);
    }
    free(server);
}

int gm_server_start(struct gm_machine *machine, int listen_fd, const struct gm_kept *kept, struct gm_server **out)
{
    struct gm_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return -ENOMEM;
    }
    server->machine = machine;
    server->listen_fd = listen_fd;
    int rc = open_descriptors(server);
    if (rc == 0 && kept != NULL) {
        expect_processes(server, kept);
    }
    atomic_init(&server->beat_ms, gm_monotonic_ms());
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

bool gm_server_is_alive(const struct gm_server *server)
{
    return gm_monotonic_ms() - atomic_load(&server->beat_ms) < HANGING_MS;
}
