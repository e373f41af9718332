/*
 * ctl_abi.h - the bytes that a process and gmlaked share: messages and two shared pages.
 *
 * A process connects to the daemon's SOCK_SEQPACKET socket and sends HELLO. The daemon, which knows the peer by the
 * kernel's credentials alone, answers WELCOME with two descriptors, or REFUSED:
 *   [0] the statistics page: the process writes, the daemon reads;
 *   [1] the tunables page: the daemon writes, the process reads (it cannot map it writable).
 * Both are memory files that the daemon created, sized and sealed. The connection stays open as a sign of life. To a
 * process that knows requests (GMLAKE_CTL_FEATURE_REQUESTS) the daemon sends some, each with a number, and the process
 * answers by that number when it has done it; it may take its time and answer in any order. Unknown messages are
 * ignored on both sides.
 *
 * COMPATIBILITY  Statistics and tunables are numbered by their rows in stats.def and tunables.def, which only grow,
 *                and the pages have room for GMLAKE_CTL_STATS_MAX and GMLAKE_CTL_TUNABLES_MAX rows: the two sides may
 *                know different numbers of them. A message may be longer than the receiver knows, never shorter; a page
 *                may be longer, and shorter than what a feature adds to it. What is optional has a bit in features.
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

enum gmlake_ctl_type {
    GMLAKE_CTL_HELLO = 1,
    GMLAKE_CTL_WELCOME = 2,
    GMLAKE_CTL_REFUSED = 3,
    /* Requests of the daemon, struct gmlake_ctl_request. */
    GMLAKE_CTL_LOOK = 4,    /* tunables have changed: see to those that do not wait for an allocation. No answer */
    GMLAKE_CTL_RECLAIM = 5, /* give back idle memory: argument bytes, UINT64_MAX all. Answer: the bytes given back */
    GMLAKE_CTL_PEAK = 6,    /* begin a new segment of account.segment_peak. Answer: the peak of the one that ended */
    GMLAKE_CTL_MAP = 7,     /* fill the file that comes along, argument blocks long. Answer: how many there are */
    GMLAKE_CTL_TRACE = 8,   /* record into the ring that comes along, argument bytes long; without one: stop. */
    /* What the process says to a request, struct gmlake_ctl_answer. */
    GMLAKE_CTL_ANSWER = 9
};

/* Bits of features. */
#define GMLAKE_CTL_FEATURE_REQUESTS                                                                                    \
    1u /* knows the messages from LOOK on, and the account behind the statistics page                                  \
        */

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
    uint64_t features;      /* of the process */
    /* Overrides set for this very process through a daemon that is gone; a new daemon takes them over. */
    uint64_t wanted[GMLAKE_CTL_TUNABLES_MAX];
    uint64_t
        serial; /* of the registration with that daemon, as WELCOME gave it; 0, or a message that ends before: none */
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
    uint64_t features;      /* of the daemon; a message that ends before has none */
};
_Static_assert(sizeof(struct gmlake_ctl_welcome) == 40, "WELCOME");

/* The shortest WELCOME: what it was at first. */
#define GMLAKE_CTL_WELCOME_MIN 32u

/* Daemon to process: no; the daemon then closes the connection. */
struct gmlake_ctl_refused {
    struct gmlake_ctl_header header;
    int32_t error; /* an errno: EPROTO other version, EDQUOT too many processes of this user, EEXIST attached already */
    uint32_t reserved;
};
_Static_assert(sizeof(struct gmlake_ctl_refused) == 24, "REFUSED");

/* Daemon to process. A file may come along. */
struct gmlake_ctl_request {
    struct gmlake_ctl_header header;
    uint64_t id; /* of the daemon's choice */
    uint64_t argument;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC: nobody waits for the answer after that */
};
_Static_assert(sizeof(struct gmlake_ctl_request) == 40, "request");

/* Process to daemon. */
struct gmlake_ctl_answer {
    struct gmlake_ctl_header header;
    uint64_t id;    /* of the request */
    uint64_t value; /* as the request says */
    int32_t error;  /* 0 or an errno */
    uint32_t reserved;
};
_Static_assert(sizeof(struct gmlake_ctl_answer) == 40, "ANSWER");

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

/* The device memory of the process, all devices together. Each word stands for itself. */
struct gmlake_ctl_account {
    _Atomic uint64_t current;      /* bytes held now */
    _Atomic uint64_t peak;         /* most since the process started */
    _Atomic uint64_t segment_peak; /* most since the segment began */
    uint64_t reserved[5];
};
_Static_assert(sizeof(struct gmlake_ctl_account) == 64, "account");

