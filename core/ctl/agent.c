/*
 * agent.c - see agent.h.
 *
 * RHYTHM  50 ms while figures change, slowing to 200 ms while they do not; a publication each second says that the
 *         process is alive. What the daemon says is heard at once. Looking for a daemon: after 50 ms, then at doubling
 *         intervals up to 1 s.
 * LIMITS  A process beyond memory_high or memory_max gives back what nobody uses: while it works, what the device is
 *         done with; once it rests, and when a limit was set, after waiting for the device too. So it does with
 *         release_threshold and stitch_cache_max, for which allocations see when there are any.
 */
#include "agent.h"

#include "account.h"
#include "connection.h"
#include "latch.h"
#include "monotonic.h"
#include "recorder.h"
#include "requests.h"
#include "thread.h"
#include "worker.h"

#include "tunables.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define PUBLISH_FASTEST_MS 50
#define PUBLISH_SLOWEST_MS 200
#define ALIVE_NS           1000000000ull
#define CONNECT_FIRST_MS   50
#define CONNECT_SLOWEST_MS 1000
#define WORKING_MS         2 /* between looks at what the worker does */
#define TRY_AGAIN_NS       1000000000ull
#define TEND_DEADLINE_NS   1000000000ull

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
    uint64_t tended_ns;                   /* when the worker was last sent to keep the process within its limits */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .connection = GM_CONNECTION_NONE};

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
    gm_tunables_look();
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
    uint64_t now = gm_monotonic_ns();
    collect();
    bool changed = agent.published.generation == 0 || figures_changed();
    gm_requests_show_account(&agent.connection);
    if (changed || now - agent.published.published_ns >= ALIVE_NS) {
        agent.latest.generation = agent.published.generation + 1;
        agent.latest.published_ns = now;
        gm_latch_write(agent.connection.stats, &agent.latest);
        agent.published = agent.latest;
    }
    return changed;
}

static bool shall_end(void)
{
    pthread_mutex_lock(&agent.lock);
    bool end = agent.state != RUNNING;
    pthread_mutex_unlock(&agent.lock);
    return end;
}

/* Waits; true when the agent shall end. */
static bool sleep_or_end(int interval_ms)
{
    uint64_t until = gm_monotonic_ns() + (uint64_t)interval_ms * 1000000u;
    struct timespec deadline = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_mutex_lock(&agent.lock);
    while (agent.state == RUNNING &&
           pthread_cond_clockwait(&agent.changed, &agent.lock, CLOCK_MONOTONIC, &deadline) == 0) {
    }
    bool end = agent.state != RUNNING;
    pthread_mutex_unlock(&agent.lock);
    return end;
}

/* Whether some device keeps more than it may, by what was collected. */
static bool keeps_too_much(void)
{
    for (unsigned i = 0; i < agent.latest.device_count; i++) {
        const uint64_t *stat = agent.latest.device[i].stat;
        if (stat[GM_STAT_ROW_free_chunks] > gm_tunable(GMLAKE_TUNABLE_release_threshold) ||
            stat[GM_STAT_ROW_stitched_idle] > gm_tunable(GMLAKE_TUNABLE_stitch_cache_max)) {
            return true;
        }
    }
    return false;
}

/* Sends the worker to bring the process within its limits. A try in vain is repeated when something has changed. */
static void keep_limits(bool changed, bool look)
{
    uint64_t now = gm_monotonic_ns();
    gm_tunables_look();
    uint64_t excess = gm_account_excess();
    if (gm_worker_is_busy() || (!changed && !look && now - agent.tended_ns < TRY_AGAIN_NS)) {
        return;
    }
    if (excess > 0 && agent.ops->reclaim != NULL) {
        /* While a process works, its device is waited for only when a limit was set just now, not all the time. */
        struct gm_job job = {.bytes = excess, .deadline_ns = changed && !look ? 0 : now + TEND_DEADLINE_NS};
        (void)gm_worker_post(agent.ops, &job);
        agent.tended_ns = now;
    }
    if (keeps_too_much() && agent.ops->tend != NULL) {
        (void)gm_worker_post(agent.ops, &(struct gm_job){.bytes = 0});
        agent.tended_ns = now;
    }
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
    gm_tunables_override_with(agent.connection.tunables->word, &agent.connection.tunables->changes);
    bool look = true;
    bool end = false;
    while (!end && gm_requests_take(&agent.connection, agent.ops, &look) == 0) {
        bool changed = publish();
        keep_limits(changed, look);
        gm_requests_answer(&agent.connection);
        look = false;
        interval = changed ? PUBLISH_FASTEST_MS : slower(interval, PUBLISH_SLOWEST_MS);
        gm_connection_wait(&agent.connection, gm_worker_is_busy() ? WORKING_MS : interval);
        end = shall_end();
    }
    gm_requests_end(agent.ops);
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
            keep_limits(false, false);
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
    gm_tunables_forget();
    gm_recorder_forget();
    gm_worker_forget();
    /* The statistics page was not inherited (MADV_DONTFORK); the tunables page stays mapped, nobody looks at it. */
    gm_connection_forget(&agent.connection);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
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
        rc = gm_thread_start(agent_main, "gmlake-agent", &agent.thread);
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
    gm_worker_stop();
    pthread_mutex_lock(&agent.lock);
    agent.state = STOPPED;
    pthread_mutex_unlock(&agent.lock);
}
