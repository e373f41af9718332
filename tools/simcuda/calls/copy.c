/*
 * copy.c - cuMemcpy* and cuMemset*.
 *
 * One description serves them all: rows of bytes from one place to another, or a value repeated. It is checked when it
 * is queued, so that misuse is told to the caller, and again when it runs, so that memory which went away meanwhile is.
 */
#include "entry.h"

#include "capture.h"
#include "config.h"
#include "context.h"
#include "pool.h"
#include "report.h"
#include "space.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

static void *bytes_at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static uint64_t address_of(const void *host)
{
    return (uint64_t)(uintptr_t)host;
}

/* Bytes from the first to the last that @height rows touch. */
static uint64_t extent(size_t width, size_t height, size_t pitch)
{
    return width == 0 || height == 0 ? 0 : (uint64_t)(height - 1) * pitch + width;
}

static bool pageable(uint64_t address)
{
    return sim_space_find(address) == NULL;
}

/* ---- running ---- */

static void fill_row(unsigned char *to, const struct sim_copy *copy)
{
    if (copy->unit == 1) {
        memset(to, (int)copy->value, copy->width);
        return;
    }
    for (size_t i = 0; i < copy->width; i += copy->unit) {
        memcpy(to + i, &copy->value, copy->unit);
    }
}

static const char *refusal(const struct sim_op *op, bool late)
{
    const struct sim_device *device = op->stream->context->device;
    for (int i = 0; i < 2; i++) {
        const struct sim_touch *touch = &op->touches[i];
        /* A block of a pool may have been freed, or given out again, in the stream's order: its segment must be there.
         */
        bool pooled = late && touch->size != 0 && sim_pool_step(touch->address, touch->size) != 0;
        const char *why =
            touch->size == 0 || pooled ? NULL : sim_space_refuses(touch->address, touch->size, device, i == 0, late);
        if (why != NULL) {
            sim_report("%s %#llx, %llu bytes%s: %s", i == 0 ? "write to" : "read of", (ull)touch->address,
                       (ull)touch->size, late ? ", when the stream came to it" : "", why);
            return why;
        }
    }
    return NULL;
}

static void move_rows(const struct sim_copy *copy)
{
    const unsigned char *from = copy->staged != NULL ? copy->staged : bytes_at(copy->from);
    unsigned char *to = bytes_at(copy->to);
    for (size_t row = 0; row < copy->height; row++) {
        if (copy->unit != 0) {
            fill_row(to + row * copy->to_pitch, copy);
        } else {
            memmove(to + row * copy->to_pitch, from + row * copy->from_pitch, copy->width);
        }
    }
}

static void run_copy(struct sim_op *op)
{
    if (refusal(op, true) != NULL) {
        op->stream->context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    } else if (sim_config.backing) {
        move_rows(&op->copy);
    }
}

/* ---- queueing ---- */

static CUresult stage(struct sim_copy *copy)
{
    uint64_t size = extent(copy->width, copy->height, copy->from_pitch);
    copy->staged = malloc(size > 0 ? size : 1);
    if (copy->staged == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy->staged, bytes_at(copy->from), size);
    return CUDA_SUCCESS;
}

/* The memory that the driver knows is watched; pageable host memory is the program's own business. */
static void note_touches(struct sim_op *op)
{
    const struct sim_copy *copy = &op->copy;
    if (!pageable(copy->to)) {
        op->touches[0] = (struct sim_touch){copy->to, extent(copy->width, copy->height, copy->to_pitch)};
    }
    if (copy->unit == 0 && !pageable(copy->from)) {
        op->touches[1] = (struct sim_touch){copy->from, extent(copy->width, copy->height, copy->from_pitch)};
    }
}

/*
 * Queues the copy on @stream. @wait: the call returns when it is done, as it also does, whatever the call, when bytes
 * go to pageable host memory; bytes that come from there are taken before the call returns.
 */
