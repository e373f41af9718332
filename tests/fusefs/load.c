/*
 * load.c - a program that allocates and frees device memory without rest, for takeover.sh and crowds: run it under
 * `gmlake run --sim`. It ends with SIGTERM; exit code 1 as soon as one call of the driver fails.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 64

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

/* The driver's functions, as cuda.h has them; the library has no header in common with the tests of the daemon. */
static int (*init)(unsigned);
static int (*retain)(void **, int);
static int (*set_current)(void *);
static int (*allocate)(uint64_t *, size_t);
static int (*release)(uint64_t);

static int find_driver(void)
{
    static const struct {
        const char *name;
        void **to;
    } table[] = {{"cuInit", (void **)&init},
                 {"cuDevicePrimaryCtxRetain", (void **)&retain},
                 {"cuCtxSetCurrent", (void **)&set_current},
                 {"cuMemAlloc_v2", (void **)&allocate},
                 {"cuMemFree_v2", (void **)&release}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; driver != NULL && i < sizeof table / sizeof table[0]; i++) {
        *table[i].to = dlsym(driver, table[i].name);
        if (*table[i].to == NULL) {
            return -1;
        }
    }
    return driver != NULL ? 0 : -1;
}

static int fail(const char *what, int code)
{
    fprintf(stderr, "load: %s gives %d\n", what, code);
    return 1;
}

int main(void)
{
    uint64_t block[BLOCKS] = {0};
    uint64_t calls = 0;
    void *context;
    int code;
    signal(SIGTERM, end);
    if (find_driver() < 0) {
        return fail("finding the driver", -1);
    }
    if ((code = init(0)) != 0 || (code = retain(&context, 0)) != 0 || (code = set_current(context)) != 0) {
        return fail("starting", code);
    }
    while (!ended) {
        uint64_t *one = &block[random() % BLOCKS];
        if (*one != 0 && (code = release(*one)) != 0) {
            return fail("cuMemFree", code);
        }
        if ((code = allocate(one, (size_t)(random() % (32 << 20)) + 1)) != 0) {
            return fail("cuMemAlloc", code);
        }
        /* There are other processes that want the processor. */
        if (++calls % 16 == 0) {
            nanosleep(&(struct timespec){0, 5000000}, NULL);
        }
    }
    printf("%llu\n", (unsigned long long)calls);
    return 0;
}
