/*
 * runtime.c - NVIDIA's CUDA runtime on the simulated driver: it looks everything up and initialises, then refuses a
 * driver that is not NVIDIA's, with an error and nothing worse (tools/simcuda/README.md, "The CUDA runtime").
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
    int version = 0;
    int count = 0;
    void *memory = NULL;
    cudaError_t versions = cudaDriverGetVersion(&version);
    cudaError_t devices = cudaGetDeviceCount(&count);
    cudaError_t allocation = cudaMalloc(&memory, 1 << 20);
    printf("driver version %d (%s), device count: %s, allocation: %s\n", version, cudaGetErrorName(versions),
           cudaGetErrorName(devices), cudaGetErrorName(allocation));
    return versions == cudaSuccess && version == 13000 && devices == cudaErrorSymbolNotFound &&
                   allocation == cudaErrorSymbolNotFound
               ? 0
               : 1;
}
