/*
 * paths.h - where the parts that belong to this executable are: beside it in the build tree, or as installed.
 */
#ifndef GM_PATHS_H
#define GM_PATHS_H

#include <limits.h>

/*
 * The absolute path of @name below the library directory that goes with the running executable
 * ("libgmlake_preload.so", "simcuda/libcuda.so.1"). -ENOENT: not there, with the first place tried in @out.
 */
int gm_path_of_library(const char *name, char out[PATH_MAX]);

#define GM_SIMULATED_DRIVER "simcuda/libcuda.so.1"
#define GM_PRELOAD_LIBRARY  "libgmlake_preload.so"

#endif
