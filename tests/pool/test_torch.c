/*
 * test_torch.c - PyTorch's entry points, from the shared library as PyTorch loads it: contexts, devices, out of memory,
 * threads, devices without virtual memory management, frees after the driver's end.
 */
#include "sim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static void *(*torch_alloc)(size_t size, int device, void *stream);
static void (*torch_free)(void *pointer, size_t size, int device, void *stream);

static void load_library(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libgmlake.so", getenv("GMLAKE_TEST_LIB_DIR"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        sim_fail_at(__FILE__, __LINE__, "%s", dlerror());
    }
    *(void **)&torch_alloc = dlsym(library, "gmlake_torch_alloc");
    *(void **)&torch_free = dlsym(library, "gmlake_torch_free");
    check(torch_alloc != NULL && torch_free != NULL);
}

static CUcontext current(void)
{
    CUcontext context;
    works(sim.cuCtxGetCurrent(&context));
    return context;
}

/* How often the driver's own allocator was asked. */
static uint64_t driver_allocations(void)
{
    struct simcuda_call calls[512];
    size_t count = sim.query_calls(calls, GM_ARRAY_LENGTH(calls));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(calls[i].name, "cuMemAlloc_v2") == 0) {
            return calls[i].calls;
        }
    }
    return 0;
}

/* Nothing has been initialised: the first call does it, and leaves no context behind. */
static void from_nothing(void)
{
    load_library();
    unsigned char *block = torch_alloc(3 * MIB, 0, NULL);
    check(block != NULL && (uintptr_t)block % 512 == 0);
    check(current() == NULL);
    block[0] = 1;
    block[3 * MIB - 1] = 2;
    torch_free(block, 3 * MIB, 0, NULL);
    check(torch_alloc(3 * MIB, 0, NULL) == block); /* at once reusable on its stream */
    check(torch_alloc(0, 0, NULL) == NULL);
    torch_free(NULL, 0, 0, NULL);
    check_number(0, sim.violations());
    check_number(0, driver_allocations());
}

/* Each device has memory of its own, whatever is current; what is current stays. */
static void devices(void)
{
    load_library();
    works(sim.cuInit(0));
    CUcontext second = sim_use(1);
    void *first_block = torch_alloc(PAGE, 0, NULL);
    void *second_block = torch_alloc(PAGE, 1, NULL);
    check(current() == second);
    check(first_block != NULL && second_block != NULL && first_block != second_block);
    check(sim_device(0).in_use >= PAGE && sim_device(1).in_use >= PAGE);
    works(sim.cuCtxSetCurrent(NULL));
    torch_free(first_block, PAGE, 0, NULL);
    torch_free(second_block, PAGE, 1, NULL);
    check(current() == NULL);
    check_number(0, sim.violations());
}

static void beyond(void)
{
    load_library();
    check(torch_alloc(PAGE, 2, NULL) == NULL);
    check(torch_alloc(PAGE, -1, NULL) == NULL);
    check(torch_alloc(PAGE, 1 << 20, NULL) == NULL);
}

static void out_of_memory(void)
{
    load_library();
    void *half = torch_alloc(64 * MIB, 0, NULL);
    check(half != NULL);
    check(torch_alloc(100 * MIB, 0, NULL) == NULL);
    check(torch_alloc((size_t)-1, 0, NULL) == NULL);
    torch_free(half, 64 * MIB, 0, NULL);
    void *most = torch_alloc(100 * MIB, 0, NULL);
    check(most != NULL);
    torch_free(most, 100 * MIB, 0, NULL);
}

static void wrong_frees(void)
{
    load_library();
    char *block = torch_alloc(PAGE, 0, NULL);
    check(block != NULL);
    torch_free(block + 512, PAGE, 0, NULL);
    torch_free(block, PAGE, 1, NULL); /* a device that nothing was allocated on */
    torch_free(block, PAGE, 0, NULL);
    torch_free(block, PAGE, 0, NULL);
    check_number(0, sim.violations());
}

/* No virtual memory management: the driver serves, and takes back. */
static void plain_device(void)
{
    load_library();
    void *block = torch_alloc(PAGE, 0, NULL);
    check(block != NULL);
    check_number(1, driver_allocations());
    torch_free(block, PAGE, 0, NULL);
    check_number(0, sim_device(0).in_use);
    check(torch_alloc(200 * MIB, 0, NULL) == NULL);
    check(torch_alloc(0, 0, NULL) == NULL);
}

enum { THREADS = 4, ROUNDS = 400, HELD = 8 };

