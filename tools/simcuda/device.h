/*
 * device.h - the devices and their physical memory.
 *
 * STRUCTURE    Memory is counted against the capacity; its bytes are pieces of one memfd for each device. A piece
 *              of the file is used once: the file only grows, and what is given back is punched out, so new memory
 *              reads as zeros at no cost and adjacent chunks share kernel mappings.
 * CONCURRENCY  the driver's lock.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "config.h"

#include <stdbool.h>
#include <stdint.h>

struct sim_context;
struct sim_pool;

/* Invariant: in_use <= capacity; a peak is never below its figure. */
struct sim_device {
    int ordinal;
    int file;
    uint64_t capacity;
    uint64_t in_use;
    uint64_t in_use_peak;
    uint64_t handles;
    uint64_t mappings;
    uint64_t mappings_peak;
    uint64_t va_bytes;
    uint64_t va_peak;
    uint64_t file_size; /* bytes of the file handed out, and its length or less */
    uint64_t file_length;
    struct sim_context *primary; /* never NULL once the driver runs */
    struct sim_pool *default_pool;
    struct sim_pool *current_pool;
};

/* Makes the devices; false: no memfd or no host memory. */
bool sim_device_start(void);

int sim_device_count(void);

/* NULL: no such device. */
struct sim_device *sim_device_at(int ordinal);

/*
 * Takes @bytes of physical memory and says where in the file they are; false: the device is full. Not @counted: memory
 * of the host, which only needs a place in the file.
 */
bool sim_device_take(struct sim_device *device, uint64_t bytes, bool counted, uint64_t *offset);
void sim_device_give(struct sim_device *device, uint64_t bytes, bool counted, uint64_t offset);

/* Counters with peaks; @delta may be negative. */
void sim_device_count_mappings(struct sim_device *device, int64_t delta);
void sim_device_count_va(struct sim_device *device, int64_t delta);

void sim_device_reset_peaks(void);

#endif
