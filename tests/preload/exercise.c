/*
 * exercise.c - a CUDA program that goes through one of the doors and prints what it hears, one line a question.
 *
 *   exercise DOOR SCENARIO
 *
 * What is printed is the same with the driver alone and under the preload library: results, contents, and relations
 * between addresses, never an address. Lines that begin with "driver:" say what the simulated driver was asked, which
 * differs, and is how a test knows who served.
 */
#include "exercise.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct calls cu;
CUcontext context;

void say(const char *what, CUresult rc)
{
    printf("%s: %d\n", what, (int)rc);
}

void say_if(const char *what, int holds)
{
    printf("%s: %s\n", what, holds ? "yes" : "no");
}

void need(const char *what, CUresult rc)
{
    if (rc != CUDA_SUCCESS) {
        say(what, rc);
        exit(1);
    }
}

void start(int ordinal)
{
    CUdevice device;
    need("cuInit", cu.cuInit_(0));
    need("cuDeviceGet", cu.cuDeviceGet_(&device, ordinal));
    need("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain_(&context, device));
    need("cuCtxSetCurrent", cu.cuCtxSetCurrent_(context));
}

void use(const char *what, CUdeviceptr address, size_t bytes)
{
    size_t part = bytes < MIB ? bytes : MIB;
    unsigned char *sent = malloc(part);
    unsigned char *got = malloc(part);
    for (size_t i = 0; i < part; i++) {
        sent[i] = (unsigned char)(i * 7 + bytes);
    }
    CUdeviceptr last = address + bytes - part;
    int same = cu.cuMemsetD8_(address, 0x5a, bytes) == CUDA_SUCCESS &&
               cu.cuMemcpyHtoD_(last, sent, part) == CUDA_SUCCESS &&
               cu.cuMemcpyDtoH_(got, last, part) == CUDA_SUCCESS && memcmp(sent, got, part) == 0;
    say_if(what, same);
    free(sent);
    free(got);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
#define SCENARIO(name, function) {name, scenario_##function},
#include "scenarios.def"
#undef SCENARIO
};

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: exercise DOOR SCENARIO\n");
        return 2;
    }
    if (calls_find(argv[1], &cu) != 0) {
        return 1;
    }
    for (size_t i = 0; i < LENGTH(scenarios); i++) {
        if (strcmp(scenarios[i].name, argv[2]) == 0) {
            scenarios[i].run();
            report_driver_calls();
            return 0;
        }
    }
    fprintf(stderr, "no such scenario: %s\n", argv[2]);
    return 2;
}
