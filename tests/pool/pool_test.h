/*
 * pool_test.h - fixture of the allocator's tests: an allocator on the simulated driver, in a child process of its own.
 *
 * STRUCTURE    Tests are bodies run by sim_run() (sim.h), each with a device of the size it needs: small ones, so that
 *              a few blocks fill them. In a body, MIB and PAGE are sizes, and after each step check_all() may be
 *              called. end() destroys the allocator and expects the device empty.
 */
#ifndef GM_POOL_TEST_H
#define GM_POOL_TEST_H

#include "sim.h"

#include <gmlake/gmlake.h>

#define KIB ((size_t)1 << 10)

static struct gmlake *lake;

/* cuInit, a context, an allocator. */
static inline void begin(void)
{
    sim_start();
    check_number(0, gmlake_create(0, &lake));
}

static inline void check_all(void)
{
    check_number(0, gmlake_check(lake));
    check_number(0, sim.violations());
}

static inline void end(void)
{
    check_all();
    gmlake_destroy(lake);
    struct simcuda_device device = sim_device(0);
    check_number(0, device.in_use);
    check_number(0, device.handles);
    check_number(0, device.mappings);
    check_number(0, device.va_bytes);
    check_number(0, sim.violations());
}

static inline gmlake_ptr take_on(size_t bytes, CUstream stream)
{
    gmlake_ptr address = 0;
    check_number(0, gmlake_alloc(lake, bytes, stream, &address));
    check(address != 0 && address % GMLAKE_ALIGNMENT == 0);
    return address;
}

static inline gmlake_ptr take(size_t bytes)
{
    return take_on(bytes, NULL);
}

/* The allocation is refused with @error, and its output untouched. */
static inline void expect_refused_on(int error, size_t bytes, CUstream stream)
{
    gmlake_ptr address = 0x5eed;
    check_number(-error, gmlake_alloc(lake, bytes, stream, &address));
    check_number(0x5eed, address);
}

static inline void expect_refused(int error, size_t bytes)
{
    expect_refused_on(error, bytes, NULL);
}

static inline void give_on(gmlake_ptr address, CUstream stream)
{
    check_number(0, gmlake_free(lake, address, stream));
}

static inline void give(gmlake_ptr address)
{
    give_on(address, NULL);
}

static inline struct gmlake_stats stats(void)
{
    struct gmlake_stats out = {.size = sizeof out};
    check_number(0, gmlake_get_stats(lake, &out));
    return out;
}

static inline void set(const char *name, const char *value)
{
    check_number(0, gmlake_set_tunable(name, value));
}

/* Queues work on @stream that writes to both ends of the block when it runs. */
static inline void use(gmlake_ptr address, size_t bytes, unsigned char value, CUstream stream)
{
    size_t end = bytes < 4 * KIB ? bytes : 4 * KIB;
    works(sim.cuMemsetD8Async(address, value, end, stream));
    works(sim.cuMemsetD8Async(address + bytes - end, value, end, stream));
}

/* Writes to both ends of the block now. */
static inline void mark(gmlake_ptr address, size_t bytes, unsigned char value)
{
    size_t end = bytes < 4 * KIB ? bytes : 4 * KIB;
    memset((void *)(uintptr_t)address, value, end);
    memset((void *)(uintptr_t)(address + bytes - end), value, end);
}

static inline unsigned char byte_at(gmlake_ptr address)
{
    return *(const volatile unsigned char *)(uintptr_t)address;
}

static inline void let_time_pass(uint64_t us)
{
    sim.advance_to_ns(sim.now_ns() + us * 1000);
}

#endif
