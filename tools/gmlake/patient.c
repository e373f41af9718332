/*
 * patient.c - see patient.h.
 */
#include "patient.h"

#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERPRETERS_MAX = 4 };

/* ---- a process ------------------------------------------------------------------------------------------------ */

/* A process's file, or NULL with *rc set to why where that ends everything. */
static char *read_file(int directory, const char *name, size_t *size, int *rc)
{
    char *text = NULL;
    int failed = gm_mount_read_bytes(directory, name, &text, size);
    if (failed == -ESRCH || failed == -ENOENT || failed == -ENOMEM) {
        *rc = failed == -ENOENT ? -ESRCH : failed;
    }
    return failed == 0 ? text : NULL;
}

int gm_patient_open_process(struct gm_patient *patient, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return errno == ENOENT ? -ESRCH : -errno;
    }
    int rc = 0;
    size_t size;
    patient->subject = GM_SUBJECT_PROCESS;
    patient->pid = pid;
    patient->maps = read_file(directory, "maps", &size, &rc);
    patient->environment = read_file(directory, "environ", &patient->environment_size, &rc);
    patient->file = openat(directory, "exe", O_RDONLY | O_CLOEXEC);
    ssize_t length = readlinkat(directory, "exe", patient->program, sizeof patient->program - 1);
    patient->program[length > 0 ? length : 0] = '\0';
    close(directory);
    return rc;
}

/* ---- a command ------------------------------------------------------------------------------------------------ */

/* Opens @directory/@name if it is a program; "" is the current directory. */
static int open_program(const char *directory, size_t length, const char *name, char out[PATH_MAX])
{
    const char *slash = length > 0 ? "/" : "";
    if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)length, directory, slash, name) >= PATH_MAX ||
        access(out, X_OK) != 0) {
        return -1;
    }
    return open(out, O_RDONLY | O_CLOEXEC);
}

static int find_program(const char *name, char out[PATH_MAX])
{
    if (strchr(name, '/') != NULL) {
        return open_program("", 0, name, out);
    }
    const char *path = getenv("PATH");
    for (const char *rest = path != NULL ? path : "/bin:/usr/bin"; rest != NULL;) {
        size_t length = strcspn(rest, ":");
        int file = open_program(rest, length, name, out);
        if (file >= 0) {
            return file;
        }
        rest = rest[length] == ':' ? rest + length + 1 : NULL;
    }
    return -1;
}

/* The program that a "#!" line names; false: there is no such line. The program behind env(1) counts. */
static bool read_interpreter(int file, char out[PATH_MAX])
{
    char line[PATH_MAX];
    ssize_t got = pread(file, line, sizeof line - 1, 0);
    if (got < 2 || line[0] != '#' || line[1] != '!') {
        return false;
    }
    line[got] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *rest = NULL;
    char *word = strtok_r(line + 2, " \t", &rest);
    const char *base = word != NULL && strrchr(word, '/') != NULL ? strrchr(word, '/') + 1 : word;
    char *next = word != NULL ? strtok_r(NULL, " \t", &rest) : NULL;
    if (base != NULL && strcmp(base, "env") == 0 && next != NULL) {
        next = strcmp(next, "-S") == 0 ? strtok_r(NULL, " \t", &rest) : next;
        word = next != NULL ? next : word;
    }
    if (word == NULL) {
        return false;
    }
    snprintf(out, PATH_MAX, "%s", word);
    return true;
}

/* This process's environment as /proc shows one. */
static int copy_environment(struct gm_patient *patient)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        patient->environment_size += strlen(*variable) + 1;
    }
    patient->environment = malloc(patient->environment_size + 1);
    if (patient->environment == NULL) {
        return -ENOMEM;
    }
    char *end = patient->environment;
    for (char **variable = environ; *variable != NULL; variable++) {
        end = stpcpy(end, *variable) + 1;
    }
    *end = '\0';
    return 0;
}

int gm_patient_open_command(struct gm_patient *patient, const char *command)
{
    char name[PATH_MAX];
    patient->subject = GM_SUBJECT_COMMAND;
    snprintf(name, sizeof name, "%s", command);
    for (int depth = 0;; depth++) {
        patient->file = find_program(name, patient->program);
        if (patient->file < 0) {
            snprintf(patient->program, sizeof patient->program, "%s", name);
            return -ENOENT;
        }
        if (depth == INTERPRETERS_MAX || !read_interpreter(patient->file, name)) {
            return copy_environment(patient);
        }
        close(patient->file);
    }
}

/* ---- both ----------------------------------------------------------------------------------------------------- */

void gm_patient_close(struct gm_patient *patient)
{
    if (patient->file >= 0) {
        close(patient->file);
    }
    free(patient->environment);
    free(patient->maps);
}

const char *gm_patient_variable(const struct gm_patient *patient, const char *name)
{
    size_t length = strlen(name);
    const char *variable = patient->environment;
    const char *end = variable != NULL ? variable + patient->environment_size : NULL;
    for (; variable < end; variable += strlen(variable) + 1) {
        if (strncmp(variable, name, length) == 0 && variable[length] == '=') {
            return variable + length + 1;
        }
    }
    return NULL;
}

/* The path in a line of maps, which @length ends; NULL: the line has none. */
static const char *path_in(const char *line, size_t length)
{
    const char *path = memchr(line, '/', length);
    return path != NULL && path > line && path[-1] == ' ' ? path : NULL;
}

bool gm_patient_mapped(const struct gm_patient *patient, const char *name, unsigned skip, struct gm_mapped *out)
{
    static const char mark[] = " (deleted)";
    char last[PATH_MAX] = "";
    for (const char *line = patient->maps; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *path = path_in(line, length);
        if (path != NULL) {
            struct gm_mapped found;
            snprintf(found.path, sizeof found.path, "%.*s", (int)(length - (size_t)(path - line)), path);
            size_t size = strlen(found.path);
            found.deleted = size > sizeof mark && strcmp(found.path + size - (sizeof mark - 1), mark) == 0;
            bool again = strcmp(found.path, last) == 0;
            strcpy(last, found.path);
            found.path[found.deleted ? size - (sizeof mark - 1) : size] = '\0';
            if (!again && strncmp(strrchr(found.path, '/') + 1, name, strlen(name)) == 0 && skip-- == 0) {
                *out = found;
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}
