/*
 * options.h - the command line of gmlaked, from one table.
 */
#ifndef GM_OPTIONS_H
#define GM_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

struct gm_options {
    char mountpoint[PATH_MAX];
    char socket[PATH_MAX];
    char textfile_directory[PATH_MAX]; /* empty: no text file */
    unsigned textfile_seconds;
    bool daemonize;
};

/*
 * Reads the command line; *out has every path filled in. Returns -1 to go on, else the exit code to leave with:
 * 0 after --help and --version, 2 after a usage error, which is on standard error.
 */
int gm_options_parse(int argc, char **argv, struct gm_options *out);

#endif
