/*
 * report.c - violations.
 */
#include "report.h"

#include "entry.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_PRINTED 100

static unsigned violations;

void sim_report(const char *format, ...)
{
    if (violations++ >= MAX_PRINTED) {
        return;
    }
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "simcuda: %s: %s\n", sim_entry_name(), message);
}

unsigned sim_report_count(void)
{
    return violations;
}
