/*
 * plugin.c - a library that uses the driver, linked with it, and is unloaded again.
 */
#include <cuda.h>

CUresult plugin_allocate(CUdeviceptr *out, size_t bytes);

__attribute__((visibility("default"))) CUresult plugin_allocate(CUdeviceptr *out, size_t bytes)
{
    return cuMemAlloc(out, bytes);
}
