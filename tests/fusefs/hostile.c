/*
 * hostile.c - a process that attaches like any other and then does its worst, for hostile.sh.
 *
 *   hostile scribble SECONDS   writes random bytes over its statistics page, sequence number included
 *   hostile spin SECONDS       publishes without rest, so that no copy of it is ever undisturbed
 *   hostile flood SECONDS      opens connections without end, saying garbage on some
 * Exit code 1: something that must be refused was allowed.
 */
#include "connection.h"
#include "latch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int attach(struct gm_connection *connection)
{
    struct gm_addresses addresses;
    gm_addresses_find(&addresses);
    return gm_connection_open(connection, &addresses);
}

static int scribble(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    if (attach(&connection) < 0) {
        return 1;
    }
    unsigned char *bytes = (unsigned char *)connection.stats;
    struct gmlake_ctl_snapshot sane = {.generation = 1, .device_count = 1};
    while (time(NULL) < end) {
        gm_latch_write(connection.stats, &sane); /* so that what follows is looked at */
        for (int i = 0; i < 50; i++) {
            size_t at = (size_t)random() % (random() % 2 ? 256 : sizeof *connection.stats);
            bytes[at] = (unsigned char)random();
        }
    }
    return 0;
}

static int spin(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    if (attach(&connection) < 0) {
        return 1;
    }
    while (time(NULL) < end) {
        for (int i = 0; i < 1000; i++) {
            atomic_fetch_add(&connection.stats->sequence, 2);
        }
    }
    return 0;
}

static int flood(time_t end)
{
    struct gm_addresses addresses;
    gm_addresses_find(&addresses);
    int fds[700];
    unsigned count = 0;
    while (time(NULL) < end) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&addresses.at[0], sizeof addresses.at[0]) < 0) {
            if (fd >= 0) {
                close(fd);
            }
            usleep(1000);
            continue;
        }
        if (count % 3 == 0) {
            (void)!send(fd, "garbage garbage garbage", 24, MSG_NOSIGNAL);
        }
        if (count >= 700) {
            close(fds[count % 700]);
        }
        fds[count++ % 700] = fd;
    }
    return 0;
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 1);
    if (argc > 1 && strcmp(argv[1], "scribble") == 0) {
        return scribble(end);
    }
    if (argc > 1 && strcmp(argv[1], "spin") == 0) {
        return spin(end);
    }
    if (argc > 1 && strcmp(argv[1], "flood") == 0) {
        return flood(end);
    }
    fprintf(stderr, "usage: hostile scribble|spin|flood SECONDS\n");
    return 2;
}
