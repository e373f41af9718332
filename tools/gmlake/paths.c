/*
 * paths.c - see paths.h.
 */
#include "paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to the directory of the executable, in the order tried. */
static const char *const library_directories[] = {"../lib", "../" GM_INSTALL_LIBDIR};

static int executable_directory(char out[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (length <= 0) {
        return -ENOENT;
    }
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    if (slash == NULL) {
        return -ENOENT;
    }
    *slash = '\0';
    return 0;
}

int gm_path_of_library(const char *name, char out[PATH_MAX])
{
    char directory[PATH_MAX];
    if (executable_directory(directory) < 0) {
        snprintf(out, PATH_MAX, "%s", name);
        return -ENOENT;
    }
    for (size_t i = 0; i < sizeof library_directories / sizeof library_directories[0]; i++) {
        char *candidate;
        if (asprintf(&candidate, "%s/%s/%s", directory, library_directories[i], name) < 0) {
            return -ENOMEM;
        }
        char *resolved = realpath(candidate, NULL);
        if (i == 0 || resolved != NULL) {
            snprintf(out, PATH_MAX, "%s", resolved != NULL ? resolved : candidate);
        }
        free(candidate);
        if (resolved != NULL) {
            free(resolved);
            return 0;
        }
    }
    return -ENOENT;
}
