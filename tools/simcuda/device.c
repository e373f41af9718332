/*
 * device.c - capacity and the memfd of each device.
 */
#include "device.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_STEP (64ull << 30) /* the file is sparse: growing it in large steps costs nothing */

static struct sim_device devices[SIM_MAX_DEVICES];

static bool start_one(struct sim_device *device, int ordinal)
{
    *device = (struct sim_device){.ordinal = ordinal, .capacity = sim_config.memory, .file = -1};
    if (!sim_config.backing) {
        return true;
    }
    device->file = memfd_create("simcuda-device", MFD_CLOEXEC);
    return device->file >= 0;
}

bool sim_device_start(void)
{
    for (int i = 0; i < sim_config.devices; i++) {
        if (!start_one(&devices[i], i)) {
            return false;
        }
    }
    return true;
}

int sim_device_count(void)
{
    return sim_config.devices;
}

struct sim_device *sim_device_at(int ordinal)
{
    return ordinal >= 0 && ordinal < sim_config.devices ? &devices[ordinal] : NULL;
}

static bool extend_file(struct sim_device *device, uint64_t size)
{
    if (!sim_config.backing || size <= device->file_length) {
        return true;
    }
    uint64_t length = (size + FILE_STEP - 1) / FILE_STEP * FILE_STEP;
    if (ftruncate(device->file, (off_t)length) < 0) {
        return false;
    }
    device->file_length = length;
    return true;
}

bool sim_device_take(struct sim_device *device, uint64_t bytes, bool counted, uint64_t *offset)
{
    if ((counted && bytes > device->capacity - device->in_use) || !extend_file(device, device->file_size + bytes)) {
        return false;
    }
    *offset = device->file_size;
    device->file_size += bytes;
    device->in_use += counted ? bytes : 0;
    if (device->in_use > device->in_use_peak) {
        device->in_use_peak = device->in_use;
    }
    return true;
}

void sim_device_give(struct sim_device *device, uint64_t bytes, bool counted, uint64_t offset)
{
    device->in_use -= counted ? bytes : 0;
    if (sim_config.backing) {
        /* A failure would only keep host memory longer: the piece is never handed out again. */
        (void)fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    }
}

static void count(uint64_t *figure, uint64_t *peak, int64_t delta)
{
    *figure += (uint64_t)delta;
    if (*figure > *peak) {
        *peak = *figure;
    }
}

void sim_device_count_mappings(struct sim_device *device, int64_t delta)
{
    count(&device->mappings, &device->mappings_peak, delta);
}

void sim_device_count_va(struct sim_device *device, int64_t delta)
{
    count(&device->va_bytes, &device->va_peak, delta);
}

void sim_device_reset_peaks(void)
{
    for (int i = 0; i < sim_config.devices; i++) {
        devices[i].in_use_peak = devices[i].in_use;
        devices[i].mappings_peak = devices[i].mappings;
        devices[i].va_peak = devices[i].va_bytes;
    }
}
