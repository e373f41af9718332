/*
 * tunables.c - the table of tunables.def and its words.
 */
#include "tunables.h"

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

static _Atomic uint64_t no_overrides[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) GM_TUNABLE_NO_OVERRIDE,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

_Atomic(_Atomic uint64_t *) gm_tunable_overrides = no_overrides;

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

void gm_tunables_from_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

void gm_tunables_override_with(_Atomic uint64_t *words)
{
    atomic_store_explicit(&gm_tunable_overrides, words != NULL ? words : no_overrides, memory_order_release);
}
