/*
 * doctor_process.c - switches and settings of GMLake's own in the program's environment, and what a process was served.
 */
#include "doctor.h"

#include "mount.h"
#include "paths.h"
#include "text.h"
#include "tunables.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *value_of(const struct gm_patient *patient, const char *name)
{
    const char *value = gm_patient_variable(patient, name);
    return value != NULL ? value : "";
}

void gm_check_switches(struct gm_patient *patient)
{
    const char *enable = value_of(patient, "GMLAKE_ENABLE");
    if (strcmp(enable, "0") == 0) {
        gm_say(patient, GM_PROBLEM, "switches",
               "GMLAKE_ENABLE=0 makes the library stand aside: start the program without it to be served");
    } else if (enable[0] != '\0' && strcmp(enable, "1") != 0) {
        gm_say(patient, GM_NOTE, "switches", "GMLAKE_ENABLE=%s switches nothing off: only 0 does", enable);
    }
    if (strcmp(value_of(patient, "GMLAKE_IPC"), "1") == 0) {
        gm_say(
            patient, GM_PROBLEM, "switches",
            "GMLAKE_IPC=1 (gmlake run --ipc) leaves memory to the driver, so that it can be shared: nothing is served");
    }
    if (strcmp(value_of(patient, "GMLAKE_ENABLED"), "0") == 0) {
        gm_say(patient, GM_NOTE, "switches",
               "GMLAKE_ENABLED=0: serving starts switched off; gmlake set -p PID enabled 1 switches it on");
    }
}

/* ---- settings ------------------------------------------------------------------------------------------------- */

/* Read by the library besides the tunables. */
static const char *const other_variables[] = {"GMLAKE_ENABLE", "GMLAKE_IPC", "GMLAKE_SOCKET"};

/* The name of the tunable that "GMLAKE_NAME=value" is for, NULL: there is none. */
static const char *tunable_of(const char *variable)
{
    size_t length = strcspn(variable, "=");
    for (unsigned which = 0; which < GMLAKE_TUNABLE_COUNT; which++) {
        char name[64];
        gm_text_environment_name((enum gmlake_tunable)which, name);
        if (strlen(name) == length && strncmp(name, variable, length) == 0) {
            return gm_tunable_table[which].name;
        }
    }
    return NULL;
}

static bool is_other(const char *variable)
{
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof other_variables / sizeof other_variables[0]; i++) {
        if (strlen(other_variables[i]) == length && strncmp(other_variables[i], variable, length) == 0) {
            return true;
        }
    }
    return false;
}

static void check_tunable(struct gm_patient *patient, const char *tunable, const char *variable)
{
    char setting[512];
    char message[GM_SETTING_MESSAGE];
    enum gmlake_tunable which;
    uint64_t number;
    const char *text;
    snprintf(setting, sizeof setting, "%s%s", tunable, strchr(variable, '='));
    if (gm_text_parse_setting(setting, &which, &number, &text, message) < 0) {
        gm_say(patient, GM_NOTE, "settings", "%s is ignored: %s", variable, message);
    } else {
        gm_say(patient, GM_OK, "settings", "%s", variable);
    }
}

void gm_check_settings(struct gm_patient *patient)
{
    const char *variable = patient->environment;
    const char *end = variable != NULL ? variable + patient->environment_size : NULL;
    for (; variable < end; variable += strlen(variable) + 1) {
        if (strncmp(variable, "GMLAKE_", 7) != 0 || strchr(variable, '=') == NULL || is_other(variable)) {
            continue;
        }
        const char *tunable = tunable_of(variable);
        if (tunable != NULL) {
            check_tunable(patient, tunable, variable);
        } else {
            gm_say(patient, GM_NOTE, "settings", "nobody reads %s; 'gmlake tunables' lists what there is", variable);
        }
    }
}

/* ---- what was served ------------------------------------------------------------------------------------------ */

/* The figure @name in flat keyed text; 0 if it is not there. */
static uint64_t figure(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            return strtoull(line + length + 1, NULL, 10);
        }
    }
    return 0;
}

static void tell_figures(struct gm_patient *patient, const char *stats)
{
    char live[GM_TEXT_SIZE];
    char held[GM_TEXT_SIZE];
    uint64_t served = figure(stats, "allocs");
    gm_text_size(figure(stats, "requested"), live);
    gm_text_size(figure(stats, "reserved"), held);
    if (served == 0) {
        gm_say(patient, GM_NOTE, "served",
               "nothing so far: the process has not allocated device memory, or asks for it in a way that is left to "
               "the driver");
        return;
    }
    gm_say(patient, GM_OK, "served", "%" PRIu64 " allocations so far; %s live, %s held", served, live, held);
    if (figure(stats, "oom") > 0) {
        gm_say(patient, GM_NOTE, "served", "%" PRIu64 " requests were refused for lack of device memory",
               figure(stats, "oom"));
    }
}

static void tell_state(struct gm_patient *patient, int directory)
{
    char *text;
    if (gm_mount_read(directory, "state", &text) == 0) {
        text[strcspn(text, "\n")] = '\0';
        if (strcmp(text, "running") != 0) {
            gm_say(patient, GM_NOTE, "served", "the process is %s: its figures are as old as that", text);
        }
        free(text);
    }
    if (gm_mount_read(directory, "tunables/enabled", &text) == 0) {
        if (strtol(text, NULL, 10) == 0) {
            gm_say(patient, GM_PROBLEM, "served",
                   "the tunable enabled is 0, so new allocations go to the driver: gmlake set -p %d enabled 1",
                   (int)patient->pid);
        }
        free(text);
    }
}

static void tell_process(struct gm_patient *patient, int root)
{
    char name[32];
    char *stats;
    snprintf(name, sizeof name, "%d", (int)patient->pid);
    int directory = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        int error = errno;
        gm_say(patient, GM_NOTE, "served", "%s",
               error == ENOENT ? "gmlaked does not know the process: it has not been served yet, or reports to another "
                                 "daemon (GMLAKE_SOCKET)"
                               : strerror(error));
        return;
    }
    int rc = gm_mount_read(directory, "stats", &stats);
    if (rc == 0) {
        tell_figures(patient, stats);
        free(stats);
    } else {
        gm_say(patient, GM_NOTE, "served", "its figures cannot be read: %s", strerror(-rc));
    }
    tell_state(patient, directory);
    close(directory);
}

void gm_check_served(struct gm_patient *patient)
{
    struct gm_mapped library;
    if (patient->maps != NULL && !gm_patient_mapped(patient, GM_PRELOAD_LIBRARY, 0, &library) &&
        !gm_patient_mapped(patient, "libgmlake.so", 0, &library)) {
        return; /* without a library there is nothing to be served by, which was told */
    }
    if (patient->mount_hangs) {
        return; /* which was told, too */
    }
    char *where;
    int root = gm_mount_locate(patient->mount, &where);
    free(where);
    if (root < 0) {
        gm_say(patient, GM_NOTE, "served", "cannot be told without gmlaked's mount; start gmlaked");
        return;
    }
    tell_process(patient, root);
    close(root);
}
