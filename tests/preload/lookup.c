/*
 * lookup.c - asks for functions in ways that tell whether the preload library keeps out of what is not its own.
 *
 *   lookup versions        every hooked name through both cuGetProcAddress(), all versions and flags
 *   lookup clash LIBRARY   names of other CUDA libraries that begin like the driver's
 *   lookup next            RTLD_NEXT from a library (shim.c) in front of or behind the preload library
 *   lookup quiet           all of the names, through every door, and what the driver was called for meanwhile
 *   lookup init            a driver that looks itself up while it starts (reentrant_driver.c)
 *
 * Prints what is the same with and without the preload library, and lines "object: SYMBOL FILE" that say where the
 * answers come from.
 */
#include "simcuda.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* The symbol that @address is, without its object: the hooks bear the names of what they replace. */
static const char *symbol_of(const void *address, const char **object)
{
    static char file[256];
    Dl_info info;
    *object = "nowhere";
    if (address == NULL) {
        return "NULL";
    }
    if (dladdr(address, &info) == 0 || info.dli_sname == NULL || info.dli_saddr != address) {
        return "no symbol";
    }
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(file, sizeof file, "%s", slash == NULL ? info.dli_fname : slash + 1);
    *object = file;
    return info.dli_sname;
}

static void tell(const char *what, const void *address)
{
    const char *object;
    const char *symbol = symbol_of(address, &object);
    printf("%s: %s\n", what, symbol);
    printf("object: %s %s\n", symbol, object);
}

static void ask(void *one, void *two, const char *base, int version, cuuint64_t flags)
{
    CUresult (*look_up)(const char *, void **, int, cuuint64_t);
    CUresult (*look_up_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    char what[128];
    void *function = (void *)(uintptr_t)1;
    memcpy(&look_up, &one, sizeof look_up);
    memcpy(&look_up_v2, &two, sizeof look_up_v2);
    CUresult rc = look_up_v2(base, &function, version, flags, &status);
    snprintf(what, sizeof what, "%s %d %d: %d, status %d", base, version, (int)flags, (int)rc, (int)status);
    tell(what, rc == CUDA_SUCCESS ? function : NULL);
    function = (void *)(uintptr_t)1;
    rc = look_up_v2(base, &function, version, flags, NULL);
    snprintf(what, sizeof what, "%s %d %d: %d, no status", base, version, (int)flags, (int)rc);
    tell(what, rc == CUDA_SUCCESS ? function : NULL);
    function = (void *)(uintptr_t)1;
    rc = look_up(base, &function, version, flags);
    snprintf(what, sizeof what, "%s %d %d: %d, first form", base, version, (int)flags, (int)rc);
    tell(what, rc == CUDA_SUCCESS ? function : NULL);
}

/* clang-format off */
static const char *const names[] = {
#define GM_HOOK(field, name, parameters, arguments) #name,
#define GM_NEED(field, name, parameters, arguments) #name,
#include "hooks.def"
#undef GM_HOOK
#undef GM_NEED
    "", "cuInit", "cuMemcpyHtoD", "cuNoSuchFunction", "cudaMalloc",
};
/* clang-format on */

static int versions(void)
{
    static const int numbers[] = {0, 2000, 3020, 4010, 7000, 10000, 10010, 11020, 12000, 12030, 13000, 99000};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *one = dlsym(driver, "cuGetProcAddress");
    void *two = dlsym(driver, "cuGetProcAddress_v2");
    if (one == NULL || two == NULL) {
        fprintf(stderr, "no driver\n");
        return 1;
    }
    for (size_t i = 0; i < LENGTH(names); i++) {
        char base[64];
        snprintf(base, sizeof base, "%s", names[i]);
        /* the name to ask for is the exported one without its endings */
        char *ending = strstr(base, "_ptsz");
        if (ending != NULL) {
            *ending = '\0';
        }
        ending = strstr(base, "_v2");
        if (ending != NULL) {
            *ending = '\0';
        }
        for (size_t j = 0; j < LENGTH(numbers); j++) {
            for (cuuint64_t flags = 0; flags < 3; flags++) {
                ask(one, two, base, numbers[j], flags);
            }
        }
        tell(names[i], dlsym(driver, names[i]));
    }
    return 0;
}

#if defined(__aarch64__)
#define OLDER_GLIBC "GLIBC_2.17"
#else
#define OLDER_GLIBC "GLIBC_2.2.5"
#endif

/*
 * dlsym() and dlvsym() at both of their versions, by name and by handle. The driver's symbols have no version, so any
 * is theirs. No look-up is work: the driver is not called, but for the look-ups that are its own.
 */
static int quiet(void)
{
    static const char *const doors[] = {"GLIBC_2.34", OLDER_GLIBC};
    static struct simcuda_call calls[1024];
    size_t (*query)(struct simcuda_call *, size_t);
    size_t others = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < LENGTH(doors); i++) {
        void *(*by_name)(void *, const char *) =
            (void *(*)(void *, const char *))(uintptr_t)dlvsym(RTLD_DEFAULT, "dlsym", doors[i]);
        void *(*by_version)(void *, const char *, const char *) =
            (void *(*)(void *, const char *, const char *))(uintptr_t)dlvsym(RTLD_DEFAULT, "dlvsym", doors[i]);
        for (size_t j = 0; j < LENGTH(names); j++) {
            tell(names[j], by_name(driver, names[j]));
            tell(names[j], by_version(driver, names[j], "LIBCUDA"));
        }
    }
    for (size_t j = 0; j < LENGTH(names); j++) {
        void *one = dlsym(driver, "cuGetProcAddress");
        void *two = dlsym(driver, "cuGetProcAddress_v2");
        ask(one, two, names[j], 13000, 0);
    }
    void *found = dlsym(driver, "simcuda_query_calls");
    memcpy(&query, &found, sizeof query);
    size_t count = query(calls, LENGTH(calls));
    for (size_t i = 0; i < count && i < LENGTH(calls); i++) {
        if (strncmp(calls[i].name, "cuGetProcAddress", 16) != 0 && calls[i].calls > 0) {
            printf("the driver was called: %s\n", calls[i].name);
            others++;
        }
    }
    return others > 0;
}

