/*
 * worker.c - see worker.h.
 */
#include "worker.h"

#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define JOBS_MAX     16u
#define STOP_WAIT_MS 500

enum worker_state { ABSENT, PRESENT, LEAVING };

/* Invariant: jobs are counted from their post until their result was taken, or until done where none is wanted. */
static struct {
    pthread_mutex_t lock; /* guards everything; a leaf */
    pthread_cond_t changed;
    enum worker_state state;
    const struct gm_agent_ops *ops;
    struct gm_job jobs[JOBS_MAX]; /* waiting, oldest first */
    unsigned job_count;
    bool working;
    struct gm_job_result results[JOBS_MAX]; /* oldest first */
    unsigned result_count;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct gm_job_result carry_out(const struct gm_agent_ops *ops, const struct gm_job *job)
{
    struct gm_job_result result = {.id = job->id};
    if (job->bytes > 0) {
        result.error = ops->reclaim(job->bytes, job->deadline_ns, &result.released);
    } else {
        ops->tend();
    }
    return result;
}

static void *worker_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&worker.lock);
    while (worker.state == PRESENT) {
        if (worker.job_count == 0) {
            pthread_cond_wait(&worker.changed, &worker.lock);
            continue;
        }
        struct gm_job job = worker.jobs[0];
        worker.job_count--;
        for (unsigned i = 0; i < worker.job_count; i++) {
            worker.jobs[i] = worker.jobs[i + 1];
        }
        worker.working = true;
        const struct gm_agent_ops *ops = worker.ops;
        pthread_mutex_unlock(&worker.lock);
        struct gm_job_result result = carry_out(ops, &job);
        pthread_mutex_lock(&worker.lock);
        worker.working = false;
        if (result.id != 0 && worker.state == PRESENT) {
            worker.results[worker.result_count++] = result;
        }
    }
    worker.state = ABSENT;
    pthread_cond_broadcast(&worker.changed);
    pthread_mutex_unlock(&worker.lock);
    return NULL;
}

static int start_locked(const struct gm_agent_ops *ops)
{
    pthread_t thread;
    worker.ops = ops;
    worker.state = PRESENT;
    worker.job_count = 0;
    worker.result_count = 0;
    int rc = gm_thread_start(worker_main, "gmlake-worker", &thread);
    if (rc < 0) {
        worker.state = ABSENT;
        return rc;
    }
    pthread_detach(thread);
    return 0;
}

int gm_worker_post(const struct gm_agent_ops *ops, const struct gm_job *job)
{
    pthread_mutex_lock(&worker.lock);
    bool full = worker.job_count + worker.result_count + 1 >= JOBS_MAX;
    int rc = worker.state == LEAVING || full ? -EBUSY : 0;
    if (rc == 0 && worker.state == ABSENT) {
        rc = start_locked(ops);
    }
    if (rc == 0) {
        worker.jobs[worker.job_count++] = *job;
        pthread_cond_broadcast(&worker.changed);
    }
    pthread_mutex_unlock(&worker.lock);
    return rc;
}

bool gm_worker_result(struct gm_job_result *out)
{
    pthread_mutex_lock(&worker.lock);
    bool found = worker.result_count > 0;
    if (found) {
        *out = worker.results[0];
        worker.result_count--;
        for (unsigned i = 0; i < worker.result_count; i++) {
            worker.results[i] = worker.results[i + 1];
        }
    }
    pthread_mutex_unlock(&worker.lock);
    return found;
}

bool gm_worker_is_busy(void)
{
    pthread_mutex_lock(&worker.lock);
    bool busy = worker.working || worker.job_count > 0;
    pthread_mutex_unlock(&worker.lock);
    return busy;
}

void gm_worker_stop(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += STOP_WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&worker.lock);
    if (worker.state == PRESENT) {
        worker.state = LEAVING;
        worker.job_count = 0;
        worker.result_count = 0;
        pthread_cond_broadcast(&worker.changed);
    }
    while (worker.state == LEAVING &&
           pthread_cond_clockwait(&worker.changed, &worker.lock, CLOCK_MONOTONIC, &until) == 0) {
    }
    pthread_mutex_unlock(&worker.lock);
}

void gm_worker_forget(void)
{
    pthread_mutex_init(&worker.lock, NULL);
    pthread_cond_init(&worker.changed, NULL);
    worker.state = ABSENT;
    worker.working = false;
    worker.job_count = 0;
    worker.result_count = 0;
}
