/*
 * agent.h - shows this process to gmlaked and lets the daemon's tunables work in it.
 *
 * STRUCTURE    One thread, started by the first gm_agent_start(), never at load. It connects when a daemon is there,
 *              publishes the statistics while they change, points the tunables at the daemon's overrides, does what the
 *              daemon asks for (requests.h) and keeps an idle process within its limits. What may wait for the device
 *              is done by a second thread, started when there is such work (worker.h). Without a daemon it sleeps and
 *              tries again now and then. It never prints, and no failure of it reaches the host.
 * CONCURRENCY  gm_agent_start() and gm_agent_stop() from any thread. All signals are blocked in the thread; it is named
 *              gmlake-agent. It holds no lock while it calls the ops.
 * FORK         A child has no agent and none of its parent's overrides; gm_agent_start() begins anew there.
 */
#ifndef GM_AGENT_H
#define GM_AGENT_H

#include <gmlake/ctl_abi.h>
#include <gmlake/gmlake.h>
#include <stdint.h>

/* One device that this process serves. */
struct gm_agent_device {
    unsigned ordinal;  /* as the process numbers its devices */
    uint8_t uuid[16];  /* all zero if unknown */
    uint64_t capacity; /* bytes of the device; 0 if unknown */
    struct gmlake_stats stats;
};

/* Where the agent's figures come from, and who acts for it. What is NULL cannot be done in this process. */
struct gm_agent_ops {
    /* Called from the agent's thread, which has no CUDA context: no driver calls, and nothing that waits. */

    /* The number of devices that device() knows. */
    unsigned (*device_count)(void);
    /* Fills *out for device @index, 0 to device_count() - 1; an error leaves the device out this time. */
    int (*device)(unsigned index, struct gm_agent_device *out);
    /* Describes the first @room blocks; gives how many there are. */
    uint64_t (*map)(struct gmlake_ctl_block *out, uint64_t room);
    /* A trace has begun or ended (recorder.h): returns once every lock under which events are noted was free. */
    void (*watch)(void);
    /* Called from a thread of their own: they may wait for the device. As gm_tend_reclaim() and gm_tend_idle(). */
    int (*reclaim)(uint64_t bytes, uint64_t deadline_ns, uint64_t *released);
    void (*tend)(void);
};

/*
 * Starts the agent with @ops, which stay valid for the life of the process; does nothing if it runs already.
 * -EAGAIN: the system gives no thread.
 */
int gm_agent_start(const struct gm_agent_ops *ops);

/*
 * Ends the thread and detaches; returns when that is done, or at once if no agent runs or another thread is ending
 * it. Overrides that were in force stay. The caller holds no lock that the ops take.
 */
void gm_agent_stop(void);

#endif
