/*
 * store.c - see store.h.
 */
#include "store.h"

#include "tunables.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void gm_trim(const char **text, size_t *length)
{
    while (*length > 0 && is_blank(**text)) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && is_blank((*text)[*length - 1])) {
        (*length)--;
    }
}

int gm_store_tunable(const struct gm_view *view, const char *text, size_t length)
{
    uint64_t value = GMLAKE_CTL_NO_OVERRIDE;
    if (view->process != NULL && atomic_load(&view->process->gone)) {
        return -ESRCH;
    }
    gm_trim(&text, &length);
    if (length != strlen("default") || memcmp(text, "default", length) != 0) {
        int rc = gm_tunable_parse((enum gmlake_tunable)view->argument, text, length, &value);
        if (rc < 0) {
            return rc;
        }
    }
    gm_machine_set_tunable(view->machine, view->process, view->argument, value);
    return 0;
}
