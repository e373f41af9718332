/*
 * driver.c - see driver.h.
 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function to look up. */
struct symbol {
    const char *name;
    size_t offset;
    enum { REQUIRED, OPTIONAL } need;
};

static const struct symbol symbols[] = {
#define GM_DRIVER_SYMBOL(need, field, name, parameters) {name, offsetof(struct gm_driver, field), need},
#include "driver.def"
#undef GM_DRIVER_SYMBOL
#define SIM_SYMBOL(field) {"simcuda_" #field, offsetof(struct gm_driver, sim_##field), OPTIONAL},
    SIM_SYMBOL(now_ns) SIM_SYMBOL(advance_to_ns) SIM_SYMBOL(query_device) SIM_SYMBOL(query_calls)
        SIM_SYMBOL(reset_counts) SIM_SYMBOL(violations)
#undef SIM_SYMBOL
};

static int look_up(void *library, struct gm_driver *driver, char message[GM_DRIVER_MESSAGE])
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL && symbols[i].need == REQUIRED) {
            snprintf(message, GM_DRIVER_MESSAGE, "the driver has no %s", symbols[i].name);
            return -ENODEV;
        }
        memcpy((char *)driver + symbols[i].offset, &address, sizeof address);
    }
    return 0;
}

static int complain(CUresult result, const char *what, char message[GM_DRIVER_MESSAGE])
{
    snprintf(message, GM_DRIVER_MESSAGE, "%s failed with CUDA error %d", what, (int)result);
    return -EIO;
}

static int create_streams(struct gm_driver *driver, uint32_t count, char message[GM_DRIVER_MESSAGE])
{
    driver->streams = calloc(count > 0 ? count : 1, sizeof(CUstream));
    if (driver->streams == NULL) {
        snprintf(message, GM_DRIVER_MESSAGE, "out of memory");
        return -ENOMEM;
    }
    driver->stream_count = 1;
    for (uint32_t i = 1; i < count; i++) {
        CUresult rc = driver->stream_create(&driver->streams[i], CU_STREAM_NON_BLOCKING);
        if (rc != CUDA_SUCCESS) {
            return complain(rc, "cuStreamCreate", message);
        }
        driver->stream_count = i + 1;
    }
    return 0;
}

static int make_current(struct gm_driver *driver, char message[GM_DRIVER_MESSAGE])
{
    CUresult rc = driver->init(0);
    if (rc != CUDA_SUCCESS) {
        return complain(rc, "cuInit", message);
    }
    rc = driver->device_get(&driver->device, driver->ordinal);
    if (rc != CUDA_SUCCESS) {
        return complain(rc, "cuDeviceGet", message);
    }
    rc = driver->context_retain(&driver->context, driver->device);
    if (rc != CUDA_SUCCESS) {
        return complain(rc, "cuDevicePrimaryCtxRetain", message);
    }
    driver->retained = true;
    rc = driver->context_set_current(driver->context);
    return rc == CUDA_SUCCESS ? 0 : complain(rc, "cuCtxSetCurrent", message);
}

int gm_driver_open(const char *path, int ordinal, uint32_t streams, struct gm_driver *out,
                   char message[GM_DRIVER_MESSAGE])
{
    struct gm_driver driver = {.path = path != NULL ? path : "libcuda.so.1", .ordinal = ordinal};
    void *library = dlopen(driver.path, RTLD_NOW);
    if (library == NULL) {
        snprintf(message, GM_DRIVER_MESSAGE, "no CUDA driver: %s", dlerror());
        return -ENODEV;
    }
    int rc = look_up(library, &driver, message);
    if (rc < 0) {
        return rc;
    }
    rc = make_current(&driver, message);
    if (rc == 0) {
        rc = create_streams(&driver, streams, message);
    }
    if (rc < 0) {
        gm_driver_close(&driver);
        return rc;
    }
    *out = driver;
    return 0;
}

void gm_driver_close(struct gm_driver *driver)
{
    if (!driver->retained) {
        return;
    }
    driver->context_synchronize();
    for (uint32_t i = 1; i < driver->stream_count; i++) {
        driver->stream_destroy(driver->streams[i]);
    }
    free(driver->streams);
    driver->streams = NULL;
    driver->context_set_current(NULL);
    driver->context_release(driver->device);
    driver->retained = false;
}

void gm_driver_sum_calls(const struct gm_driver *driver, uint64_t *calls, uint64_t *memory_calls, uint64_t *ns)
{
    enum { ROWS = 512 };
    struct simcuda_call rows[ROWS];
    size_t count = driver->sim_query_calls(rows, ROWS);
    *calls = 0;
    *memory_calls = 0;
    *ns = 0;
    for (size_t i = 0; i < count && i < ROWS; i++) {
        *calls += rows[i].calls;
        *memory_calls += strncmp(rows[i].name, "cuMem", 5) == 0 ? rows[i].calls : 0;
        *ns += rows[i].ns;
    }
}
