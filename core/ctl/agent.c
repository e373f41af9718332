/*
 * agent.c - see agent.h.
 *
 * RHYTHM  50 ms while figures change, slowing to 200 ms while they do not; a publication each second says that the
 *         process is alive. Looking for a daemon: after 50 ms, then at doubling intervals up to 1 s.
 */
#include "agent.h"

#include "connection.h"
#include "latch.h"

#include "tunables.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define PUBLISH_FASTEST_MS 50
#define PUBLISH_SLOWEST_MS 200
#define ALIVE_NS           1000000000ull
#define CONNECT_FIRST_MS   50
#define CONNECT_SLOWEST_MS 1000
#define THREAD_STACK       (256u << 10)

/* NOLINTNEXTLINE(misc-redundant-expression): that both sides are the same is the point */
_Static_assert(GMLAKE_CTL_NO_OVERRIDE == GM_TUNABLE_NO_OVERRIDE, "the page is read as it is");

enum agent_state { STOPPED, RUNNING, ENDING };

/* Everything of the agent. Fields without a note belong to the thread while it runs. */
static struct {
    pthread_mutex_t lock;   /* guards state and thread; a leaf: no other lock is taken under it */
    pthread_cond_t changed; /* state is no longer RUNNING */
    enum agent_state state;
    pthread_t thread;
    const struct gm_agent_ops *ops; /* fixed before the thread starts */
    struct gm_addresses addresses;  /* fixed before the thread starts */
    struct gm_connection connection;
    struct gmlake_ctl_snapshot latest;    /* what is collected now */
    struct gmlake_ctl_snapshot published; /* what was published last through this connection */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .connection = GM_CONNECTION_NONE};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void collect_device(struct gmlake_ctl_device *out, const struct gm_agent_device *device)
{
    out->ordinal = device->ordinal;
    memcpy(out->uuid, device->uuid, sizeof out->uuid);
    out->capacity = device->capacity;
#define GMLAKE_STAT(name, kind, unit, help) out->stat[GM_STAT_ROW_##name] = device->stats.name;
#include <gmlake/stats.def>
#undef GMLAKE_STAT
}

/* Fills agent.latest, but for its generation and time. */
static void collect(void)
{
    struct gmlake_ctl_snapshot *snapshot = &agent.latest;
    memset(snapshot, 0, sizeof *snapshot);
    /* The count before the values: they may be newer than it says, never older. */
    snapshot->changes_seen = atomic_load_explicit(&agent.connection.tunables->changes, memory_order_acquire);
    snapshot->tunable_count = GMLAKE_TUNABLE_COUNT;
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        snapshot->own[i] = atomic_load_explicit(&gm_tunable_own[i], memory_order_relaxed);
        snapshot->now[i] = gm_tunable((enum gmlake_tunable)i);
    }
    snapshot->stat_count = GM_STAT_ROWS;
    unsigned count = agent.ops->device_count();
    for (unsigned i = 0; i < count && snapshot->device_count < GMLAKE_CTL_DEVICES_MAX; i++) {
        struct gm_agent_device device = {.stats.size = sizeof device.stats};
        if (agent.ops->device(i, &device) == 0) {
            collect_device(&snapshot->device[snapshot->device_count++], &device);
        }
    }
}

/* True if the figures differ from the published ones; generation and time do not count. */
static bool figures_changed(void)
{
    size_t skip = offsetof(struct gmlake_ctl_snapshot, changes_seen);
    return memcmp((const char *)&agent.latest + skip, (const char *)&agent.published + skip,
                  sizeof agent.latest - skip) != 0;
}

/* Publishes if there is something new or it is time for a sign of life. True if there was something new. */
static bool publish(void)
{
    uint64_t now = now_ns();
    collect();
    bool changed = agent.published.generation == 0 || figures_changed();
    if (changed || now - agent.published.published_ns >= ALIVE_NS) {
        agent.latest.generation = agent.published.generation + 1;
        agent.latest.published_ns = now;
        gm_latch_write(agent.connection.stats, &agent.latest);
        agent.published = agent.latest;
    }
    return changed;
}

