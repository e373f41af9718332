/*
 * report.c - reads the simulated driver's counts.
 */
#include "report.h"

#include "simcuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* Whether @symbol is @name or its per-thread variant. */
static int is_form_of(const char *symbol, const char *name)
{
    size_t length = strlen(name);
    return strncmp(symbol, name, length) == 0 && (symbol[length] == '\0' || strcmp(symbol + length, "_ptsz") == 0);
}

void report_driver_calls(void)
{
    static const char *const told[] = {"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync",
                                       "cuMemAllocFromPoolAsync", "cuMemCreate"};
    static struct simcuda_call calls[1024];
    size_t (*query)(struct simcuda_call *, size_t);
    unsigned (*violations)(void);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *query_address = driver == NULL ? NULL : dlsym(driver, "simcuda_query_calls");
    void *violations_address = driver == NULL ? NULL : dlsym(driver, "simcuda_violations");
    if (query_address == NULL || violations_address == NULL) {
        return;
    }
    memcpy(&query, &query_address, sizeof query);
    memcpy(&violations, &violations_address, sizeof violations);
    size_t count = query(calls, LENGTH(calls));
    for (size_t i = 0; i < LENGTH(told); i++) {
        unsigned long long times = 0;
        for (size_t j = 0; j < count && j < LENGTH(calls); j++) {
            times += is_form_of(calls[j].name, told[i]) ? calls[j].calls : 0;
        }
        printf("driver: %s %llu\n", told[i], times);
    }
    struct simcuda_device device;
    int (*query_device)(int, struct simcuda_device *);
    void *device_address = dlsym(driver, "simcuda_query_device");
    memcpy(&query_device, &device_address, sizeof query_device);
    if (query_device(0, &device) == 0) {
        printf("driver: MiB at most %llu\n", (unsigned long long)(device.in_use_peak >> 20));
    }
    printf("misuses: %u\n", violations());
}
