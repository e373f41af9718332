/*
 * help.c - `gmlake help [COMMAND]`: the list of subcommands, or the manual of one.
 */
#include "command.h"

#include <getopt.h>
#include <stdio.h>

extern const struct gm_command gm_command_help;

static void list_commands(void)
{
    printf("gmlake - GPU memory that does not fragment\n\n");
    for (const struct gm_command *const *command = gm_commands; *command != NULL; command++) {
        printf("    %-10s %s\n", (*command)->name, (*command)->summary);
    }
    printf("\n'gmlake help COMMAND' has the details.\n");
}

static int run(int argc, char **argv)
{
    const char *value;
    if (gm_option_next(&gm_command_help, argc, argv, false, &value) == -2) {
        return GM_EXIT_USAGE;
    }
    if (argc - optind > 1) {
        return gm_usage_error(&gm_command_help, "one command at a time");
    }
    if (argc - optind == 0) {
        list_commands();
        return GM_EXIT_OK;
    }
    const struct gm_command *command = gm_command_find(argv[optind]);
    if (command == NULL) {
        return gm_usage_error(&gm_command_help, "no command '%s'", argv[optind]);
    }
    gm_command_print_help(command);
    return GM_EXIT_OK;
}

static const struct gm_option options[] = {{NULL, 0, NULL, NULL}};

const struct gm_command gm_command_help = {
    .name = "help",
    .summary = "what the commands do and which options they take",
    .synopsis = "[COMMAND]",
    .description = "    Without COMMAND, lists the commands; with it, prints its manual.\n",
    .options = options,
    .run = run,
};
