/*
 * mount.c - see mount.h.
 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <gmlake/ctl_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char machine_mount[] = "/gmlake";

/* Opens @path if gmlaked is mounted there: its root has the file `version`. */
static int open_mounted(const char *path)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0 && faccessat(directory, "version", R_OK, 0) != 0) {
        int error = errno;
        close(directory);
        errno = error;
        return -1;
    }
    return directory;
}

static int open_default(char **where)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int directory = open_mounted(machine_mount);
    if (directory >= 0 || runtime == NULL || runtime[0] == '\0') {
        *where = strdup(machine_mount);
        return directory;
    }
    if (asprintf(where, "%s/%s", runtime, GMLAKE_CTL_USER_MOUNT) < 0) {
        *where = NULL;
        return -1;
    }
    return open_mounted(*where);
}

static bool is_pid(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 10 && strspn(text, "0123456789") == length && text[0] != '0';
}

static int open_process(const struct gm_command *command, int root, const char *pid, int *out)
{
    int directory = openat(root, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        *out = directory;
        return GM_EXIT_OK;
    }
    if (errno == ENOENT) {
        gm_complain(command, "no process %s uses GMLake", pid);
        return GM_EXIT_NO_PROCESS;
    }
    gm_complain(command, "process %s: %s", pid, strerror(errno));
    return GM_EXIT_ERROR;
}

int gm_mount_locate(const char *mount, char **where)
{
    *where = NULL;
    int root = mount == NULL ? open_default(where) : open_mounted(mount);
    int error = root >= 0 ? 0 : errno;
    if (mount != NULL) {
        *where = strdup(mount);
    }
    return error == 0 ? root : -error;
}

int gm_mount_option_next(const struct gm_command *command, int argc, char **argv, struct gm_place *place,
                         const char **value)
{
    int row;
    while ((row = gm_option_next(command, argc, argv, false, value)) >= 0) {
        const char *name = command->options[row].name;
        if (strcmp(name, "pid") == 0) {
            place->pid = *value;
        } else if (strcmp(name, "mount") == 0) {
            place->mount = *value;
        } else {
            break;
        }
    }
    return row;
}

int gm_mount_open(const struct gm_command *command, const struct gm_place *place, int *out)
{
    if (place->pid != NULL && !is_pid(place->pid)) {
        return gm_usage_error(command, "'%s' is not a process number", place->pid);
    }
    char *where;
    int root = gm_mount_locate(place->mount, &where);
    if (root < 0) {
        gm_complain(command, "gmlaked is not mounted at %s (%s); start gmlaked, or name its mount with --mount",
                    where != NULL ? where : machine_mount, strerror(-root));
        free(where);
        return GM_EXIT_NO_DAEMON;
    }
    free(where);
    if (place->pid == NULL) {
        *out = root;
        return GM_EXIT_OK;
    }
    int status = open_process(command, root, place->pid, out);
    close(root);
    return status;
}

int gm_mount_failed(const struct gm_command *command, const struct gm_place *place, const char *name, int rc)
{
    if (place->pid != NULL && (rc == -ESRCH || rc == -ENOENT || rc == -ESTALE)) {
        gm_complain(command, "process %s has ended", place->pid);
        return GM_EXIT_NO_PROCESS;
    }
    gm_complain(command, "%s: %s", name, strerror(-rc));
    return rc == -ENOTCONN || rc == -ECONNABORTED || rc == -ENODEV ? GM_EXIT_NO_DAEMON : GM_EXIT_ERROR;
}

int gm_mount_read_bytes(int directory, const char *name, char **out, size_t *size)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t room = 4096;
    size_t length = 0;
    char *text = malloc(room);
    ssize_t got = -1;
    errno = ENOMEM;
    while (text != NULL && (got = read(fd, text + length, room - length - 1)) > 0) {
        length += (size_t)got;
        if (room - length < 1024) {
            char *bigger = realloc(text, room * 2);
            if (bigger == NULL) {
                got = -1;
                break;
            }
            text = bigger;
            room *= 2;
        }
    }
    int error = errno;
    close(fd);
    if (got < 0) {
        free(text);
        return -error;
    }
    text[length] = '\0';
    *out = text;
    *size = length;
    return 0;
}

int gm_mount_read(int directory, const char *name, char **out)
{
    size_t size;
    return gm_mount_read_bytes(directory, name, out, &size);
}

int gm_mount_write(int directory, const char *name, const char *text)
{
    int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t length = strlen(text);
    ssize_t written = write(fd, text, length);
    int rc = written < 0 ? -errno : (size_t)written == length ? 0 : -EIO;
    if (close(fd) != 0 && rc == 0) {
        rc = -errno;
    }
    return rc;
}

const char *gm_mount_tunable(const char *name)
{
    return strcmp(name, "max") == 0 ? "memory_max" : strcmp(name, "high") == 0 ? "memory_high" : name;
}
