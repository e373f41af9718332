/*
 * state.c - see state.h.
 */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x54534d47u /* "GMST" in memory */

_Static_assert(sizeof(struct gm_state_head) == 312, "a later daemon finds the head where it is");

static void clear_body(struct gm_state *state)
{
    for (unsigned i = 0; i < GMLAKE_CTL_TUNABLES_MAX; i++) {
        atomic_store(&state->tunable[i], GMLAKE_CTL_NO_OVERRIDE);
    }
    for (unsigned i = 0; i < GM_STATE_EVENTS; i++) {
        atomic_store(&state->event[i], 0);
    }
    for (unsigned i = 0; i < GM_STATE_POLLERS; i++) {
        if (atomic_load(&state->poller[i]) != 0) {
            atomic_store(&state->poller[i], 0);
        }
    }
    for (unsigned i = 0; i < GM_STATE_PROCESSES; i++) {
        /* Untouched pages of the file stay untouched. */
        if (atomic_load(&state->process[i].serial) != 0) {
            atomic_store(&state->process[i].serial, 0);
        }
    }
}

void gm_state_init(struct gm_state *state)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    state->head = (struct gm_state_head){
        .magic = MAGIC,
        .size = sizeof *state,
        .generation = (uint64_t)now.tv_sec << 20 | (uint64_t)now.tv_nsec >> 10,
        .started_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
        .uid = geteuid(),
        .gid = getegid(),
        .next_serial = 1,
        .next_file = 1,
    };
    clear_body(state);
}

/* NULL: errno says why. */
static struct gm_state *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct gm_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

int gm_state_create(void)
{
    int fd = memfd_create("gmlaked-state", MFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    bool sized = fchmod(fd, 0600) == 0 && ftruncate(fd, sizeof(struct gm_state)) == 0;
    struct gm_state *state = sized ? map(fd) : NULL;
    if (state == NULL) {
        int error = errno;
        close(fd);
        return -error;
    }
    gm_state_init(state);
    gm_state_unmap(state);
    return fd;
}

int gm_state_map(int fd, struct gm_state **out)
{
    struct stat about;
    if (fstat(fd, &about) < 0 || about.st_size < (off_t)sizeof(struct gm_state_head)) {
        return -EBADMSG;
    }
    if (about.st_size < (off_t)sizeof(struct gm_state) && ftruncate(fd, sizeof(struct gm_state)) < 0) {
        return -errno;
    }
    struct gm_state *state = map(fd);
    if (state == NULL) {
        return -errno;
    }
    if (state->head.magic != MAGIC || state->head.init_length > GM_STATE_INIT_MAX) {
        gm_state_unmap(state);
        return -EBADMSG;
    }
    if (state->head.size != sizeof *state) {
        clear_body(state);
        state->head.size = sizeof *state;
    }
    *out = state;
    return 0;
}

void gm_state_unmap(struct gm_state *state)
{
    munmap(state, sizeof *state);
}

void gm_state_forget(int fd)
{
    struct gm_state *state = NULL;
    if (gm_state_map(fd, &state) == 0) {
        clear_body(state);
        gm_state_unmap(state);
    }
}
