/*
 * daemon.c - see daemon.h.
 */
#include "daemon.h"

#include "fs.h"
#include "gpus.h"
#include "log.h"
#include "machine.h"
#include "notify.h"
#include "place.h"
#include "privileges.h"
#include "server.h"
#include "textfile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* What is up. Everything is as static memory starts: not there. */
struct daemon {
    const struct gm_options *options;
    struct gm_kept *kept;
    struct gm_state *state;
    struct gm_machine machine;
    bool machine_open;
    bool named; /* the socket can be found in the file system, or could be at the start */
    struct gm_fs *fs;
    struct gm_textfile *textfile;
    struct gm_server *server;
    int signal_fd; /* 0: none */
};

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

/* An earlier daemon has served the mount: programs wait at it, whatever is wrong with what this one does besides. */
static bool is_successor(const struct gm_state *state)
{
    return atomic_load(&state->head.init_length) > 0;
}

static int bring_up(struct daemon *daemon)
{
    const struct gm_options *options = daemon->options;
    int rc = open_signals();
    if (rc < 0) {
        return rc;
    }
    daemon->signal_fd = rc;
    daemon->named = gm_socket_is_named(gm_kept_find(daemon->kept, GM_KEPT_SOCKET));
    rc = gm_privileges_drop(options->user);
    if (rc == 0) {
        rc = gm_state_map(gm_kept_find(daemon->kept, GM_KEPT_STATE), &daemon->state);
    }
    if (rc == 0) {
        rc = gm_machine_init(&daemon->machine, daemon->state);
        daemon->machine_open = rc == 0;
    }
    if (rc == 0) {
        gm_gpus_number(&daemon->machine, "/proc/driver/nvidia/gpus");
        daemon->machine.metrics_processes = options->metrics_processes;
    }
    if (rc == 0 && options->textfile_directory[0] != '\0') {
        /* Before the mount is served: nothing of the daemon may ever look into it, since nobody would answer. */
        rc = gm_textfile_start(&daemon->machine, options->textfile_directory, options->textfile_seconds,
                               is_successor(daemon->state), &daemon->textfile);
        rc = is_successor(daemon->state) ? 0 : rc;
    }
    if (rc == 0) {
        /* Before the file system: what was there is there again when the first request is answered. */
        rc = gm_server_start(&daemon->machine, gm_kept_find(daemon->kept, GM_KEPT_SOCKET), daemon->kept,
                             &daemon->server);
    }
    return rc < 0 ? rc : gm_fs_open(&daemon->machine, gm_kept_find(daemon->kept, GM_KEPT_MOUNT), &daemon->fs);
}

static void take_down(struct daemon *daemon)
{
    gm_textfile_stop(daemon->textfile);
    gm_server_stop(daemon->server);
    gm_fs_close(daemon->fs);
    if (daemon->machine_open) {
        gm_machine_finish(&daemon->machine);
    }
    if (daemon->state != NULL) {
        gm_state_unmap(daemon->state);
    }
    if (daemon->signal_fd > 0) {
        close(daemon->signal_fd);
    }
}

/*
 * The file system's thread is here, so it lives; if the other does too, somebody may hear of it. Without a socket that
 * processes find, this daemon ends as if it crashed: who comes after it may make another, which takes rights that are
 * gone here.
 */
static void beat(void *argument)
{
    const struct daemon *daemon = argument;
    if (daemon->named && !gm_socket_is_named(gm_kept_find(daemon->kept, GM_KEPT_SOCKET)) &&
        daemon->options->keeping != GM_KEEPING_NONE) {
        gm_log("somebody removed the socket %s; the next daemon makes it anew", daemon->options->socket);
        _exit(1);
    }
    if (gm_server_is_alive(daemon->server)) {
        gm_notify("WATCHDOG=1");
    }
}

int gm_daemon_serve(const struct gm_options *options, struct gm_kept *kept, void (*settle)(void))
{
    struct daemon daemon = {.options = options, .kept = kept};
    int rc = bring_up(&daemon);
    gm_kept_drop_processes(kept);
    if (rc < 0) {
        gm_log("not started: %s", strerror(-rc));
    } else {
        settle();
        gm_notify("READY=1");
        rc = gm_fs_run(daemon.fs, daemon.signal_fd, gm_notify_watchdog_ms(), beat, &daemon);
        gm_notify("STOPPING=1");
        if (rc == -ENODEV) {
            gm_log_info("%s was unmounted from outside; ending", options->mountpoint);
        } else if (rc < 0) {
            gm_log("the file system ended: %s", strerror(-rc));
        }
    }
    take_down(&daemon);
    return rc < 0 && rc != -ENODEV ? 1 : 0;
}
