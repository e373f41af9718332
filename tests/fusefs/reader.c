/*
 * reader.c - reads, and sets, what is in a mount without rest and takes no error for an answer; for takeover.sh and
 * crowds.
 *
 *   reader anew FILE...      opens, reads and closes the files in turn
 *   reader held FILE         keeps the file open and reads it again from its start
 *   reader slow FILE         the same, 64 bytes at a time
 *   reader list DIRECTORY    lists the directory and looks at what is in it
 *   reader write FILE VALUE  writes the value and reads it back
 * It ends with SIGTERM and prints how often it came round, and of the times a round took, in microseconds, the 99th
 * percentile and the longest. Exit code 1: something failed, or an inode number changed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX (1u << 20)

static volatile sig_atomic_t ended;
static uint32_t *times; /* of the first ROUNDS_MAX rounds */

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static bool fail(const char *what, const char *path)
{
    fprintf(stderr, "reader: %s %s: %s\n", what, path, strerror(errno));
    return false;
}

/* Reads @fd from its start by pieces of @step; what was there is in @text. */
static bool read_all(int fd, const char *path, size_t step, char *text, size_t size)
{
    size_t length = 0;
    for (;;) {
        size_t room = size - 1 - length;
        ssize_t got = pread(fd, text + length, step < room ? step : room, (off_t)length);
        if (got < 0) {
            return fail("reading", path);
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    text[length] = '\0';
    if (length == 0) {
        errno = ENODATA;
        return fail("reading", path);
    }
    return true;
}

static bool read_anew(const char *path)
{
    char text[1 << 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail("opening", path);
    }
    bool good = read_all(fd, path, sizeof text, text, sizeof text);
    close(fd);
    return good;
}

static bool read_held(const char *path, size_t step)
{
    static int fd = -1;
    static ino_t inode;
    char text[1 << 16];
    struct stat about;
    if (fd < 0) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        inode = fd >= 0 && fstat(fd, &about) == 0 ? about.st_ino : 0;
    }
    if (fd < 0 || fstat(fd, &about) < 0) {
        return fail("opening", path);
    }
    if (about.st_ino != inode) {
        errno = ESTALE;
        return fail("looking at", path);
    }
    return read_all(fd, path, step, text, sizeof text);
}

static bool list(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return fail("opening", path);
    }
    unsigned count = 0;
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(directory)) != NULL; count++) {
        struct stat about;
        if (fstatat(dirfd(directory), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) < 0) {
            good = fail("looking at", entry->d_name);
        } else if (about.st_ino != entry->d_ino && entry->d_name[0] != '.') {
            errno = ESTALE;
            good = fail("looking at", entry->d_name);
        }
    }
    closedir(directory);
    if (good && count < 3) {
        errno = ENODATA;
        return fail("listing", path);
    }
    return good;
}

static bool write_back(const char *path, const char *value)
{
    char text[256];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return fail("opening", path);
    }
    bool good = write(fd, value, strlen(value)) == (ssize_t)strlen(value) || fail("writing", path);
    good = good && read_all(fd, path, sizeof text, text, sizeof text);
    if (good && strncmp(text, value, strlen(value)) != 0) {
        errno = EILSEQ;
        good = fail("reading back", path);
    }
    close(fd);
    return good;
}

static bool come_round(char **argv, int count, uint64_t round)
{
    const char *what = argv[1];
    const char *path = argv[2];
    if (strcmp(what, "anew") == 0) {
        return read_anew(argv[2 + round % (uint64_t)count]);
    }
    if (strcmp(what, "held") == 0 || strcmp(what, "slow") == 0) {
        return read_held(path, what[0] == 'h' ? 1 << 16 : 64);
    }
    if (strcmp(what, "list") == 0) {
        return list(path);
    }
    return strcmp(what, "write") == 0 && count == 2 && write_back(path, argv[3]);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int shorter_first(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0;
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    times = calloc(ROUNDS_MAX, sizeof *times);
    if (argc < 3 || times == NULL) {
        fprintf(stderr, "usage: reader anew|held|slow|list|write PATH...\n");
        return 2;
    }
    while (!ended) {
        uint64_t start = now_us();
        if (!come_round(argv, argc - 2, rounds)) {
            return 1;
        }
        if (rounds < ROUNDS_MAX) {
            times[rounds] = (uint32_t)(now_us() - start);
        }
        rounds++;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    size_t kept = rounds < ROUNDS_MAX ? (size_t)rounds : ROUNDS_MAX;
    if (kept > 0) {
        qsort(times, kept, sizeof *times, shorter_first);
        printf("%llu %u %u\n", (unsigned long long)rounds, times[(kept - 1) * 99 / 100], times[kept - 1]);
    }
    free(times);
    return 0;
}
