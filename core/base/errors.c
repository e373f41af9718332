/*
 * errors.c - from the driver's codes to errno and to words.
 */
#include "errors.h"

#include <errno.h>
#include <stddef.h>

static __thread int last_driver_code __attribute__((tls_model("initial-exec")));

/* The codes of <cuda.h> that have an errno of their own; all others are -EIO. */
static const struct {
    int driver_code;
    int error;
} translations[] = {
    {2, ENOMEM},    /* CUDA_ERROR_OUT_OF_MEMORY */
    {1, EINVAL},    /* CUDA_ERROR_INVALID_VALUE */
    {3, ENODEV},    /* CUDA_ERROR_NOT_INITIALIZED */
    {4, ESHUTDOWN}, /* CUDA_ERROR_DEINITIALIZED */
    {100, ENODEV},  /* CUDA_ERROR_NO_DEVICE */
    {101, ENODEV},  /* CUDA_ERROR_INVALID_DEVICE */
    {201, EINVAL},  /* CUDA_ERROR_INVALID_CONTEXT */
    {801, ENOTSUP}, /* CUDA_ERROR_NOT_SUPPORTED */
    {600, EAGAIN},  /* CUDA_ERROR_NOT_READY */
};

int gm_error_from_driver(int driver_code)
{
    last_driver_code = driver_code;
    for (size_t i = 0; i < sizeof translations / sizeof translations[0]; i++) {
        if (translations[i].driver_code == driver_code) {
            return -translations[i].error;
        }
    }
    return -EIO;
}

int gm_error_driver_code(void)
{
    return last_driver_code;
}

static const struct {
    int error;
    const char *text;
} texts[] = {
    {0, "success"},
    {ENOMEM, "out of memory: the device has no room left for this request"},
    {EINVAL, "invalid argument: not a live block, not a value, or a size no device can have"},
    {ERANGE, "value outside the range of this tunable"},
    {ENOENT, "no such tunable or block"},
    {ENODEV, "no CUDA driver, or no such device"},
    {ENOTSUP, "this device has no virtual memory management"},
    {ECHILD, "the allocator was created before fork; CUDA cannot be used in this child"},
    {ESHUTDOWN, "the CUDA driver is shutting down"},
    {EAGAIN, "not ready yet: try again"},
    {EUCLEAN, "an internal invariant is broken; see standard error"},
    {EIO, "driver error; gmlake_driver_error() has its code"},
};

const char *gm_error_text(int result)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].error == -result) {
            return texts[i].text;
        }
    }
    return "unknown error";
}
