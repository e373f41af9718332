/*
 * connection.c - see connection.h.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <gmlake/gmlake.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_MS 1000

_Static_assert(GM_STAT_ROWS <= GMLAKE_CTL_STATS_MAX, "the statistics page has room");
_Static_assert(GMLAKE_TUNABLE_COUNT <= GMLAKE_CTL_TUNABLES_MAX, "the tunables page has room");

/* What the daemon answered: its message, then its descriptors. */
struct answer {
    union {
        struct gmlake_ctl_header header;
        struct gmlake_ctl_welcome welcome;
        struct gmlake_ctl_refused refused;
    } message;
    int fds[2];
    unsigned fd_count;
};

static void add_address(struct gm_addresses *out, const char *directory, const char *name)
{
    struct sockaddr_un *address = &out->at[out->count];
    size_t directory_length = strlen(directory);
    size_t name_length = strlen(name);
    size_t slash = directory_length > 0 ? 1 : 0;
    if (directory_length + slash + name_length >= sizeof address->sun_path) {
        return; /* no socket can have such a name */
    }
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, directory, directory_length);
    if (slash > 0) {
        address->sun_path[directory_length] = '/';
    }
    memcpy(address->sun_path + directory_length + slash, name, name_length);
    out->count++;
}

void gm_addresses_find(struct gm_addresses *out)
{
    out->count = 0;
    const char *chosen = secure_getenv("GMLAKE_SOCKET");
    if (chosen != NULL) {
        add_address(out, "", chosen);
        return;
    }
    add_address(out, "", GMLAKE_CTL_SOCKET);
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    if (runtime != NULL && runtime[0] == '/') {
        add_address(out, runtime, GMLAKE_CTL_USER_SOCKET);
    }
}

static int connect_to(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

static int say_hello(int fd, uint64_t serial, const struct gmlake_ctl_tunables_page *previous)
{
    struct gmlake_ctl_hello hello = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_HELLO, sizeof hello, 0},
        .stat_count = GM_STAT_ROWS,
        .tunable_count = GMLAKE_TUNABLE_COUNT,
        .serial = serial,
        .features = GMLAKE_CTL_FEATURE_REQUESTS,
    };
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        hello.wanted[i] = previous != NULL ? atomic_load_explicit(&previous->wanted[i], memory_order_relaxed)
                                           : GMLAKE_CTL_NO_OVERRIDE;
    }
    return send(fd, &hello, sizeof hello, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void take_descriptors(struct msghdr *message, struct answer *out)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (out->fd_count < 2) {
                out->fds[out->fd_count++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

static void close_descriptors(struct answer *answer)
{
    while (answer->fd_count > 0) {
        close(answer->fds[--answer->fd_count]);
    }
}

static int receive_answer(int fd, struct answer *out)
{
    struct pollfd ready = {fd, POLLIN, 0};
    int rc = poll(&ready, 1, ANSWER_TIMEOUT_MS);
    if (rc <= 0) {
        return rc < 0 ? -errno : -ETIMEDOUT;
    }
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {&out->message, sizeof out->message};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (length < 0) {
        return -errno;
    }
    take_descriptors(&message, out);
    const struct gmlake_ctl_header *header = &out->message.header;
    if ((size_t)length < sizeof *header || header->magic != GMLAKE_CTL_MAGIC || header->length < (size_t)length) {
        return -EPROTO;
    }
    if (header->type == GMLAKE_CTL_REFUSED && (size_t)length >= sizeof out->message.refused) {
        int reason = out->message.refused.error;
        return reason > 0 && reason < 4096 ? -reason : -EPROTO;
    }
    if (header->type != GMLAKE_CTL_WELCOME || header->abi != GMLAKE_CTL_ABI ||
        (size_t)length < GMLAKE_CTL_WELCOME_MIN || out->fd_count != 2) {
        return -EPROTO;
    }
    if ((size_t)length < sizeof out->message.welcome) {
        out->message.welcome.features = 0;
    }
    return 0;
}

/* A page that somebody could shrink would end this process by SIGBUS: only sealed ones are mapped. */
int gm_connection_map(int fd, size_t size, int protection, void **out)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &about) < 0 || about.st_size < (off_t)size) {
        return -EPROTO;
    }
    void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return -errno;
    }
    *out = at;
    return 0;
}

