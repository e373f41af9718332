/* pool.c - the allocator. */
#include "tunables.h"
