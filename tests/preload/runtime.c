/*
 * runtime.c - a program of the CUDA runtime: what cudaMalloc() and its kin do, printed. See exercise.c for the rules.
 */
#include "report.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void say(const char *what, cudaError_t rc)
{
    printf("%s: %d\n", what, (int)rc);
}

static void use(void *address, size_t bytes)
{
    unsigned char *sent = calloc(1, bytes);
    unsigned char *got = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        sent[i] = (unsigned char)(i * 13);
    }
    say("cudaMemcpy", cudaMemcpy(address, sent, bytes, cudaMemcpyHostToDevice));
    say("cudaMemcpy", cudaMemcpy(got, address, bytes, cudaMemcpyDeviceToHost));
    printf("holds its bytes: %s\n", memcmp(sent, got, bytes) == 0 ? "yes" : "no");
    free(sent);
    free(got);
}

int main(void)
{
    void *address = NULL;
    cudaStream_t stream = NULL;
    cudaMemPool_t pool = NULL;
    size_t before = 0;
    size_t total = 0;
    int count = 0;
    say("cudaGetDeviceCount", cudaGetDeviceCount(&count));
    printf("devices: %d\n", count);
    for (size_t bytes = 1000; bytes < 20 * MIB; bytes *= 10) {
        say("cudaMalloc", cudaMalloc(&address, bytes));
        use(address, bytes);
        say("cudaFree", cudaFree(address));
    }
    say("cudaStreamCreate", cudaStreamCreate(&stream));
    for (int i = 0; i < 3; i++) {
        say("cudaMallocAsync", cudaMallocAsync(&address, 4 * MIB, i == 0 ? stream : i == 1 ? NULL : cudaStreamLegacy));
        say("cudaStreamSynchronize", cudaStreamSynchronize(stream));
        use(address, 4 * MIB);
        say("cudaFreeAsync", cudaFreeAsync(address, stream));
    }
    say("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, 0));
    say("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync(&address, 2 * MIB, pool, stream));
    say("cudaFreeAsync", cudaFreeAsync(address, stream));
    say("cudaMemGetInfo", cudaMemGetInfo(&before, &total));
    printf("free and total: %s\n", before > 0 && before <= total ? "yes" : "no");
    say("cudaFree(NULL)", cudaFree(NULL));
    say("cudaMalloc(0)", cudaMalloc(&address, 0));
    say("cudaDeviceSynchronize", cudaDeviceSynchronize());
    report_driver_calls();
    return 0;
}
