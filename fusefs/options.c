/*
 * options.c - see options.h.
 */
#include "options.h"

#include "machine.h"

#include <getopt.h>
#include <gmlake/ctl_abi.h>
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE             2
#define TEXTFILE_SECONDS       15
#define TEXTFILE_SECONDS_LIMIT 86400

/* The options: what getopt_long() is given and what --help says. */
static const struct {
    const char *name;
    const char *argument; /* NULL: none */
    int letter;
    const char *help;
} table[] = {
    {"mountpoint", "DIR", 'm',
     "mount here (root: " GMLAKE_CTL_MOUNT ", else $XDG_RUNTIME_DIR/" GMLAKE_CTL_USER_MOUNT ")"},
    {"socket", "PATH", 's',
     "listen here (root: " GMLAKE_CTL_SOCKET ", else $XDG_RUNTIME_DIR/" GMLAKE_CTL_USER_SOCKET ")"},
    {"textfile", "DIR[=SEC]", 't', "write DIR/gmlake.prom for the node exporter every SEC (15) seconds"},
    {"processes", "NUMBER", 'p',
     "processes with metrics of their own, those that hold most (32); the others are summed"},
    {"user", "NAME", 'u', "once mounted, go on as this user (root: gmlake, if there is such a user)"},
    {"keeper", "WHO", 'k', "who keeps the mount when the daemon dies: self (the default), service or none"},
    {"foreground", NULL, 'f', "stay in the foreground, log to standard error (the default)"},
    {"daemon", NULL, 'd', "go into the background once mounted, log to the system log"},
    {"version", NULL, 'V', "print the version"},
    {"help", NULL, 'h', "print this"},
};
#define OPTION_COUNT (sizeof table / sizeof table[0])

static void print_help(void)
{
    printf("Usage: gmlaked [options]\n\n"
           "Shows the processes that use GMLake, and their tunables, as a file system.\n\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[64];
        snprintf(left, sizeof left, "-%c, --%s%s%s", table[i].letter, table[i].name,
                 table[i].argument != NULL ? " " : "", table[i].argument != NULL ? table[i].argument : "");
        printf("  %-28s %s\n", left, table[i].help);
    }
}

static int usage_error(const char *message, const char *subject)
{
    fprintf(stderr, "gmlaked: %s%s; see gmlaked --help\n", message, subject);
    return EXIT_USAGE;
}

/* Takes a path, made absolute: the daemon leaves its directory when it goes into the background. */
static int set_path(char out[PATH_MAX], const char *value)
{
    char here[PATH_MAX] = "";
    if (value[0] != '/' && getcwd(here, sizeof here) == NULL) {
        return usage_error("the working directory is gone: give absolute paths", "");
    }
    const char *slash = here[0] != '\0' ? "/" : "";
    int length = value[0] != '\0' ? snprintf(out, PATH_MAX, "%s%s%s", here, slash, value) : -1;
    return length > 0 && length < PATH_MAX ? -1 : usage_error("not a path: ", value);
}

/* DIR or DIR=SECONDS. */
static int set_textfile(struct gm_options *out, const char *value)
{
    const char *equals = strrchr(value, '=');
    size_t length = equals != NULL ? (size_t)(equals - value) : strlen(value);
    out->textfile_seconds = TEXTFILE_SECONDS;
    if (equals != NULL) {
        char *end;
        unsigned long seconds = strtoul(equals + 1, &end, 10);
        if (equals[1] < '0' || equals[1] > '9' || *end != '\0' || seconds < 1 || seconds > TEXTFILE_SECONDS_LIMIT) {
            return usage_error("not a number of seconds from 1 to 86400: ", equals + 1);
        }
        out->textfile_seconds = (unsigned)seconds;
    }
    char directory[PATH_MAX];
    if (length == 0 || length >= sizeof directory) {
        return usage_error("not a directory: ", value);
    }
    memcpy(directory, value, length);
    directory[length] = '\0';
    return set_path(out->textfile_directory, directory);
}

static int set_processes(struct gm_options *out, const char *value)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > GM_METRICS_PROCESSES_MAX) {
        return usage_error("not a number of processes from 0 to 1000: ", value);
    }
    out->metrics_processes = (unsigned)number;
    return -1;
}

