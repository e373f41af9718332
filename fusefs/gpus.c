/*
 * gpus.c - see gpus.h.
 */
#include "gpus.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------------------------- */

static const uint8_t no_uuid[16];

/* The place of @uuid among the numbers; GM_GPUS_MAX: none. */
static unsigned find_locked(const struct gm_machine *machine, const uint8_t uuid[16])
{
    unsigned at = 0;
    while (at < GM_GPUS_MAX && memcmp(machine->state->gpu_uuid[at], uuid, 16) != 0) {
        at++;
    }
    return at;
}

/* Finds or makes the number of a uuid; @wished is taken if it is free. */
static int number_locked(struct gm_machine *machine, const uint8_t uuid[16], unsigned wished, unsigned *out)
{
    unsigned at = find_locked(machine, uuid);
    if (at == GM_GPUS_MAX) {
        bool granted = wished < GM_GPUS_MAX && memcmp(machine->state->gpu_uuid[wished], no_uuid, 16) == 0;
        at = granted ? wished : find_locked(machine, no_uuid);
        if (at == GM_GPUS_MAX) {
            return -ENOSPC;
        }
        memcpy(machine->state->gpu_uuid[at], uuid, 16);
    }
    *out = at;
    return 0;
}

int gm_gpu_index(struct gm_machine *machine, const struct gm_device *device, unsigned *out)
{
    /* A process that has not told yet, or an old driver: not a GPU of its own. */
    if (memcmp(device->uuid, no_uuid, 16) == 0) {
        return -ENOSPC;
    }
    pthread_mutex_lock(&machine->lock);
    int rc = number_locked(machine, device->uuid, device->ordinal, out);
    pthread_mutex_unlock(&machine->lock);
    return rc;
}

void gm_gpu_uuid_of(struct gm_machine *machine, unsigned index, uint8_t out[16])
{
    memset(out, 0, 16);
    if (index < GM_GPUS_MAX) {
        pthread_mutex_lock(&machine->lock);
        memcpy(out, machine->state->gpu_uuid[index], 16);
        pthread_mutex_unlock(&machine->lock);
    }
}

bool gm_gpu_is_known(struct gm_machine *machine, uint64_t index)
{
    uint8_t uuid[16];
    gm_gpu_uuid_of(machine, index < GM_GPUS_MAX ? (unsigned)index : GM_GPUS_MAX, uuid);
    return memcmp(uuid, no_uuid, 16) != 0;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found = c != '\0' ? strchr(digits, c) : NULL;
    return found != NULL ? (int)(found - digits) : -1;
}

/* "GPU-" and 32 hexadecimal digits with dashes anywhere between bytes. */
static int parse_uuid(const char *text, uint8_t out[16])
{
    uint8_t uuid[16];
    if (strncmp(text, "GPU-", 4) != 0) {
        return -EINVAL;
    }
    text += 4;
    for (unsigned i = 0; i < 16; i++) {
        text += *text == '-';
        int high = hex_digit(text[0]);
        int low = high >= 0 ? hex_digit(text[1]) : -1;
        if (low < 0) {
            return -EINVAL;
        }
        uuid[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    memcpy(out, uuid, 16);
    return 0;
}

/* The uuid in a file "information" of the driver. -ENOENT. */
static int read_uuid(const char *directory, const char *bus, uint8_t out[16])
{
    char path[512];
    char line[256];
    int rc = -ENOENT;
    snprintf(path, sizeof path, "%s/%s/information", directory, bus);
    FILE *file = fopen(path, "re");
    while (file != NULL && rc < 0 && fgets(line, sizeof line, file) != NULL) {
        const char *value = strncmp(line, "GPU UUID:", 9) == 0 ? line + 9 + strspn(line + 9, " \t") : NULL;
        rc = value != NULL ? parse_uuid(value, out) : -ENOENT;
    }
    if (file != NULL) {
        fclose(file);
    }
    return rc;
}

void gm_gpus_number(struct gm_machine *machine, const char *directory)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, alphasort);
    unsigned wished = 0;
    for (int i = 0; i < count; i++) {
        uint8_t uuid[16];
        unsigned index;
        if (entries[i]->d_name[0] != '.' && read_uuid(directory, entries[i]->d_name, uuid) == 0) {
            pthread_mutex_lock(&machine->lock);
            number_locked(machine, uuid, wished++, &index);
            pthread_mutex_unlock(&machine->lock);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
}

/* ---- figures -------------------------------------------------------------------------------------------------- */

/* The place of @index in @gpus, made if it is new. There is room: numbers end at GM_GPUS_MAX. */
static struct gm_gpu *place_of(struct gm_gpus *gpus, unsigned index)
{
    unsigned at = 0;
    while (at < gpus->count && gpus->gpu[at].index < index) {
        at++;
    }
    if (at == gpus->count || gpus->gpu[at].index != index) {
        memmove(gpus->gpu + at + 1, gpus->gpu + at, (gpus->count - at) * sizeof gpus->gpu[0]);
        gpus->gpu[at] = (struct gm_gpu){.index = index};
        gpus->count++;
    }
    return &gpus->gpu[at];
}

void gm_gpus_add(struct gm_machine *machine, struct gm_gpus *gpus, const struct gm_snapshot *snapshot)
{
    for (unsigned i = 0; i < snapshot->device_count; i++) {
        const struct gm_device *device = &snapshot->device[i];
        unsigned index;
        if (gm_gpu_index(machine, device, &index) < 0) {
            continue;
        }
        struct gm_gpu *gpu = place_of(gpus, index);
        memcpy(gpu->uuid, device->uuid, 16);
        gpu->capacity = device->capacity > gpu->capacity ? device->capacity : gpu->capacity;
        gpu->processes++;
        gm_stats_add(gpu->stat, device->stat);
    }
}

void gm_gpus_read(struct gm_machine *machine, struct gm_gpus *out)
{
    struct gm_process *process;
    out->count = 0;
    for (pid_t pid = 0; (process = gm_machine_next(machine, pid)) != NULL;) {
        struct gm_reading reading;
        pid = process->identity.pid;
        gm_process_read(process, &reading);
        gm_process_release(process);
        gm_gpus_add(machine, out, &reading.snapshot);
    }
}

void gm_gpus_notice(struct gm_machine *machine)
{
    struct gm_gpus gpus;
    gm_gpus_read(machine, &gpus);
}

const struct gm_gpu *gm_gpus_find(const struct gm_gpus *gpus, unsigned index)
{
    for (unsigned i = 0; i < gpus->count; i++) {
        if (gpus->gpu[i].index == index) {
            return &gpus->gpu[i];
        }
    }
    return NULL;
}

void gm_gpu_uuid(struct gm_text *out, const uint8_t uuid[16])
{
    gm_text_add(out, "GPU-");
    for (unsigned i = 0; i < 16; i++) {
        gm_text_add(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
}
