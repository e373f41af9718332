/*
 * calls.c - the doors.
 */
#include "calls.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum kind { ALWAYS, STREAM };

#define TEXT(token)     #token
#define EXPORTED(token) TEXT(token) /* <cuda.h> names the exported symbol by macro */

static const struct row {
    const char *base;
    const char *exported;
    size_t offset;
    int version;
    enum kind kind;
} rows[] = {
#define CALL(name, version, kind) {#name, EXPORTED(name), offsetof(struct calls, name##_), version, kind},
#include "calls.def"
#undef CALL
};

typedef CUresult (*proc_address)(const char *symbol, void **function, int version, cuuint64_t flags);
typedef CUresult (*proc_address_v2)(const char *symbol, void **function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status);

static void *library;

static void *by_dlsym(const struct row *row)
{
    return dlsym(library, row->exported);
}

#if defined(__aarch64__)
#define OLDER_GLIBC "GLIBC_2.17"
#else
#define OLDER_GLIBC "GLIBC_2.2.5"
#endif

/* A program that was linked with an older glibc has this dlsym(). */
static void *by_dlvsym(const struct row *row)
{
    void *(*older)(void *, const char *) =
        (void *(*)(void *, const char *))(uintptr_t)dlvsym(RTLD_DEFAULT, "dlsym", OLDER_GLIBC);
    return older(library, row->exported);
}

static void *by_default(const struct row *row)
{
    return dlsym(RTLD_DEFAULT, row->exported);
}

static void *by_proc(const struct row *row)
{
    void *function = NULL;
    proc_address look_up = (proc_address)(uintptr_t)dlsym(library, "cuGetProcAddress");
    CUresult rc = look_up(row->base, &function, row->version, 0);
    return rc == CUDA_SUCCESS ? function : NULL;
}

static void *by_proc_v2(const struct row *row, cuuint64_t flags)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    proc_address_v2 look_up = (proc_address_v2)(uintptr_t)dlsym(library, "cuGetProcAddress_v2");
    CUresult rc = look_up(row->base, &function, row->version, flags, row->kind == STREAM ? &status : NULL);
    return rc == CUDA_SUCCESS ? function : NULL;
}

static void *by_proc0(const struct row *row)
{
    return by_proc_v2(row, 0);
}

static void *by_proc1(const struct row *row)
{
    return by_proc_v2(row, 1);
}

static void *by_proc2(const struct row *row)
{
    return by_proc_v2(row, 2);
}

static const struct {
    const char *name;
    void *(*find)(const struct row *row);
} doors[] = {
    {"dlsym", by_dlsym}, {"dlvsym", by_dlvsym}, {"default", by_default}, {"proc", by_proc},
    {"proc0", by_proc0}, {"proc1", by_proc1},   {"proc2", by_proc2},
};

#ifdef LINKED
static int linked(struct calls *out)
{
#define CALL(name, version, kind) out->name##_ = name;
#include "calls.def"
#undef CALL
    return 0;
}
#else
static int linked(struct calls *out)
{
    (void)out;
    fprintf(stderr, "this program is not linked with the driver\n");
    return -1;
}
#endif

int calls_find(const char *door, struct calls *out)
{
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    if (strcmp(door, "linked") == 0) {
        return linked(out);
    }
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++) {
        for (size_t j = 0; strcmp(doors[i].name, door) == 0 && j < sizeof rows / sizeof rows[0]; j++) {
            void *function = doors[i].find(&rows[j]);
            if (function == NULL) {
                fprintf(stderr, "%s: not found by %s\n", rows[j].exported, door);
                return -1;
            }
            memcpy((char *)out + rows[j].offset, &function, sizeof function);
        }
    }
    if (out->cuInit_ == NULL) {
        fprintf(stderr, "no such door: %s\n", door);
        return -1;
    }
    return 0;
}
