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

enum { UNSTARTED, STARTING, SERVED, TRANSPARENT };

static atomic_int state = UNSTARTED;

/* Set while this thread is inside gm_process_enter() .. gm_process_leave(). */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* What the core calls. Written while STARTING, fixed when SERVED. */
static struct gm_cu table;

enum { UNREAD, IS_ON, IS_OFF };

bool gm_process_is_off(void)
{
    static atomic_int kill_switch = UNREAD;
    int position = atomic_load_explicit(&kill_switch, memory_order_relaxed);
    if (position == UNREAD) {
        const char *value = secure_getenv("GMLAKE_ENABLE");
        position = value != NULL && gm_loaded_same_text(value, "0") ? IS_OFF : IS_ON;
        atomic_store_explicit(&kill_switch, position, memory_order_relaxed);
    }
    return position == IS_OFF;
}

/* CUDA cannot be used in a child forked after it was initialised: the child hears so from the driver. */
static void become_transparent(void)
{
    atomic_store_explicit(&state, TRANSPARENT, memory_order_relaxed);
    inside = false;
}

static void *look_up(void *object, const char *name)
{
    return (void *)gm_loaded_function(object, name);
}

static bool prepare(void)
{
    /* The cast is for the type of a dlopen() handle; look_up() only reads. */
    void *driver = (void *)(uintptr_t)gm_driver_object();
    if (gm_cu_fill(look_up, driver, &table) < 0 || pthread_atfork(NULL, NULL, become_transparent) != 0) {
        return false;
    }
    gm_capture_guard(&table);
    gm_plain_stream_guard(&table);
    gm_tunables_from_environment();
    gm_cu_use(&table);
    return gm_target_start();
}

static bool start(void)
{
    CUcontext context = NULL;
    int expected = UNSTARTED;
    if (atomic_load_explicit(&state, memory_order_relaxed) != UNSTARTED || gm_process_is_off() ||
        gm_driver_ctx_get_current(&context) != CUDA_SUCCESS || context == NULL ||
        !atomic_compare_exchange_strong(&state, &expected, STARTING)) {
        return false;
    }
    bool done = prepare();
    atomic_store_explicit(&state, done ? SERVED : TRANSPARENT, memory_order_release);
    return done;
}

bool gm_process_enter(void)
{
    if (inside) {
        return false;
    }
    if (__builtin_expect(!gm_process_is_served(), 0) && !start()) {
        return false;
    }
    inside = true;
    return true;
}

void gm_process_leave(void)
{
    inside = false;
}

bool gm_process_is_served(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == SERVED;
}
