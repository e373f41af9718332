/*
 * secure.c - a program that has the preload library in it whatever the environment says, as /etc/ld.so.preload does it,
 * and runs with the rights of its file: says whether the environment was listened to.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

int main(void)
{
    Dl_info info;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = driver == NULL ? NULL : dlsym(driver, "cuMemAlloc_v2");
    if (function == NULL || dladdr(function, &info) == 0) {
        printf("no driver: %s\n", dlerror());
        return 1;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf("secure: %s\n", getauxval(AT_SECURE) != 0 ? "yes" : "no");
    printf("object: %s\n", slash == NULL ? info.dli_fname : slash + 1);
    return 0;
}
