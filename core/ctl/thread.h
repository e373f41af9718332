/*
 * thread.h - starting a thread of ours in somebody's process: a small stack, all signals blocked, a name.
 */
#ifndef GM_THREAD_H
#define GM_THREAD_H

#include <pthread.h>

/* -EAGAIN: the system gives no thread. */
int gm_thread_start(void *(*run)(void *), const char *name, pthread_t *out);

#endif
