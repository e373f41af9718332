/*
 * small.cu - a small program on the CUDA runtime for a memory checker: plain and stream-ordered memory of many sizes,
 * filled and checked by kernels on two streams, with copies between.
 */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

static void must(cudaError_t code, const char *what)
{
    if (code != cudaSuccess) {
        std::fprintf(stderr, "small: %s: %s\n", what, cudaGetErrorString(code));
        std::exit(1);
    }
}

__global__ void fill(unsigned char *bytes, size_t count, unsigned char value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        bytes[i] = value;
    }
}

__global__ void count_others(const unsigned char *bytes, size_t count, unsigned char value, unsigned *others)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        if (bytes[i] != value) {
            atomicAdd(others, 1u);
        }
    }
}

int main()
{
    const size_t sizes[] = {1, 1000, 70000, 3u << 20, (9u << 20) + 5};
    cudaStream_t streams[2];
    unsigned *others;
    unsigned result = 0;
    for (cudaStream_t &stream : streams) {
        must(cudaStreamCreate(&stream), "cudaStreamCreate");
    }
    must(cudaMalloc(&others, sizeof *others), "cudaMalloc");
    must(cudaMemset(others, 0, sizeof *others), "cudaMemset");
    for (int round = 0; round < 40; round++) {
        cudaStream_t stream = streams[round % 2];
        size_t count = sizes[round % 5];
        unsigned char *first, *second;
        must(cudaMallocAsync(&first, count, stream), "cudaMallocAsync");
        must(cudaMalloc(&second, count), "cudaMalloc");
        fill<<<64, 128, 0, stream>>>(first, count, (unsigned char)round);
        must(cudaMemcpyAsync(second, first, count, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
        count_others<<<64, 128, 0, stream>>>(second, count, (unsigned char)round, others);
        must(cudaFreeAsync(first, stream), "cudaFreeAsync");
        must(cudaFree(second), "cudaFree");
    }
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    must(cudaMemcpy(&result, others, sizeof result, cudaMemcpyDeviceToHost), "cudaMemcpy");
    must(cudaFree(others), "cudaFree");
    std::printf("small: %s\n", result == 0 ? "ok" : "contents changed");
    return result != 0;
}
