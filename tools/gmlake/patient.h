/*
 * patient.h - the program that `gmlake doctor` looks at: a running process, or a command that is not run.
 *
 * STRUCTURE    What /proc tells of a process is read once, so that all checks see the same. Of a command there is its
 *              file, and this process's own environment as `gmlake run` would change it.
 * CONCURRENCY  one thread.
 */
#ifndef GM_PATIENT_H
#define GM_PATIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whom there is to look at. */
enum gm_subject { GM_SUBJECT_MACHINE, GM_SUBJECT_COMMAND, GM_SUBJECT_PROCESS };

/*
 * Invariant: @pid > 0 exactly for a process; @file >= 0 only if the program could be opened. @environment and @maps are
 * NULL where they cannot be read; @environment holds NAME=value strings, @environment_size bytes with their ends.
 */
struct gm_patient {
    enum gm_subject subject;
    pid_t pid;
    const char *mount;      /* of gmlaked, as the user named it; NULL: the usual places */
    char program[PATH_MAX]; /* the file's name; "" if it was not found */
    int file;
    char *environment;
    size_t environment_size;
    char *maps;
    bool mount_hangs; /* its daemon does not answer: nothing more is to be asked of it */
    bool ill;         /* a problem was found */
};

/* A file that a process has mapped. */
struct gm_mapped {
    char path[PATH_MAX];
    bool deleted; /* the file is gone or was replaced since */
};

/* No program: the machine alone. Every gm_patient_ function below ends with this, on failure too. */
#define GM_PATIENT_NONE                                                                                                \
    {                                                                                                                  \
        .file = -1                                                                                                     \
    }

/* Reads what can be read of process @pid. -ESRCH there is none; -ENOMEM. */
int gm_patient_open_process(struct gm_patient *patient, pid_t pid);

/* Finds the file of @command as a shell does, and through "#!" lines. -ENOENT there is none (program is @command). */
int gm_patient_open_command(struct gm_patient *patient, const char *command);

void gm_patient_close(struct gm_patient *patient);

/* The value of a variable in the program's environment; NULL: not set, or not known. */
const char *gm_patient_variable(const struct gm_patient *patient, const char *name);

/* The @skip-th file, of those mapped, whose own name begins with @name; false: there is none, or nothing is known. */
bool gm_patient_mapped(const struct gm_patient *patient, const char *name, unsigned skip, struct gm_mapped *out);

#endif
