/*
 * frameworks.h - the settings of frameworks.def as a table, and how `gmlake run` makes them.
 *
 * CONCURRENCY  one thread; it changes the environment.
 */
#ifndef GM_FRAMEWORKS_H
#define GM_FRAMEWORKS_H

#include "command.h"

/* A row of frameworks.def, described there. */
struct gm_framework_setting {
    const char *framework;
    const char *variable;
    const char *value;
    const char *unless;
    const char *part;
    const char *help;
};

/* Ended by a NULL framework. */
extern const struct gm_framework_setting gm_framework_settings[];

/* For help: each row as "        VARIABLE=value" and, on a line of its own, what it does. */
#define GM_FRAMEWORK_HELP_ROW(framework, variable, value, unless, part, help)                                          \
    "        " variable "=" value "\n            " framework ": " help ".\n"

/*
 * Makes every setting that the user has not made, and says for @command what the user's own come to (NULL: says
 * nothing). 0 or -ENOMEM.
 */
int gm_frameworks_apply(const struct gm_command *command);

#endif
