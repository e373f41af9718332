/*
 * without_driver.c - a program that calls whatever it finds under the driver's names, in a process without a driver.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    CUresult (*allocate)(CUdeviceptr *, size_t);
    CUresult (*look_up)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdeviceptr address = 7;
    void *function = NULL;
    void *found = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    void *found_look_up = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
    if (dlsym(RTLD_DEFAULT, "cuInit") != NULL || found == NULL || found_look_up == NULL) {
        printf("cuInit is there, or a hook is not\n");
        return 1;
    }
    memcpy(&allocate, &found, sizeof allocate);
    memcpy(&look_up, &found_look_up, sizeof look_up);
    CUresult rc = allocate(&address, 1024);
    CUresult rc_look_up = look_up("cuMemAlloc", &function, 12000, 0, NULL);
    printf("%d %d\n", (int)rc, (int)rc_look_up);
    return rc == CUDA_ERROR_NOT_INITIALIZED && rc_look_up == CUDA_ERROR_NOT_INITIALIZED && address == 7 ? 0 : 1;
}
