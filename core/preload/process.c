/*
 * process.c - start, kill switch, fork, and the guard against recursion.
 */
#include "process.h"

#include "capture.h"
#include "cu.h"
#include "driver.h"
#include "hooks.h"
#include "loaded.h"
#include "plain.h"
#include "target.h"
#include "tunables.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

atomic_int gm_process_state = GM_PROCESS_UNSTARTED;
__thread bool gm_process_inside;

/* What the core calls. Written while starting, fixed when served. */
static struct gm_cu table;

static bool environment_says(const char *name, const char *value)
{
    const char *found = secure_getenv(name);
    return found != NULL && gm_loaded_same_text(found, value);
}

enum { UNREAD, IS_ON, IS_OFF };

bool gm_process_is_off(void)
{
    static atomic_int kill_switch = UNREAD;
    int position = atomic_load_explicit(&kill_switch, memory_order_relaxed);
    if (position == UNREAD) {
        position = environment_says("GMLAKE_ENABLE", "0") ? IS_OFF : IS_ON;
        atomic_store_explicit(&kill_switch, position, memory_order_relaxed);
    }
    return position == IS_OFF;
}

/* CUDA cannot be used in a child forked after it was initialised: the child hears so from the driver. */
static void become_transparent(void)
{
    atomic_store_explicit(&gm_process_state, GM_PROCESS_TRANSPARENT, memory_order_relaxed);
    gm_process_inside = false;
}

static void *look_up(void *object, const char *name)
{
    return (void *)gm_loaded_function(object, name);
}

static bool prepare(void)
{
    /* The cast is for the type of a dlopen() handle; look_up() only reads. */
    void *driver = (void *)(uintptr_t)gm_driver_object();
    if (gm_cu_fill(look_up, driver, &table) < 0 || pthread_atfork(NULL, NULL, become_transparent) != 0 ||
        atexit(gm_target_note_end) != 0) { /* runs before the driver's, which was there first */
        return false;
    }
    gm_capture_guard(&table);
    gm_plain_stream_guard(&table);
    gm_tunables_from_environment();
    gm_cu_use(&table);
    return gm_target_start();
}

bool gm_process_start(void)
{
    CUcontext context = NULL;
    int expected = GM_PROCESS_UNSTARTED;
    if (atomic_load_explicit(&gm_process_state, memory_order_relaxed) != GM_PROCESS_UNSTARTED || gm_process_is_off() ||
        gm_driver_ctx_get_current(&context) != CUDA_SUCCESS || context == NULL ||
        !atomic_compare_exchange_strong(&gm_process_state, &expected, GM_PROCESS_STARTING)) {
        return false;
    }
    bool done = !environment_says("GMLAKE_IPC", "1") && prepare();
    atomic_store_explicit(&gm_process_state, done ? GM_PROCESS_SERVED : GM_PROCESS_TRANSPARENT, memory_order_release);
    return done;
}