static int set_keeping(struct gm_options *out, const char *value)
{
    static const char *const names[] = {
        [GM_KEEPING_SELF] = "self", [GM_KEEPING_SERVICE] = "service", [GM_KEEPING_NONE] = "none"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(value, names[i]) == 0) {
            out->keeping = (enum gm_keeping)i;
            return -1;
        }
    }
    return usage_error("not self, service or none: ", value);
}

static int set_user(struct gm_options *out, const char *value)
{
    if (value[0] == '\0' || strlen(value) >= sizeof out->user) {
        return usage_error("not a user: ", value);
    }
    if (geteuid() != 0) {
        return usage_error("only root can become another user: ", value);
    }
    snprintf(out->user, sizeof out->user, "%s", value);
    return -1;
}

static int take_option(int letter, const char *value, struct gm_options *out)
{
    switch (letter) {
    case 'm':
        return set_path(out->mountpoint, value);
    case 's':
        return set_path(out->socket, value);
    case 't':
        return set_textfile(out, value);
    case 'p':
        return set_processes(out, value);
    case 'u':
        return set_user(out, value);
    case 'k':
        return set_keeping(out, value);
    case 'f':
        out->daemonize = false;
        return -1;
    case 'd':
        out->daemonize = true;
        return -1;
    case 'V':
        printf("gmlaked %s\n", GMLAKE_VERSION_STRING);
        return 0;
    case 'h':
        print_help();
        return 0;
    default:
        return usage_error("bad option", "");
    }
}

/* Where nothing else was said: the machine's places for root, else the user's. */
static int fill_default(char out[PATH_MAX], const char *of_machine, const char *of_user)
{
    if (out[0] != '\0') {
        return -1;
    }
    if (geteuid() == 0) {
        return set_path(out, of_machine);
    }
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime == NULL || runtime[0] != '/') {
        return usage_error("XDG_RUNTIME_DIR is not set: give --mountpoint and --socket", "");
    }
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", runtime, of_user) >= PATH_MAX) {
        return usage_error("not a path: ", runtime);
    }
    return -1;
}

/* Whether @path is @directory or in it, also by way of symbolic links. */
static bool is_below(const char *path, const char *directory)
{
    char real_path[PATH_MAX];
    char real_directory[PATH_MAX];
    path = realpath(path, real_path) != NULL ? real_path : path;
    directory = realpath(directory, real_directory) != NULL ? real_directory : directory;
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') {
        length--;
    }
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

int gm_options_parse(int argc, char **argv, struct gm_options *out)
{
    struct option longs[OPTION_COUNT + 1] = {0};
    char letters[2 * OPTION_COUNT + 1] = "";
    size_t used = 0;
    memset(out, 0, sizeof *out);
    out->metrics_processes = GM_METRICS_PROCESSES;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        bool has_argument = table[i].argument != NULL;
        longs[i] =
            (struct option){table[i].name, has_argument ? required_argument : no_argument, NULL, table[i].letter};
        letters[used++] = (char)table[i].letter;
        if (has_argument) {
            letters[used++] = ':';
        }
    }
    letters[used] = '\0';
    for (int letter; (letter = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        int result = take_option(letter, optarg, out);
        if (result >= 0) {
            return result;
        }
    }
    if (optind < argc) {
        return usage_error("no argument is expected: ", argv[optind]);
    }
    int result = fill_default(out->mountpoint, GMLAKE_CTL_MOUNT, GMLAKE_CTL_USER_MOUNT);
    if (result < 0) {
        result = fill_default(out->socket, GMLAKE_CTL_SOCKET, GMLAKE_CTL_USER_SOCKET);
    }
    if (result < 0 && is_below(out->socket, out->mountpoint)) {
        return usage_error("the socket would lie below the mountpoint, out of reach: ", out->socket);
    }
    if (result < 0 && is_below(out->textfile_directory, out->mountpoint)) {
        return usage_error("the text file would lie in the mount itself: ", out->textfile_directory);
    }
    return result;
}
