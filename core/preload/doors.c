/*
 * doors.c - dlsym(), dlvsym() and cuGetProcAddress().
 */
#include "doors.h"

#include "hooks.h"
#include "loaded.h"
#include "process.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * DOOR(entry, older, choose): the entry points @entry and @older call @choose with the caller's return address as a
 * third argument and jump to what it returns, all argument registers as they were. Three registers keep the stack
 * aligned for the call and cover dlvsym().
 */
#if defined(__x86_64__)
#define DOOR(entry, older, choose)                                                                                     \
    __asm__(".pushsection .text\n"                                                                                     \
            ".globl " entry ", " older "\n"                                                                            \
            ".type " entry ", @function\n"                                                                             \
            ".type " older ", @function\n" entry ":\n" older ":\n"                                                     \
            ".cfi_startproc\n"                                                                                         \
            "    endbr64\n"                                                                                            \
            "    pushq %rdi\n    .cfi_adjust_cfa_offset 8\n"                                                           \
            "    pushq %rsi\n    .cfi_adjust_cfa_offset 8\n"                                                           \
            "    pushq %rdx\n    .cfi_adjust_cfa_offset 8\n"                                                           \
            "    movq 24(%rsp), %rdx\n"                                                                                \
            "    call " choose "\n"                                                                                    \
            "    popq %rdx\n    .cfi_adjust_cfa_offset -8\n"                                                           \
            "    popq %rsi\n    .cfi_adjust_cfa_offset -8\n"                                                           \
            "    popq %rdi\n    .cfi_adjust_cfa_offset -8\n"                                                           \
            "    jmp *%rax\n"                                                                                          \
            ".cfi_endproc\n"                                                                                           \
            ".size " entry ", . - " entry "\n"                                                                         \
            ".size " older ", . - " older "\n"                                                                         \
            ".popsection\n");
#define OLDER_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define DOOR(entry, older, choose)                                                                                     \
    __asm__(".pushsection .text\n"                                                                                     \
            ".balign 4\n"                                                                                              \
            ".globl " entry ", " older "\n"                                                                            \
            ".type " entry ", %function\n"                                                                             \
            ".type " older ", %function\n" entry ":\n" older ":\n"                                                     \
            ".cfi_startproc\n"                                                                                         \
            "    hint #34\n" /* bti c */                                                                               \
            "    stp x29, x30, [sp, #-48]!\n"                                                                          \
            "    .cfi_def_cfa_offset 48\n    .cfi_offset 29, -48\n    .cfi_offset 30, -40\n"                           \
            "    mov x29, sp\n"                                                                                        \
            "    stp x0, x1, [sp, #16]\n"                                                                              \
            "    str x2, [sp, #32]\n"                                                                                  \
            "    mov x2, x30\n"                                                                                        \
            "    bl " choose "\n"                                                                                      \
            "    mov x16, x0\n"                                                                                        \
            "    ldp x0, x1, [sp, #16]\n"                                                                              \
            "    ldr x2, [sp, #32]\n"                                                                                  \
            "    ldp x29, x30, [sp], #48\n"                                                                            \
            "    .cfi_def_cfa_offset 0\n    .cfi_restore 29\n    .cfi_restore 30\n"                                    \
            "    br x16\n"                                                                                             \
            ".cfi_endproc\n"                                                                                           \
            ".size " entry ", . - " entry "\n"                                                                         \
            ".size " older ", . - " older "\n"                                                                         \
            ".popsection\n");
#define OLDER_GLIBC "GLIBC_2.17"
#else
#error "no CUDA driver exists for this processor; the preload library knows x86-64 and aarch64"
#endif

/* glibc has both functions at its first version and at 2.34: a program refers to one or the other. */
DOOR("gm_door_dlsym", "gm_door_dlsym_older", "gm_doors_dlsym")
DOOR("gm_door_dlvsym", "gm_door_dlvsym_older", "gm_doors_dlvsym")
__asm__(".symver gm_door_dlsym, dlsym@@GLIBC_2.34");
__asm__(".symver gm_door_dlsym_older, dlsym@" OLDER_GLIBC);
__asm__(".symver gm_door_dlvsym, dlvsym@@GLIBC_2.34");
__asm__(".symver gm_door_dlvsym_older, dlvsym@" OLDER_GLIBC);

/* The real functions, 0 until first needed; every thread that looks finds the same. */
static _Atomic uintptr_t real_dlsym;
static _Atomic uintptr_t real_dlvsym;

/* Where a look-up goes in a process that has no dlsym() but ours. */
static void *find_nothing(void *handle, const char *name)
{
    (void)handle, (void)name;
    return NULL;
}

static uintptr_t real(_Atomic uintptr_t *slot, const char *name)
{
    uintptr_t function = atomic_load_explicit(slot, memory_order_relaxed);
    if (function == 0) {
        function = gm_loaded_next_function(name);
        if (function == 0) {
            return (uintptr_t)find_nothing;
        }
        atomic_store_explicit(slot, function, memory_order_relaxed);
    }
    return function;
}

static void *look_up(void *handle, const char *name)
{
    void *(*next)(void *, const char *) = (void *(*)(void *, const char *))real(&real_dlsym, "dlsym");
    return gm_driver_substitute(next(handle, name));
}

static void *look_up_version(void *handle, const char *name, const char *version)
{
    void *(*next)(void *, const char *, const char *) =
        (void *(*)(void *, const char *, const char *))real(&real_dlvsym, "dlvsym");
    return gm_driver_substitute(next(handle, name, version));
}

/* Whether the code at @caller must get the driver itself: it is this library's, or the driver's own. */
static bool wants_driver(const void *caller)
{
    static const char inside = 0;
    const struct link_map *object = gm_loaded_owner(caller);
    return object != NULL && (object == gm_loaded_owner(&inside) || gm_loaded_is_named(object, GM_DRIVER_NAME));
}

/* Whether a look-up by @caller is one that a hook may answer. The first test settles nearly all, fast. */
static bool concerns_us(void *handle, const char *name, const void *caller)
{
    if (name == NULL || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') {
        return false;
    }
    return handle != RTLD_DEFAULT && handle != RTLD_NEXT && gm_driver_hooks(name) && !gm_process_is_off() &&
           !wants_driver(caller);
}

__attribute__((used)) uintptr_t gm_doors_dlsym(void *handle, const char *name, const void *caller)
{
    return concerns_us(handle, name, caller) ? (uintptr_t)look_up : real(&real_dlsym, "dlsym");
}

__attribute__((used)) uintptr_t gm_doors_dlvsym(void *handle, const char *name, const void *caller)
{
    return concerns_us(handle, name, caller) ? (uintptr_t)look_up_version : real(&real_dlvsym, "dlvsym");
}

static void replace(CUresult rc, void **function)
{
    if (rc == CUDA_SUCCESS && function != NULL && !gm_process_is_off()) {
        *function = gm_driver_substitute(*function);
    }
}

CUresult gm_hook_get_proc_address(const char *symbol, void **function, int version, cuuint64_t flags)
{
    CUresult rc = gm_driver_get_proc_address(symbol, function, version, flags);
    replace(rc, function);
    return rc;
}

CUresult gm_hook_get_proc_address_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    CUresult rc = gm_driver_get_proc_address_v2(symbol, function, version, flags, status);
    replace(rc, function);
    return rc;
}
