/*
 * shim.c - another library that is preloaded and looks for the next function of a name, as interposers do.
 */
#include <dlfcn.h>

void *shim_next(const char *name);

__attribute__((visibility("default"))) void *shim_next(const char *name)
{
    void *answer = dlsym(RTLD_NEXT, name);
    __asm__ volatile("" : : : "memory"); /* dlsym() is called, not jumped to: it must see this library as its caller */
    return answer;
}
