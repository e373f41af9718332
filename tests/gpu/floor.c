/*
 * floor.c - the least that a preload library's stream-ordered allocator can cost: the floor for the speed of ours.
 *
 * Takes the place of cuMemAllocAsync() and cuMemFreeAsync() for whoever asks cuGetProcAddress(), and serves them from a
 * stack of free addresses for each power of two: no lock, no streams, no giving back. For programs of one thread that
 * are measured, and for nothing else.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 48, STACK = 4096, SLOTS = 1 << 16, SUCCESS = 0 };

typedef unsigned long long address_t;
typedef int (*alloc_fn)(address_t *, size_t, void *);
typedef int (*free_fn)(address_t, void *);
typedef int (*get_fn)(const char *, void **, int, uint64_t, int *);
typedef void *(*dlsym_fn)(void *, const char *);

/* Index 1: the form for per-thread default streams. */
static alloc_fn driver_alloc[2];
static free_fn driver_free[2];
static get_fn driver_get;

static struct {
    address_t free[STACK];
    int count;
} stack[CLASSES];

/* Class of each address ever served, by open addressing; a class is stored plus one. */
static struct {
    address_t address;
    int class;
} slot[SLOTS];

static unsigned long served, forwarded;

static size_t slot_of(address_t address)
{
    size_t at = (size_t)((address >> 9) * 0x9e3779b97f4a7c15u >> 48) & (SLOTS - 1);
    while (slot[at].class != 0 && slot[at].address != address) {
        at = (at + 1) & (SLOTS - 1);
    }
    return at;
}

static int serve(int form, address_t *out, size_t size, void *stream)
{
    int class = size <= 512 ? 9 : 64 - __builtin_clzll(size - 1);
    if (class >= CLASSES) {
        return driver_alloc[form](out, size, stream);
    }
    if (stack[class].count > 0) {
        *out = stack[class].free[--stack[class].count];
        served++;
        return SUCCESS;
    }
    forwarded++;
    int code = driver_alloc[form](out, (size_t)1 << class, stream);
    if (code == SUCCESS) {
        size_t at = slot_of(*out);
        slot[at].address = *out;
        slot[at].class = class + 1;
    }
    return code;
}

static int take_back(int form, address_t address, void *stream)
{
    size_t at = slot_of(address);
    int class = slot[at].class - 1;
    if (class < 0 || stack[class].count == STACK) {
        return driver_free[form](address, stream);
    }
    stack[class].free[stack[class].count++] = address;
    return SUCCESS;
}

static int floor_alloc(address_t *out, size_t size, void *stream)
{
    return serve(0, out, size, stream);
}

static int floor_alloc_ptsz(address_t *out, size_t size, void *stream)
{
    return serve(1, out, size, stream);
}

static int floor_free(address_t address, void *stream)
{
    return take_back(0, address, stream);
}

static int floor_free_ptsz(address_t address, void *stream)
{
    return take_back(1, address, stream);
}

/* ISO C has no way from a function to a void pointer, which is what the look-ups return. */
static void *pointer_to(uintptr_t function)
{
    return (void *)function;
}

static int floor_get_without_status(const char *symbol, void **function, int version, uint64_t flags);

static int floor_get(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
    int code = driver_get(symbol, function, version, flags, status);
    int form = (flags & 2) != 0;
    if (code != SUCCESS || *function == NULL) {
        return code;
    }
    if (strcmp(symbol, "cuGetProcAddress") == 0) { /* the runtime goes on with what it is given here */
        *function = pointer_to(version >= 12000 ? (uintptr_t)floor_get : (uintptr_t)floor_get_without_status);
    } else if (strcmp(symbol, "cuMemAllocAsync") == 0) {
        driver_alloc[form] = (alloc_fn)(uintptr_t)*function;
        *function = pointer_to((uintptr_t)(form ? floor_alloc_ptsz : floor_alloc));
    } else if (strcmp(symbol, "cuMemFreeAsync") == 0) {
        driver_free[form] = (free_fn)(uintptr_t)*function;
        *function = pointer_to((uintptr_t)(form ? floor_free_ptsz : floor_free));
    }
    return code;
}

static int floor_get_without_status(const char *symbol, void **function, int version, uint64_t flags)
{
    return floor_get(symbol, function, version, flags, NULL);
}

/* Tells floor.sh that it measured what it meant to. */
__attribute__((destructor)) static void report(void)
{
    fprintf(stderr, "FLOOR served %lu forwarded %lu\n", served, forwarded);
}

/* Tail calls keep the caller's address for RTLD_NEXT: compile with -O2. */
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    static dlsym_fn next;
    if (next == NULL) {
        next = (dlsym_fn)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    }
    if (next == NULL) {
        next = (dlsym_fn)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    if (strcmp(name, "cuGetProcAddress_v2") != 0) {
        return next(handle, name);
    }
    driver_get = (get_fn)(uintptr_t)next(handle, name);
    return driver_get != NULL ? pointer_to((uintptr_t)floor_get) : NULL;
}
