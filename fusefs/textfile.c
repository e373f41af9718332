/*
 * textfile.c - see textfile.h.
 */
#include "textfile.h"

#include "log.h"
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME      "gmlake.prom"
#define TEMPORARY ".gmlake.prom.tmp"

struct gm_textfile {
    struct gm_machine *machine;
    pthread_t thread;
    const char *directory;
    int stop_fd;
    unsigned seconds;
    bool first_is_due; /* nothing was written yet */
    int last_error;    /* logged once, until it changes */
};

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno != EINTR) {
            return -errno;
        }
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

static int replace_file(int directory_fd, const struct gm_text *text)
{
    int fd = openat(directory_fd, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return -errno;
    }
    fchmod(fd, 0644); /* the exporter is another user, whatever the umask says */
    int rc = write_all(fd, text->data, text->length);
    if (close(fd) < 0 && rc == 0) {
        rc = -errno;
    }
    if (rc == 0 && renameat(directory_fd, TEMPORARY, directory_fd, NAME) < 0) {
        rc = -errno;
    }
    if (rc < 0) {
        unlinkat(directory_fd, TEMPORARY, 0);
    }
    return rc;
}

/* Looked up each time: a file system may be mounted there, or the directory be made anew, while the daemon runs. */
static int open_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int gm_textfile_check(const char *directory)
{
    int fd = open_directory(directory);
    if (fd < 0) {
        gm_log("cannot open the directory %s: %s", directory, strerror(-fd));
        return fd;
    }
    close(fd);
    return 0;
}

static int write_metrics(struct gm_textfile *textfile)
{
    struct gm_text text = {0};
    gm_metrics_render(textfile->machine, &text);
    int directory_fd = text.failed ? -ENOMEM : open_directory(textfile->directory);
    int rc = directory_fd;
    if (directory_fd >= 0) {
        rc = replace_file(directory_fd, &text);
        close(directory_fd);
    }
    gm_text_clear(&text);
    if (rc < 0 && rc != textfile->last_error) {
        gm_log("cannot write " NAME " in %s: %s; an old one stays", textfile->directory, strerror(-rc));
    }
    textfile->last_error = rc;
    return rc;
}

static void *textfile_main(void *argument)
{
    struct gm_textfile *textfile = argument;
    struct pollfd stop = {textfile->stop_fd, POLLIN, 0};
    if (textfile->first_is_due) {
        write_metrics(textfile);
    }
    while (poll(&stop, 1, (int)textfile->seconds * 1000) == 0) {
        write_metrics(textfile);
    }
    return NULL;
}

static void destroy(struct gm_textfile *textfile)
{
    if (textfile->stop_fd >= 0) {
        close(textfile->stop_fd);
    }
    free(textfile);
}

int gm_textfile_start(struct gm_machine *machine, const char *directory, unsigned seconds, bool successor,
                      struct gm_textfile **out)
{
    struct gm_textfile *textfile = calloc(1, sizeof *textfile);
    if (textfile == NULL) {
        return -ENOMEM;
    }
    textfile->machine = machine;
    textfile->seconds = seconds;
    textfile->directory = directory;
    textfile->first_is_due = successor; /* by the thread, as the file system may be slow */
    textfile->stop_fd = eventfd(0, EFD_CLOEXEC);
    int rc = textfile->stop_fd < 0 ? -errno : 0;
    if (rc == 0 && !successor) {
        rc = write_metrics(textfile);
    }
    if (rc == 0) {
        rc = -pthread_create(&textfile->thread, NULL, textfile_main, textfile);
    }
    if (rc < 0) {
        destroy(textfile);
        return rc;
    }
    pthread_setname_np(textfile->thread, "gmlaked-text");
    *out = textfile;
    return 0;
}

void gm_textfile_stop(struct gm_textfile *textfile)
{
    if (textfile == NULL) {
        return;
    }
    eventfd_write(textfile->stop_fd, 1);
    pthread_join(textfile->thread, NULL);
    int directory_fd = open_directory(textfile->directory);
    if (directory_fd >= 0) {
        unlinkat(directory_fd, NAME, 0);
        close(directory_fd);
    }
    destroy(textfile);
}