static int clash(const char *path)
{
    static const char *const clashing[] = {"cudnnCreate", "cublasCreate_v2", "cuMemAlloc_v2", "cuOther", "missing"};
    void *library = dlopen(path, RTLD_NOW);
    for (size_t i = 0; i < LENGTH(clashing); i++) {
        dlerror();
        tell(clashing[i], dlsym(library, clashing[i]));
        printf("error: %s\n", dlerror() == NULL ? "no" : "yes");
    }
    return 0;
}

#define THREADS 4
#define ROUNDS  1000

static void *(*shim_next)(const char *name);

static void *ask_often(void *arg)
{
    static const char *const next_names[] = {"cuMemAlloc_v2", "malloc", "dlsym"};
    void *first[LENGTH(next_names)] = {NULL};
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < LENGTH(next_names); i++) {
            void *answer = shim_next(next_names[i]);
            if (answer == NULL || (round > 0 && answer != first[i])) {
                return (void *)(uintptr_t)1;
            }
            first[i] = answer;
        }
    }
    return NULL;
}

static int next(void)
{
    pthread_t threads[THREADS];
    void *verdict;
    int changed = 0;
    void *function = dlsym(RTLD_DEFAULT, "shim_next");
    if (function == NULL) {
        fprintf(stderr, "the shim is not preloaded\n");
        return 1;
    }
    memcpy(&shim_next, &function, sizeof function);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, ask_often, NULL) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &verdict);
        changed |= verdict != NULL;
    }
    printf("answers changed or were missing: %s\n", changed ? "yes" : "no");
    tell("next", shim_next("cuMemAlloc_v2"));
    return changed;
}

static int init(void)
{
    CUresult (*initialise)(unsigned);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = driver == NULL ? NULL : dlsym(driver, "cuInit");
    if (function == NULL) {
        fprintf(stderr, "no driver\n");
        return 1;
    }
    memcpy(&initialise, &function, sizeof function);
    printf("cuInit: %d\n", (int)initialise(0));
    tell("cuMemAlloc_v2", dlsym(driver, "cuMemAlloc_v2"));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "versions") == 0) {
        return versions();
    }
    if (argc == 3 && strcmp(argv[1], "clash") == 0) {
        return clash(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], "next") == 0) {
        return next();
    }
    if (argc == 2 && strcmp(argv[1], "quiet") == 0) {
        return quiet();
    }
    if (argc == 2 && strcmp(argv[1], "init") == 0) {
        return init();
    }
    fprintf(stderr, "usage: lookup versions | clash LIBRARY | next | quiet | init\n");
    return 2;
}
