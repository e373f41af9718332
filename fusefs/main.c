/*
 * main.c - gmlaked: shows the processes that use GMLake, and their tunables, as a file system.
 *
 * STRUCTURE    Here is what needs rights and names in the file system: directories, the socket and its lock, the mount.
 *              They are found among the descriptors that an earlier daemon left, or made, and handed to the daemon
 *              proper (daemon.c), which runs in this process or under a keeper (keeper.c) in children of it. What was
 *              made here is removed here.
 * CONCURRENCY  One thread, apart from those of the daemon.
 */
#include "daemon.h"
#include "keeper.h"
#include "log.h"
#include "mount.h"
#include "notify.h"
#include "options.h"
#include "place.h"
#include "state.h"
#include "textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of the keeper at the longest: a machine that is short of memory or processes gets some 20 seconds to recover. */
#define PAUSE_MS 10000

/* Everything is as static memory starts: not there. */
struct places {
    struct gm_options options;
    struct gm_kept kept;
    struct gm_made made;
    bool socket_made;
    bool mounted;
    char mountpoint[PATH_MAX];
};

static struct places places_of_process;
static int ready_fd = -1; /* to the parent that waits until all is up, while going into the background */

/* The first half of going into the background; in the parent it does not return. */
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
    ready_fd = ready[1];
    return 0;
}

/* The second half: everything is up, let go of the terminal and of the parent. */
static void settle(void)
{
    if (ready_fd < 0) {
        return;
    }
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
    ready_fd = -1;
}

/* ---- places --------------------------------------------------------------------------------------------------- */

/* Keeps @fd, which passes over, here, and with the service manager if that is whose task it is. */
static int keep(struct places *places, const char *name, int fd)
{
    if (places->options.keeping == GM_KEEPING_SERVICE) {
        gm_notify_drop(name);
        gm_notify_keep(name, fd);
    }
    return gm_kept_put(&places->kept, name, fd);
}

static int find_state(struct places *places)
{
    struct gm_state *state;
    int kept = gm_kept_find(&places->kept, GM_KEPT_STATE);
    if (kept >= 0 && gm_state_map(kept, &state) == 0) {
        gm_state_unmap(state);
        return 0;
    }
    if (kept >= 0) {
        gm_log("what the last daemon left cannot be read; starting anew");
    }
    gm_kept_drop_processes(&places->kept);
    gm_kept_drop(&places->kept, GM_KEPT_MOUNT); /* nobody can serve it without its first request */
    int fd = gm_state_create();
    return fd < 0 ? fd : keep(places, GM_KEPT_STATE, fd);
}

/* One that was kept will do while processes find it; if no other can be made, in any case: the mount is to be served.
 */
static int find_socket(struct places *places)
{
    struct gm_socket socket;
    int old = gm_kept_find(&places->kept, GM_KEPT_SOCKET);
    places->socket_made = old >= 0;
    if (old >= 0 && gm_socket_is_named(old)) {
        return 0;
    }
    gm_kept_drop(&places->kept, GM_KEPT_LOCK);
    int rc = gm_socket_open(places->options.socket, &places->made, &socket);
    if (rc < 0) {
        return old >= 0 ? 0 : rc;
    }
    places->socket_made = true;
    rc = keep(places, GM_KEPT_LOCK, socket.lock_fd);
    int kept = keep(places, GM_KEPT_SOCKET, socket.fd);
    return rc < 0 ? rc : kept;
}

/* A new mount knows no first request yet: the state of an old one is told so. */
static int note_new_mount(const struct places *places)
{
    struct gm_state *state;
    int rc = gm_state_map(gm_kept_find(&places->kept, GM_KEPT_STATE), &state);
    if (rc == 0) {
        atomic_store(&state->head.init_length, 0);
        gm_state_unmap(state);
    }
    return rc;
}

