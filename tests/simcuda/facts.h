/*
 * facts.h - what the parts of the fact program share: the driver's functions and the form of an answer.
 */
#ifndef SIM_FACTS_H
#define SIM_FACTS_H

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PAGE ((size_t)2 << 20)

struct facts_driver {
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) CUresult(CUDAAPI *symbol) parameters;
#include "exports.def"
#undef SIM_FUNCTION
};

/* The driver that is asked. */
extern struct facts_driver cu;

/* One answer: the result of a call. */
#define FACT(call) printf("%-92s %d\n", #call, (int)(cu.call))

/* One answer: a number. */
#define NUMBER(text, value) printf("%-92s %lld\n", text, (long long)(value))

static inline void facts_heading(const char *text)
{
    printf("\n# %s\n", text);
}

static inline CUmemAllocationProp facts_pinned(int ordinal)
{
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = ordinal;
    return properties;
}

static inline CUmemAccessDesc facts_open_for(CUmemAccess_flags flags)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = flags;
    return access;
}

/* The questions, by subject: facts_memory.c, facts_pointer.c, facts_capture.c. */
void facts_plain_memory(void);
void facts_memory_taken(void);
void facts_host_memory(void);
void facts_virtual_memory(void);
void facts_pooled_memory(void);
void facts_pointers(void);
void facts_capture(void);

#endif
