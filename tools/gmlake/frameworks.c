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

/* The variable by which the user decides what @row would; NULL: by none. */
static const char *users_choice(const struct gm_framework_setting *row)
{
    if (row->unless != NULL && getenv(row->unless) != NULL) {
        return row->unless;
    }
    return getenv(row->variable) != NULL ? row->variable : NULL;
}

int gm_frameworks_apply(const struct gm_command *command)
{
    for (const struct gm_framework_setting *row = gm_framework_settings; row->framework != NULL; row++) {
        const char *chosen = users_choice(row);
        if (chosen == NULL) {
            if (setenv(row->variable, row->value, 1) != 0) {
                gm_complain(command, "cannot set %s: %s", row->variable, strerror(errno));
                return -ENOMEM;
            }
        } else if (row->part != NULL && strstr(getenv(chosen), row->part) == NULL) {
            gm_complain(command,
                        "%s=%s is kept, so %s pools memory itself and GMLake sees only whole segments; "
                        "add %s to it, or say --native if that is meant",
                        chosen, getenv(chosen), row->framework, row->value);
        }
    }
    return 0;
}
