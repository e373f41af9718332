/*
 * doctor.h - what the checks of `gmlake doctor` share.
 *
 * STRUCTURE    doctor.def lists the checks; each is a function here, in the file named for its part: the machine, the
 *              program, the frameworks, the process. A check tells its findings by gm_say(), none if it has nothing
 *              to add.
 * CONCURRENCY  one thread.
 */
#ifndef GM_DOCTOR_H
#define GM_DOCTOR_H

#include "patient.h"

enum gm_verdict {
    GM_OK,      /* as it should be */
    GM_NOTE,    /* good to know: serving works, or that is unknown */
    GM_PROBLEM, /* the program is not served, or not as it could be */
};

/* Prints one finding about @what: what it means and what to do. A problem makes the patient ill. */
void gm_say(struct gm_patient *patient, enum gm_verdict verdict, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define GM_CHECK(name, from, help) void gm_check_##name(struct gm_patient *patient);
#include "doctor.def"
#undef GM_CHECK

#endif
