/*
 * driver.c - adopts the driver and answers with hooks.
 */
#include "driver.h"

#include "hooks.h"
#include "loaded.h"

#include <dlfcn.h>
#include <stddef.h>

_Atomic uintptr_t gm_originals[GM_HOOK_COUNT];

static const struct {
    const char *name;
    void (*hook)(void); /* NULL: called, not hooked */
} rows[GM_HOOK_COUNT] = {
#define GM_HOOK(field, name, parameters, arguments) {#name, (void (*)(void))gm_hook_##field},
#define GM_NEED(field, name, parameters, arguments) {#name, NULL},
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED
};

/* Set once; the object is held, so it stays loaded. */
static _Atomic(const struct link_map *) driver;

/* Set when every row of gm_originals[] is written. */
static atomic_bool adopted;

/*
 * Takes a reference to @object, so that what we remember of it outlives the program's own dlclose(). False for an
 * object that cannot be reopened by its name: one of another loader namespace, say.
 */
static bool hold(const struct link_map *object)
{
    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
    struct link_map *held = NULL;
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &held) != 0) {
        dlerror(); /* the program's look-up has succeeded: it must not find an error of ours */
        return false;
    }
    if (held != object) {
        dlclose(handle);
        return false;
    }
    return true;
}

static bool adopt(const struct link_map *object)
{
    const struct link_map *other = NULL;
    if (!gm_loaded_is_named(object, GM_DRIVER_NAME) || !hold(object)) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&driver, &other, object) && other != object) {
        return false;
    }
    for (size_t i = 0; i < GM_HOOK_COUNT; i++) {
        uintptr_t original = gm_loaded_function(object, rows[i].name);
        atomic_store_explicit(&gm_originals[i], original, memory_order_relaxed);
    }
    atomic_store_explicit(&adopted, true, memory_order_release);
    return true;
}

bool gm_driver_adopt_loaded(void)
{
    if (atomic_load_explicit(&adopted, memory_order_acquire)) {
        return true;
    }
    void *handle = dlopen(GM_DRIVER_NAME, RTLD_LAZY | RTLD_NOLOAD);
    struct link_map *object = NULL;
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &object) != 0) {
        dlerror();
        return false;
    }
    bool done = adopt(object);
    dlclose(handle);
    return done;
}

const struct link_map *gm_driver_object(void)
{
    return atomic_load_explicit(&adopted, memory_order_acquire) ? atomic_load_explicit(&driver, memory_order_relaxed)
                                                                : NULL;
}

void *gm_driver_substitute(void *address)
{
    if (address == NULL) {
        return NULL;
    }
    if (!atomic_load_explicit(&adopted, memory_order_acquire)) {
        const struct link_map *owner = gm_loaded_owner(address);
        if (owner == NULL || !adopt(owner)) {
            return address;
        }
    }
    for (size_t i = 0; i < GM_HOOK_COUNT; i++) {
        if (rows[i].hook != NULL &&
            atomic_load_explicit(&gm_originals[i], memory_order_relaxed) == (uintptr_t)address) {
            return (void *)(uintptr_t)rows[i].hook;
        }
    }
    return address;
}

bool gm_driver_hooks(const char *name)
{
    for (size_t i = 0; i < GM_HOOK_COUNT; i++) {
        if (rows[i].hook != NULL && gm_loaded_same_text(rows[i].name, name)) {
            return true;
        }
    }
    return false;
}