static CUresult queue(const struct sim_copy *copy, CUstream stream, bool wait)
{
    struct sim_stream *on;
    CUresult result = sim_stream_find(stream, &on);
    if (result != CUDA_SUCCESS || copy->width == 0 || copy->height == 0) {
        return result;
    }
    if (copy->to == 0 || (copy->unit == 0 && copy->from == 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op *op = sim_op_new();
    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->copy = *copy;
    op->run = run_copy;
    op->stream = on;
    note_touches(op);
    if (refusal(op, false) != NULL) {
        sim_op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool host_only = pageable(copy->to) && copy->unit == 0;
    bool staged = !wait && on->capture == NULL && sim_config.backing && copy->unit == 0 && pageable(copy->from);
    if (staged && !host_only && stage(&op->copy) != CUDA_SUCCESS) {
        sim_op_drop(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = sim_capture_or_push(on, op);
    if (result != CUDA_SUCCESS || on->capture != NULL) {
        return result;
    }
    if (wait || host_only) {
        sim_stream_wait(on);
    }
    return on->context->error;
}

static CUresult copy_line(uint64_t to, uint64_t from, size_t bytes, CUstream stream, bool wait)
{
    struct sim_copy copy = {
        .to = to, .from = from, .width = bytes, .height = 1, .to_pitch = bytes, .from_pitch = bytes};
    return queue(&copy, stream, wait);
}

/* A copy between device places that waits for nothing: the call may return before it is done. */
static CUresult copy_on_device(uint64_t to, uint64_t from, size_t bytes)
{
    return copy_line(to, from, bytes, NULL, false);
}

/* Page-locked host memory has a device address too. */
static CUresult check_device_address(uint64_t address, size_t bytes)
{
    if (bytes > 0 && pageable(address)) {
        sim_report("%#llx: no device memory there", (ull)address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult fill(uint64_t to, uint32_t value, unsigned unit, size_t pitch, size_t width, size_t height,
                     CUstream stream)
{
    struct sim_copy copy = {
        .to = to, .value = value, .unit = unit, .width = width * unit, .height = height, .to_pitch = pitch};
    CUresult result = check_device_address(to, width * height);
    if (result != CUDA_SUCCESS || to % unit != 0 || (height > 1 && (pitch % unit != 0 || pitch < width * unit))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return queue(&copy, stream, false);
}

/* ---- the calls ---- */

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line(to, from, bytes, NULL, sim_space_is_host(to) || sim_space_is_host(from));
}

CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line(to, from, bytes, stream, false);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    CUresult result = check_device_address(to, bytes);
    return result != CUDA_SUCCESS ? result : copy_line(to, address_of(from), bytes, NULL, true);
}

CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    CUresult result = check_device_address(from, bytes);
    return result != CUDA_SUCCESS ? result : copy_line(address_of(to), from, bytes, NULL, true);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUresult result = check_device_address(to, bytes);
    result = result != CUDA_SUCCESS ? result : check_device_address(from, bytes);
    return result != CUDA_SUCCESS ? result : copy_on_device(to, from, bytes);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    CUresult result = check_device_address(to, bytes);
    return result != CUDA_SUCCESS ? result : copy_line(to, address_of(from), bytes, stream, false);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult result = check_device_address(from, bytes);
    return result != CUDA_SUCCESS ? result : copy_line(address_of(to), from, bytes, stream, false);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult result = check_device_address(to, bytes);
    result = result != CUDA_SUCCESS ? result : check_device_address(from, bytes);
    return result != CUDA_SUCCESS ? result : copy_line(to, from, bytes, stream, false);
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(to, value, 1, 0, count, 1, NULL);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill(to, value, 2, 0, count, 1, NULL);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return fill(to, value, 4, 0, count, 1, NULL);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(to, value, 1, 0, count, 1, stream);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return fill(to, value, 2, 0, count, 1, stream);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return fill(to, value, 4, 0, count, 1, stream);
}

/* ---- rows ---- */

/* One side of a two-dimensional copy: its first byte and its pitch. */
static CUresult read_side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch,
                          size_t width, size_t height, uint64_t *first, size_t *out_pitch)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    size_t step = pitch != 0 ? pitch : x + width;
    if ((height > 1 || y > 0) && step < x + width) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *first = (type == CU_MEMORYTYPE_HOST ? address_of(host) : device) + (uint64_t)y * step + x;
    *out_pitch = step;
    return type == CU_MEMORYTYPE_DEVICE ? check_device_address(*first, width * height) : CUDA_SUCCESS;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *wanted, CUstream stream, bool asynchronous)
{
    if (wanted == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_copy copy = {.width = wanted->WidthInBytes, .height = wanted->Height};
    CUresult result = read_side(wanted->dstMemoryType, wanted->dstHost, wanted->dstDevice, wanted->dstXInBytes,
                                wanted->dstY, wanted->dstPitch, copy.width, copy.height, &copy.to, &copy.to_pitch);
    if (result == CUDA_SUCCESS) {
        result = read_side(wanted->srcMemoryType, wanted->srcHost, wanted->srcDevice, wanted->srcXInBytes, wanted->srcY,
                           wanted->srcPitch, copy.width, copy.height, &copy.from, &copy.from_pitch);
    }
    bool wait = !asynchronous && (sim_space_is_host(copy.to) || sim_space_is_host(copy.from));
    return result != CUDA_SUCCESS ? result : queue(&copy, stream, wait);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, NULL, false);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return copy_rows(copy, NULL, false);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_rows(copy, stream, true);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return fill(to, value, 1, pitch, width, height, NULL);
}

CUresult sim_cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
    return fill(to, value, 2, pitch, width, height, NULL);
}

CUresult sim_cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return fill(to, value, 4, pitch, width, height, NULL);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                               CUstream stream)
{
    return fill(to, value, 1, pitch, width, height, stream);
}

CUresult sim_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                                CUstream stream)
{
    return fill(to, value, 2, pitch, width, height, stream);
}

CUresult sim_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                CUstream stream)
{
    return fill(to, value, 4, pitch, width, height, stream);
}
