/*
 * hostile.c - a process that attaches like any other and then does its worst, for hostile.sh.
 *
 *   hostile scribble SECONDS   writes random bytes over its statistics page, sequence number included
 *   hostile counts SECONDS     publishes snapshots with counts, ordinals and times that no page has room for
 *   hostile spin SECONDS       publishes without rest, so that no copy of it is ever undisturbed
 *   hostile lie SECONDS        answers questions at random, and spoils the files that come along
 *   hostile flood SECONDS      opens connections without end, saying garbage on some
 *   hostile talk SECONDS       says things of every type and length, true and false, as fast as it is listened to
 *   hostile gifts SECONDS      sends descriptors of every kind, as many as fit
 *   hostile churn SECONDS      has children attach and die at any moment
 *   hostile grab SECONDS       tries to write what it may only read
 * $HOSTILE_FILE is a file of the mount, for gifts. Exit code 1: something that must be refused was allowed.
 */
#include "connection.h"
#include "latch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GIFTS 64u

/* Tries until @end: others of this user may have used up what he may ask. */
static int attach(struct gm_connection *connection, time_t end)
{
    struct gm_addresses addresses;
    gm_addresses_find(&addresses);
    while (gm_connection_open(connection, &addresses) != 0) {
        if (time(NULL) >= end) {
            return -1;
        }
        usleep(100000);
    }
    return 0;
}

/* For those who do all that they do in one connection: it has to come about. */
static int attach_once(struct gm_connection *connection, time_t end)
{
    if (attach(connection, end) < 0) {
        fprintf(stderr, "hostile: never let in\n");
        return -1;
    }
    return 0;
}

