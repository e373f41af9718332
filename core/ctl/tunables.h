/*
 * tunables.h - the values of tunables.def, in force from the next allocation on.
 *
 * STRUCTURE    Two words a tunable: the process's own value (start value, environment, API) and an override that
 *              the daemon writes through a mapping only it can write. An override wins until it is cleared.
 * CONCURRENCY  Reading is two relaxed atomic loads, from any thread; no lock. Each word is whole: a value is the old
 *              one or the new one.
 */
#ifndef GM_TUNABLES_H
#define GM_TUNABLES_H

#include <gmlake/gmlake.h>
#include <stdatomic.h>
#include <stdint.h>

/* The override word that says "none"; UINT64_MAX is taken by "max". Outside every tunable's range. */
#define GM_TUNABLE_NO_OVERRIDE (UINT64_MAX - 1)

enum gm_tunable_type { GM_TUNABLE_BYTES, GM_TUNABLE_COUNT, GM_TUNABLE_BOOL };

struct gm_tunable_info {
    const char *name;
    const char *unit;
    const char *help;
    uint64_t minimum;
    uint64_t maximum;
    uint64_t initial;
    enum gm_tunable_type type;
};

/* The table, GMLAKE_TUNABLE_COUNT rows. */
extern const struct gm_tunable_info gm_tunable_table[];

extern _Atomic uint64_t gm_tunable_own[];
extern _Atomic(_Atomic uint64_t *) gm_tunable_overrides;

/* The value in force. */
static inline uint64_t gm_tunable(enum gmlake_tunable which)
{
    _Atomic uint64_t *overrides = atomic_load_explicit(&gm_tunable_overrides, memory_order_acquire);
    uint64_t value = atomic_load_explicit(&overrides[which], memory_order_relaxed);
    return value != GM_TUNABLE_NO_OVERRIDE ? value : atomic_load_explicit(&gm_tunable_own[which], memory_order_relaxed);
}

/* The row of @name, or -ENOENT. */
int gm_tunable_find(const char *name, size_t length);

/* Reads @text as a value of row @which: -EINVAL, -ERANGE. Changes nothing. "default" gives the start value. */
int gm_tunable_parse(enum gmlake_tunable which, const char *text, size_t length, uint64_t *out);

/* Sets the process's own value; -ERANGE. */
int gm_tunable_set(enum gmlake_tunable which, uint64_t value);

/*
 * Takes the start values from the environment, once; later calls do nothing. A bad value is reported on standard
 * error and the default kept. Ignored in set-uid programs.
 */
void gm_tunables_from_environment(void);

/* Points the overrides at @words (GMLAKE_TUNABLE_COUNT of them, never unmapped); NULL: none. */
void gm_tunables_override_with(_Atomic uint64_t *words);

#endif
