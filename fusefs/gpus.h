/*
 * gpus.h - the GPUs of the machine: a number for each uuid, and the figures of all processes on it together.
 *
 * A process numbers its devices as CUDA_VISIBLE_DEVICES lets it; the machine's number is that of the driver, in the
 * order of the PCI bus, as nvidia-smi shows it. A uuid the driver does not list (a simulated device, a MIG instance)
 * gets the number by which its first process knows it, or the next free one, for the life of the mount.
 *
 * CONCURRENCY  The numbers are in the machine's state and guarded by machine->lock.
 */
#ifndef GM_GPUS_H
#define GM_GPUS_H

#include "machine.h"
#include "text.h"

#define GM_GPUS_MAX GM_STATE_GPUS

/* The sums over the processes that use it; those of a row that is a high mark mean nothing. */
struct gm_gpu {
    unsigned index;
    uint8_t uuid[16];
    uint64_t capacity; /* bytes */
    unsigned processes;
    uint64_t stat[GM_STAT_COUNT];
};

/* Invariant: in rising order of index, each once. */
struct gm_gpus {
    unsigned count;
    struct gm_gpu gpu[GM_GPUS_MAX];
};

/* Numbers the GPUs that the driver lists below @directory (/proc/driver/nvidia/gpus); none is no error. */
void gm_gpus_number(struct gm_machine *machine, const char *directory);

/* The machine's number of @device of some process. -ENOSPC: all numbers are given away. */
int gm_gpu_index(struct gm_machine *machine, const struct gm_device *device, unsigned *out);

/* Numbers what the processes use. */
void gm_gpus_notice(struct gm_machine *machine);

/* The uuid that has a number, all zero for a number that is not given. */
void gm_gpu_uuid_of(struct gm_machine *machine, unsigned index, uint8_t out[16]);

/* Whether a number is given. */
bool gm_gpu_is_known(struct gm_machine *machine, uint64_t index);

/* Adds what one process shows of its devices. A device that gets no number is left out. */
void gm_gpus_add(struct gm_machine *machine, struct gm_gpus *gpus, const struct gm_snapshot *snapshot);

/* Adds up all processes. */
void gm_gpus_read(struct gm_machine *machine, struct gm_gpus *out);

/* The GPU of a number in @gpus; NULL: nobody uses it. */
const struct gm_gpu *gm_gpus_find(const struct gm_gpus *gpus, unsigned index);

/* Appends a uuid as nvidia-smi writes it. */
void gm_gpu_uuid(struct gm_text *out, const uint8_t uuid[16]);

#endif
