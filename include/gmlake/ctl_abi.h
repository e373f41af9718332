/*
 * ctl_abi.h - the bytes that a process and gmlaked share: messages and two shared pages.
 *
 * A process connects to the daemon's SOCK_SEQPACKET socket and sends HELLO. The daemon, which knows the peer by the
 * kernel's credentials alone, answers WELCOME with two descriptors, or REFUSED:
 *   [0] the statistics page: the process writes, the daemon reads;
 *   [1] the tunables page: the daemon writes, the process reads (it cannot map it writable).
 * Both are memory files that the daemon created, sized and sealed. The connection stays open as a sign of life and
 * carries nothing more in this version; unknown messages are ignored on both sides.
 *
 * COMPATIBILITY  Statistics and tunables are numbered by their rows in stats.def and tunables.def, which only grow,
 *                and the pages have room for GMLAKE_CTL_STATS_MAX and GMLAKE_CTL_TUNABLES_MAX rows: the two sides may
 *                know different numbers of them. A message may be longer than the receiver knows, never shorter.
 *                Anything else takes a new GMLAKE_CTL_ABI.
 * TRUST          Neither side believes the other: the daemon copies the statistics once and validates the copy, the
 *                process checks the seals and sizes of what it maps.
 *
 * C11 only; no functions.
 */
#ifndef GMLAKE_CTL_ABI_H
#define GMLAKE_CTL_ABI_H

#include <stdatomic.h>
#include <stdint.h>

#define GMLAKE_CTL_MAGIC        0x4b4c4d47u /* "GMLK" in memory */
#define GMLAKE_CTL_ABI          1u

#define GMLAKE_CTL_DEVICES_MAX  16u
#define GMLAKE_CTL_STATS_MAX    64u
#define GMLAKE_CTL_TUNABLES_MAX 64u

/* A word of the tunables page that says "no override"; the same as GM_TUNABLE_NO_OVERRIDE. */
#define GMLAKE_CTL_NO_OVERRIDE (UINT64_MAX - 1)

/* Where the daemon is: of the machine, and below $XDG_RUNTIME_DIR of a user. $GMLAKE_SOCKET names another socket. */
#define GMLAKE_CTL_SOCKET      "/run/gmlake/gmlaked.sock"
#define GMLAKE_CTL_USER_SOCKET "gmlake/gmlaked.sock"
#define GMLAKE_CTL_MOUNT       "/gmlake"
#define GMLAKE_CTL_USER_MOUNT  "gmlake/mount"

/* ---- messages ------------------------------------------------------------------------------------------------- */

enum gmlake_ctl_type { GMLAKE_CTL_HELLO = 1, GMLAKE_CTL_WELCOME = 2, GMLAKE_CTL_REFUSED = 3 };

/* No message is longer. */
#define GMLAKE_CTL_MESSAGE_MAX 4096u

struct gmlake_ctl_header {
    uint32_t magic;  /* GMLAKE_CTL_MAGIC */
    uint16_t abi;    /* GMLAKE_CTL_ABI */
    uint16_t type;   /* enum gmlake_ctl_type */
    uint32_t length; /* of the whole message */
    uint32_t reserved;
};
_Static_assert(sizeof(struct gmlake_ctl_header) == 16, "message header");

/* Process to daemon: the first message. */
struct gmlake_ctl_hello {
    struct gmlake_ctl_header header;
    uint32_t stat_count;    /* rows of stats.def that the process knows */
    uint32_t tunable_count; /* rows of tunables.def that the process knows */
    uint64_t features;      /* none defined: 0 */
    /* Overrides set for this very process through a daemon that is gone; a new daemon takes them over. */
    uint64_t wanted[GMLAKE_CTL_TUNABLES_MAX];
    uint64_t serial; /* of the registration with that daemon, as WELCOME gave it; 0, or a message that ends before: none */
};
_Static_assert(sizeof(struct gmlake_ctl_hello) == 40 + 8 * GMLAKE_CTL_TUNABLES_MAX, "HELLO");

