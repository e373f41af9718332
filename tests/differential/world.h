/*
 * world.h - the objects that a random program of driver calls has made, and the form in which it writes down answers.
 *
 * STRUCTURE    Objects stand in slots and are named by them, never by address or handle, so two runs of one program
 *              under different drivers say the same where they hear the same. Every step draws from numbers of its
 *              own, which depend on the seed and its position alone: leaving steps out does not change the others.
 *              Lines that begin with "~" hold what may differ by a relation (relations.def), all others must be equal.
 */
#ifndef WORLD_H
#define WORLD_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKS    96
#define STREAMS   10
#define CONTEXTS  5 /* the first DEVICES are the primary ones */
#define POOLS     6
#define EVENTS    8
#define DEVICES   2
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define KIB       ((size_t)1 << 10)
#define MIB       ((size_t)1 << 20)
#define PAGE      (2 * MIB)

/* The driver's functions by exported name: [0] as they are, [1] their _ptsz or _ptds forms, where there are such. */
struct driver {
#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...) CUresult(CUDAAPI *symbol) parameters;
#include "exports.def"
#undef SIM_FUNCTION
};
extern struct driver cu[2];

/* Calls the driver's function with the arguments and counts the call. */
#define CALL(...)                      CALL_FORM(0, __VA_ARGS__)
#define CALL_FORM(form, function, ...) (world.calls++, cu[form].function(__VA_ARGS__))

enum kind {
    ABSENT,
    PLAIN,   /* cuMemAlloc, cuMemAllocPitch */
    ORDERED, /* from a pool, on a stream */
    GRAPH,   /* allocated by a captured stream */
    HOST,    /* page-locked */
    MAPPED   /* the program's own virtual memory */
};
#define ANY_OF(kind)  (1u << (kind))
#define ANY_ALLOCATED (ANY_OF(PLAIN) | ANY_OF(ORDERED))
#define ANY_DEVICE    (ANY_ALLOCATED | ANY_OF(MAPPED))
#define ANY_BLOCK     (ANY_DEVICE | ANY_OF(HOST))

/* A stream as a program names it: a slot, or one of the default streams of a context. */
enum { STREAM_LEGACY = -1, STREAM_OWN = -2 };
struct place {
    int stream;  /* slot, STREAM_LEGACY or STREAM_OWN (the thread's own default stream) */
    int context; /* slot */
};

/* Invariant: bytes [0, written) hold what earlier work of @owner put there; nobody else has work on the block. */
struct block {
    enum kind kind;
    CUdeviceptr address;
    size_t bytes;
    int device;
    int context; /* PLAIN, HOST: the slot of the context it belongs to */
    struct place owner;
    size_t written;
    CUmemGenericAllocationHandle chunk; /* MAPPED */
};

struct world {
    uint64_t seed;
    uint64_t draws; /* state of the step's random numbers */
    unsigned long calls;
    unsigned (*misuses)(void);   /* what the simulated driver has reported; NULL: another driver */
    unsigned excused;            /* of those, in calls of which it may report more or less under the library */
    uint64_t capacity;           /* of each device */
    bool tight;                  /* the devices are small: allocations may fail */
    bool delayed;                /* streams run late */
    unsigned devices;            /* 1: one device, and one context for all of the run; or DEVICES */
    int current;                 /* slot of the current context; -1: none */
    bool peaks_shifted[DEVICES]; /* highs of the device's pools are not comparable any more */
    struct block blocks[BLOCKS];
    struct {
        CUcontext handle; /* NULL: absent */
        int device;
    } contexts[CONTEXTS];
    struct {
        CUstream handle; /* NULL: absent */
        int context;
        bool blocking;
    } streams[STREAMS];
    struct {
        CUevent handle;
        int context;
    } events[EVENTS];
    struct {
        CUmemoryPool handle;
        int device;
    } pools[POOLS];
    CUmemoryPool default_pools[DEVICES];
};
extern struct world world;

/* --- random numbers of the step ----------------------------------------------------------------------------------- */

/* Below @below, which is not 0. */
uint64_t draw(uint64_t below);
bool chance(unsigned percent);

/* A size for a block: mostly small, all magnitudes. */
size_t draw_size(void);

/* Slots, searched from a random one on; -1: there is none. */
int pick_block(unsigned kinds);
int pick_free_block(void);
int pick_stream(void);
int pick_context(void);
int pick_pool(void);
int pick_event(void);

/* A place where work of the current context's device may go: now and then a default stream. */
struct place pick_place(void);

/* --- writing down ------------------------------------------------------------------------------------------------- */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A value that may differ as @relation of relations.def allows. */
void say_related(const char *relation, unsigned long long value);

/* Handles and numbers by the names of their objects. */
const char *name_of_context(CUcontext handle);
const char *name_of_pool(CUmemoryPool handle);

/* What an identity is one of: the simulated driver counts chunks apart. */
enum identity { BUFFERS, ALLOCATIONS, CHUNKS, IDENTITIES };

/* The serial at which this identity was first heard: equal for equal ids, whatever the ids are. */
unsigned long class_of_id(enum identity kind, unsigned long long id);

/* --- streams and contexts ----------------------------------------------------------------------------------------- */

/* The handle of a place, its context current; *form gets 1 for the per-thread form of the call. */
CUstream handle_of(struct place place, int *form);

/* Makes the place's context current meanwhile; false: it cannot be. */
bool enter_place(struct place place);
void leave_place(void);

/* Misuses so far. */
unsigned count_misuses(void);

/* Waits for all work at the place; says so only when it fails. */
void settle(struct place place);

/* Says, before an allocation, how full the device will be with it, in percent of its memory. */
void say_fill(int device, size_t bytes);

/* The expected result of the allocation at hand, when the driver alone had no room; set by main. */
bool allocation_must_fail(void);

/*
 * Takes note of an allocation's result: true, it stands. One that the driver alone refused is undone here. The address
 * is passed by reference: the call that sets it stands beside it.
 */
bool allocation_stands(CUresult rc, const CUdeviceptr *address);

#endif
