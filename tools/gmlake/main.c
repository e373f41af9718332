/*
 * main.c - the command `gmlake`: finds the subcommand and runs it.
 */
#include "command.h"

#include <stdio.h>
#include <string.h>

#define GM_COMMAND(name) extern const struct gm_command gm_command_##name;
#include "commands.def"
#undef GM_COMMAND

const struct gm_command *const gm_commands[] = {
#define GM_COMMAND(name) &gm_command_##name,
#include "commands.def"
#undef GM_COMMAND
    NULL,
};

/* `gmlake --help` and `gmlake --version` are what people try first. */
static const char *without_dashes(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return "help";
    }
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 ? "version" : word;
}

/* `gmlake COMMAND --help` is the help of COMMAND, unless the word belongs to a program being run. */
static bool asks_for_help(int argc, char **argv)
{
    return argc >= 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "gmlake: which command? Try 'gmlake help'.\n");
        return GM_EXIT_USAGE;
    }
    const struct gm_command *command = gm_command_find(without_dashes(argv[1]));
    if (command == NULL) {
        fprintf(stderr, "gmlake: no command '%s'. Try 'gmlake help'.\n", argv[1]);
        return GM_EXIT_USAGE;
    }
    if (asks_for_help(argc, argv)) {
        gm_command_print_help(command);
        return GM_EXIT_OK;
    }
    int status = command->run(argc - 1, argv + 1);
    if (fflush(stdout) != 0) {
        gm_complain(command, "cannot write to standard output");
        return status == GM_EXIT_OK ? GM_EXIT_ERROR : status;
    }
    return status;
}
