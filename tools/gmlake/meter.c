/*
 * meter.c - the counting wrappers.
 *
 * A row of symbols.def without a wrapper here does not compile.
 */
#include "meter.h"

#include "monotonic.h"

#include <string.h>

struct gm_meter gm_meter;

/* The part of a pair of clock readings that lies outside the time between them, nanoseconds: the meter's own cost. */
static uint64_t blind_ns;

static void calibrate(void)
{
    enum { PAIRS = 4096 };
    uint64_t seen = 0;
    uint64_t first = gm_monotonic_ns();
    for (int i = 0; i < PAIRS; i++) {
        uint64_t start = gm_monotonic_ns();
        seen += gm_monotonic_ns() - start;
    }
    uint64_t all = gm_monotonic_ns() - first;
    blind_ns = all > seen ? (all - seen) / PAIRS : 0;
}

struct watch {
    uint64_t wall_ns;
    uint64_t driver_ns;
};

static struct watch begin(void)
{
    struct watch watch = {.wall_ns = gm_monotonic_ns()};
    if (gm_meter.advance_to_ns != NULL) {
        gm_meter.advance_to_ns(gm_meter.trace_ns);
    }
    watch.driver_ns = gm_meter.driver.now_ns();
    return watch;
}

static void end(struct watch watch, enum gm_meter_call call)
{
    uint64_t ns = gm_meter.driver.now_ns() - watch.driver_ns;
    gm_meter.calls++;
    gm_meter.memory_calls += strncmp(gm_meter.rows[call].name, "cuMem", 5) == 0;
    gm_meter.driver_ns += ns;
    gm_meter.rows[call].calls++;
    gm_meter.rows[call].ns += ns;
}

/* A wrapper: forwards, times, and on success tells the ledger what has changed (@effect). */
#define METERED(field, parameters, arguments, effect)                                                                  \
    static CUresult CUDAAPI metered_##field parameters                                                                 \
    {                                                                                                                  \
        struct watch watch = begin();                                                                                  \
        CUresult result = gm_meter.driver.field arguments;                                                             \
        end(watch, GM_METER_##field);                                                                                  \
        if (result == CUDA_SUCCESS) {                                                                                  \
            effect;                                                                                                    \
        }                                                                                                              \
        gm_meter.wall_ns += gm_monotonic_ns() - watch.wall_ns + blind_ns;                                              \
        return result;                                                                                                 \
    }

#define LEDGER  (&gm_meter.ledger)
#define NOTHING (void)0

/* clang-format off */
METERED(init, (unsigned int flags), (flags), NOTHING)
METERED(device_get_count, (int *count), (count), NOTHING)
METERED(device_get, (CUdevice *device, int ordinal), (device, ordinal), NOTHING)
METERED(device_get_attribute, (int *value, CUdevice_attribute attribute, CUdevice device),
        (value, attribute, device), NOTHING)
METERED(device_get_uuid, (CUuuid *uuid, CUdevice device), (uuid, device), NOTHING)
METERED(device_total_mem, (size_t *bytes, CUdevice device), (bytes, device), NOTHING)
METERED(primary_ctx_retain, (CUcontext *context, CUdevice device), (context, device), NOTHING)
METERED(ctx_get_current, (CUcontext *context), (context), NOTHING)
METERED(ctx_get_device, (CUdevice *device), (device), NOTHING)
METERED(ctx_push_current, (CUcontext context), (context), NOTHING)
METERED(ctx_pop_current, (CUcontext *context), (context), NOTHING)
METERED(ctx_synchronize, (void), (), NOTHING)
METERED(mem_get_info, (size_t *free_bytes, size_t *total_bytes), (free_bytes, total_bytes), NOTHING)
METERED(mem_alloc, (CUdeviceptr *out, size_t bytes), (out, bytes), gm_ledger_allocated(LEDGER, *out, bytes))
METERED(mem_free, (CUdeviceptr address), (address), if (address != 0) { gm_ledger_freed(LEDGER, address); })
METERED(mem_get_address_range, (CUdeviceptr *base, size_t *size, CUdeviceptr address), (base, size, address), NOTHING)
METERED(mem_address_reserve,
        (CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags),
        (out, size, alignment, wanted, flags), gm_ledger_reserved(LEDGER, size))
METERED(mem_address_free, (CUdeviceptr address, size_t size), (address, size), gm_ledger_unreserved(LEDGER, size))
METERED(mem_create,
        (CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *properties,
         unsigned long long flags),
        (out, size, properties, flags), gm_ledger_created(LEDGER, *out, size))
METERED(mem_release, (CUmemGenericAllocationHandle handle), (handle), gm_ledger_released(LEDGER, handle))
METERED(mem_map,
        (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
         unsigned long long flags),
        (address, size, offset, handle, flags), gm_ledger_mapped(LEDGER, address, size, handle))
METERED(mem_unmap, (CUdeviceptr address, size_t size), (address, size), gm_ledger_unmapped(LEDGER, address, size))
METERED(mem_set_access, (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count),
        (address, size, access, count), NOTHING)
METERED(mem_get_allocation_granularity,
        (size_t *granularity, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option),
        (granularity, properties, option), NOTHING)
METERED(event_create, (CUevent *event, unsigned int flags), (event, flags), NOTHING)
METERED(event_destroy, (CUevent event), (event), NOTHING)
METERED(event_record, (CUevent event, CUstream stream), (event, stream), NOTHING)
METERED(event_query, (CUevent event), (event), NOTHING)
METERED(event_synchronize, (CUevent event), (event), NOTHING)
METERED(stream_wait_event, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags), NOTHING)
METERED(stream_is_capturing, (CUstream stream, CUstreamCaptureStatus *status), (stream, status), NOTHING)
METERED(thread_exchange_capture_mode, (CUstreamCaptureMode *mode), (mode), NOTHING)
/* clang-format on */

/* Reading the clock is the core's own business, not a driver call; it must only see the trace's time. */
static uint64_t metered_now_ns(void)
{
    if (gm_meter.advance_to_ns == NULL) {
        return gm_meter.driver.now_ns();
    }
    uint64_t start = gm_monotonic_ns();
    gm_meter.advance_to_ns(gm_meter.trace_ns);
    uint64_t now = gm_meter.driver.now_ns();
    gm_meter.wall_ns += gm_monotonic_ns() - start + blind_ns;
    return now;
}

void gm_meter_start(const struct gm_cu *driver, void (*advance_to_ns)(uint64_t ns))
{
    memset(&gm_meter, 0, sizeof gm_meter);
    calibrate();
    gm_meter.driver = *driver;
    gm_meter.advance_to_ns = advance_to_ns;
#define GM_CU_SYMBOL(need, field, exported, parameters)                                                                \
    gm_meter.table.field = driver->field != NULL ? metered_##field : NULL;                                             \
    gm_meter.rows[GM_METER_##field].name = exported;
#include <symbols.def>
#undef GM_CU_SYMBOL
    gm_meter.table.now_ns = metered_now_ns;
    gm_cu_use(&gm_meter.table);
}

void gm_meter_stop(void)
{
    gm_cu_use(NULL);
    gm_ledger_finish(&gm_meter.ledger);
}
