/*
 * log.h - the daemon's messages: standard error, or the system log once it has gone into the background. What the
 * journal reads from standard error has the level in front, as sd-daemon(3) has it.
 */
#ifndef GM_LOG_H
#define GM_LOG_H

/* One line about trouble: what happened, to which object, and what to do about it. */
void gm_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line about the ordinary course of things. */
void gm_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on to the system log. */
void gm_log_to_syslog(void);

#endif