/* Blocks of changing sizes on both devices; their first and last bytes stay what they were set to. */
static void *work(void *argument)
{
    unsigned me = *(unsigned *)argument;
    unsigned state = me * 7919 + 1;
    struct {
        unsigned char *at;
        size_t size;
        int device;
    } held[HELD] = {{NULL, 0, 0}};
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = state * 1103515245u + 12345u;
        unsigned which = round % HELD;
        if (held[which].at != NULL) {
            check(held[which].at[0] == (unsigned char)me && held[which].at[held[which].size - 1] == (unsigned char)me);
            torch_free(held[which].at, held[which].size, held[which].device, NULL);
        }
        held[which].size = 1 + (state >> 8) % (3 * MIB);
        held[which].device = (int)(state >> 30) & 1;
        held[which].at = torch_alloc(held[which].size, held[which].device, NULL);
        check(held[which].at != NULL);
        held[which].at[0] = held[which].at[held[which].size - 1] = (unsigned char)me;
    }
    for (unsigned which = 0; which < HELD; which++) {
        torch_free(held[which].at, held[which].size, held[which].device, NULL);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    unsigned number[THREADS];
    load_library();
    for (unsigned i = 0; i < THREADS; i++) {
        number[i] = i + 1;
        check_number(0, pthread_create(&thread[i], NULL, work, &number[i]));
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    check_number(0, sim.violations());
}

static void *survivor;

static void free_survivor(void)
{
    CUcontext context;
    if (survivor != NULL) {
        gives(CUDA_ERROR_DEINITIALIZED, sim.cuCtxGetCurrent(&context));
        torch_free(survivor, PAGE, 0, NULL);
        fputs("freed\n", stderr);
    }
}

/* As a static object of a program does that was constructed before the driver was loaded. */
static void at_exit(void)
{
    load_library();
    survivor = torch_alloc(PAGE, 0, NULL);
    check(survivor != NULL);
}

static void in_child(void)
{
    load_library();
    void *block = torch_alloc(PAGE, 0, NULL);
    check(block != NULL);
    pid_t child = fork();
    if (child == 0) {
        bool refused = torch_alloc(PAGE, 0, NULL) == NULL;
        torch_free(block, PAGE, 0, NULL);
        _exit(refused ? 0 : 1);
    }
    int status;
    check(waitpid(child, &status, 0) == child);
    check_number(0, status);
    torch_free(block, PAGE, 0, NULL);
}

static unsigned lines_with(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        count++;
    }
    return count;
}

/* Runs @body and counts its lines with @word: each thing is said once. */
static void expect_lines(void (*body)(void), unsigned expected, const char *word, const char *settings)
{
    struct sim_outcome outcome;
    sim_run(body, &outcome, settings, "SIMCUDA_LEAKS=0", NULL);
    if (lines_with(outcome.errors, word) != expected || lines_with(outcome.errors, "gmlake: ") != expected) {
        fail_msg("expected %u lines with '%s':\n%s", expected, word, outcome.errors);
    }
}

static void what_is_said(void **state)
{
    (void)state;
    expect_lines(from_nothing, 0, "gmlake", "SIMCUDA_MEMORY=1G");
    expect_lines(devices, 0, "gmlake", "SIMCUDA_DEVICES=2");
    expect_lines(beyond, 1, "gmlake_torch_alloc: 2097152 bytes on device 2: ", "SIMCUDA_DEVICES=2");
    expect_lines(out_of_memory, 1, "device 0 has no room for 104857600 bytes", "SIMCUDA_MEMORY=128M");
    expect_lines(wrong_frees, 1, "gmlake_torch_free: ", "SIMCUDA_DEVICES=2");
    expect_lines(threads, 0, "gmlake", "SIMCUDA_DEVICES=2");
}

static void without_mapping(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(plain_device, &outcome, "SIMCUDA_VMM=0", "SIMCUDA_MEMORY=128M", "SIMCUDA_LEAKS=0", NULL);
    assert_int_equal(lines_with(outcome.errors, "gmlake: "), 1);
}

static void after_the_end(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(at_exit, &outcome, "SIMCUDA_LEAKS=0", NULL);
    assert_string_equal(outcome.errors, "freed\n");
}

static void a_forked_child(void **state)
{
    (void)state;
    struct sim_outcome outcome;
    sim_run(in_child, &outcome, "SIMCUDA_LEAKS=0", NULL);
    assert_int_equal(lines_with(outcome.errors, "gmlake_torch_alloc"), 1);
    assert_int_equal(lines_with(outcome.errors, "gmlake_torch_free"), 1);
}

int main(void)
{
    /* Registered first, so that it runs last, after the driver's own end. */
    atexit(free_survivor);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),
        cmocka_unit_test(without_mapping),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(a_forked_child),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
