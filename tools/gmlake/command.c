/*
 * command.c - option parsing, help and complaints, all from the table of a subcommand.
 */
#include "command.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OPTIONS_MAX = 32, LETTERS_MAX = 3 * OPTIONS_MAX + 3 };

const struct gm_command *gm_command_find(const char *name)
{
    for (const struct gm_command *const *command = gm_commands; *command != NULL; command++) {
        if (strcmp((*command)->name, name) == 0) {
            return *command;
        }
    }
    return NULL;
}

/* getopt's words for the argument of @option. */
static int argument_kind(const struct gm_option *option)
{
    if (option->argument == NULL) {
        return no_argument;
    }
    return option->argument[0] == '[' ? optional_argument : required_argument;
}

/* Translates the table to getopt's: a long option answers OPTIONS_MAX + row, a short one its letter. */
static void to_getopt(const struct gm_option *table, struct option *longs, char *letters)
{
    size_t row = 0;
    for (; row < OPTIONS_MAX && table[row].name != NULL; row++) {
        int kind = argument_kind(&table[row]);
        longs[row] = (struct option){table[row].name, kind, NULL, 256 + (int)row};
        if (table[row].letter != 0) {
            *letters++ = table[row].letter;
            for (int colons = kind == required_argument ? 1 : kind == optional_argument ? 2 : 0; colons > 0; colons--) {
                *letters++ = ':';
            }
        }
    }
    longs[row] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

int gm_option_next(const struct gm_command *command, int argc, char **argv, bool operands_end_options,
                   const char **value)
{
    struct option longs[OPTIONS_MAX + 1];
    char letters[LETTERS_MAX] = ":";
    if (operands_end_options) {
        strcpy(letters, "+:");
    }
    to_getopt(command->options, longs, letters + strlen(letters));
    opterr = 0;
    int answer = getopt_long(argc, argv, letters, longs, NULL);
    if (answer == -1) {
        return -1;
    }
    if (answer == ':' || answer == '?') {
        const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
        gm_usage_error(command, answer == ':' ? "option '%s' needs an argument" : "bad option '%s'", word);
        return -2;
    }
    *value = optarg;
    if (answer >= 256) {
        return answer - 256;
    }
    int row = 0;
    while (command->options[row].letter != answer) {
        row++;
    }
    return row;
}

static void print_option(const struct gm_option *option)
{
    printf("    ");
    if (option->letter != 0) {
        printf("-%c, ", option->letter);
    }
    printf("--%s", option->name);
    if (option->argument != NULL) {
        printf(option->argument[0] == '[' ? "%s" : " %s", option->argument);
    }
    printf("\n");
    for (const char *line = option->help; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        printf("            %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

void gm_command_print_help(const struct gm_command *command)
{
    printf("NAME\n    gmlake %s - %s\n\nSYNOPSIS\n    gmlake %s%s%s\n\nDESCRIPTION\n%s", command->name,
           command->summary, command->name, command->synopsis[0] != '\0' ? " " : "", command->synopsis,
           command->description);
    if (command->options[0].name != NULL) {
        printf("\nOPTIONS\n");
        for (const struct gm_option *option = command->options; option->name != NULL; option++) {
            print_option(option);
        }
    }
    if (command->examples != NULL) {
        printf("\nEXAMPLES\n%s", command->examples);
    }
    printf("\nEXIT STATUS\n    %s\n", command->exit_status != NULL
                                          ? command->exit_status
                                          : "0 ok, 1 error, 2 usage, 3 no such process, 4 no daemon");
}

void gm_complain(const struct gm_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "gmlake %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int gm_usage_error(const struct gm_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "gmlake %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nTry 'gmlake help %s'.\n", command->name);
    va_end(arguments);
    return GM_EXIT_USAGE;
}
