/*
 * worker.h - a thread for what may wait for the device, so that the agent never does.
 *
 * STRUCTURE    Jobs are done one after the other, in order; those with a number leave a result. The thread starts with
 *              the first job and sleeps between them.
 * CONCURRENCY  the functions are the agent's; all signals are blocked in the thread, which is named gmlake-worker.
 */
#ifndef GM_WORKER_H
#define GM_WORKER_H

#include "agent.h"

#include <stdbool.h>

struct gm_job {
    uint64_t id;          /* 0: nobody waits for a result */
    uint64_t bytes;       /* to be reclaimed; 0: the pools are tended */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
};

struct gm_job_result {
    uint64_t id;
    uint64_t released; /* bytes */
    int error;         /* 0 or -errno */
};

/* Takes a job on. -EBUSY: too many wait already; -EAGAIN: the system gives no thread. */
int gm_worker_post(const struct gm_agent_ops *ops, const struct gm_job *job);

/* Takes the oldest result; false: there is none. */
bool gm_worker_result(struct gm_job_result *out);

bool gm_worker_is_busy(void);

/* Drops all jobs and ends the thread; one that waits for the device ends later, on its own. */
void gm_worker_stop(void);

/* In a child made by fork(): there is no thread. */
void gm_worker_forget(void);

#endif
