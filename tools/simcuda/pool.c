#include "pool.h"
void sim_pool_trim_idle(struct sim_device *device)
{
    (void)device;
}
CUresult sim_pool_free(struct sim_range *range, struct sim_stream *stream)
{
    (void)range;
    (void)stream;
    return CUDA_ERROR_INVALID_VALUE;
}
