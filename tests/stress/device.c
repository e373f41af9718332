/*
 * device.c - see device.h.
 */
#include "device.h"

#include "cu.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gm_device device;
char gm_device_recipe[256];

void gm_device_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nagain with: %s\n", gm_device_recipe);
    _exit(1);
}

const char *gm_device_path(void)
{
    static char path[4096];
    const char *folder = getenv("GMLAKE_TEST_SIMCUDA_DIR");
    if (folder == NULL) {
        return NULL;
    }
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    return path;
}

void gm_device_open(const char *path, uint64_t memory, unsigned delay_us)
{
    static struct gm_cu table;
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, memory);
    setenv("SIMCUDA_MEMORY", text, 1);
    snprintf(text, sizeof text, "0-%u", delay_us);
    setenv("SIMCUDA_STREAM_DELAY_US", text, 1);
    unsetenv("SIMCUDA_FAIL");
    unsetenv("SIMCUDA_BACKING");
    if (path == NULL || gm_cu_load(path, &table) < 0) {
        fail("no simulated driver at %s", path == NULL ? "GMLAKE_TEST_SIMCUDA_DIR, which is not set" : path);
    }
    gm_cu_use(&table);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *address;
#define STRESS_SYMBOL(field, name, result, parameters)                                                                 \
    address = dlsym(library, name);                                                                                    \
    if (address == NULL) {                                                                                             \
        fail("%s has no %s", path, name);                                                                              \
    }                                                                                                                  \
    memcpy(&device.field, &address, sizeof address);
    STRESS_SYMBOLS
#undef STRESS_SYMBOL
    works(device.init(0));
    works(device.retain(&device.context, 0));
    works(device.set_current(device.context));
}

void gm_device_expect_no_violation(void)
{
    unsigned violations = device.violations();
    if (violations != 0) {
        fail("the driver was misused %u times", violations);
    }
}

void gm_device_expect_empty(void)
{
    struct simcuda_device held;
    works(device.query_device(0, &held));
    if (held.in_use != 0 || held.handles != 0 || held.mappings != 0 || held.va_bytes != 0) {
        fail("still held on the device: %" PRIu64 " bytes, %" PRIu64 " handles, %" PRIu64 " mappings, %" PRIu64
             " bytes of addresses",
             held.in_use, held.handles, held.mappings, held.va_bytes);
    }
    gm_device_expect_no_violation();
}

uint64_t gm_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}
