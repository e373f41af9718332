/*
 * main.c - gmlaked: shows the processes that use GMLake, and their tunables, as a file system.
 *
 * STRUCTURE    The parts are brought up in the order socket, text file, mount, server, and taken down in the opposite
 *              one; whatever fails on the way up ends in the same way down. The main thread then serves the file
 *              system until a signal says to end.
 * CONCURRENCY  Threads: file system (main), socket (server.c), text file (textfile.c). They share struct gm_machine.
 *              Signals are taken from a descriptor by the main thread and blocked everywhere.
 */
#include "fs.h"
#include "log.h"
#include "machine.h"
#include "notify.h"
#include "options.h"
#include "place.h"
#include "server.h"
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* What is up. Everything is as static memory starts: not there. */
struct daemon {
    struct gm_options options;
    struct gm_machine machine;
    struct gm_made made;
    struct gm_socket socket;
    bool socket_open;
    struct gm_fs *fs;
    struct gm_textfile *textfile;
    struct gm_server *server;
    int signal_fd;
};

static struct daemon daemon_state;

/* The first half of going into the background; in the parent it does not return. Gives the descriptor to report to. */
static int go_to_background(void)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t child = fork();
    if (child < 0) {
        return -errno;
    }
    if (child > 0) {
        char byte;
        close(ready[1]);
        /* The child says a byte when it is mounted; if it dies first, its own message says why. */
        _exit(read(ready[0], &byte, 1) == 1 ? 0 : 1);
    }
    close(ready[0]);
    setsid();
    return ready[1];
}

/* The second half: everything is up, let go of the terminal and of the parent. */
static void settle_in_background(int ready_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    gm_log_to_syslog();
    (void)!chdir("/");
    for (int fd = 0; fd <= 2 && null >= 0; fd++) {
        dup2(null, fd);
    }
    if (null > 2) {
        close(null);
    }
    (void)!write(ready_fd, "", 1);
    close(ready_fd);
}

static int open_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* Each process takes two descriptors here. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int bring_up(struct daemon *daemon)
{
    char mountpoint[PATH_MAX];
    raise_descriptor_limit();
    gm_machine_init(&daemon->machine);
    daemon->signal_fd = open_signals();
    if (daemon->signal_fd < 0) {
        return daemon->signal_fd;
    }
    int rc = gm_socket_open(daemon->options.socket, &daemon->made, &daemon->socket);
    if (rc < 0) {
        return rc;
    }
    daemon->socket_open = true;
    rc = gm_mountpoint_prepare(daemon->options.mountpoint, &daemon->made, mountpoint);
    if (rc == 0 && daemon->options.textfile_directory[0] != '\0') {
        /* Before the mount: nothing of the daemon may ever look into it, since nobody would answer. */
        rc = gm_textfile_start(&daemon->machine, daemon->options.textfile_directory, daemon->options.textfile_seconds,
                               &daemon->textfile);
    }
    if (rc == 0) {
        rc = gm_fs_mount(&daemon->machine, mountpoint, &daemon->fs);
    }
    return rc < 0 ? rc : gm_server_start(&daemon->machine, daemon->socket.fd, &daemon->server);
}

static void take_down(struct daemon *daemon)
{
    gm_fs_unmount(daemon->fs);
    gm_textfile_stop(daemon->textfile);
    gm_server_stop(daemon->server);
    gm_machine_finish(&daemon->machine);
    if (daemon->socket_open) {
        gm_socket_close(&daemon->socket);
    }
    gm_directories_remove(&daemon->made);
}

int main(int argc, char **argv)
{
    struct daemon *daemon = &daemon_state;
    int code = gm_options_parse(argc, argv, &daemon->options);
    if (code >= 0) {
        return code;
    }
    int ready_fd = daemon->options.daemonize ? go_to_background() : -1;
    int rc = bring_up(daemon);
    if (rc < 0) {
        gm_log("not started: %s", strerror(-rc));
    } else {
        gm_log("serving %s, socket %s", daemon->options.mountpoint, daemon->options.socket);
        if (daemon->options.daemonize) {
            settle_in_background(ready_fd);
        }
        gm_notify("READY=1");
        rc = gm_fs_run(daemon->fs, daemon->signal_fd);
        gm_notify("STOPPING=1");
        if (rc == -ENODEV) {
            gm_log("%s was unmounted from outside; ending", daemon->options.mountpoint);
        } else if (rc < 0) {
            gm_log("the file system ended: %s", strerror(-rc));
        }
    }
    take_down(daemon);
    return rc < 0 && rc != -ENODEV ? 1 : 0;
}
