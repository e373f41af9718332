/*
 * tuning.c - live tuning, seen from the inside: one thread allocates and frees in a tight loop, another writes to the
 * files of its own process in the mount. Whatever was written before an allocation began is in force in it.
 *
 *   tuning values ROUNDS   every tunable, through the C API: no value is lost, none is torn
 *   tuning effect ROUNDS   as an unmodified program meets it, under the preload library: enabled, which shows in each
 *                          allocation; max; and every tunable
 *   tuning loop TURNS BYTES
 *                          nothing but the loop, through the C API, once it has attached (without $MOUNT: at once)
 *
 * $MOUNT is the mount. Prints what is wrong, and last how often the loop went round.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gmlake/gmlake.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)64 << 20)

struct tunable {
    const char *name;
    uint64_t minimum;
    uint64_t maximum;
};

static const struct tunable tunables[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) {#name, min, max},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

static struct {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
} driver;

static struct {
    int (*create)(int, struct gmlake **);
    int (*alloc)(struct gmlake *, size_t, gmlake_stream, gmlake_ptr *);
    int (*free)(struct gmlake *, gmlake_ptr, gmlake_stream);
    void (*destroy)(struct gmlake *);
    int (*get_tunable)(const char *, uint64_t *);
} api;

/* What is being written: the n-th value is on its way from begun == n on, and in force from done == n on. */
static struct {
    const struct tunable *tunable;
    uint64_t rounds;
    _Atomic uint64_t begun;
    _Atomic uint64_t done;
} writing;

static unsigned complaints;

#define COMPLAIN(...) (complaints++ < 20 ? (void)printf(__VA_ARGS__) : (void)0)

static void find(void *library, const char *name, void *to)
{
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    if (symbol == NULL) {
        fprintf(stderr, "tuning: %s is not to be found: %s\n", name, dlerror());
        exit(2);
    }
    memcpy(to, &symbol, sizeof symbol);
}

static void start_driver(void)
{
    CUcontext context;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    find(library, "cuInit", &driver.init);
    find(library, "cuDevicePrimaryCtxRetain", &driver.retain);
    find(library, "cuCtxSetCurrent", &driver.set_current);
    find(library, "cuMemAlloc_v2", &driver.alloc);
    find(library, "cuMemFree_v2", &driver.free);
    if (driver.init(0) != CUDA_SUCCESS || driver.retain(&context, 0) != CUDA_SUCCESS ||
        driver.set_current(context) != CUDA_SUCCESS) {
        fprintf(stderr, "tuning: no simulated driver\n");
        exit(2);
    }
}

static int open_file(const char *name, int flags)
{
    char path[4096];
    const char *mount = getenv("MOUNT");
    snprintf(path, sizeof path, "%s/%d/%s", mount != NULL ? mount : "/gmlake", (int)getpid(), name);
    int fd = -1;
    for (unsigned i = 0; fd < 0 && i < 500; i++) { /* until the process has attached */
        fd = open(path, flags | O_CLOEXEC);
        if (fd < 0) {
            usleep(10000);
        }
    }
    if (fd < 0) {
        fprintf(stderr, "tuning: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    return fd;
}

static void put(int fd, const char *name, const char *text)
{
    if (write(fd, text, strlen(text)) < 0) {
        COMPLAIN("%s: %s: %s\n", name, text, strerror(errno));
    }
}

/* The n-th value of a tunable. Where there is room, both halves of the word change each time. */
static uint64_t value(const struct tunable *tunable, uint64_t n)
{
    uint64_t span = tunable->maximum - tunable->minimum;
    if (tunable->maximum == GMLAKE_UNLIMITED) {
        return n << 32 | n;
    }
    return tunable->minimum + (span < UINT64_C(1) << 33 ? n % (span + 1) : n * UINT64_C(0x100000001) % span);
}

static void *write_values(void *unused)
{
    (void)unused;
    char name[128];
    snprintf(name, sizeof name, "tunables/%s", writing.tunable->name);
    int fd = open_file(name, O_RDWR);
    for (uint64_t n = 1; n <= writing.rounds; n++) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64 "\n", value(writing.tunable, n));
        atomic_store(&writing.begun, n);
        put(fd, name, text);
        atomic_store(&writing.done, n);
    }
    atomic_store(&writing.begun, writing.rounds + 1);
    put(fd, name, "default\n");
    close(fd);
    return NULL;
}

