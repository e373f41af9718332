/*
 * program.c - a program that uses the allocator on the simulated driver, driven by commands on its standard input, for
 * the tests of what the mount makes a process do.
 *
 *   alloc BYTES [STREAM]  allocates; prints the block's number, or the name of the error. STREAM 0 is the default one
 *   free N                frees block N on its stream
 *   sync N                frees block N as cuMemFree() does
 *   reserved              prints the bytes of chunks held
 *   churn SECONDS [US]    allocates and frees as fast as it can, or rests so long after each hundred; prints how many
 *                         times
 *   quit
 */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS_MAX  4096
#define STREAMS_MAX 4

static struct gmlake *lake;
static CUstream streams[STREAMS_MAX]; /* the first is the default one */

static struct {
    gmlake_ptr address;
    unsigned stream;
} blocks[BLOCKS_MAX];
static unsigned block_count;

/* Looks @name up in the driver and stores it in *@to. */
static int find(void *driver, const char *name, void *to)
{
    void *symbol = dlsym(driver, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL ? 0 : -1;
}

static int start(void)
{
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*create)(CUstream *, unsigned);
    CUcontext context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL || find(driver, "cuInit", &init) < 0 || find(driver, "cuDevicePrimaryCtxRetain", &retain) < 0 ||
        find(driver, "cuCtxSetCurrent", &set_current) < 0 || find(driver, "cuStreamCreate", &create) < 0 ||
        init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set_current(context) != CUDA_SUCCESS) {
        return -1;
    }
    for (unsigned i = 1; i < STREAMS_MAX; i++) {
        if (create(&streams[i], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
            return -1;
        }
    }
    return gmlake_create(0, &lake);
}

static void print_error(int rc)
{
    printf("%s\n", strerrorname_np(-rc));
}

static void allocate(size_t bytes, unsigned stream)
{
    if (block_count == BLOCKS_MAX || stream >= STREAMS_MAX) {
        printf("no\n");
        return;
    }
    int rc = gmlake_alloc(lake, bytes, streams[stream], &blocks[block_count].address);
    if (rc < 0) {
        print_error(rc);
        return;
    }
    blocks[block_count].stream = stream;
    printf("%u\n", block_count++);
}

static void release(unsigned number, int synchronised)
{
    if (number >= block_count) {
        printf("no\n");
        return;
    }
    int rc = synchronised ? gmlake_free_sync(lake, blocks[number].address)
                          : gmlake_free(lake, blocks[number].address, streams[blocks[number].stream]);
    if (rc < 0) {
        print_error(rc);
    } else {
        printf("ok\n");
    }
}

static void print_reserved(void)
{
    struct gmlake_stats stats = {.size = sizeof stats};
    gmlake_get_stats(lake, &stats);
    printf("%llu\n", (unsigned long long)stats.reserved);
}

static void churn(unsigned seconds, unsigned rest_us)
{
    time_t end = time(NULL) + (time_t)seconds;
    unsigned long long turns = 0;
    while (time(NULL) < end) {
        for (unsigned i = 0; i < 100; i++, turns++) {
            gmlake_ptr address;
            if (gmlake_alloc(lake, 1000 + turns % 7 * 3000000, NULL, &address) == 0) {
                gmlake_free(lake, address, NULL);
            }
        }
        if (rest_us > 0) {
            usleep(rest_us);
        }
    }
    printf("%llu\n", turns);
}

int main(void)
{
    char line[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (start() < 0) {
        fprintf(stderr, "no simulated driver\n");
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        char verb[16] = "";
        unsigned long long first = 0;
        unsigned second = 0;
        (void)sscanf(line, "%15s %llu %u", verb, &first, &second);
        if (strcmp(verb, "alloc") == 0) {
            allocate((size_t)first, second);
        } else if (strcmp(verb, "free") == 0 || strcmp(verb, "sync") == 0) {
            release((unsigned)first, verb[0] == 's');
        } else if (strcmp(verb, "reserved") == 0) {
            print_reserved();
        } else if (strcmp(verb, "churn") == 0) {
            churn((unsigned)first, (unsigned)second);
        } else if (strcmp(verb, "quit") == 0) {
            break;
        } else {
            printf("no such command\n");
        }
    }
    gmlake_destroy(lake);
    return 0;
}
