/*
 * context.c - contexts and the stack of current ones.
 */
#include "context.h"

#include "capture.h"
#include "event.h"
#include "objects.h"
#include "plain.h"

#include <stdlib.h>

__thread struct sim_thread sim_thread;

/* Records outlive their contexts: threads may still have them current, and are told that they are destroyed. */
static struct sim_context *buried;

uint64_t sim_thread_number(void)
{
    static uint64_t next = 1;
    if (sim_thread.number == 0) {
        sim_thread.number = next++;
    }
    return sim_thread.number;
}

static struct sim_context *make(struct sim_device *device, unsigned flags)
{
    static uint64_t next_id = 1;
    struct sim_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return NULL;
    }
    context->handle = sim_object_add(SIM_CONTEXT, context);
    if (context->handle == 0) {
        free(context);
        return NULL;
    }
    context->id = next_id++;
    context->device = device;
    context->flags = flags;
    return context;
}

static bool revive(struct sim_context *context)
{
    context->legacy = sim_stream_create(context, SIM_STREAM_LEGACY, false);
    context->alive = context->legacy != NULL;
    context->error = CUDA_SUCCESS;
    context->peers = 0;
    return context->alive;
}

bool sim_context_start(void)
{
    for (int i = 0; i < sim_device_count(); i++) {
        struct sim_device *device = sim_device_at(i);
        device->primary = make(device, 0);
        if (device->primary == NULL) {
            return false;
        }
        device->primary->primary = true;
    }
    return true;
}

struct sim_context *sim_context_create(struct sim_device *device, unsigned flags)
{
    struct sim_context *context = make(device, flags);
    if (context == NULL || revive(context)) {
        return context;
    }
    sim_object_remove(context->handle);
    free(context);
    return NULL;
}

bool sim_context_revive_primary(struct sim_context *context)
{
    return context->alive || revive(context);
}

void sim_context_destroy(struct sim_context *context)
{
    /* Work on streams of other contexts may use or free this one's memory. */
    for (int i = 0; i < sim_device_count(); i++) {
        sim_device_wait(sim_device_at(i));
    }
    for (struct sim_stream *stream = context->streams; stream != NULL; stream = stream->next) {
        sim_capture_abandon(stream);
    }
    while (context->plain != NULL) {
        sim_plain_drop(context->plain);
    }
    while (context->events != NULL) {
        sim_event_destroy(context->events);
    }
    sim_stream_destroy_all(context);
    context->alive = false;
    if (!context->primary) {
        sim_object_remove(context->handle);
        context->next_buried = buried;
        buried = context;
    }
}

struct sim_context *sim_context_current(void)
{
    return sim_thread.depth == 0 ? NULL : sim_thread.stack[sim_thread.depth - 1];
}

struct sim_context *sim_context_get(CUcontext handle)
{
    return sim_object_get(SIM_CONTEXT, (uint64_t)(uintptr_t)handle);
}
