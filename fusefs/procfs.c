/*
 * procfs.c - see procfs.h.
 */
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a file of /proc/<pid> into @out as a string; its length, -ESRCH no such process, or another -errno. */
static ssize_t read_file(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    ssize_t length = read(fd, out, size - 1);
    int error = errno;
    close(fd);
    if (length < 0) {
        return -error;
    }
    out[length] = '\0';
    return length;
}

int gm_proc_stat_parse(const char *text, struct gm_proc_stat *out)
{
    /* The name, in parentheses, may hold any of these itself: the last one ends it. The state is field 3. */
    const char *field = strrchr(text, ')');
    if (field == NULL || field[1] != ' ' || field[2] == '\0') {
        return -EBADMSG;
    }
    char state = field[2];
    field++;
    for (int number = 3; number < 22; number++) {
        field = strchr(field + 1, ' ');
        if (field == NULL) {
            return -EBADMSG;
        }
    }
    char *end;
    unsigned long long start_time = strtoull(field + 1, &end, 10);
    if (end == field + 1) {
        return -EBADMSG;
    }
    *out = (struct gm_proc_stat){.state = state, .start_time = start_time};
    return 0;
}

int gm_proc_stat(pid_t pid, struct gm_proc_stat *out)
{
    char text[1024];
    ssize_t length = read_file(pid, "stat", text, sizeof text);
    return length < 0 ? (int)length : gm_proc_stat_parse(text, out);
}

/* Length of the UTF-8 character at @text, of which @left bytes are there; 0: not one. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    static const struct {
        unsigned char mask, lead;
        unsigned smallest;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < 4 && more < left; more++) {
        if ((text[0] & forms[more].mask) != forms[more].lead) {
            continue;
        }
        unsigned code = text[0] & (unsigned char)~forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((text[i] & 0xc0) != 0x80) {
                return 0;
            }
            code = code << 6 | (text[i] & 0x3f);
        }
        int surrogate = code >= 0xd800 && code < 0xe000;
        return code >= forms[more].smallest && code <= 0x10ffff && !surrogate ? more + 1 : 0;
    }
    return 0;
}

void gm_make_printable(char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        unsigned char byte = (unsigned char)text[i];
        size_t step = utf8_length((const unsigned char *)text + i, length - i);
        if (step == 0 || byte < 0x20 || byte == 0x7f) {
            text[i] = '?';
            step = 1;
        }
        i += step;
    }
}

int gm_proc_comm(pid_t pid, char out[GM_COMM_SIZE])
{
    char text[GM_COMM_SIZE] = "";
    ssize_t length = read_file(pid, "comm", text, sizeof text);
    if (length < 0) {
        return (int)length;
    }
    if (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    gm_make_printable(text, (size_t)length);
    memcpy(out, text, (size_t)length + 1);
    return 0;
}

void gm_proc_container_parse(const char *text, char out[GM_CONTAINER_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    const size_t length = GM_CONTAINER_SIZE - 1;
    out[0] = '\0';
    while (*text != '\0') {
        size_t run = strspn(text, digits);
        if (run == length) { /* of several, the innermost is the last */
            memcpy(out, text, length);
            out[length] = '\0';
        }
        text += run + strcspn(text + run, digits);
    }
}

void gm_proc_container(pid_t pid, char out[GM_CONTAINER_SIZE])
{
    char text[4096] = "";
    (void)read_file(pid, "cgroup", text, sizeof text); /* of a process that is gone, as of one in none */
    gm_proc_container_parse(text, out);
}

int gm_proc_thread_group(pid_t tid, pid_t *out)
{
    char text[1024];
    ssize_t length = read_file(tid, "status", text, sizeof text);
    const char *line = length < 0 ? NULL : strstr(text, "\nTgid:");
    if (line == NULL) {
        return -ESRCH;
    }
    *out = (pid_t)strtol(line + 6, NULL, 10);
    return 0;
}
