/*
 * pollers.c - many who wait for events of the mount, and let go in every way there is.
 *
 *   pollers storm FILE SECONDS   opens a thousand times, polls, reads, closes while others wait, and exits in children
 *   pollers wait FILE COUNT      COUNT open files wait in one epoll(7), until the file cannot be read any more
 *
 * Prints "waiting" when all wait, and what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES   1000
#define THREADS 4

static const char *path;
static time_t end;
static _Atomic unsigned wrong;

static void complain(const char *what)
{
    if (atomic_fetch_add(&wrong, 1) < 10) {
        printf("%s: %s\n", what, strerror(errno));
    }
}

static int open_one(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        complain("open");
    }
    return fd;
}

static void read_one(int fd)
{
    char text[4096];
    if (pread(fd, text, sizeof text, 0) <= 0) {
        complain("read");
    }
}

/* Waits a little for all of them, in one of three ways, having read some so that they are not ready at once. */
static void wait_for(int *fds, unsigned count, unsigned turn)
{
    struct pollfd waits[FILES / THREADS];
    int set = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLPRI | (i % 3 == 0 ? EPOLLET : 0u), .data.fd = fds[i]};
        waits[i] = (struct pollfd){fds[i], POLLPRI, 0};
        if (i % 8 != turn % 8) {
            read_one(fds[i]);
        }
        if (i % 2 == 0 && epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event) < 0) {
            complain("epoll_ctl");
        }
    }
    struct epoll_event ready[16];
    if (epoll_wait(set, ready, 16, 5) < 0 || poll(waits, count, 2) < 0) {
        complain("poll");
    }
    if (turn % 2 == 0) { /* half of the files are closed while the set still has them */
        close(set);
        set = -1;
    }
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
    if (set >= 0) {
        close(set);
    }
}

/* A child ends with everything open, and others waiting for the same open files. */
static void exit_waiting(int *fds, unsigned count)
{
    pid_t child = fork();
    if (child == 0) {
        struct pollfd waits[FILES / THREADS];
        for (unsigned i = 0; i < count; i++) {
            waits[i] = (struct pollfd){fds[i], POLLPRI, 0};
        }
        poll(waits, count, 1);
        _exit(0);
    }
    wait_for(fds, count, 1);
    if (child < 0 || waitpid(child, NULL, 0) != child) {
        complain("fork");
    }
}

static void *storm(void *argument)
{
    unsigned turn = *(unsigned *)argument;
    for (; time(NULL) < end; turn++) {
        int fds[FILES / THREADS];
        unsigned count = 0;
        while (count < FILES / THREADS && (fds[count] = open_one()) >= 0) {
            count++;
        }
        if (turn % 5 == 0) {
            exit_waiting(fds, count);
        } else {
            wait_for(fds, count, turn);
        }
    }
    return NULL;
}

static void run_storm(unsigned seconds)
{
    pthread_t threads[THREADS];
    unsigned first[THREADS];
    end = time(NULL) + (time_t)seconds;
    printf("waiting\n");
    for (unsigned i = 0; i < THREADS; i++) {
        first[i] = i;
        pthread_create(&threads[i], NULL, storm, &first[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void run_wait(unsigned count)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < count; i++) {
        int fd = open_one();
        struct epoll_event event = {.events = EPOLLPRI, .data.fd = fd};
        read_one(fd);
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0) {
            complain("epoll_ctl");
        }
    }
    printf("waiting\n");
    for (bool there = true; there;) {
        struct epoll_event ready[64];
        int changed = epoll_wait(set, ready, 64, -1);
        for (int i = 0; i < changed; i++) {
            char text[4096];
            there &= pread(ready[i].data.fd, text, sizeof text, 0) > 0;
        }
    }
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    if (argc != 4) {
        fprintf(stderr, "usage: pollers storm FILE SECONDS | wait FILE COUNT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    path = argv[2];
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    unsigned number = (unsigned)strtoul(argv[3], NULL, 10);
    if (strcmp(argv[1], "storm") == 0) {
        run_storm(number);
    } else {
        run_wait(number);
    }
    return atomic_load(&wrong) > 0;
}
