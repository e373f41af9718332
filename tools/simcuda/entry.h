/*
 * entry.h - the doors: every exported driver function comes through here.
 *
 * STRUCTURE    exports.def is the one list of functions. From it come their declarations (here), the exported
 *              bodies (entry.c: take the lock, check, fail on demand, call sim_<function>, log, drop the lock) and
 *              the rows that cuGetProcAddress and the call counts use.
 * CONCURRENCY  one recursive lock guards the whole simulated driver. It is never held in a real-time wait; a host
 *              function that a stream runs is called under it, and its driver calls answer NOT_PERMITTED.
 */
#ifndef SIM_ENTRY_H
#define SIM_ENTRY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function needs, and how it may fail on demand. */
enum sim_trait {
    SIM_EARLY = 1,   /* works before cuInit, without context, and after the end; a "*" fault passes it by */
    SIM_CALL = 2,    /* needs cuInit */
    SIM_CURRENT = 4, /* needs a current context that is alive and has no error */
    SIM_UNSAFE = 8,  /* forbidden while a stream captures, by the rules of capture modes */
    SIM_UNDO = 16    /* gives back: cannot fail by itself, so a "*" fault passes it by */
};

enum sim_function {
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) SIM_##symbol,
#include "exports.def"
#undef SIM_FUNCTION
    SIM_FUNCTION_COUNT
};

/* The implementations: called with the lock held and the needs of the function met. */
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) CUresult sim_##symbol parameters;
#include "exports.def"
#undef SIM_FUNCTION

typedef void sim_address(void); /* some exported function */

struct sim_row {
    const char *base; /* name that cuGetProcAddress is asked for */
    const char *symbol;
    int since;       /* CUDA version that brought this form */
    unsigned traits; /* enum sim_trait */
    sim_address *address;
    sim_address *per_thread; /* the _ptds or _ptsz form; NULL: none */
};

extern const struct sim_row sim_rows[SIM_FUNCTION_COUNT];

/* The function being served. */
const char *sim_entry_name(void);

/* Adds "-> value" to the call's line in the log: what an output now holds. */
void sim_log_output(uint64_t value);

/* This process was forked from one that had initialised: it has no driver and gets none. */
bool sim_forked(void);

bool sim_initialised(void);
void sim_set_initialised(void);

/* Set while a stream runs a host function. */
void sim_set_callback(bool running);

void sim_lock(void);
void sim_unlock(void);

#endif