/* Waits; true when the agent shall end. No descriptor is waited on: the host may close what it does not know. */
static bool sleep_or_end(int interval_ms)
{
    uint64_t until = now_ns() + (uint64_t)interval_ms * 1000000u;
    struct timespec deadline = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_mutex_lock(&agent.lock);
    while (agent.state == RUNNING &&
           pthread_cond_clockwait(&agent.changed, &agent.lock, CLOCK_MONOTONIC, &deadline) == 0) {
    }
    bool end = agent.state != RUNNING;
    pthread_mutex_unlock(&agent.lock);
    return end;
}

static int slower(int interval_ms, int slowest_ms)
{
    return interval_ms * 2 < slowest_ms ? interval_ms * 2 : slowest_ms;
}

/* Serves one connection until the daemon is gone or the agent shall end, which is then true. */
static bool serve_connection(void)
{
    int interval = PUBLISH_FASTEST_MS;
    memset(&agent.published, 0, sizeof agent.published);
    /* Reading through a writable type: nothing in the process ever stores through this pointer. */
    gm_tunables_override_with((_Atomic uint64_t *)(uintptr_t)agent.connection.tunables->word);
    bool end = false;
    while (!end && gm_connection_drain(&agent.connection) == 0) {
        interval = publish() ? PUBLISH_FASTEST_MS : slower(interval, PUBLISH_SLOWEST_MS);
        end = sleep_or_end(interval);
    }
    gm_connection_close(&agent.connection);
    return end;
}

static void *agent_main(void *unused)
{
    (void)unused;
    int interval = CONNECT_FIRST_MS;
    for (bool end = false; !end;) {
        if (gm_connection_open(&agent.connection, &agent.addresses) == 0) {
            end = serve_connection();
            interval = CONNECT_FIRST_MS;
        }
        if (!end) {
            end = sleep_or_end(interval);
            interval = slower(interval, CONNECT_SLOWEST_MS);
        }
    }
    return NULL;
}

/* In a child the thread is gone and the connection is the parent's. */
static void forget_in_child(void)
{
    pthread_mutex_init(&agent.lock, NULL);
    pthread_cond_init(&agent.changed, NULL);
    agent.state = STOPPED;
    gm_tunables_override_with(NULL);
    /* The statistics page was not inherited (MADV_DONTFORK); the tunables page stays mapped, nobody looks at it. */
    gm_connection_forget(&agent.connection);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

static int start_thread(void)
{
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    int error = pthread_create(&agent.thread, &attributes, agent_main, NULL);
    if (error == EINVAL) { /* a host whose thread-local storage alone fills such a stack */
        error = pthread_create(&agent.thread, NULL, agent_main, NULL);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_setname_np(agent.thread, "gmlake-agent");
    }
    return -error;
}

int gm_agent_start(const struct gm_agent_ops *ops)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = 0;
    pthread_once(&once, register_fork_handler);
    pthread_mutex_lock(&agent.lock);
    if (agent.state == STOPPED) {
        agent.ops = ops;
        gm_addresses_find(&agent.addresses);
        agent.state = RUNNING;
        rc = start_thread();
        if (rc < 0) {
            agent.state = STOPPED;
        }
    }
    pthread_mutex_unlock(&agent.lock);
    return rc;
}

void gm_agent_stop(void)
{
    pthread_mutex_lock(&agent.lock);
    bool mine = agent.state == RUNNING;
    if (mine) {
        agent.state = ENDING;
        pthread_cond_signal(&agent.changed);
    }
    pthread_mutex_unlock(&agent.lock);
    if (!mine) {
        return;
    }
    pthread_join(agent.thread, NULL);
    pthread_mutex_lock(&agent.lock);
    agent.state = STOPPED;
    pthread_mutex_unlock(&agent.lock);
}
