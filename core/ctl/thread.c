/*
 * thread.c - see thread.h.
 */
#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#define STACK (256u << 10)

int gm_thread_start(void *(*run)(void *), const char *name, pthread_t *out)
{
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    int error = pthread_create(out, &attributes, run, NULL);
    if (error == EINVAL) { /* a host whose thread-local storage alone fills such a stack */
        error = pthread_create(out, NULL, run, NULL);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_setname_np(*out, name);
    }
    return -error;
}
