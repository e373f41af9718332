/*
 * log.c - see log.h.
 */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>

static bool to_syslog; /* fixed before the threads start */

void gm_log(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is right above */
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (to_syslog) {
        syslog(LOG_NOTICE, "%s", line);
    } else {
        fprintf(stderr, "gmlaked: %s\n", line);
    }
}

void gm_log_to_syslog(void)
{
    openlog("gmlaked", LOG_PID, LOG_DAEMON);
    to_syslog = true;
}
