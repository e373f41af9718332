/*
 * event.c - the life of events.
 */
#include "event.h"

#include "context.h"
#include "objects.h"

#include <stdlib.h>

struct sim_event *sim_event_create(struct sim_context *context, unsigned flags)
{
    struct sim_event *event = calloc(1, sizeof *event);
    uint64_t handle = event == NULL ? 0 : sim_object_add(SIM_EVENT, event);
    if (handle == 0) {
        free(event);
        return NULL;
    }
    event->handle = handle;
    event->context = context;
    event->flags = flags;
    event->next = context->events;
    if (event->next != NULL) {
        event->next->previous = event;
    }
    context->events = event;
    return event;
}

void sim_event_destroy(struct sim_event *event)
{
    sim_object_remove(event->handle);
    if (event->next != NULL) {
        event->next->previous = event->previous;
    }
    if (event->previous != NULL) {
        event->previous->next = event->next;
    } else {
        event->context->events = event->next;
    }
    free(event);
}
