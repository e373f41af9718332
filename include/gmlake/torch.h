/*
 * torch.h - entry points of libgmlake.so for PyTorch's pluggable allocators, where nothing is preloaded.
 *
 *     import torch
 *     lake = torch.cuda.memory.CUDAPluggableAllocator("libgmlake.so", "gmlake_torch_alloc", "gmlake_torch_free")
 *     pool = torch.cuda.MemPool(lake.allocator())
 *     with torch.cuda.use_mem_pool(pool):                            # for some of the memory, or
 *         model = build()
 *     torch.cuda.memory.change_current_allocator(lake)               # for all of it, before the first allocation
 *
 * Each device gets one allocator, at its first use, in its primary context, which is kept from then on. A device
 * without virtual memory management is served by cuMemAlloc().
 *
 * What PyTorch's ways imply: a MemPool is PyTorch's own caching allocator over our memory, so it knows of out of
 * memory, streams and captures as ever. With change_current_allocator() PyTorch calls us for each tensor; it does not
 * look at the result, so out of memory is a null tensor there, and tensor.record_stream() does nothing: memory that
 * other streams use must be kept alive until they are done. `gmlake run` has neither limit.
 *
 * C11 and C++; the stream is a cudaStream_t, which is the driver's CUstream.
 */
#ifndef GMLAKE_TORCH_H
#define GMLAKE_TORCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates @size bytes on device ordinal @device for work on @stream, from any thread; the current context stays as it
 * is. NULL: @size is 0, or there is no memory, no such device or no driver; the first time, a line on standard error
 * says which.
 */
void *gmlake_torch_alloc(size_t size, int device, void *stream);

/*
 * Frees what gmlake_torch_alloc() gave for @device, from any thread: memory is at once reusable on @stream, elsewhere
 * after the work that was submitted to @stream before. NULL is allowed. After the driver has ended, as in destructors
 * at exit, it does nothing. A pointer that is not a live block is left alone, and said once on standard error.
 */
void gmlake_torch_free(void *pointer, size_t size, int device, void *stream);

#ifdef __cplusplus
}
#endif

#endif
