/*
 * place.c - see place.h.
 */
#include "place.h"

#include "log.h"
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_MAGIC  0x65735546
#define BACKLOG     4096 /* the kernel takes net.core.somaxconn of it */
#define STALE_TRIES 8    /* mounts may lie on one another */

/* ---- directories ---------------------------------------------------------------------------------------------- */

static int make_one(const char *path, unsigned mode, struct gm_made *made)
{
    if (mkdir(path, mode) < 0) {
        if (errno == EEXIST) {
            return 0;
        }
        int error = errno;
        gm_log("cannot make the directory %s: %s", path, strerror(error));
        return -error;
    }
    if (made->count < GM_MADE_MAX) {
        char *copy = strdup(path);
        if (copy != NULL) {
            made->path[made->count++] = copy;
        }
    }
    return 0;
}

int gm_directory_make(const char *path, unsigned mode, struct gm_made *made)
{
    char part[PATH_MAX];
    int rc = 0;
    snprintf(part, sizeof part, "%s", path);
    for (char *c = part + 1; rc == 0 && *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            rc = make_one(part, mode, made);
            *c = '/';
        }
    }
    return rc < 0 ? rc : make_one(part, mode, made);
}

void gm_directories_remove(struct gm_made *made)
{
    while (made->count > 0) {
        char *path = made->path[--made->count];
        rmdir(path); /* somebody else's files keep it */
        free(path);
    }
}

/* ---- mountpoint ----------------------------------------------------------------------------------------------- */

static int unmount_stale(const char *path)
{
    gm_log_info("%s: the daemon that mounted it is gone; unmounting", path);
    return gm_unmount(path);
}

/* True if @path, which can be looked at, is a FUSE mount of its own. */
static bool is_live_mount(const char *path)
{
    char parent[PATH_MAX + 4];
    struct stat here;
    struct stat above;
    struct statfs about;
    snprintf(parent, sizeof parent, "%s/..", path);
    return stat(path, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev &&
           statfs(path, &about) == 0 && (unsigned long)about.f_type == FUSE_MAGIC;
}

int gm_mountpoint_prepare(const char *path, struct gm_made *made, char absolute[PATH_MAX])
{
    struct stat about;
    for (int i = 0; i < STALE_TRIES && stat(path, &about) < 0 && errno == ENOTCONN; i++) {
        int rc = unmount_stale(path);
        if (rc < 0) {
            gm_log("cannot unmount %s: %s; unmount it by hand", path, strerror(-rc));
            return rc;
        }
    }
    int rc = gm_directory_make(path, 0755, made);
    if (rc < 0) {
        return rc;
    }
    if (realpath(path, absolute) == NULL) {
        rc = -errno;
        gm_log("%s: %s", path, strerror(-rc));
        return rc;
    }
    if (is_live_mount(absolute)) {
        gm_log("%s: a file system is mounted there already; stop its daemon or give another --mountpoint", path);
        return -EBUSY;
    }
    return 0;
}

/* ---- socket --------------------------------------------------------------------------------------------------- */

/* Takes the lock beside the socket; a lock file that its holder removed meanwhile is not it. */
static int take_lock(const char *socket_path)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.lock", socket_path);
    for (;;) {
        struct stat opened;
        struct stat named;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            int error = errno;
            gm_log("cannot open %s: %s", path, strerror(error));
            return -error;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            gm_log("%s is locked: another gmlaked serves this socket; stop it or give another --socket", path);
            close(fd);
            return -EADDRINUSE;
        }
        if (fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino) {
            return fd;
        }
        close(fd);
    }
}

/* Removes the lock file while it is held: who waits for it looks at the name again. */
static void drop_lock(const char *socket_path, int fd)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s.lock", socket_path);
    unlink(path);
    close(fd);
}

/* Removes a socket nobody answers at. */
static int remove_stale(const struct sockaddr_un *address)
{
    struct stat about;
    if (lstat(address->sun_path, &about) < 0) {
        return 0;
    }
    if (!S_ISSOCK(about.st_mode)) {
        gm_log("%s is there and not a socket; remove it or give another --socket", address->sun_path);
        return -EEXIST;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? -errno : connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? -errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    if (rc != -ECONNREFUSED) {
        gm_log("%s is served by another program; give another --socket", address->sun_path);
        return -EADDRINUSE;
    }
    return unlink(address->sun_path) < 0 ? -errno : 0;
}

static int listen_at(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    mode_t before = umask(geteuid() == 0 ? 0111 : 0177);
    int bound = bind(fd, (const struct sockaddr *)address, sizeof *address);
    int error = errno;
    umask(before);
    if (bound < 0 || listen(fd, BACKLOG) < 0) {
        error = bound < 0 ? error : errno;
        close(fd);
        return -error;
    }
    return fd;
}

static int make_parent(const char *path, struct gm_made *made)
{
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL || slash == parent) {
        return 0;
    }
    *slash = '\0';
    return gm_directory_make(parent, geteuid() == 0 ? 0755 : 0700, made);
}

int gm_socket_open(const char *path, struct gm_made *made, struct gm_socket *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        gm_log("%s: a socket's name has at most %zu characters", path, sizeof address.sun_path - 1);
        return -ENAMETOOLONG;
    }
    memcpy(address.sun_path, path, strlen(path));
    int rc = make_parent(path, made);
    if (rc < 0) {
        return rc;
    }
    int lock_fd = take_lock(path);
    if (lock_fd < 0) {
        return lock_fd;
    }
    rc = remove_stale(&address);
    if (rc == 0) {
        rc = listen_at(&address);
        if (rc < 0) {
            gm_log("cannot listen at %s: %s", path, strerror(-rc));
        }
    }
    if (rc < 0) {
        drop_lock(path, lock_fd);
        return rc;
    }
    *out = (struct gm_socket){.fd = rc, .lock_fd = lock_fd};
    snprintf(out->path, sizeof out->path, "%s", path);
    return 0;
}

bool gm_socket_is_named(int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address - 1; /* a NUL stays behind the longest name */
    struct stat about;
    return getsockname(fd, (struct sockaddr *)&address, &size) < 0 || address.sun_path[0] != '/' ||
           lstat(address.sun_path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

void gm_socket_close(struct gm_socket *socket)
{
    unlink(socket->path);
    close(socket->fd);
    drop_lock(socket->path, socket->lock_fd);
}
