/*
 * peer.c - see peer.h.
 */
#include "peer.h"

#include "procfs.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

#define UNREAD_MAX 64

/* ---- who ------------------------------------------------------------------------------------------------------ */

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

/* Sees to it that the process behind @pidfd, whose pid was @pid, lives; gives its start time. */
static int confirm(pid_t pid, int pidfd, uint64_t *start_time)
{
    struct gm_proc_stat stat;
    struct pollfd dead = {pidfd, POLLIN, 0};
    int rc = gm_proc_stat(pid, &stat);
    if (rc == 0 && poll(&dead, 1, 0) != 0) {
        rc = -ESRCH;
    }
    if (rc == 0) {
        *start_time = stat.start_time;
    }
    return rc;
}

int gm_peer_identify(int fd, struct gm_identity *out)
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
    uint64_t start_time = 0;
    int rc = confirm(peer.pid, pidfd, &start_time);
    if (rc < 0) {
        close(pidfd);
        return rc;
    }
    *out = (struct gm_identity){
        .pid = peer.pid, .uid = peer.uid, .gid = peer.gid, .start_time = start_time, .pidfd = pidfd};
    return 0;
}

int gm_peer_find(const struct gm_state_process *row, struct gm_identity *out)
{
    int pidfd = row->pid > 0 ? (int)syscall(SYS_pidfd_open, row->pid, 0) : -1;
    if (pidfd < 0) {
        return -ESRCH;
    }
    uint64_t start_time = 0;
    int rc = confirm(row->pid, pidfd, &start_time);
    if (rc < 0 || start_time != row->start_time) {
        close(pidfd);
        return -ESRCH;
    }
    *out = (struct gm_identity){
        .pid = row->pid, .uid = row->uid, .gid = row->gid, .start_time = start_time, .pidfd = pidfd};
    return 0;
}

/* ---- words ---------------------------------------------------------------------------------------------------- */

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

int gm_peer_welcome(int fd, uint64_t serial, const int fds[2])
{
    struct gmlake_ctl_welcome welcome = {
        .header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, GMLAKE_CTL_WELCOME, sizeof welcome, 0},
        .serial = serial,
        .stats_size = sizeof(struct gmlake_ctl_stats_page),
        .tunables_size = sizeof(struct gmlake_ctl_tunables_page),
        .features = GMLAKE_CTL_FEATURE_REQUESTS,
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

void gm_peer_refuse(int fd, int error)
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
