/*
 * state.h - what must outlive a daemon that is killed: a memory file that is kept (kept.h), mapped and used in place.
 *
 * The successor finds the kernel's first request, whose answer the mount goes by, the numbers given so far, the values
 * set for the machine, its counters, who was registered, and who waits in poll(2). Every word is stored alone, so a
 * daemon may be killed at any point: what is half done belongs to a registration whose serial is not yet, or no longer,
 * there.
 *
 * COMPATIBILITY  Another version of the daemon takes over the head, which never changes; the rest only if it is of the
 *                same form.
 * CONCURRENCY    One daemon at a time; within it the machine's lock guards the rest, see there.
 */
#ifndef GM_STATE_H
#define GM_STATE_H

#include <gmlake/ctl_abi.h>
#include <stdatomic.h>
#include <stdint.h>

#define GM_STATE_INIT_MAX  256u
#define GM_STATE_PROCESSES 4096u
#define GM_STATE_GPUS      64u
#define GM_STATE_EVENTS    8u
#define GM_STATE_POLLERS   16384u

/* A registration. Invariant: the other fields are set while serial, written last and cleared first, is not 0. */
struct gm_state_process {
    _Atomic uint64_t serial;
    uint64_t start_time;
    int32_t pid;
    uint32_t uid;
    uint32_t gid;
    uint8_t stale;    /* it was, when it was last seen */
    uint8_t has_past; /* an earlier registration counted what it has published so far */
    uint8_t reserved[2];
    _Atomic uint64_t features;         /* as HELLO said */
    uint64_t counted[GM_STATE_EVENTS]; /* of its events, what is in the machine's counters: by those */
};

struct gm_state_head {
    uint32_t magic;
    uint32_t size;       /* of the whole; another one: another form */
    uint64_t generation; /* of inode numbers: of the first daemon of this mount */
    uint64_t started_ns; /* CLOCK_REALTIME, of the same */
    uint32_t uid;        /* owner of the machine's files: who mounted */
    uint32_t gid;
    _Atomic uint64_t next_serial; /* of registrations */
    _Atomic uint64_t next_file;   /* of open files */
    _Atomic uint32_t init_length; /* 0: the kernel has not sent its first request */
    uint32_t reserved;
    uint8_t init[GM_STATE_INIT_MAX]; /* the request, as it was read */
};

struct gm_state {
    struct gm_state_head head;
    _Atomic uint64_t tunable[GMLAKE_CTL_TUNABLES_MAX]; /* machine-wide overrides, or GMLAKE_CTL_NO_OVERRIDE */
    uint8_t gpu_uuid[GM_STATE_GPUS][16];               /* the GPU of each number; all zero: none yet */
    _Atomic uint64_t event[GM_STATE_EVENTS];           /* the machine's counters of events (events.h) */
    _Atomic uint64_t poller[GM_STATE_POLLERS];         /* whom the kernel waits for on behalf of poll(2); 0: nobody */
    struct gm_state_process process[GM_STATE_PROCESSES];
};

/* Sets up a state in which nothing has happened yet; the caller's ids become the owner of the machine's files. */
void gm_state_init(struct gm_state *state);

/* A memory file with such a state; the descriptor or -errno. */
int gm_state_create(void);

/*
 * Maps the state of @fd, which stays the caller's; one of another form is brought into this one. -EBADMSG: it is no
 * state.
 */
int gm_state_map(int fd, struct gm_state **out);

void gm_state_unmap(struct gm_state *state);

/* Forgets who was registered and what was set, in case that is what daemons die of. @fd as above. */
void gm_state_forget(int fd);

#endif