/* The shortest HELLO: what it was at first. */
#define GMLAKE_CTL_HELLO_MIN (32u + 8u * GMLAKE_CTL_TUNABLES_MAX)

/* Daemon to process, with the two descriptors. */
struct gmlake_ctl_welcome {
    struct gmlake_ctl_header header;
    uint64_t serial;        /* number of this registration; that of HELLO if the daemon knows it from its predecessor */
    uint32_t stats_size;    /* bytes of the statistics page */
    uint32_t tunables_size; /* bytes of the tunables page */
};
_Static_assert(sizeof(struct gmlake_ctl_welcome) == 32, "WELCOME");

/* Daemon to process: no; the daemon then closes the connection. */
struct gmlake_ctl_refused {
    struct gmlake_ctl_header header;
    int32_t error; /* an errno: EPROTO other version, EDQUOT too many processes of this user, EEXIST attached already */
    uint32_t reserved;
};
_Static_assert(sizeof(struct gmlake_ctl_refused) == 24, "REFUSED");

/* ---- statistics page ------------------------------------------------------------------------------------------ */

struct gmlake_ctl_device {
    uint32_t ordinal; /* as the process numbers its devices */
    uint32_t reserved;
    uint8_t uuid[16];
    uint64_t capacity; /* bytes of the device */
    uint64_t stat[GMLAKE_CTL_STATS_MAX];
};
_Static_assert(sizeof(struct gmlake_ctl_device) == 32 + 8 * GMLAKE_CTL_STATS_MAX, "device slot");

/* One publication. */
struct gmlake_ctl_snapshot {
    uint64_t generation;   /* number of the publication, from 1 */
    uint64_t published_ns; /* CLOCK_MONOTONIC */
    uint64_t changes_seen; /* the tunables page's change count that the values below answer to */
    uint32_t device_count;
    uint32_t stat_count;
    uint32_t tunable_count;
    uint32_t reserved;
    uint64_t own[GMLAKE_CTL_TUNABLES_MAX]; /* the process's own values: start value, environment, API */
    uint64_t now[GMLAKE_CTL_TUNABLES_MAX]; /* the values in force */
    struct gmlake_ctl_device device[GMLAKE_CTL_DEVICES_MAX];
};
_Static_assert(sizeof(struct gmlake_ctl_snapshot) ==
                   40 + 16 * GMLAKE_CTL_TUNABLES_MAX + GMLAKE_CTL_DEVICES_MAX * sizeof(struct gmlake_ctl_device),
               "snapshot");

#define GMLAKE_CTL_SNAPSHOT_WORDS (sizeof(struct gmlake_ctl_snapshot) / 8)

/*
 * Two copies: copy[sequence & 1] is the published one, the other is written next and published by raising sequence.
 * A writer that is stopped or killed while writing leaves the published copy whole. Sequence 0: nothing yet.
 */
struct gmlake_ctl_stats_page {
    _Atomic uint64_t sequence;
    uint64_t reserved[7];
    _Atomic uint64_t copy[2][GMLAKE_CTL_SNAPSHOT_WORDS];
};
_Static_assert(sizeof(struct gmlake_ctl_stats_page) == 64 + 2 * sizeof(struct gmlake_ctl_snapshot), "statistics page");

/* ---- tunables page -------------------------------------------------------------------------------------------- */

struct gmlake_ctl_tunables_page {
    _Atomic uint64_t changes;                         /* raised after every change of a word */
    _Atomic uint64_t word[GMLAKE_CTL_TUNABLES_MAX];   /* the override in force, or GMLAKE_CTL_NO_OVERRIDE */
    _Atomic uint64_t wanted[GMLAKE_CTL_TUNABLES_MAX]; /* the part of it set for this process, not for the machine */
};
_Static_assert(sizeof(struct gmlake_ctl_tunables_page) == 8 + 16 * GMLAKE_CTL_TUNABLES_MAX, "tunables page");

#endif
