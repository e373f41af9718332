/*
 * doctor.c - `gmlake doctor`: whether and how a program is served, and why not.
 */
#include "doctor.h"

#include "command.h"
#include "frameworks.h"
#include "mount.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct gm_command gm_command_doctor;

static const struct {
    enum gm_subject from;
    void (*check)(struct gm_patient *patient);
} checks[] = {
#define GM_CHECK(name, from, help) {GM_SUBJECT_##from, gm_check_##name},
#include "doctor.def"
#undef GM_CHECK
};

void gm_say(struct gm_patient *patient, enum gm_verdict verdict, const char *what, const char *format, ...)
{
    static const char *const words[] = {[GM_OK] = "ok", [GM_NOTE] = "note", [GM_PROBLEM] = "problem"};
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    patient->ill |= verdict == GM_PROBLEM;
    if (length < 0) {
        printf("%-9s%s\n", words[verdict], what);
        return;
    }
    for (char *c = text; *c != '\0'; c++) {
        *c = iscntrl((unsigned char)*c) ? '?' : *c; /* a finding is one line, whatever a path or a variable holds */
    }
    printf("%-9s%s: %s\n", words[verdict], what, text);
    free(text);
}

static int open_process(struct gm_patient *patient, const char *text)
{
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || pid <= 0 || pid > INT_MAX) {
        return gm_usage_error(&gm_command_doctor, "'%s' is not a process number; a command goes behind --", text);
    }
    int rc = gm_patient_open_process(patient, (pid_t)pid);
    if (rc == -ESRCH) {
        gm_complain(&gm_command_doctor, "no process %s", text);
        return GM_EXIT_NO_PROCESS;
    }
    if (rc < 0) {
        gm_complain(&gm_command_doctor, "process %s: %s", text, strerror(-rc));
        return GM_EXIT_ERROR;
    }
    /* Where this process looks for the daemon, that one does. */
    static const char *const places[] = {"GMLAKE_SOCKET", "XDG_RUNTIME_DIR"};
    for (size_t i = 0; patient->environment != NULL && i < sizeof places / sizeof places[0]; i++) {
        const char *value = gm_patient_variable(patient, places[i]);
        if ((value != NULL ? setenv(places[i], value, 1) : unsetenv(places[i])) != 0) {
            return GM_EXIT_ERROR;
        }
    }
    return GM_EXIT_OK;
}

static int open_command(struct gm_patient *patient, const char *command)
{
    /* As `gmlake run` would start it. */
    if (gm_frameworks_apply(NULL) < 0) {
        return GM_EXIT_ERROR;
    }
    int rc = gm_patient_open_command(patient, command);
    return rc == 0 || rc == -ENOENT ? GM_EXIT_OK : GM_EXIT_ERROR;
}

enum row { ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

/* Whether the word before the operands is "--": what follows is a command. */
static bool is_command(int argc, char **argv)
{
    return optind < argc && optind > 1 && strcmp(argv[optind - 1], "--") == 0;
}

static int run(int argc, char **argv)
{
    struct gm_patient patient = GM_PATIENT_NONE;
    const char *value;
    for (int row; (row = gm_option_next(&gm_command_doctor, argc, argv, true, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        patient.mount = value;
    }
    int status = GM_EXIT_OK;
    if (is_command(argc, argv)) {
        status = open_command(&patient, argv[optind]);
    } else if (argc - optind > 1) {
        return gm_usage_error(&gm_command_doctor, "one process at a time; a command goes behind --");
    } else if (optind < argc) {
        status = open_process(&patient, argv[optind]);
    }
    for (size_t i = 0; status == GM_EXIT_OK && i < sizeof checks / sizeof checks[0]; i++) {
        if (checks[i].from <= patient.subject) {
            checks[i].check(&patient);
        }
    }
    gm_patient_close(&patient);
    return status == GM_EXIT_OK && patient.ill ? GM_EXIT_ERROR : status;
}

const struct gm_command gm_command_doctor = {
    .name = "doctor",
    .summary = "say whether and how a program is served, and why not",
    .synopsis = "[--mount DIR] [PID | -- COMMAND [ARGUMENT]...]",
    .description =
        "    Looks at the machine; with PID also at that process; with COMMAND at the program it names, as 'gmlake "
        "run'\n"
        "    would start it, without running it. Prints one line a finding,\n"
        "        ok|note|problem  what: what it means, what to do\n"
        "    and exits with 1 if there is a problem: the program is not served, or not as it could be. A note is good\n"
        "    to know. /proc shows the environment that a process was started with; what it has set itself since, such\n"
        "    as os.environ in Python, is not in it. The checks:\n"
#define GM_CHECK(name, from, help) "        " #name "\n            " help "\n"
#include "doctor.def"
#undef GM_CHECK
    ,
    .options = options,
    .examples = "    gmlake doctor\n    gmlake doctor 4711\n    gmlake doctor -- python3 train.py\n",
    .exit_status = "0 no problem, 1 a problem or an error, 2 usage, 3 no such process",
    .run = run,
};
