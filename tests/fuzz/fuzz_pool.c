/*
 * fuzz_pool.c - any sequence of operations on an allocator over the simulated driver: allocations, frees good and bad,
 * trims, tunables, failing driver calls. Every invariant holds in the end, live blocks keep their marks, and nothing is
 * left on the device.
 *
 * FORMAT  Three bytes an operation: what, and a 16-bit operand.
 */
#include "cu.h"
#include "fuzz.h"
#include "simcuda.h"

#include <dlfcn.h>
#include <gmlake/gmlake.h>
#include <inttypes.h>
#include <string.h>

#define SLOTS      32u
#define OPERATIONS 400u
#define STREAMS    3u

static struct gm_cu cu;
static struct {
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*set_current)(CUcontext context);
    CUresult (*stream_create)(CUstream *stream, unsigned flags);
    int (*query_device)(int ordinal, struct simcuda_device *out);
    void (*fail)(const char *name, unsigned nth, int code);
    unsigned (*violations)(void);
} sim;
static CUstream streams[STREAMS];

struct slot {
    gmlake_ptr address;
    uint64_t bytes;
    unsigned char mark;
};

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);
    FUZZ_EXPECT(address != NULL);
    return address;
}

#define TAKE(field, name)                                                                                              \
    do {                                                                                                               \
        void *address_ = symbol(library, name);                                                                        \
        memcpy(&sim.field, &address_, sizeof address_);                                                                \
    } while (0)

/* Loads the driver once, with a device of 64 MiB. */
static void set_up(void)
{
    setenv("SIMCUDA_MEMORY", "64M", 1);
    setenv("SIMCUDA_STREAM_DELAY_US", "0-200", 1);
    FUZZ_EXPECT(gm_cu_load("libcuda.so.1", &cu) == 0);
    gm_cu_use(&cu);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    TAKE(retain, "cuDevicePrimaryCtxRetain");
    TAKE(set_current, "cuCtxSetCurrent");
    TAKE(stream_create, "cuStreamCreate");
    TAKE(query_device, "simcuda_query_device");
    TAKE(fail, "simcuda_fail");
    TAKE(violations, "simcuda_violations");
    CUcontext context;
    FUZZ_EXPECT(cu.init(0) == CUDA_SUCCESS && sim.retain(&context, 0) == CUDA_SUCCESS);
    FUZZ_EXPECT(sim.set_current(context) == CUDA_SUCCESS);
    for (unsigned i = 1; i < STREAMS; i++) {
        FUZZ_EXPECT(sim.stream_create(&streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }
}

static void mark(const struct slot *slot)
{
    *(volatile unsigned char *)(uintptr_t)slot->address = slot->mark;
    *(volatile unsigned char *)(uintptr_t)(slot->address + slot->bytes - 1) = slot->mark;
}

static void expect_mark(const struct slot *slot)
{
    FUZZ_EXPECT(*(const volatile unsigned char *)(uintptr_t)slot->address == slot->mark);
    FUZZ_EXPECT(*(const volatile unsigned char *)(uintptr_t)(slot->address + slot->bytes - 1) == slot->mark);
}

/* A size from the operand: its low bits choose the octave, the others the place in it. */
static uint64_t size_of(unsigned operand)
{
    unsigned shift = operand % 27;
    return ((uint64_t)1 << shift) + ((uint64_t)operand << shift) / 65536;
}

static void allocate_or_free(struct gmlake *lake, struct slot *slot, unsigned what, unsigned operand)
{
    if (slot->address != 0) {
        expect_mark(slot);
        int rc = what & 64 ? gmlake_free_sync(lake, slot->address)
                           : gmlake_free(lake, slot->address, streams[operand % STREAMS]);
        FUZZ_EXPECT(rc == 0);
        slot->address = 0;
        return;
    }
    uint64_t bytes = size_of(operand);
    gmlake_ptr address;
    if (gmlake_alloc(lake, bytes, streams[what % STREAMS], &address) == 0) {
        FUZZ_EXPECT(address != 0 && address % GMLAKE_ALIGNMENT == 0);
        *slot = (struct slot){address, bytes, (unsigned char)(operand ^ what)};
        mark(slot);
    }
}

static void set_tunable(unsigned which, unsigned operand)
{
    static const char *const names[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) #name,
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
    };
    char text[32];
    const char *name = names[1 + which % (GMLAKE_TUNABLE_COUNT - 1)]; /* not enabled: marks are for the pool's blocks */
    snprintf(text, sizeof text, "%" PRIu64, size_of(operand));
    (void)gmlake_set_tunable(name, operand % 5 == 0 ? "default" : text); /* out of range is refused */
}

static void operate(struct gmlake *lake, struct slot *slots, const uint8_t *at)
{
    unsigned what = at[0];
    unsigned operand = (unsigned)at[1] | (unsigned)at[2] << 8;
    switch (what % 32) {
    case 0:
        (void)gmlake_trim(lake, size_of(operand), NULL);
        break;
    case 1:
        set_tunable(what / 32, operand);
        break;
    case 2:
        sim.fail(NULL, 1 + operand % 64, operand & 64 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN);
        break;
    case 3:
        FUZZ_EXPECT(gmlake_free(lake, slots[operand % SLOTS].address + 1 + operand % 500, NULL) != 0);
        break;
    case 4:
        FUZZ_EXPECT(gmlake_check(lake) == 0);
        break;
    default:
        allocate_or_free(lake, &slots[what % SLOTS], what, operand);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (cu.init == NULL) {
        set_up();
    }
    struct gmlake *lake;
    struct slot slots[SLOTS] = {{0}};
    FUZZ_EXPECT(gmlake_create(0, &lake) == 0);
    for (size_t i = 0; i + 3 <= size && i < 3 * OPERATIONS; i += 3) {
        operate(lake, slots, data + i);
    }
    sim.fail(NULL, 0, 0);
    FUZZ_EXPECT(gmlake_check(lake) == 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].address != 0) {
            expect_mark(&slots[i]);
        }
    }
    gmlake_destroy(lake);
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        set_tunable(i, 0);
    }
    struct simcuda_device held;
    FUZZ_EXPECT(sim.query_device(0, &held) == 0);
    FUZZ_EXPECT(held.in_use == 0 && held.mappings == 0 && held.va_bytes == 0 && sim.violations() == 0);
    return 0;
}