/* Whether @seen may be in force when the values from @from to @to may be. */
static bool may_be(uint64_t seen, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n <= to; n++) {
        if (value(writing.tunable, n) == seen) {
            return true;
        }
    }
    return false;
}

/* The directory is there before the process knows of its page: what is written meanwhile is not in force yet. */
static void wait_until_attached(void)
{
    uint64_t seen = 0;
    int fd = open_file("tunables/stitch_min", O_RDWR);
    put(fd, "stitch_min", "4096\n");
    for (unsigned i = 0; seen != 4096 && i < 5000; i++) {
        api.get_tunable("stitch_min", &seen);
        usleep(1000);
    }
    put(fd, "stitch_min", "default\n");
    close(fd);
}

/* Allocates until all was written; each time the value in force is one of those that may be. */
static uint64_t watch_values(struct gmlake *lake)
{
    uint64_t turns = 0;
    for (uint64_t done = 0; done < writing.rounds; turns++) {
        gmlake_ptr address;
        uint64_t seen;
        done = atomic_load(&writing.done);
        if (api.alloc(lake, 1000 + turns % 7 * 3000000, NULL, &address) == 0) {
            api.free(lake, address, NULL);
        }
        api.get_tunable(writing.tunable->name, &seen);
        uint64_t begun = atomic_load(&writing.begun);
        if (done > 0 && begun <= writing.rounds && !may_be(seen, done, begun)) {
            COMPLAIN("%s: is 0x%" PRIx64 " after write %" PRIu64 ", before %" PRIu64 "\n", writing.tunable->name, seen,
                     done, begun + 1);
        }
    }
    return turns;
}

static struct gmlake *start_api(void)
{
    void *library = dlopen("libgmlake.so", RTLD_NOW);
    struct gmlake *lake = NULL;
    find(library, "gmlake_create", &api.create);
    find(library, "gmlake_destroy", &api.destroy);
    find(library, "gmlake_alloc", &api.alloc);
    find(library, "gmlake_free", &api.free);
    find(library, "gmlake_get_tunable", &api.get_tunable);
    start_driver();
    if (api.create(0, &lake) < 0) {
        fprintf(stderr, "tuning: no allocator\n");
        exit(2);
    }
    return lake;
}

static uint64_t loop(uint64_t turns, size_t size)
{
    struct gmlake *lake = start_api();
    if (getenv("MOUNT") != NULL) {
        close(open_file("stats", O_RDONLY));
    }
    for (uint64_t i = 0; i < turns; i++) {
        gmlake_ptr address;
        if (api.alloc(lake, size, NULL, &address) == 0) {
            api.free(lake, address, NULL);
        }
    }
    api.destroy(lake);
    return turns;
}

static uint64_t tune_values(uint64_t rounds)
{
    struct gmlake *lake = start_api();
    uint64_t turns = 0;
    wait_until_attached();
    for (size_t i = 0; i < sizeof tunables / sizeof tunables[0]; i++) {
        pthread_t writer;
        writing.tunable = &tunables[i];
        writing.rounds = rounds;
        atomic_store(&writing.begun, 0);
        atomic_store(&writing.done, 0);
        pthread_create(&writer, NULL, write_values, NULL);
        turns += watch_values(lake);
        pthread_join(writer, NULL);
    }
    api.destroy(lake);
    return turns;
}

static void *write_enabled(void *unused)
{
    (void)unused;
    int fd = open_file("tunables/enabled", O_RDWR);
    for (uint64_t n = 1; n <= writing.rounds; n++) {
        atomic_store(&writing.begun, n);
        put(fd, "enabled", n % 2 == 1 ? "0\n" : "1\n");
        atomic_store(&writing.done, n);
        usleep(100);
    }
    put(fd, "enabled", "default\n");
    close(fd);
    return NULL;
}

static CUdeviceptr allocate_once(void)
{
    CUdeviceptr address = 0;
    if (driver.alloc(&address, SIZE) != CUDA_SUCCESS) {
        COMPLAIN("an allocation was refused\n");
    } else {
        driver.free(address);
    }
    return address;
}

