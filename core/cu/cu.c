/*
 * cu.c - finds libcuda.so.1 and fills the table.
 */
#include "cu.h"

#include "monotonic.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    int required;
} symbols[] = {
#define REQUIRED                                    1
#define OPTIONAL                                    0
#define GM_CU_SYMBOL(need, field, name, parameters) {name, offsetof(struct gm_cu, field), need},
#include "symbols.def"
#undef GM_CU_SYMBOL
};

int gm_cu_fill(void *(*look_up)(void *library, const char *name), void *library, struct gm_cu *out)
{
    struct gm_cu table;
    memset(&table, 0, sizeof table);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = look_up(library, symbols[i].name);
        if (address == NULL && symbols[i].required) {
            return -ENODEV;
        }
        memcpy((char *)&table + symbols[i].offset, &address, sizeof address);
    }
    /* The simulated driver counts virtual time; the real one has no such symbol. */
    void *clock = look_up(library, "simcuda_now_ns");
    memcpy(&table.now_ns, &clock, sizeof clock);
    if (clock == NULL) {
        table.now_ns = gm_monotonic_ns;
    }
    *out = table;
    return 0;
}

int gm_cu_load(const char *path, struct gm_cu *out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) {
        library = dlopen(path, RTLD_NOW);
    }
    return library == NULL ? -ENODEV : gm_cu_fill(dlsym, library, out);
}

static struct gm_cu loaded;
static int loaded_result;
static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static _Atomic(const struct gm_cu *) replacement;

static void load_once(void)
{
    loaded_result = gm_cu_load("libcuda.so.1", &loaded);
}

int gm_cu_get(const struct gm_cu **out)
{
    const struct gm_cu *table = atomic_load_explicit(&replacement, memory_order_acquire);
    if (table == NULL) {
        pthread_once(&loaded_once, load_once);
        if (loaded_result < 0) {
            return loaded_result;
        }
        table = &loaded;
    }
    *out = table;
    return 0;
}

void gm_cu_use(const struct gm_cu *table)
{
    atomic_store_explicit(&replacement, table, memory_order_release);
}
