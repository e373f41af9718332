/*
 * device_memory.c - see device_memory.h. NVML is looked up at run time and its few types are spelled out here, so
 * that neither its header nor its library is needed to build.
 */
#include "device_memory.h"

#include "paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UUID_TEXT = 64 };

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as NVML names the device. */
static bool uuid_of(const struct gm_driver *driver, char text[UUID_TEXT])
{
    CUuuid uuid;
    if (driver->device_get_uuid == NULL || driver->device_get_uuid(&uuid, driver->device) != CUDA_SUCCESS) {
        return false;
    }
    int length = snprintf(text, UUID_TEXT, "GPU");
    for (size_t i = 0; i < sizeof uuid.bytes; i++) {
        bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        length += snprintf(text + length, (size_t)(UUID_TEXT - length), group ? "-%02x" : "%02x",
                           (unsigned char)uuid.bytes[i]);
    }
    return true;
}

/* Puts the address of function @name into the function pointer at @out. */
static bool look_up(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static bool open_nvml(const struct gm_driver *driver, struct gm_device_memory *memory)
{
    char uuid[UUID_TEXT];
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **device);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    return library != NULL && uuid_of(driver, uuid) && look_up(library, "nvmlInit_v2", &init) &&
           look_up(library, "nvmlDeviceGetHandleByUUID", &by_uuid) &&
           look_up(library, "nvmlDeviceGetMemoryInfo", &memory->nvml_memory) && init() == 0 &&
           by_uuid(uuid, &memory->device) == 0;
}

void gm_device_memory_open(const struct gm_driver *driver, struct gm_device_memory *out)
{
    struct gm_device_memory memory = {0};
    const char *preload = getenv("LD_PRELOAD");
    bool answered = preload != NULL && strstr(preload, GM_PRELOAD_LIBRARY) != NULL;
    if (gm_driver_simulated(driver) || !answered) {
        memory.driver = driver;
    } else if (!open_nvml(driver, &memory)) {
        memory.device = NULL;
    }
    *out = memory;
}

int gm_device_memory_used(const struct gm_device_memory *memory, uint64_t *out)
{
    unsigned long long total_free_used[3];
    struct simcuda_device device;
    size_t free_bytes;
    size_t total;
    if (memory->device != NULL) {
        if (memory->nvml_memory(memory->device, total_free_used) != 0) {
            return -ENODATA;
        }
        *out = total_free_used[2];
        return 0;
    }
    if (memory->driver == NULL) {
        return -ENODATA;
    }
    if (gm_driver_simulated(memory->driver)) {
        if (memory->driver->sim_query_device(memory->driver->ordinal, &device) != 0) {
            return -ENODATA;
        }
        *out = device.in_use;
        return 0;
    }
    if (memory->driver->mem_get_info(&free_bytes, &total) != CUDA_SUCCESS) {
        return -ENODATA;
    }
    *out = total - free_bytes;
    return 0;
}
