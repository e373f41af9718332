/*
 * exercise.h - what the scenarios of exercise.c share.
 */
#ifndef EXERCISE_H
#define EXERCISE_H

#include "calls.h"

#include <stddef.h>

#define MIB       ((size_t)1 << 20)
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* The driver, through the door that was asked for. */
extern struct calls cu;

/* The primary context of the device that start() was given. */
extern CUcontext context;

/* Prints a result, or whether something holds. */
void say(const char *what, CUresult rc);
void say_if(const char *what, int holds);

/* Ends the exercise where its preparation fails: nothing after it would mean anything. */
void need(const char *what, CUresult rc);

/* Initialises the driver and makes the primary context of device @ordinal current. */
void start(int ordinal);

/* Writes a pattern through the address and reads it back. */
void use(const char *what, CUdeviceptr address, size_t bytes);

#define SCENARIO(name, function) void scenario_##function(void);
#include "scenarios.def"
#undef SCENARIO

#endif
