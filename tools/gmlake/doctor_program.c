/*
 * doctor_program.c - whether a preload library can reach the program, and how the program reaches the driver.
 */
#include "doctor.h"

#include "elf_file.h"
#include "paths.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* Read by gm_check_program() for the checks after it. */
static struct gm_elf_file elf;
static bool is_elf;

/* The loader ignores LD_PRELOAD in programs that gain rights by being started. */
static const char *gained_rights(const struct gm_patient *patient)
{
    struct stat status;
    if (fstat(patient->file, &status) != 0) {
        return NULL;
    }
    if (status.st_mode & S_ISUID) {
        return "set-uid";
    }
    if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP)) {
        return "set-gid";
    }
    return fgetxattr(patient->file, "security.capability", NULL, 0) > 0 ? "given capabilities" : NULL;
}

/* Why no preload library is loaded into the program, and what to do; NULL: it is. */
static const char *unreachable(void)
{
    if (!elf.wide) {
        return "is a 32-bit program, which CUDA's driver has not served for years: build it for 64 bits";
    }
    if (elf.machine != EM_X86_64) {
        return "is for another processor than x86-64, which GMLake is made for";
    }
    if (!elf.dynamic) {
        return "is statically linked, so the loader does not preload anything: link it dynamically (the CUDA runtime "
               "in it may stay static), or call GMLake's C API (gmlake.h)";
    }
    if (strstr(elf.interpreter, "ld-musl") != NULL) {
        return "is a program for musl, whose loader cannot load a library for glibc: use a build for glibc";
    }
    return NULL;
}

void gm_check_program(struct gm_patient *patient)
{
    if (patient->file < 0) {
        bool command = patient->subject == GM_SUBJECT_COMMAND;
        gm_say(patient, command ? GM_PROBLEM : GM_NOTE, "program",
               command ? "%s is not found, or cannot be run" : "%sits file cannot be read; ask as its user or as root",
               command ? patient->program : "");
        return;
    }
    int rc = gm_elf_read(patient->file, &elf);
    if (rc < 0) {
        gm_say(patient, GM_PROBLEM, "program", "%s: %s", patient->program,
               rc == -ENOEXEC ? "is neither an ELF program nor a script with a #! line that names one" : strerror(-rc));
        return;
    }
    is_elf = true;
    const char *why = unreachable();
    const char *rights = gained_rights(patient);
    if (why != NULL) {
        gm_say(patient, GM_PROBLEM, "program", "%s %s", patient->program, why);
    } else if (rights != NULL) {
        gm_say(patient, GM_PROBLEM, "program",
               "%s is %s, so the loader ignores LD_PRELOAD: run a copy that is not, or call GMLake's C API",
               patient->program, rights);
    } else {
        gm_say(patient, GM_OK, "program", "%s is dynamically linked: a preload library can reach it", patient->program);
    }
}

/* ---- the library ---------------------------------------------------------------------------------------------- */

/* Why the library is not in the process, as far as its environment tells. */
static void explain_absence(struct gm_patient *patient)
{
    const char *preload = gm_patient_variable(patient, "LD_PRELOAD");
    if (patient->environment == NULL) {
        gm_say(patient, GM_PROBLEM, "preload", "the library is not in the process: start it with gmlake run");
    } else if (preload == NULL || strstr(preload, GM_PRELOAD_LIBRARY) == NULL) {
        gm_say(patient, GM_PROBLEM, "preload",
               "the library is not in the process, and LD_PRELOAD does not name it: start it with gmlake run; a "
               "launcher in between may have cleaned the environment");
    } else {
        gm_say(patient, GM_PROBLEM, "preload",
               "LD_PRELOAD=%s, yet the library is not in the process: the loader could not open it (see the first "
               "lines the program printed), or ignored it for the reason above",
               preload);
    }
}

/* Which of several files is in charge is a matter of their order: nobody means that. */
static void complain_of_copies(struct gm_patient *patient, const char *first, const char *second)
{
    gm_say(patient, GM_PROBLEM, "preload",
           "two copies of GMLake are in the process, %s and %s: take one out of LD_PRELOAD, they do not know of each "
           "other's memory",
           first, second);
}

static void check_mapped(struct gm_patient *patient)
{
    struct gm_mapped first;
    struct gm_mapped second;
    char own[PATH_MAX];
    if (!gm_patient_mapped(patient, GM_PRELOAD_LIBRARY, 0, &first)) {
        explain_absence(patient);
        return;
    }
    if (gm_patient_mapped(patient, GM_PRELOAD_LIBRARY, 1, &second)) {
        complain_of_copies(patient, first.path, second.path);
    } else if (gm_patient_mapped(patient, "libgmlake.so", 0, &second)) {
        gm_say(
            patient, GM_NOTE, "preload",
            "%s is in the process and so is %s, which the program calls itself: each has memory of its own, so leave "
            "one of them out",
            first.path, second.path);
    } else if (first.deleted) {
        gm_say(
            patient, GM_NOTE, "preload",
            "%s is in the process, but was replaced or removed on disk since: the new one counts from the next start",
            first.path);
    } else if (gm_path_of_library(GM_PRELOAD_LIBRARY, own) == 0 && strcmp(own, first.path) != 0) {
        gm_say(patient, GM_NOTE, "preload", "%s is in the process, of another installation than this command's (%s)",
               first.path, own);
    } else {
        gm_say(patient, GM_OK, "preload", "%s is in the process", first.path);
    }
}

void gm_check_preload(struct gm_patient *patient)
{
    char path[PATH_MAX];
    if (patient->subject == GM_SUBJECT_PROCESS) {
        if (patient->maps == NULL) {
            gm_say(patient, GM_NOTE, "preload",
                   "what the process has mapped cannot be read; ask as its user or as root");
        } else {
            check_mapped(patient);
        }
    } else if (gm_path_of_library(GM_PRELOAD_LIBRARY, path) < 0) {
        gm_say(patient, GM_PROBLEM, "preload", "there is no %s: install it beside this command", path);
    } else if (strpbrk(path, ": ") != NULL) {
        gm_say(patient, GM_PROBLEM, "preload", "LD_PRELOAD cannot hold the path %s: move it to one without blanks",
               path);
    } else {
        gm_say(patient, GM_OK, "preload", "gmlake run puts %s in front of the driver", path);
    }
}

/* ---- the way to the driver ------------------------------------------------------------------------------------ */

static const char *needed_library(const char *name)
{
    for (unsigned i = 0; is_elf && i < elf.needed_count; i++) {
        if (strncmp(elf.needed[i], name, strlen(name)) == 0) {
            return elf.needed[i];
        }
    }
    return NULL;
}

void gm_check_runtime(struct gm_patient *patient)
{
    struct gm_mapped runtime;
    struct gm_mapped library;
    const char *needed = needed_library("libcudart.so");
    if (gm_patient_mapped(patient, "libcudart.so", 0, &runtime)) {
        gm_say(patient, GM_OK, "runtime", "%s, a dynamic CUDA runtime", runtime.path);
    } else if (gm_patient_mapped(patient, "libcuda.so", 0, &library)) {
        gm_say(patient, GM_OK, "runtime",
               "no libcudart.so: the program has a static CUDA runtime or calls the driver itself; both are served");
    } else if (needed != NULL || (needed = needed_library("libcuda.so")) != NULL) {
        gm_say(patient, GM_OK, "runtime", "the program names %s", needed);
    } else if (patient->subject == GM_SUBJECT_COMMAND && is_elf) {
        gm_say(patient, GM_OK, "runtime",
               "the program names no CUDA library: it has a static runtime, or loads one later; both are served");
    }
}