/*
 * Two copies: copy[sequence & 1] is the published one, the other is written next and published by raising sequence.
 * A writer that is stopped or killed while writing leaves the published copy whole. Sequence 0: nothing yet.
 */
struct gmlake_ctl_stats_page {
    _Atomic uint64_t sequence;
    uint64_t reserved[7];
    _Atomic uint64_t copy[2][GMLAKE_CTL_SNAPSHOT_WORDS];
    struct gmlake_ctl_account account; /* GMLAKE_CTL_FEATURE_REQUESTS of both */
};
_Static_assert(sizeof(struct gmlake_ctl_stats_page) ==
                   64 + 2 * sizeof(struct gmlake_ctl_snapshot) + sizeof(struct gmlake_ctl_account),
               "statistics page");

/* The shortest statistics page: what it was at first. */
#define GMLAKE_CTL_STATS_PAGE_MIN (64 + 2 * sizeof(struct gmlake_ctl_snapshot))

/* ---- tunables page -------------------------------------------------------------------------------------------- */

struct gmlake_ctl_tunables_page {
    _Atomic uint64_t changes;                         /* raised after every change of a word */
    _Atomic uint64_t word[GMLAKE_CTL_TUNABLES_MAX];   /* the override in force, or GMLAKE_CTL_NO_OVERRIDE */
    _Atomic uint64_t wanted[GMLAKE_CTL_TUNABLES_MAX]; /* the part of it set for this process, not for the machine */
};
_Static_assert(sizeof(struct gmlake_ctl_tunables_page) == 8 + 16 * GMLAKE_CTL_TUNABLES_MAX, "tunables page");

/* ---- files that come along with a request ----------------------------------------------------------------------- */

enum gmlake_ctl_block_kind {
    GMLAKE_CTL_BLOCK_PRIMITIVE = 0, /* as GMLAKE_BLOCK_PRIMITIVE and so on */
    GMLAKE_CTL_BLOCK_STITCHED = 1,
    GMLAKE_CTL_BLOCK_FREE = 2
};

/* MAP: the file is an array of these. */
struct gmlake_ctl_block {
    uint64_t address;
    uint64_t size;
    uint64_t requested;  /* live: bytes asked for */
    uint64_t usable;     /* free: bytes that no other mapping uses */
    uint64_t operations; /* of the pool when it was looked at: the same number, the same moment */
    uint32_t device;     /* ordinal */
    uint32_t chunks;     /* under the block */
    uint32_t kind;       /* enum gmlake_ctl_block_kind */
    uint32_t reserved;
};
_Static_assert(sizeof(struct gmlake_ctl_block) == 56, "block");

enum gmlake_ctl_event_kind {
    GMLAKE_CTL_EVENT_ALLOC = 1,
    GMLAKE_CTL_EVENT_FREE = 2,      /* in the order of its stream */
    GMLAKE_CTL_EVENT_FREE_SYNC = 3, /* any stream may have used it */
    GMLAKE_CTL_EVENT_LOST = 4       /* written by the daemon only: bytes says how many events are missing here */
};

/* An allocation or a free, as trace_pipe shows it. */
struct gmlake_ctl_event {
    uint64_t time_ns; /* of the clock of the process's driver */
    uint64_t address;
    uint64_t bytes;  /* ALLOC: asked for */
    uint64_t stream; /* the handle; 0 the default stream */
    uint32_t device; /* ordinal */
    uint32_t kind;   /* enum gmlake_ctl_event_kind */
};
_Static_assert(sizeof(struct gmlake_ctl_event) == 40, "event");

#define GMLAKE_CTL_EVENT_WORDS (sizeof(struct gmlake_ctl_event) / 8)

/*
 * TRACE: the n-th event is in slot n % slots, which are as many as the file has room for; the oldest are overwritten.
 * sequence is n + 1 while slot n is whole, 0 while it is written: who copies one looks at it before and after.
 */
struct gmlake_ctl_ring_slot {
    _Atomic uint64_t sequence;
    _Atomic uint64_t word[GMLAKE_CTL_EVENT_WORDS];
};
_Static_assert(sizeof(struct gmlake_ctl_ring_slot) == 48, "slot");

struct gmlake_ctl_ring {
    _Atomic uint64_t head; /* events begun so far */
    uint64_t reserved[7];
    struct gmlake_ctl_ring_slot slot[];
};
_Static_assert(sizeof(struct gmlake_ctl_ring) == 64, "ring");

#endif
