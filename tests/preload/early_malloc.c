/*
 * early_malloc.c - an allocator that replaces malloc() for the process and finds what it needs by dlsym(), from within
 * its first malloc(), as many do: whatever stands behind dlsym() must not allocate, nor depend on being ready.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t bytes);
EXPORT void *calloc(size_t count, size_t bytes);
EXPORT void *realloc(void *old, size_t bytes);
EXPORT void free(void *memory);
EXPORT unsigned long early_malloc_calls(void);

static void *(*volatile next_malloc)(size_t);
static void *(*volatile next_realloc)(void *, size_t);
static void (*volatile next_free)(void *);
static unsigned long calls;

/* What is asked for while the next allocator is being looked for; never given back. */
static _Alignas(16) unsigned char early[1 << 16];
static size_t early_used;

static int is_early(const void *memory)
{
    return (const unsigned char *)memory >= early && (const unsigned char *)memory < early + sizeof early;
}

static void *take_early(size_t bytes)
{
    size_t start = early_used;
    if (bytes > sizeof early - start) {
        return NULL;
    }
    early_used = start + ((bytes + 15) & ~(size_t)15);
    return early + start;
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    __asm__ volatile("" : : : "memory"); /* dlsym() is called, not jumped to: it must see this library as its caller */
    return found;
}

/* Whether the next allocator is known. Until then look-ups are made that may come back here. */
static int is_ready(void)
{
    static volatile int looking; /* <dlfcn.h> says that dlsym() does not come back here */
    if (next_malloc == NULL && !looking) {
        looking = 1;
        (void)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"); /* whether there is a driver: as profilers of memory ask */
        next_free = (void (*)(void *))(uintptr_t)next("free");
        next_realloc = (void *(*)(void *, size_t))(uintptr_t)next("realloc");
        next_malloc = (void *(*)(size_t))(uintptr_t)next("malloc");
        looking = 0;
    }
    return next_malloc != NULL;
}

void *malloc(size_t bytes)
{
    calls++;
    return is_ready() ? next_malloc(bytes) : take_early(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        return NULL;
    }
    void *memory = malloc(all);
    if (memory != NULL) {
        volatile unsigned char *byte = memory; /* which the compiler would make a call of calloc() */
        for (size_t i = 0; i < all; i++) {
            byte[i] = 0;
        }
    }
    return memory;
}

void *realloc(void *old, size_t bytes)
{
    if (!is_early(old)) {
        return old == NULL ? malloc(bytes) : next_realloc(old, bytes);
    }
    void *memory = malloc(bytes);
    if (memory != NULL) {
        size_t most = (size_t)(early + sizeof early - (unsigned char *)old);
        memcpy(memory, old, bytes < most ? bytes : most);
    }
    return memory;
}

void free(void *memory)
{
    if (memory != NULL && !is_early(memory) && is_ready()) {
        next_free(memory);
    }
}

unsigned long early_malloc_calls(void)
{
    return calls;
}
