/*
 * notify.c - see notify.h.
 */
#include "notify.h"

#include "log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_US        200000
#define KEEPER_WATCHDOG_MS 5000

static int keeper_fd = -1;                        /* fixed before the threads start */
static atomic_flag complained = ATOMIC_FLAG_INIT; /* that a notice was lost, once */

static void set_patience(int fd)
{
    struct timeval patience = {0, PATIENCE_US};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

void gm_notify_through(int fd)
{
    set_patience(fd);
    keeper_fd = fd;
}

/* A socket connected to the service manager; -1: there is none. */
static int connect_to_manager(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path) {
        return -1;
    }
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = '\0'; /* a name outside the file system */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) < 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0) {
        set_patience(fd);
    }
    return fd;
}

static void send_notice(int to, const char *state, const int *fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)state, strlen(state)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd != NULL) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), fd, sizeof *fd);
    }
    if (sendmsg(to, &message, MSG_NOSIGNAL) < 0 && !atomic_flag_test_and_set(&complained)) {
        gm_log("no notice reaches the keeper or service manager (%s); if this daemon dies, the mount may die with it",
               strerror(errno));
    }
}

static void deliver(const char *state, const int *fd)
{
    int to = keeper_fd >= 0 ? keeper_fd : connect_to_manager();
    if (to < 0) {
        return;
    }
    send_notice(to, state, fd);
    if (to != keeper_fd) {
        close(to);
    }
}

void gm_notify(const char *state)
{
    deliver(state, NULL);
}

void gm_notify_keep(const char *name, int fd)
{
    char state[GM_NOTICE_MAX];
    snprintf(state, sizeof state, "FDSTORE=1\nFDNAME=%s", name);
    deliver(state, &fd);
}

void gm_notify_drop(const char *name)
{
    char state[GM_NOTICE_MAX];
    snprintf(state, sizeof state, "FDSTOREREMOVE=1\nFDNAME=%s", name);
    deliver(state, NULL);
}

int gm_notify_watchdog_ms(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    const char *wanted = getenv("WATCHDOG_USEC");
    int interval = keeper_fd >= 0 ? KEEPER_WATCHDOG_MS : -1;
    /* A keeper passes on what it hears: then the number in the environment is its own. */
    if (wanted != NULL && (keeper_fd >= 0 || pid == NULL || strtol(pid, NULL, 10) == getpid())) {
        unsigned long us = strtoul(wanted, NULL, 10);
        if (us >= 2000 && (interval < 0 || us / 2000 < (unsigned)interval)) {
            interval = (int)(us / 2000 < 3600000 ? us / 2000 : 3600000);
        }
    }
    return interval;
}
