/*
 * served.c - a program for `gmlake doctor` to look at: uses CUDA as far as its argument says ("nothing", "driver",
 * "memory"), prints "ready" and stays until its input ends.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *driver;

static void must(CUresult code, const char *what)
{
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "served: %s: error %d\n", what, (int)code);
        exit(1);
    }
}

static void allocate(void)
{
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUcontext context;
    CUdeviceptr block;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
    must(init(0), "cuInit");
    must(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(set_current(context), "cuCtxSetCurrent");
    must(alloc(&block, 8u << 20), "cuMemAlloc");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "nothing";
    if (strcmp(how, "nothing") != 0) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (driver == NULL) {
            fprintf(stderr, "served: %s\n", dlerror());
            return 1;
        }
    }
    if (strcmp(how, "memory") == 0) {
        allocate();
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
