/*
 * settings.c - what a context and the driver can be told and asked that changes nothing here: limits, priorities,
 * preferences. Programs and the CUDA runtime ask for them when they start.
 */
#include "entry.h"

#include "context.h"

#define LEAST_PRIORITY    0
#define GREATEST_PRIORITY (-5)

/* The defaults of an H200's context, by CUlimit. */
static const size_t default_limits[SIM_LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0,
};

CUresult sim_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    if (value == NULL || (unsigned)limit >= SIM_LIMITS) {
        return value == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    const size_t set = sim_context_current()->limits[limit];
    *value = set != 0 ? set : default_limits[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    if ((unsigned)limit >= SIM_LIMITS) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    sim_context_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (config == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

/* A preference, which a device without such caches ignores as this one does. */
CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
    return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least != NULL) {
        *least = LEAST_PRIORITY;
    }
    if (greatest != NULL) {
        *greatest = GREATEST_PRIORITY;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (mode == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
