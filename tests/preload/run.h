/*
 * run.h - runs a program with or without the preload library and keeps what it printed.
 */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>

struct run {
    int status;   /* exit status; 128 + signal */
    char *output; /* standard output; freed by run_free() */
    char *errors; /* standard error; the same */
};

/* More for the environment of the next runs: NAME=value, until run_clear_environment(). */
void run_set_environment(const char *assignment);
void run_clear_environment(void);

/* What goes into LD_PRELOAD before and behind the preload library in the next runs; NULL: nothing. */
void run_beside(const char *before, const char *behind);

/* Runs @argv, whose last element is NULL, for a minute at most. Fails the test when it cannot be started. */
struct run run_program(const char *const *argv, bool preloaded);
void run_free(struct run *run);

/*
 * Runs @argv without and with the preload library and fails the test unless both end with 0 and print the same, but
 * for the lines that begin with "driver:". Gives the preloaded run.
 */
struct run run_both_ways(const char *const *argv);

/* The count in the line "driver: @name COUNT"; -1: there is none. */
long long run_driver_count(const struct run *run, const char *name);

#endif
