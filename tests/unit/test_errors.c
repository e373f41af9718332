/*
 * test_errors.c - driver codes become the errno the public header promises, and are remembered for each thread.
 */
#include "errors.h"
#include "gmtest.h"

#include <cuda.h>
#include <pthread.h>

static void driver_codes_become_errnos(void **state)
{
    (void)state;
    static const struct {
        CUresult code;
        int error;
    } cases[] = {
        {CUDA_ERROR_OUT_OF_MEMORY, ENOMEM},   {CUDA_ERROR_INVALID_VALUE, EINVAL},
        {CUDA_ERROR_NOT_INITIALIZED, ENODEV}, {CUDA_ERROR_DEINITIALIZED, ESHUTDOWN},
        {CUDA_ERROR_NO_DEVICE, ENODEV},       {CUDA_ERROR_INVALID_DEVICE, ENODEV},
        {CUDA_ERROR_INVALID_CONTEXT, EINVAL}, {CUDA_ERROR_NOT_SUPPORTED, ENOTSUP},
        {CUDA_ERROR_NOT_READY, EAGAIN},       {CUDA_ERROR_LAUNCH_FAILED, EIO},
        {CUDA_ERROR_ILLEGAL_ADDRESS, EIO},    {CUDA_ERROR_UNKNOWN, EIO},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        assert_error(gm_error_from_driver((int)cases[i].code), cases[i].error);
        assert_int_equal(gm_error_driver_code(), cases[i].code);
    }
    assert_error(gm_error_from_driver(123456), EIO);
    assert_int_equal(gm_error_driver_code(), 123456);
}

static void *code_of_new_thread(void *arg)
{
    int *codes = arg;
    codes[0] = gm_error_driver_code();
    gm_error_from_driver(CUDA_ERROR_OUT_OF_MEMORY);
    codes[1] = gm_error_driver_code();
    return NULL;
}

static void the_code_belongs_to_the_thread(void **state)
{
    (void)state;
    int codes[2] = {-1, -1};
    pthread_t thread;
    gm_error_from_driver(CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(pthread_create(&thread, NULL, code_of_new_thread, codes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gm_error_driver_code(), CUDA_ERROR_LAUNCH_FAILED);
}

/* Every result that gmlake.h names has words of its own; anything else still has some. */
static void every_result_has_words(void **state)
{
    (void)state;
    static const int results[] = {0,        -ENOMEM, -EINVAL, -ERANGE,  -ENOENT, -ENODEV,
                                  -ENOTSUP, -ECHILD, -EAGAIN, -EUCLEAN, -EIO,    -ESHUTDOWN};
    const char *unknown = gm_error_text(-99999);
    assert_non_null(unknown);
    for (size_t i = 0; i < GM_ARRAY_LENGTH(results); i++) {
        const char *text = gm_error_text(results[i]);
        assert_string_not_equal(text, unknown);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(text, gm_error_text(results[j]));
        }
    }
    assert_string_equal(gm_error_text(7), unknown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_codes_become_errnos),
        cmocka_unit_test(the_code_belongs_to_the_thread),
        cmocka_unit_test(every_result_has_words),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
