/*
 * faults.c - the list of faults to come.
 */
#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAULTS 32
#define MAX_NAME   64

static struct fault {
    char name[MAX_NAME]; /* "*": any that can fail */
    unsigned left;       /* the call that makes this 0 fails */
    CUresult code;
} faults[MAX_FAULTS];

static size_t fault_count;

static void forget(size_t i)
{
    faults[i] = faults[--fault_count];
}

void sim_fault_set(const char *name, unsigned nth, CUresult code)
{
    const char *wanted = name == NULL ? "*" : name;
    if (nth == 0) {
        for (size_t i = fault_count; i > 0; i--) {
            if (strcmp(faults[i - 1].name, wanted) == 0) {
                forget(i - 1);
            }
        }
    } else if (fault_count < MAX_FAULTS && strlen(wanted) < MAX_NAME) {
        struct fault *fault = &faults[fault_count++];
        snprintf(fault->name, MAX_NAME, "%s", wanted);
        fault->left = nth;
        fault->code = code;
    } else {
        fprintf(stderr, "simcuda: a fault for %s is not set: at most %d of them\n", wanted, MAX_FAULTS);
    }
}

void sim_fault_parse(const char *text)
{
    while (*text != '\0') {
        char name[MAX_NAME];
        unsigned nth;
        int code;
        int length = 0;
        if (sscanf(text, "%63[^:,]:%u:%d%n", name, &nth, &code, &length) != 3 || nth == 0 ||
            (text[length] != '\0' && text[length] != ',')) {
            fprintf(stderr, "simcuda: SIMCUDA_FAIL: \"%s\" is not NAME:N:CODE[,...] and is ignored\n", text);
            return;
        }
        sim_fault_set(name, nth, (CUresult)code);
        text += length + (text[length] == ',');
    }
}

static bool matches(const struct fault *fault, const struct sim_row *row)
{
    if (strcmp(fault->name, "*") == 0) {
        return (row->traits & (SIM_EARLY | SIM_UNDO)) == 0;
    }
    return strcmp(fault->name, row->symbol) == 0 || strcmp(fault->name, row->base) == 0;
}

CUresult sim_fault_check(enum sim_function function)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = fault_count; i > 0; i--) {
        struct fault *fault = &faults[i - 1];
        if (matches(fault, &sim_rows[function]) && --fault->left == 0) {
            result = fault->code;
            forget(i - 1);
        }
    }
    return result;
}
