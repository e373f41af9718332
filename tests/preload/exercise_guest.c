/*
 * exercise_guest.c - being a guest in a process: children while threads are at work, its end, libraries that go.
 */
#include "exercise.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- fork while others allocate ----------------------------------------------------------------------------------- */

static atomic_bool enough;

/* Rows of a width that nobody has asked for: the driver's, whoever serves else. */
static intptr_t allocate_new_rows(void)
{
    static atomic_size_t width;
    CUdeviceptr rows;
    size_t pitch;
    return cu.cuMemAllocPitch_(&rows, &pitch, 1 + atomic_fetch_add(&width, 1), 2, 4) != CUDA_SUCCESS ||
           cu.cuMemFree_(rows) != CUDA_SUCCESS;
}

static void *allocate_on(void *arg)
{
    enum { ROWS = 8 };
    CUdeviceptr blocks[2];
    intptr_t failed = cu.cuCtxSetCurrent_(context) != CUDA_SUCCESS;
    (void)arg;
    while (failed == 0 && !atomic_load(&enough)) {
        failed |= cu.cuMemAlloc_(&blocks[0], 3 * MIB) != CUDA_SUCCESS;
        failed |= cu.cuMemAllocAsync_(&blocks[1], 5000, NULL) != CUDA_SUCCESS;
        failed |= cu.cuMemFree_(blocks[0]) != CUDA_SUCCESS;
        failed |= cu.cuMemFreeAsync_(blocks[1], NULL) != CUDA_SUCCESS;
        for (int i = 0; i < ROWS; i++) {
            failed |= allocate_new_rows();
        }
    }
    return (void *)failed;
}

/* The child may not use CUDA, but run anything else, exit as programs do, or become another program. */
static void be_a_child(int number, CUdeviceptr parents)
{
    CUdeviceptr address;
    size_t bytes;
    alarm(30);
    say("child: cuMemAlloc", cu.cuMemAlloc_(&address, MIB));
    say("child: cuMemAllocAsync", cu.cuMemAllocAsync_(&address, MIB, NULL));
    say("child: cuMemGetInfo", cu.cuMemGetInfo_(&bytes, &bytes));
    say("child: cuMemGetAddressRange", cu.cuMemGetAddressRange_(&address, &bytes, parents));
    say("child: cuMemFree", cu.cuMemFree_(parents));
    free(malloc(100000));
    fflush(NULL);
    if (number % 3 == 0) {
        execlp("python3", "python3", "-c", "import ctypes, threading; print('child: python', 6 * 7)", (char *)NULL);
    } else if (number % 3 == 1) {
        execlp("sh", "sh", "-c", "echo child: sh; exit 42", (char *)NULL);
    }
    exit(number);
}

void scenario_forked_busy(void)
{
    enum { THREADS = 3, CHILDREN = 12 };
    pthread_t threads[THREADS];
    CUdeviceptr kept;
    int status;
    start(0);
    need("cuMemAlloc", cu.cuMemAlloc_(&kept, 4 * MIB));
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, allocate_on, NULL) != 0) {
            exit(1);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        usleep(2000);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            be_a_child(i, kept);
        }
        waitpid(child, &status, 0);
        printf("child %d: %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        say_if("a thread failed", failed != NULL);
    }
    use("holds its bytes", kept, 4 * MIB);
    say("cuMemFree", cu.cuMemFree_(kept));
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static CUdeviceptr left_over;
static CUdeviceptr left_in_pool;
static CUstream left_stream;

static void *call_all_late(void *arg)
{
    CUdeviceptr address;
    CUcontext owner;
    size_t bytes;
    (void)arg;
    say("late cuMemAlloc", cu.cuMemAlloc_(&address, MIB));
    say("late cuMemAllocAsync", cu.cuMemAllocAsync_(&address, MIB, left_stream));
    say("late cuMemGetInfo", cu.cuMemGetInfo_(&bytes, &bytes));
    say("late cuMemGetAddressRange", cu.cuMemGetAddressRange_(&address, &bytes, left_over));
    say("late cuPointerGetAttribute", cu.cuPointerGetAttribute_(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, left_over));
    say("late cuMemFreeAsync", cu.cuMemFreeAsync_(left_in_pool, left_stream));
    say("late cuMemFree", cu.cuMemFree_(left_over));
    say("late cuStreamDestroy", cu.cuStreamDestroy_(left_stream));
    say("late cuDevicePrimaryCtxReset", cu.cuDevicePrimaryCtxReset_(0));
    return NULL;
}

