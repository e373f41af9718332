/*
 * frameworks.c - see frameworks.h.
 */
#include "frameworks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct gm_framework_setting gm_framework_settings[] = {
#define GM_FRAMEWORK_SETTING(framework, variable, value, unless, part, help)                                           \
    {framework, variable, value, unless, part, help},
#include "frameworks.def"
#undef GM_FRAMEWORK_SETTING
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

/* The variable by which the user decides what @row would, with its value in *value; NULL: by none. */
static const char *users_choice(const struct gm_framework_setting *row, const char **value)
{
    const char *const names[] = {row->unless, row->variable};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *value = names[i] != NULL ? getenv(names[i]) : NULL;
        if (*value != NULL) {
            return names[i];
        }
    }
    return NULL;
}

static int make(const struct gm_command *command, const struct gm_framework_setting *row)
{
    if (setenv(row->variable, row->value, 1) == 0) {
        return 0;
    }
    if (command != NULL) {
        gm_complain(command, "cannot set %s: %s", row->variable, strerror(errno));
    }
    return -ENOMEM;
}

int gm_frameworks_apply(const struct gm_command *command)
{
    for (const struct gm_framework_setting *row = gm_framework_settings; row->framework != NULL; row++) {
        const char *value;
        const char *chosen = users_choice(row, &value);
        if (chosen == NULL) {
            if (make(command, row) < 0) {
                return -ENOMEM;
            }
        } else if (command != NULL && row->part != NULL && strstr(value, row->part) == NULL) {
            gm_complain(command,
                        "%s=%s is kept, so %s pools memory itself and GMLake serves its segments at most; "
                        "add %s to it, or say --native if that is meant",
                        chosen, value, row->framework, row->value);
        }
    }
    return 0;
}
