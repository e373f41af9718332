/*
 * abi.c - prints what a <cuda.h> says: one program for the project's own header, one for the toolkit's, and the test
 * compares what they print.
 *
 * The functions are compared while compiling: each program only builds if its header declares every function that the
 * simulated driver exports with the types in exports.def. With the toolkit's header (ABI_TYPEDEFS), the CUDA version of
 * each form is checked too: <cudaTypedefs.h> has a pointer type named after it.
 */
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>
#ifdef ABI_TYPEDEFS
#include <cudaTypedefs.h>
#endif

#define SAME_TYPE(a, b) _Static_assert(__builtin_types_compatible_p(a, b), "declared otherwise")

#define PER_THREAD_NONE(symbol, parameters)
#define PER_THREAD_PTDS(symbol, parameters) SAME_TYPE(__typeof__(&symbol##_ptds), CUresult(CUDAAPI *) parameters);
#define PER_THREAD_PTSZ(symbol, parameters) SAME_TYPE(__typeof__(&symbol##_ptsz), CUresult(CUDAAPI *) parameters);

#ifdef ABI_TYPEDEFS
#define SINCE(base, since, parameters) SAME_TYPE(PFN_##base##_v##since, CUresult(CUDAAPI *) parameters);
#else
#define SINCE(base, since, parameters)
#endif

#define SIM_FUNCTION(base, symbol, since, variant, traits, parameters, ...)                                            \
    SAME_TYPE(__typeof__(&symbol), CUresult(CUDAAPI *) parameters);                                                    \
    PER_THREAD_##variant(symbol, parameters) SINCE(base, since, parameters)
#include "exports.def"
#undef SIM_FUNCTION

SAME_TYPE(CUhostFn, void(CUDA_CB *)(void *));
SAME_TYPE(CUstreamCallback, void(CUDA_CB *)(CUstream, CUresult, void *));

int main(void)
{
#define ABI_VALUE(name) printf("%s = %lld\n", #name, (long long)(name));
#include "abi_values.def"
#define ABI_TYPE(type) printf("%s: %zu bytes, alignment %zu\n", #type, sizeof(type), _Alignof(type));
#define ABI_FIELD(type, field)                                                                                         \
    printf("%s.%s: at %zu, %zu bytes\n", #type, #field, offsetof(type, field), sizeof(((type *)NULL)->field));
#include "abi.def"
    return 0;
}
