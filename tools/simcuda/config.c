/*
 * config.c - reads the environment of config.h.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the H200's driver reports as the total of the device: 143771 MiB less what the driver keeps for itself. */
#define DEFAULT_MEMORY (143156ull << 20)
#define MIN_MEMORY     (2ull << 20)

struct sim_config sim_config;

static void complain(const char *name, const char *text, const char *wanted)
{
    fprintf(stderr, "simcuda: %s=%s is not understood (wanted: %s); using the default\n", name, text, wanted);
}

/* Reads a number and at most one of K M G T; false: not one, or too large. */
static bool parse_size(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || errno != 0 || *text == '-') {
        return false;
    }
    static const char suffixes[] = "KMGT";
    const char *suffix = *end != '\0' ? strchr(suffixes, *end & ~0x20) : NULL;
    unsigned shift = suffix == NULL ? 0 : 10 * (unsigned)(suffix - suffixes + 1);
    if (end[suffix != NULL] != '\0' || value > UINT64_MAX >> shift) {
        return false;
    }
    *out = (uint64_t)value << shift;
    return true;
}

static void read_size(const char *name, uint64_t least, uint64_t most, uint64_t *out, const char *wanted)
{
    const char *text = getenv(name);
    uint64_t value;
    if (text == NULL) {
        return;
    }
    if (!parse_size(text, &value) || value < least || value > most) {
        complain(name, text, wanted);
        return;
    }
    *out = value;
}

static void read_flag(const char *name, bool *out)
{
    uint64_t value = *out;
    read_size(name, 0, 1, &value, "0 or 1");
    *out = value != 0;
}

static void read_cost(void)
{
    const char *text = getenv("SIMCUDA_COST");
    if (text == NULL) {
        return;
    }
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value <= 1e6)) {
        complain("SIMCUDA_COST", text, "a number from 0 to 1000000");
        return;
    }
    sim_config.cost = value;
}

static void read_delay(void)
{
    const char *text = getenv("SIMCUDA_STREAM_DELAY_US");
    if (text == NULL) {
        return;
    }
    unsigned long long low;
    unsigned long long high;
    char rest;
    int fields = sscanf(text, "%llu-%llu%c", &low, &high, &rest);
    if (fields == 1 && text[strspn(text, "0123456789")] == '\0') {
        high = low;
    } else if (fields != 2 || low > high) {
        complain("SIMCUDA_STREAM_DELAY_US", text, "microseconds, or LO-HI");
        return;
    }
    if (high > UINT32_MAX) {
        complain("SIMCUDA_STREAM_DELAY_US", text, "at most 4294967295");
        return;
    }
    sim_config.delay_low_ns = low * 1000;
    sim_config.delay_high_ns = high * 1000;
}

void sim_config_read(void)
{
    uint64_t devices = 1;
    sim_config = (struct sim_config){.memory = DEFAULT_MEMORY,
                                     .cost = 1,
                                     .backing = true,
                                     .vmm = true,
                                     .leaks = true,
                                     .fail = getenv("SIMCUDA_FAIL"),
                                     .log = getenv("SIMCUDA_LOG")};
    read_size("SIMCUDA_MEMORY", MIN_MEMORY, 1ull << 46, &sim_config.memory, "2M to 64T");
    read_size("SIMCUDA_DEVICES", 1, SIM_MAX_DEVICES, &devices, "1 to 16");
    sim_config.devices = (int)devices;
    read_flag("SIMCUDA_BACKING", &sim_config.backing);
    read_flag("SIMCUDA_VMM", &sim_config.vmm);
    read_flag("SIMCUDA_LEAKS", &sim_config.leaks);
    read_cost();
    read_delay();
}