static int find_mount(struct places *places)
{
    int kept = gm_kept_find(&places->kept, GM_KEPT_MOUNT);
    if (kept >= 0 && gm_mount_is_alive(kept)) {
        gm_log_info("taking over the mount at %s", places->options.mountpoint);
        snprintf(places->mountpoint, sizeof places->mountpoint, "%s", places->options.mountpoint);
        places->mounted = true;
        return 0;
    }
    gm_kept_drop(&places->kept, GM_KEPT_MOUNT);
    int rc = places->options.textfile_directory[0] != '\0' ? gm_textfile_check(places->options.textfile_directory) : 0;
    if (rc == 0) {
        rc = gm_mountpoint_prepare(places->options.mountpoint, &places->made, places->mountpoint);
    }
    if (rc == 0) {
        rc = note_new_mount(places);
    }
    int fd = rc < 0 ? rc : gm_mount(places->mountpoint);
    if (fd < 0) {
        return fd;
    }
    places->mounted = true;
    return keep(places, GM_KEPT_MOUNT, fd);
}

static int take_places(struct places *places)
{
    gm_kept_from_environment(&places->kept);
    int rc = find_state(places);
    if (rc == 0) {
        rc = find_socket(places);
    }
    return rc < 0 ? rc : find_mount(places);
}

/* What is taken down here is nothing for a successor; what the machine was set to is. */
static void stop_keeping(const struct places *places)
{
    if (places->options.keeping == GM_KEEPING_SERVICE) {
        gm_notify_drop(GM_KEPT_MOUNT);
        gm_notify_drop(GM_KEPT_SOCKET);
        gm_notify_drop(GM_KEPT_LOCK);
    }
}

static void leave_places(struct places *places)
{
    stop_keeping(places);
    if (places->mounted && gm_mount_is_alive(gm_kept_find(&places->kept, GM_KEPT_MOUNT))) {
        gm_unmount(places->mountpoint);
    }
    if (places->socket_made) {
        struct gm_socket socket = {.fd = gm_kept_take(&places->kept, GM_KEPT_SOCKET),
                                   .lock_fd = gm_kept_take(&places->kept, GM_KEPT_LOCK)};
        snprintf(socket.path, sizeof socket.path, "%s", places->options.socket);
        gm_socket_close(&socket);
    }
    gm_kept_clear(&places->kept);
    gm_directories_remove(&places->made);
}

/* ---- the daemon under a keeper -------------------------------------------------------------------------------- */

static int serve(void *argument, struct gm_kept *kept)
{
    struct places *places = argument;
    int code = gm_daemon_serve(&places->options, kept, settle);
    gm_kept_clear(kept);
    return code;
}

static void announce(const struct places *places)
{
    gm_log_info("serving %s, socket %s", places->options.mountpoint, places->options.socket);
}

static void settle_keeper(void *argument)
{
    announce(argument);
    settle();
}

static void renew(void *argument)
{
    (void)find_socket(argument);
}

static void forget(void *argument, struct gm_kept *kept)
{
    (void)argument;
    gm_kept_drop_processes(kept);
    gm_state_forget(gm_kept_find(kept, GM_KEPT_STATE));
}

/* Each process takes some descriptors, in the keeper as well as in the daemon. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run(struct places *places)
{
    if (places->options.keeping == GM_KEEPING_SELF) {
        const struct gm_keeper_ops ops = {serve, settle_keeper, renew, forget, places, PAUSE_MS};
        return gm_keeper_run(&ops, &places->kept);
    }
    announce(places);
    return gm_daemon_serve(&places->options, &places->kept, settle);
}

int main(int argc, char **argv)
{
    struct places *places = &places_of_process;
    int code = gm_options_parse(argc, argv, &places->options);
    if (code >= 0) {
        return code;
    }
    raise_descriptor_limit();
    int rc = places->options.daemonize ? go_to_background() : 0;
    if (rc == 0) {
        rc = take_places(places);
    }
    if (rc < 0) {
        gm_log("not started: %s", strerror(-rc));
        code = 1;
    } else {
        code = run(places);
    }
    leave_places(places);
    return code;
}
