/*
 * types.c - compiles only if every row of hooks.def has the parameters that the toolkit's <cuda.h> gives the function.
 */

/* <cuda.h> then declares every exported form under its own name and renames none by macro. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define GM_HOOK(field, name, parameters, arguments)                                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(CUDAAPI *) parameters),                    \
                   "hooks.def: the parameters of " #name " are not those of <cuda.h>");
#define GM_NEED(field, name, parameters, arguments) GM_HOOK(field, name, parameters, arguments)
#include "hooks.def"