static void end_late(void)
{
    pthread_t thread;
    call_all_late(NULL);
    if (pthread_create(&thread, NULL, call_all_late, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    fflush(NULL);
}

static void *stay_behind(void *arg)
{
    (void)arg;
    for (;;) {
        pause();
    }
    return NULL;
}

/* Static destructors free memory late, after the driver's end; another thread is there to the last. */
void scenario_at_exit(void)
{
    pthread_t thread;
    atexit(end_late);
    start(0);
    need("cuStreamCreate", cu.cuStreamCreate_(&left_stream, CU_STREAM_NON_BLOCKING));
    need("cuMemAlloc", cu.cuMemAlloc_(&left_over, MIB));
    need("cuMemAllocAsync", cu.cuMemAllocAsync_(&left_in_pool, MIB, left_stream));
    if (pthread_create(&thread, NULL, stay_behind, NULL) != 0) {
        exit(1);
    }
}

/* --- libraries that go -------------------------------------------------------------------------------------------- */

/* A plug-in is loaded, allocates, and is unloaded; its memory stays. Then the driver's handle goes, and comes back. */
void scenario_unloading(void)
{
    CUresult (*allocate)(CUdeviceptr *, size_t);
    CUdeviceptr blocks[20];
    start(0);
    for (size_t i = 0; i < LENGTH(blocks); i++) {
        void *plugin = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
        void *function = plugin == NULL ? NULL : dlsym(plugin, "plugin_allocate");
        if (function == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        memcpy(&allocate, &function, sizeof function);
        need("plugin_allocate", allocate(&blocks[i], 3 * MIB));
        say_if("unloaded", dlclose(plugin) == 0);
    }
    for (size_t i = 0; i < LENGTH(blocks); i++) {
        use("holds its bytes", blocks[i], 3 * MIB);
        say("cuMemFree", cu.cuMemFree_(blocks[i]));
    }
    for (int i = 0; i < 50; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        void *function = dlsym(driver, "cuMemAlloc_v2");
        void *again = dlsym(driver, "cuMemAlloc_v2");
        if (driver == NULL || function == NULL || function != again || dlclose(driver) != 0) {
            printf("look-up %d failed\n", i);
        }
    }
    need("cuMemAlloc", cu.cuMemAlloc_(&blocks[0], MIB));
    say("cuMemFree", cu.cuMemFree_(blocks[0]));
}

/* --- one of several processes ------------------------------------------------------------------------------------- */

/* Allocates until it is killed; a dot tells that it is alive. */
void scenario_until_killed(void)
{
    CUdeviceptr blocks[8] = {0};
    start(0);
    for (unsigned i = 0;; i++) {
        CUdeviceptr *block = &blocks[i * 7 % LENGTH(blocks)];
        if (*block != 0) {
            need("cuMemFree", cu.cuMemFree_(*block));
        }
        need("cuMemAlloc", cu.cuMemAlloc_(block, (i % 13 + 1) * MIB / 2));
        if (i % 100 == 0) {
            printf(".");
            fflush(stdout);
        }
    }
}

/* --- switched off while it runs -------------------------------------------------------------------------------------
 */

/* Waits until the other side has done what it is told. */
static void let_other_side(const char *what)
{
    char line[16];
    printf("%s\n", what);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        exit(1);
    }
}

/* More than half of the device, again and again, by whoever serves: nothing idle may stand in the other one's way. */
void scenario_switched(void)
{
    CUdeviceptr address;
    CUdeviceptr kept;
    size_t free_bytes = 0;
    size_t total = 0;
    start(0);
    need("cuMemGetInfo", cu.cuMemGetInfo_(&free_bytes, &total));
    size_t most = free_bytes / 4 * 3;
    need("cuMemAlloc", cu.cuMemAlloc_(&kept, 4 * MIB));
    for (int i = 0; i < 3; i++) {
        say("cuMemAlloc", cu.cuMemAlloc_(&address, most));
        say("cuMemFree", cu.cuMemFree_(address));
        say("cuMemAllocAsync", cu.cuMemAllocAsync_(&address, most, NULL));
        say("cuMemFreeAsync", cu.cuMemFreeAsync_(address, NULL));
        say("cuCtxSynchronize", cu.cuCtxSynchronize_());
        use("holds its bytes", kept, 4 * MIB);
        let_other_side(i == 0 ? "switch off" : i == 1 ? "switch on" : "end");
    }
    say("cuMemFree", cu.cuMemFree_(kept));
}
