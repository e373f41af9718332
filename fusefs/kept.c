/*
 * kept.c - see kept.h.
 */
#include "kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PASSED 3 /* SD_LISTEN_FDS_START */

void gm_kept_name(char out[GM_KEPT_NAME_SIZE], const char *prefix, uint64_t serial)
{
    snprintf(out, GM_KEPT_NAME_SIZE, "%s%" PRIu64, prefix, serial);
}

static struct gm_kept_fd *find(const struct gm_kept *kept, const char *name)
{
    for (unsigned i = 0; i < kept->count; i++) {
        if (strcmp(kept->at[i].name, name) == 0) {
            return &kept->at[i];
        }
    }
    return NULL;
}

static int make_room(struct gm_kept *kept)
{
    if (kept->count < kept->room) {
        return 0;
    }
    if (kept->count >= GM_KEPT_MAX) {
        return -ENOSPC;
    }
    unsigned room = kept->room > 0 ? 2 * kept->room : 16;
    struct gm_kept_fd *at = reallocarray(kept->at, room, sizeof *at);
    if (at == NULL) {
        return -ENOMEM;
    }
    kept->at = at;
    kept->room = room;
    return 0;
}

int gm_kept_put(struct gm_kept *kept, const char *name, int fd)
{
    struct gm_kept_fd *old = find(kept, name);
    if (old != NULL) {
        close(old->fd);
        old->fd = fd;
        return 0;
    }
    int rc = make_room(kept);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    snprintf(kept->at[kept->count].name, GM_KEPT_NAME_SIZE, "%s", name);
    kept->at[kept->count++].fd = fd;
    return 0;
}

int gm_kept_find(const struct gm_kept *kept, const char *name)
{
    const struct gm_kept_fd *found = find(kept, name);
    return found != NULL ? found->fd : -1;
}

int gm_kept_take(struct gm_kept *kept, const char *name)
{
    struct gm_kept_fd *found = find(kept, name);
    if (found == NULL) {
        return -1;
    }
    int fd = found->fd;
    *found = kept->at[--kept->count];
    return fd;
}

void gm_kept_drop(struct gm_kept *kept, const char *name)
{
    int fd = gm_kept_take(kept, name);
    if (fd >= 0) {
        close(fd);
    }
}

static int is_of_process(const char *name)
{
    return strncmp(name, GM_KEPT_STATS, strlen(GM_KEPT_STATS)) == 0 ||
           strncmp(name, GM_KEPT_TUNABLES, strlen(GM_KEPT_TUNABLES)) == 0;
}

void gm_kept_drop_processes(struct gm_kept *kept)
{
    for (unsigned i = 0; i < kept->count;) {
        if (is_of_process(kept->at[i].name)) {
            close(kept->at[i].fd);
            kept->at[i] = kept->at[--kept->count];
        } else {
            i++;
        }
    }
}

void gm_kept_clear(struct gm_kept *kept)
{
    while (kept->count > 0) {
        close(kept->at[--kept->count].fd);
    }
    free(kept->at);
    *kept = (struct gm_kept){0};
}

static void take_passed(struct gm_kept *out, unsigned count, char *names)
{
    char *rest = names;
    for (unsigned i = 0; i < count; i++) {
        int fd = FIRST_PASSED + (int)i;
        const char *name = strsep(&rest, ":");
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
            continue;
        }
        if (name == NULL || name[0] == '\0') {
            close(fd);
        } else {
            (void)gm_kept_put(out, name, fd);
        }
    }
}

void gm_kept_from_environment(struct gm_kept *out)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    *out = (struct gm_kept){0};
    if (pid != NULL && count != NULL && names != NULL && strtol(pid, NULL, 10) == getpid()) {
        unsigned long number = strtoul(count, NULL, 10);
        char *copy = strdup(names);
        if (copy != NULL && number <= GM_KEPT_MAX) {
            take_passed(out, (unsigned)number, copy);
        }
        free(copy);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}
