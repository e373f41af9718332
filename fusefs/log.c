/*
 * log.c - see log.h.
 */
#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static bool to_syslog; /* fixed before the threads start */

/* Whether standard error is what the service manager has connected to the journal: $JOURNAL_STREAM names its file. */
static bool journal_reads(void)
{
    struct stat about;
    char name[64];
    const char *stream = getenv("JOURNAL_STREAM");
    if (stream == NULL || fstat(STDERR_FILENO, &about) < 0) {
        return false;
    }
    snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)about.st_dev, (unsigned long long)about.st_ino);
    return strcmp(name, stream) == 0;
}

static void __attribute__((format(printf, 2, 0))) write_line(int level, const char *format, va_list arguments)
{
    char line[1024];
    vsnprintf(line, sizeof line, format, arguments);
    if (to_syslog) {
        syslog(level, "%s", line);
    } else if (journal_reads()) {
        fprintf(stderr, "<%d>%s\n", level, line);
    } else {
        fprintf(stderr, "gmlaked: %s\n", line);
    }
}

void gm_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is right above */
    write_line(LOG_WARNING, format, arguments);
    va_end(arguments);
}

void gm_log_info(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is right above */
    write_line(LOG_INFO, format, arguments);
    va_end(arguments);
}

void gm_log_to_syslog(void)
{
    openlog("gmlaked", LOG_PID, LOG_DAEMON);
    to_syslog = true;
}
