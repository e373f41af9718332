/*
 * mount.c - see mount.h.
 */
#include "mount.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where fusermount3 finds the socket to send the descriptor through. */
#define HELPER_FD 3

static int mount_as_root(const char *path)
{
    char options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,allow_other", fd,
             (unsigned)geteuid(), (unsigned)getegid());
    if (mount("gmlake", path, "fuse.gmlake", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

/* Runs fusermount3 with @arguments; with @socket as its HELPER_FD if that is not negative. 0 if it succeeded. */
static int run_helper(char *const arguments[], int socket)
{
    char where[] = "_FUSE_COMMFD=3";
    char *environment[] = {where, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    if (socket >= 0) {
        posix_spawn_file_actions_adddup2(&actions, socket, HELPER_FD);
    }
    int error = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    while (error == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return error != 0 ? -error : status == 0 ? 0 : -EPERM;
}

/* The descriptor that fusermount3 has sent. */
static int receive_descriptor(int from)
{
    char byte;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0) {
        return -errno;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS) {
        return -EPROTO;
    }
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static int mount_as_user(const char *path)
{
    char program[] = "fusermount3";
    char flag[] = "-o";
    char options[] = "fsname=gmlake,subtype=gmlake,default_permissions,noexec";
    char dashes[] = "--";
    char *copy = strdup(path);
    char *arguments[] = {program, flag, options, dashes, copy, NULL};
    int pair[2];
    if (copy == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        free(copy);
        return -ENOMEM;
    }
    int rc = run_helper(arguments, pair[1]);
    int fd = rc < 0 ? rc : receive_descriptor(pair[0]);
    close(pair[0]);
    close(pair[1]);
    free(copy);
    return fd;
}

int gm_mount(const char *path)
{
    int fd = geteuid() == 0 ? mount_as_root(path) : mount_as_user(path);
    if (fd < 0) {
        gm_log("cannot mount at %s: %s; is /dev/fuse there, and may this user open it?", path, strerror(-fd));
    }
    return fd;
}

int gm_unmount(const char *path)
{
    if (geteuid() == 0) {
        return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
    }
    char program[] = "fusermount3";
    char flags[] = "-uzq";
    char dashes[] = "--";
    char *copy = strdup(path);
    char *arguments[] = {program, flags, dashes, copy, NULL};
    int rc = copy == NULL ? -ENOMEM : run_helper(arguments, -1);
    free(copy);
    return rc;
}

bool gm_mount_is_alive(int fd)
{
    struct pollfd look = {fd, POLLIN, 0};
    return poll(&look, 1, 0) >= 0 && (look.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}