static int map_pages(struct gm_connection *connection, const struct answer *answer)
{
    void *stats = NULL;
    void *tunables = NULL;
    bool has_account = (answer->message.welcome.features & GMLAKE_CTL_FEATURE_REQUESTS) != 0;
    size_t size = has_account ? sizeof *connection->stats : GMLAKE_CTL_STATS_PAGE_MIN;
    int rc = gm_connection_map(answer->fds[0], size, PROT_READ | PROT_WRITE, &stats);
    if (rc < 0) {
        return rc;
    }
    rc = gm_connection_map(answer->fds[1], sizeof *connection->tunables, PROT_READ, &tunables);
    if (rc < 0) {
        munmap(stats, size);
        return rc;
    }
    /* A child made by fork() must not keep the page of its parent alive; it registers on its own. */
    madvise(stats, size, MADV_DONTFORK);
    connection->has_account = has_account;
    connection->stats_size = size;
    connection->stats = stats;
    connection->tunables = tunables;
    return 0;
}

static int attach(struct gm_connection *connection, const struct sockaddr_un *address)
{
    int fd = connect_to(address);
    if (fd < 0) {
        return fd;
    }
    struct stat about;
    struct answer answer = {.fd_count = 0};
    int rc = fstat(fd, &about) < 0 ? -errno : say_hello(fd, connection->serial, connection->tunables);
    if (rc == 0) {
        rc = receive_answer(fd, &answer);
    }
    if (rc == 0) {
        rc = map_pages(connection, &answer);
    }
    close_descriptors(&answer);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    connection->serial = answer.message.welcome.serial;
    connection->inode = about.st_ino;
    connection->fd = fd;
    return 0;
}

int gm_connection_open(struct gm_connection *connection, const struct gm_addresses *addresses)
{
    int rc = -ENOENT;
    for (unsigned i = 0; i < addresses->count; i++) {
        rc = attach(connection, &addresses->at[i]);
        if (rc == 0) {
            break;
        }
    }
    return rc;
}

static bool still_ours(const struct gm_connection *connection)
{
    struct stat about;
    return fstat(connection->fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == connection->inode;
}

/* The first descriptor that came along; the others are closed. -1: none. */
static int take_descriptor(struct msghdr *message)
{
    struct answer taken = {.fd_count = 0};
    take_descriptors(message, &taken);
    if (taken.fd_count == 2) {
        close(taken.fds[1]);
    }
    return taken.fd_count > 0 ? taken.fds[0] : -1;
}

int gm_connection_receive(struct gm_connection *connection, struct gm_request *out)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    if (!still_ours(connection)) {
        return -ECONNRESET;
    }
    for (;;) {
        struct gmlake_ctl_request request;
        struct iovec part = {&request, sizeof request};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t length = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            return length < 0 && errno == EAGAIN ? -EAGAIN : -ECONNRESET;
        }
        int fd = take_descriptor(&message);
        if ((size_t)length == sizeof request && request.header.magic == GMLAKE_CTL_MAGIC &&
            request.header.abi == GMLAKE_CTL_ABI && request.header.length >= sizeof request) {
            *out = (struct gm_request){request, fd};
            return 0;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

void gm_connection_answer(const struct gm_connection *connection, uint64_t id, int error, uint64_t value)
{
    struct gmlake_ctl_answer answer = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_ANSWER, sizeof answer, 0},
        .id = id,
        .value = value,
        .error = error,
    };
    if (still_ours(connection)) {
        (void)!send(connection->fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void gm_connection_wait(const struct gm_connection *connection, int timeout_ms)
{
    /* Were it somebody else's by now: what comes in wakes us a time too often, and the next receive notices. */
    struct pollfd ready = {connection->fd, POLLIN, 0};
    (void)poll(&ready, 1, timeout_ms);
}

void gm_connection_close(struct gm_connection *connection)
{
    if (connection->fd < 0) {
        return;
    }
    if (still_ours(connection)) {
        close(connection->fd);
    }
    munmap(connection->stats, connection->stats_size);
    connection->fd = -1;
    connection->stats = NULL;
}

void gm_connection_forget(struct gm_connection *connection)
{
    if (connection->fd >= 0 && still_ours(connection)) {
        close(connection->fd);
    }
    *connection = (struct gm_connection)GM_CONNECTION_NONE;
}