static uint64_t any_number(void)
{
    uint64_t number = (uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random();
    return number >> random() % 64;
}

static int scribble(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    if (attach_once(&connection, end) < 0) {
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

static int counts(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    static struct gmlake_ctl_snapshot snapshot;
    if (attach_once(&connection, end) < 0) {
        return 1;
    }
    while (time(NULL) < end) {
        uint64_t *words = (uint64_t *)&snapshot;
        for (size_t i = 0; i < GMLAKE_CTL_SNAPSHOT_WORDS; i++) {
            words[i] = random() % 4 ? any_number() : UINT64_MAX;
        }
        snapshot.device_count = random() % 2 ? (uint32_t)any_number() : GMLAKE_CTL_DEVICES_MAX;
        snapshot.stat_count = random() % 2 ? (uint32_t)any_number() : GMLAKE_CTL_STATS_MAX;
        snapshot.tunable_count = random() % 2 ? (uint32_t)any_number() : GMLAKE_CTL_TUNABLES_MAX;
        for (unsigned i = 0; i < GMLAKE_CTL_DEVICES_MAX; i++) {
            snapshot.device[i].ordinal = random() % 2 ? (uint32_t)random() % 4 : (uint32_t)any_number();
        }
        gm_latch_write(connection.stats, &snapshot);
        usleep(500);
    }
    return 0;
}

static int spin(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    if (attach_once(&connection, end) < 0) {
        return 1;
    }
    while (time(NULL) < end) {
        for (int i = 0; i < 1000; i++) {
            atomic_fetch_add(&connection.stats->sequence, 2);
        }
    }
    return 0;
}

/* Fills the file that came along with garbage; 1: it could be shrunk, and reading it would end the daemon. */
static int spoil(int fd, uint64_t size)
{
    static unsigned char garbage[1 << 16];
    for (size_t i = 0; i < sizeof garbage; i++) {
        garbage[i] = (unsigned char)random();
    }
    if (ftruncate(fd, 0) == 0) {
        fprintf(stderr, "hostile: a file that came along can be shrunk\n");
        return 1;
    }
    for (uint64_t at = 0; at < size && at < 4 * sizeof garbage; at += sizeof garbage) {
        (void)!pwrite(fd, garbage, sizeof garbage, (off_t)at);
    }
    return 0;
}

static void answer_at_random(const struct gm_connection *connection, const struct gmlake_ctl_request *request)
{
    static const uint64_t values[] = {0, 1, 5000, UINT64_MAX, (uint64_t)1 << 63};
    int times = (int)(random() % 3);
    for (int i = 0; i < times; i++) {
        uint64_t id = random() % 8 == 0 ? (uint64_t)random() : request->id;
        int error = random() % 2 == 0 ? 0 : (int)(random() % 5000) - 100;
        gm_connection_answer(connection, id, error, values[random() % 5]);
    }
}

static int lie(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    struct gm_request request;
    struct gmlake_ctl_snapshot sane = {.generation = 1};
    if (attach_once(&connection, end) < 0) {
        return 1;
    }
    while (time(NULL) < end) {
        gm_latch_write(connection.stats, &sane);
        gm_connection_wait(&connection, 5);
        while (gm_connection_receive(&connection, &request) == 0) {
            if (request.fd >= 0) {
                if (spoil(request.fd, request.message.argument) != 0) {
                    return 1;
                }
                close(request.fd);
            }
            answer_at_random(&connection, &request.message);
        }
        gm_connection_answer(&connection, (uint64_t)random() % 100, 0, 1); /* to what nobody asked */
    }
    return 0;
}

static int dial(void)
{
    struct gm_addresses addresses;
    gm_addresses_find(&addresses);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&addresses.at[0], sizeof addresses.at[0]) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int flood(time_t end)
{
    int fds[700];
    unsigned count = 0;
    while (time(NULL) < end) {
        int fd = dial();
        if (fd < 0) {
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

/* A message with a head that is mostly right and a body that is not. */
static size_t any_message(unsigned char bytes[2 * GMLAKE_CTL_MESSAGE_MAX])
{
    size_t length = (size_t)random() % (random() % 8 ? 700 : 2 * GMLAKE_CTL_MESSAGE_MAX) + 1;
    for (size_t i = 0; i < length; i++) {
        bytes[i] = random() % 3 ? 0 : (unsigned char)random();
    }
    struct gmlake_ctl_header header = {GMLAKE_CTL_MAGIC, GMLAKE_CTL_ABI, (uint16_t)(random() % 16), (uint32_t)length,
                                       0};
    if (random() % 16 == 0) {
        header.length = (uint32_t)any_number();
    }
    memcpy(bytes, &header, length < sizeof header ? length : sizeof header);
    return length;
}

static int talk(time_t end)
{
    unsigned char bytes[2 * GMLAKE_CTL_MESSAGE_MAX];
    while (time(NULL) < end) {
        struct gm_connection connection = GM_CONNECTION_NONE;
        bool attached = random() % 2 && attach(&connection, end) == 0;
        int fd = attached ? connection.fd : dial();
        for (int i = 0; fd >= 0 && i < 2000 && time(NULL) < end; i++) {
            size_t length = any_message(bytes);
            if (send(fd, bytes, length, MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
                break; /* it has had enough of us */
            }
            (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        }
        if (attached) {
            gm_connection_close(&connection);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    return 0;
}

/* Some descriptor; which ones there are is the machine's affair. */
static int any_descriptor(void)
{
    int pair[2];
    int fd = -1;
    const char *file = getenv("HOSTILE_FILE");
    switch (random() % 7) {
    case 0:
        fd = memfd_create("unsealed", MFD_CLOEXEC);
        break;
    case 1:
        fd = memfd_create("cut", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        (void)!ftruncate(fd, 1);
        break;
    case 2:
        fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
        break;
    case 3:
        fd = file != NULL ? open(file, O_RDONLY | O_CLOEXEC) : -1;
        break;
    case 4:
        if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) == 0) {
            close(pair[1]);
            fd = pair[0];
        }
        break;
    case 5:
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        break;
    default:
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    }
    return fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void give(int to)
{
    unsigned char bytes[2 * GMLAKE_CTL_MESSAGE_MAX];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(GIFTS * sizeof(int))];
    } control = {.bytes = {0}};
    int fds[GIFTS];
    unsigned count = (unsigned)random() % GIFTS + 1;
    struct iovec part = {bytes, any_message(bytes)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++) {
        fds[i] = any_descriptor();
    }
    memcpy(CMSG_DATA(header), fds, count * sizeof fds[0]);
    (void)!sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static int gifts(time_t end)
{
    while (time(NULL) < end) {
        struct gm_connection connection = GM_CONNECTION_NONE;
        if (attach(&connection, end) < 0) {
            continue;
        }
        for (int i = 0; i < 200 && time(NULL) < end; i++) {
            give(connection.fd);
        }
        gm_connection_close(&connection);
    }
    return 0;
}

static int churn(time_t end)
{
    while (time(NULL) < end) {
        pid_t child = fork();
        if (child == 0) {
            struct gm_connection connection = GM_CONNECTION_NONE;
            struct gmlake_ctl_snapshot snapshot = {.generation = 1, .device_count = 1, .stat_count = 8};
            attach(&connection, end);
            while (connection.fd >= 0) {
                snapshot.generation++;
                gm_latch_write(connection.stats, &snapshot);
            }
            _exit(0);
        }
        usleep((useconds_t)(random() % 30000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return 0;
}

static int grab(time_t end)
{
    struct gm_connection connection = GM_CONNECTION_NONE;
    if (attach_once(&connection, end) < 0) {
        return 1;
    }
    uintptr_t tunables = (uintptr_t)connection.tunables;
    while (time(NULL) < end) {
        if (mprotect((void *)tunables, 4096, PROT_READ | PROT_WRITE) == 0) {
            fprintf(stderr, "hostile: the tunables page can be made writable\n");
            return 1;
        }
        usleep(10000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(time_t end);
    } table[] = {{"scribble", scribble}, {"counts", counts}, {"spin", spin}, {"flood", flood}, {"talk", talk},
                 {"gifts", gifts},       {"churn", churn},   {"grab", grab}, {"lie", lie}};
    time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 1);
    srandom((unsigned)getpid());
    for (size_t i = 0; argc > 1 && i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(argv[1], table[i].name) == 0) {
            return table[i].run(end);
        }
    }
    fprintf(stderr, "usage: hostile scribble|counts|spin|flood|talk|gifts|churn|grab|lie SECONDS\n");
    return 2;
}
