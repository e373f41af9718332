/*
 * clash.c - functions of libraries that are not the driver, under names that begin like the driver's or are the same.
 */
#define EXPORT __attribute__((visibility("default")))

int cudnnCreate(void **handle);
int cublasCreate_v2(void **handle);
int cuMemAlloc_v2(unsigned long long *out, unsigned long bytes);
int cuOther(void);

EXPORT int cudnnCreate(void **handle)
{
    return handle == (void **)0;
}

EXPORT int cublasCreate_v2(void **handle)
{
    return handle == (void **)0 ? 2 : 0;
}

EXPORT int cuMemAlloc_v2(unsigned long long *out, unsigned long bytes)
{
    return out == (unsigned long long *)0 && bytes == 0 ? 3 : 0;
}

EXPORT int cuOther(void)
{
    return 4;
}
