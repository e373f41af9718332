/*
 * version.c - `gmlake version`.
 */
#include "command.h"

#include <getopt.h>
#include <gmlake/gmlake.h>
#include <stdio.h>

extern const struct gm_command gm_command_version;

static int run(int argc, char **argv)
{
    const char *value;
    if (gm_option_next(&gm_command_version, argc, argv, false, &value) == -2) {
        return GM_EXIT_USAGE;
    }
    if (optind < argc) {
        return gm_usage_error(&gm_command_version, "takes no operand, got '%s'", argv[optind]);
    }
    printf("gmlake %s\n", GMLAKE_VERSION_STRING);
    return GM_EXIT_OK;
}

static const struct gm_option options[] = {{NULL, 0, NULL, NULL}};

const struct gm_command gm_command_version = {
    .name = "version",
    .summary = "print the version",
    .synopsis = "",
    .description = "    Prints \"gmlake\" and the version.\n",
    .options = options,
    .run = run,
};
