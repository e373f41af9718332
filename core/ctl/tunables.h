/*
 * tunables.h - the values of tunables.def, in force from the next allocation on.
 *
 * STRUCTURE    Two words a tunable: the process's own value (start value, environment, API) and an override that
 *              the daemon writes through a mapping only it can write. An override wins until it is cleared. What is in
 *              force is kept in a third word, so that reading it is one load. Each call that acts on tunables looks
 *              first whether the daemon has counted a change since; while `enabled` is off it has always, so that the
 *              one comparison answers both.
 * CONCURRENCY  Looking and reading take no lock, in any thread; each word is whole: a value is the old one or the new
 *              one. Who finds a change renews all values under a lock (GM_RANK_TUNABLES).
 *
 * GM_WITHOUT_CONTROL_PLANE builds it for programs that no daemon will ever look after: there are no overrides. The
 * test of what the control plane costs compares with that.
 */
#ifndef GM_TUNABLES_H
#define GM_TUNABLES_H

#include <gmlake/gmlake.h>
#include <stdatomic.h>
#include <stdbool.h>
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

/* The process's own values. */
extern _Atomic uint64_t gm_tunable_own[];

/*
 * What is in force. Written by tunables.c alone, under its lock.
 *
 * Invariant: while *changes is seen, `enabled` is on, and no value is older than the override or the own value it was
 * made of.
 */
struct gm_tunables_in_force {
    _Atomic(const _Atomic uint64_t *) changes; /* the daemon's count of changes; never NULL */
    _Atomic uint64_t seen;                     /* what it was before the values below were read; or no count */
    _Atomic uint64_t value[GMLAKE_TUNABLE_COUNT];
};
extern struct gm_tunables_in_force gm_tunables_in_force;

/* Reads all values anew. */
void gm_tunables_renew(void);

/*
 * All that an allocation has to ask first: that `enabled` is on, and the daemon has changed nothing since the values in
 * force were read. Otherwise: gm_tunables_enable().
 */
static inline bool gm_tunables_are_plain(void)
{
#ifdef GM_WITHOUT_CONTROL_PLANE
    return __builtin_expect(
        atomic_load_explicit(&gm_tunables_in_force.value[GMLAKE_TUNABLE_enabled], memory_order_relaxed) != 0, 1);
#else
    struct gm_tunables_in_force *now = &gm_tunables_in_force;
    const _Atomic uint64_t *changes = atomic_load_explicit(&now->changes, memory_order_acquire);
    uint64_t seen = atomic_load_explicit(&now->seen, memory_order_acquire);
    return __builtin_expect(atomic_load_explicit(changes, memory_order_acquire) == seen, 1);
#endif
}

/* To be called before tunables are read: takes notice of what the daemon has changed since. */
static inline void gm_tunables_look(void)
{
    if (!gm_tunables_are_plain()) {
        gm_tunables_renew();
    }
}

/* Looks, and says whether `enabled` is on: for who has found that they are not plain. */
__attribute__((cold)) bool gm_tunables_enable(void);

/* The value in force, as of the last look. */
static inline uint64_t gm_tunable(enum gmlake_tunable which)
{
    return atomic_load_explicit(&gm_tunables_in_force.value[which], memory_order_relaxed);
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

/*
 * Points the overrides at @words (GMLAKE_TUNABLE_COUNT of them) and at the count @changes, which whoever writes a word
 * raises afterwards; neither is ever unmapped. NULL: no overrides.
 */
void gm_tunables_override_with(const _Atomic uint64_t *words, const _Atomic uint64_t *changes);

/* In a child made by fork(), where the overrides are not for it and other threads are gone. */
void gm_tunables_forget(void);

#endif
