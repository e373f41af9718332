/*
 * tunables.c - the table of tunables.def and its words.
 */
#include "tunables.h"

#include "lock.h"
#include "parse.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gm_tunable_info gm_tunable_table[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) {#name, unit, help, min, max, def, GM_TUNABLE_##type},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

_Atomic uint64_t gm_tunable_own[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) def,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

static const _Atomic uint64_t no_overrides[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) GM_TUNABLE_NO_OVERRIDE,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};
static const _Atomic uint64_t no_changes = 0;

struct gm_tunables_in_force gm_tunables_in_force = {
    .changes = &no_changes,
    .seen = 0,
    .value =
        {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) def,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
        },
};

/* Guards what follows, and who writes gm_tunables_in_force. */
static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TUNABLES);
static const _Atomic uint64_t *overrides = no_overrides;

/*
 * The count is read before the values: they may be newer than it says, never older. With `enabled` off it passes for
 * not seen.
 */
static void renew_locked(void)
{
    struct gm_tunables_in_force *now = &gm_tunables_in_force;
    const _Atomic uint64_t *changes = atomic_load_explicit(&now->changes, memory_order_relaxed);
    uint64_t seen = atomic_load_explicit(changes, memory_order_acquire);
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        uint64_t value = atomic_load_explicit(&overrides[i], memory_order_relaxed);
        if (value == GM_TUNABLE_NO_OVERRIDE) {
            value = atomic_load_explicit(&gm_tunable_own[i], memory_order_relaxed);
        }
        atomic_store_explicit(&now->value[i], value, memory_order_relaxed);
    }
    bool is_enabled = atomic_load_explicit(&now->value[GMLAKE_TUNABLE_enabled], memory_order_relaxed) != 0;
    atomic_store_explicit(&now->seen, is_enabled ? seen : ~seen, memory_order_release);
}

void gm_tunables_renew(void)
{
    gm_lock_take(&lock);
    renew_locked();
    gm_lock_drop(&lock);
}

bool gm_tunables_enable(void)
{
    gm_tunables_look();
    return gm_tunable(GMLAKE_TUNABLE_enabled) != 0;
}

int gm_tunable_find(const char *name, size_t length)
{
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        if (strlen(gm_tunable_table[i].name) == length && memcmp(gm_tunable_table[i].name, name, length) == 0) {
            return i;
        }
    }
    return -ENOENT;
}

int gm_tunable_parse(enum gmlake_tunable which, const char *text, size_t length, uint64_t *out)
{
    const struct gm_tunable_info *info = &gm_tunable_table[which];
    size_t trimmed = length > 0 && text[length - 1] == '\n' ? length - 1 : length;
    if (trimmed == 7 && memcmp(text, "default", 7) == 0) {
        *out = info->initial;
        return 0;
    }
    uint64_t value;
    int rc = gm_parse_size(text, length, &value);
    if (rc < 0) {
        return rc;
    }
    if (value < info->minimum || value > info->maximum || value == GM_TUNABLE_NO_OVERRIDE) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}

int gm_tunable_set(enum gmlake_tunable which, uint64_t value)
{
    if (value < gm_tunable_table[which].minimum || value > gm_tunable_table[which].maximum ||
        value == GM_TUNABLE_NO_OVERRIDE) {
        return -ERANGE;
    }
    atomic_store_explicit(&gm_tunable_own[which], value, memory_order_relaxed);
    gm_tunables_renew();
    return 0;
}

static void environment_name(const char *name, char *out, size_t size)
{
    snprintf(out, size, "GMLAKE_%s", name);
    for (char *c = out; *c != '\0'; c++) {
        if (*c >= 'a' && *c <= 'z') {
            *c = (char)(*c - 'a' + 'A');
        }
    }
}

static void read_environment(void)
{
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        char name[64];
        environment_name(gm_tunable_table[i].name, name, sizeof name);
        const char *text = secure_getenv(name);
        uint64_t value;
        if (text == NULL) {
            continue;
        }
        int rc = gm_tunable_parse((enum gmlake_tunable)i, text, strlen(text), &value);
        if (rc < 0) {
            fprintf(stderr, "gmlake: %s=%s: %s; the default is kept\n", name, text,
                    rc == -ERANGE ? "outside its range" : "not a value");
            continue;
        }
        gm_tunable_set((enum gmlake_tunable)i, value);
    }
}

static void start(void)
{
    pthread_atfork(NULL, NULL, gm_tunables_forget);
    read_environment();
}

void gm_tunables_from_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
}

void gm_tunables_override_with(const _Atomic uint64_t *words, const _Atomic uint64_t *changes)
{
    gm_lock_take(&lock);
    overrides = words != NULL ? words : no_overrides;
    atomic_store_explicit(&gm_tunables_in_force.changes, words != NULL ? changes : &no_changes, memory_order_release);
    renew_locked();
    gm_lock_drop(&lock);
}

void gm_tunables_forget(void)
{
    gm_lock_init(&lock, GM_RANK_TUNABLES);
    gm_tunables_override_with(NULL, NULL);
}
