/*
 * options.h - the command line of gmlaked, from one table.
 */
#ifndef GM_OPTIONS_H
#define GM_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

/* Who keeps the mount alive when the daemon dies. */
enum gm_keeping {
    GM_KEEPING_SELF,    /* a process of its own, see keeper.h */
    GM_KEEPING_SERVICE, /* the service manager, which starts the daemon anew */
    GM_KEEPING_NONE
};

struct gm_options {
    char mountpoint[PATH_MAX];
    char socket[PATH_MAX];
    char textfile_directory[PATH_MAX]; /* empty: no text file */
    unsigned textfile_seconds;
    unsigned metrics_processes;
    bool daemonize;
    enum gm_keeping keeping;
    char user[64]; /* empty: the usual one, if there is one */
};

/*
 * Reads the command line; *out has every path filled in. Returns -1 to go on, else the exit code to leave with:
 * 0 after --help and --version, 2 after a usage error, which is on standard error.
 */
int gm_options_parse(int argc, char **argv, struct gm_options *out);

#endif