/* By its address one can tell whether a block is of the pool: that is in one range, and what is the driver's is not. */
static uint64_t tune_enabled(uint64_t rounds)
{
    pthread_t writer;
    uint64_t turns = 0;
    uint64_t checks = 0;
    CUdeviceptr of_pool = allocate_once();
    writing.rounds = rounds;
    pthread_create(&writer, NULL, write_enabled, NULL);
    for (uint64_t done = 0; done < rounds; turns++) {
        done = atomic_load(&writing.done);
        CUdeviceptr address = allocate_once();
        bool settled = done > 0 && done < rounds && atomic_load(&writing.begun) == done;
        checks += settled;
        if (settled && (address == of_pool) != (done % 2 == 0)) {
            COMPLAIN("enabled: after write %" PRIu64 " an allocation is at 0x%llx\n", done,
                     (unsigned long long)address);
        }
    }
    pthread_join(writer, NULL);
    if (checks < rounds / 2) {
        COMPLAIN("enabled: only %" PRIu64 " allocations could be looked at\n", checks);
    }
    return turns;
}

/* Allocates until an allocation is refused (or not, as @refused says); false: that does not happen in ten seconds. */
static bool comes_to_refuse(bool refused)
{
    for (unsigned tries = 0; tries < 100000; tries++) {
        CUdeviceptr address;
        CUresult code = driver.alloc(&address, SIZE);
        if (code == CUDA_SUCCESS) {
            driver.free(address);
        }
        if ((code == CUDA_ERROR_OUT_OF_MEMORY) == refused) {
            return true;
        }
        usleep(100);
    }
    return false;
}

/* What the process holds when max goes below it is still served from, until it is given up; then there is no way. */
static void tune_max(void)
{
    int fd = open_file("max", O_RDWR);
    for (unsigned n = 0; n < 10; n++) {
        put(fd, "max", "32M\n");
        if (!comes_to_refuse(true)) {
            COMPLAIN("max: memory beyond it is not given up\n");
        }
        put(fd, "max", "max\n");
        (void)allocate_once(); /* the very next one is served */
    }
    close(fd);
}

/* Whether the file comes to have @line while the program goes on allocating. */
static bool comes_to_be(int fd, const char *line)
{
    static char text[1 << 16];
    for (unsigned tries = 0; tries < 2000; tries++) {
        CUdeviceptr address;
        if (driver.alloc(&address, 5000) == CUDA_SUCCESS) {
            driver.free(address);
        }
        ssize_t length = pread(fd, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        if (strstr(text, line) != NULL) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

/* Every tunable of the unmodified program, between allocations; what .applied says must follow. */
static void tune_all(void)
{
    int applied = open_file("tunables/.applied", O_RDONLY);
    for (size_t i = 0; i < sizeof tunables / sizeof tunables[0]; i++) {
        char name[128];
        char line[256];
        uint64_t wanted = value(&tunables[i], 3);
        snprintf(name, sizeof name, "tunables/%s", tunables[i].name);
        int fd = open_file(name, O_RDWR);
        snprintf(line, sizeof line, "%" PRIu64 "\n", wanted);
        put(fd, name, line);
        snprintf(line, sizeof line, "%s want=%" PRIu64 " now=%" PRIu64 " ", tunables[i].name, wanted, wanted);
        if (!comes_to_be(applied, line)) {
            COMPLAIN("%s is not applied\n", tunables[i].name);
        }
        put(fd, name, "default\n");
        close(fd);
    }
    close(applied);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc - 3 != (strcmp(argv[1], "loop") == 0)) {
        fprintf(stderr, "usage: tuning values|effect ROUNDS\n       tuning loop TURNS BYTES\n");
        return 2;
    }
    uint64_t rounds = strtoull(argv[2], NULL, 10);
    uint64_t turns;
    if (strcmp(argv[1], "loop") == 0) {
        turns = loop(rounds, strtoull(argv[3], NULL, 10));
    } else if (strcmp(argv[1], "values") == 0) {
        turns = tune_values(rounds);
    } else {
        CUdeviceptr address;
        start_driver();
        if (driver.alloc(&address, 1) == CUDA_SUCCESS) { /* so that the agent starts */
            driver.free(address);
        }
        turns = tune_enabled(rounds);
        tune_max();
        tune_all();
    }
    printf("%u complaints in %" PRIu64 " turns\n", complaints, turns);
    return complaints > 0;
}
