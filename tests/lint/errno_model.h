/*
 * errno_model.h - for static analysis only: tells the analyser that errno is positive once a call has failed, so that
 * it does not follow paths on which `return -errno` means success. analyse.sh includes it before every source.
 */
#ifndef GM_ERRNO_MODEL_H
#define GM_ERRNO_MODEL_H

#include <errno.h>

static inline int *gm_errno_model(void)
{
    int *value = __errno_location();
    __builtin_assume(*value > 0);
    return value;
}

#undef errno
#define errno (*gm_errno_model())

#endif
