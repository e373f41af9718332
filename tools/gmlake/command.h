/*
 * command.h - what a subcommand of `gmlake` is, and what all of them share.
 *
 * STRUCTURE    Each subcommand is one file with one struct gm_command: its name, its help, its option table and its
 *              function. main.c lists them. Parsing and help both come from the option table.
 * CONCURRENCY  The command is single-threaded.
 */
#ifndef GM_COMMAND_H
#define GM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

/* The exit codes that scripts rely on. */
enum gm_exit {
    GM_EXIT_OK = 0,
    GM_EXIT_ERROR = 1,
    GM_EXIT_USAGE = 2,
    GM_EXIT_NO_PROCESS = 3,
    GM_EXIT_NO_DAEMON = 4,
    GM_EXIT_CANNOT_RUN = 126, /* as env(1): found, but cannot be run */
    GM_EXIT_NOT_FOUND = 127,  /* as env(1) */
};

/* One option. Invariant: @name is unique in its table; @letter is 0 or unique. A table ends with a NULL name. */
struct gm_option {
    const char *name;
    char letter;          /* short form, or 0 */
    const char *argument; /* its name in the help; NULL: takes none; "[=X]": optional */
    const char *help;
};

struct gm_command {
    const char *name;
    const char *summary;  /* one line */
    const char *synopsis; /* what follows the name */
    const char *description;
    const struct gm_option *options;
    const char *examples;    /* NULL: none */
    const char *exit_status; /* NULL: what enum gm_exit says */
    int (*run)(int argc, char **argv);
};

/* The table of main.c, ended by NULL. */
extern const struct gm_command *const gm_commands[];

/* The subcommand called @name; NULL: none. */
const struct gm_command *gm_command_find(const char *name);

/*
 * Reads the next option of @command, like getopt_long(): the index of its row, with its argument in *value (NULL if
 * none was given); -1 at the end, with optind at the first operand; -2 after a usage error, which has been reported.
 * @operands_end_options: stop at the first operand, which belongs to another program.
 */
int gm_option_next(const struct gm_command *command, int argc, char **argv, bool operands_end_options,
                   const char **value);

/* Prints the manual of @command to standard output. */
void gm_command_print_help(const struct gm_command *command);

/* "gmlake NAME: message" on standard error. */
void gm_complain(const struct gm_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, followed by where the help is; gives GM_EXIT_USAGE. */
int gm_usage_error(const struct gm_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
