/*
 * requests.c - see requests.h.
 */
#include "requests.h"

#include "account.h"
#include "monotonic.h"
#include "recorder.h"
#include "worker.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file longer than that is no honest daemon's. */
#define FILE_BYTES_MAX ((uint64_t)1 << 32)

void gm_requests_show_account(const struct gm_connection *connection)
{
    if (connection->has_account) {
        struct gmlake_ctl_account *account = &connection->stats->account;
        atomic_store_explicit(&account->current, gm_account_current(), memory_order_relaxed);
        atomic_store_explicit(&account->peak, gm_account_peak(), memory_order_relaxed);
        atomic_store_explicit(&account->segment_peak, gm_account_segment_peak(), memory_order_relaxed);
    }
}

/* Every function below gives 0 or an errno, and what the answer is in *value. IN_HAND: the answer comes later. */
#define IN_HAND (-1)

static int reclaim(const struct gm_agent_ops *ops, const struct gmlake_ctl_request *request)
{
    struct gm_job job = {.id = request->id, .bytes = request->argument, .deadline_ns = request->deadline_ns};
    if (ops->reclaim == NULL) {
        return EOPNOTSUPP;
    }
    if (job.bytes == 0) {
        return 0;
    }
    int rc = gm_worker_post(ops, &job);
    return rc < 0 ? EAGAIN : IN_HAND;
}

static int cut_segment(const struct gm_connection *connection, uint64_t *value)
{
    *value = gm_account_cut_segment();
    gm_requests_show_account(connection); /* before the answer, which says that the new segment is shown */
    return 0;
}

static int fill_map(const struct gm_agent_ops *ops, const struct gm_request *request, uint64_t *value)
{
    void *at;
    uint64_t room = request->message.argument;
    if (ops->map == NULL) {
        return EOPNOTSUPP;
    }
    if (request->fd < 0 || room == 0 || room > FILE_BYTES_MAX / sizeof(struct gmlake_ctl_block)) {
        return EINVAL;
    }
    int rc = gm_connection_map(request->fd, room * sizeof(struct gmlake_ctl_block), PROT_READ | PROT_WRITE, &at);
    if (rc < 0) {
        return -rc;
    }
    *value = ops->map(at, room);
    munmap(at, room * sizeof(struct gmlake_ctl_block));
    return 0;
}

static int switch_trace(const struct gm_agent_ops *ops, const struct gm_request *request)
{
    if (ops->watch == NULL) {
        return EOPNOTSUPP;
    }
    if (request->fd < 0) {
        gm_recorder_stop(ops->watch);
        return 0;
    }
    if (request->message.argument > FILE_BYTES_MAX) {
        return EINVAL;
    }
    return -gm_recorder_start(request->fd, request->message.argument, ops->watch);
}

static void handle(struct gm_connection *connection, const struct gm_agent_ops *ops, const struct gm_request *request,
                   bool *look)
{
    uint64_t value = 0;
    int error = 0;
    switch (request->message.header.type) {
    case GMLAKE_CTL_LOOK:
        *look = true;
        return;
    case GMLAKE_CTL_RECLAIM:
        error = reclaim(ops, &request->message);
        break;
    case GMLAKE_CTL_PEAK:
        error = cut_segment(connection, &value);
        break;
    case GMLAKE_CTL_MAP:
        error = fill_map(ops, request, &value);
        break;
    case GMLAKE_CTL_TRACE:
        error = switch_trace(ops, request);
        break;
    default:
        return;
    }
    if (error != IN_HAND) {
        gm_connection_answer(connection, request->message.id, error, value);
    }
}

int gm_requests_take(struct gm_connection *connection, const struct gm_agent_ops *ops, bool *look)
{
    struct gm_request request;
    int rc;
    while ((rc = gm_connection_receive(connection, &request)) == 0) {
        /* What the process slept through is not done any more: who asked has had his answer. */
        if (request.message.header.type == GMLAKE_CTL_LOOK || gm_monotonic_ns() < request.message.deadline_ns) {
            handle(connection, ops, &request, look);
        }
        if (request.fd >= 0) {
            close(request.fd);
        }
    }
    return rc == -EAGAIN ? 0 : rc;
}

void gm_requests_answer(const struct gm_connection *connection)
{
    struct gm_job_result result;
    while (gm_worker_result(&result)) {
        gm_requests_show_account(connection);
        gm_connection_answer(connection, result.id, -result.error, result.released);
    }
}

void gm_requests_end(const struct gm_agent_ops *ops)
{
    gm_recorder_stop(ops->watch);
}
