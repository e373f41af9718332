/*
 * test_cu.c - the loader: every row of symbols.def lands in its field, a driver that is not there or not whole is
 * -ENODEV, and the table can be replaced.
 */
#include "cu.h"
#include "gmtest.h"

#include <dlfcn.h>
#include <pthread.h>

static void path_of(const char *library, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", STUB_DIR, library);
}

static int load(const char *library, struct gm_cu *out)
{
    char path[4096];
    path_of(library, path, sizeof path);
    return gm_cu_load(path, out);
}

static void *library_at(const char *library)
{
    char path[4096];
    path_of(library, path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW);
    if (handle == NULL) {
        fail_msg("%s", dlerror());
    }
    return handle;
}

/* Fails unless the function pointer at @field is what @handle exports as @name. */
static void assert_field(void *handle, const char *name, const void *field, size_t size)
{
    void *expected = dlsym(handle, name);
    void *found = NULL;
    assert_int_equal(size, sizeof found);
    memcpy(&found, field, size);
    if (expected == NULL || found != expected) {
        fail_msg("%s: the table has %p, the library %p", name, found, expected);
    }
}

static void every_symbol_lands_in_its_field(void **state)
{
    (void)state;
    struct gm_cu table;
    memset(&table, 0, sizeof table);
    assert_ok(load("libstub_driver.so", &table));
    void *handle = library_at("libstub_driver.so");
#define GM_CU_SYMBOL(need, field, name, parameters) assert_field(handle, name, &table.field, sizeof table.field);
#include "symbols.def"
#undef GM_CU_SYMBOL
    assert_int_equal(table.ctx_synchronize(), CUDA_ERROR_NOT_SUPPORTED);
    dlclose(handle);
}

static void a_real_driver_gets_the_machine_clock(void **state)
{
    (void)state;
    struct gm_cu table;
    assert_ok(load("libstub_driver.so", &table));
    uint64_t before = table.now_ns();
    usleep(2000);
    uint64_t after = table.now_ns();
    assert_true(after - before >= 2000000);
}

static void a_simulated_driver_brings_its_clock(void **state)
{
    (void)state;
    struct gm_cu table;
    assert_ok(load("libstub_clock.so", &table));
    assert_int_equal(table.now_ns(), 12345);
}

/* The table is untouched when the library cannot be used. */
static void assert_refused(const char *library)
{
    struct gm_cu table;
    struct gm_cu before;
    memset(&table, 0x5a, sizeof table);
    memcpy(&before, &table, sizeof table);
    assert_error(load(library, &table), ENODEV);
    assert_memory_equal(&table, &before, sizeof table);
}

static void a_missing_library_is_enodev(void **state)
{
    (void)state;
    assert_refused("no/such/libcuda.so.1");
}

static void a_library_without_a_required_function_is_enodev(void **state)
{
    (void)state;
    void *handle = library_at("libstub_without_map.so");
    assert_null(dlsym(handle, "cuMemMap"));
    assert_non_null(dlsym(handle, "cuMemUnmap"));
    dlclose(handle);
    assert_refused("libstub_without_map.so");
}

static void something_that_is_no_library_is_enodev(void **state)
{
    (void)state;
    assert_refused("../../CMakeCache.txt");
}

static void a_replacement_is_used_until_it_is_taken_away(void **state)
{
    (void)state;
    static struct gm_cu mine;
    const struct gm_cu *table = NULL;
    gm_cu_use(&mine);
    assert_ok(gm_cu_get(&table));
    assert_ptr_equal(table, &mine);
    gm_cu_use(NULL);

    struct gm_cu direct;
    table = NULL;
    int rc = gm_cu_get(&table);
    assert_int_equal(rc, gm_cu_load("libcuda.so.1", &direct));
    if (rc == 0) {
        assert_ptr_not_equal(table, &mine);
        assert_memory_equal(table, &direct, sizeof direct);
    } else {
        assert_null(table);
    }
}

/* --- in a child: what is loaded decides for the whole process -------------------------------------------------- */

static int instance_already_loaded(void *arg)
{
    char path[4096];
    (void)arg;
    path_of("libstub_soname.so", path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW);
    struct gm_cu table;
    if (handle == NULL || gm_cu_load("libcuda.so.1", &table) != 0) {
        return 1;
    }
    void *found = NULL;
    memcpy(&found, &table.mem_map, sizeof found);
    return found == dlsym(handle, "cuMemMap") ? 0 : 2;
}

/* An application may have loaded its driver from anywhere: that instance is the one to talk to. */
static void an_instance_already_loaded_is_preferred(void **state)
{
    (void)state;
    assert_int_equal(gm_test_in_child(instance_already_loaded, NULL), 0);
}

enum { THREADS = 8 };

static void *get_table(void *arg)
{
    const struct gm_cu **out = arg;
    return gm_cu_get(out) == 0 ? arg : NULL;
}

static int first_use_by_many(void *arg)
{
    char path[4096];
    (void)arg;
    path_of("libstub_soname.so", path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW);
    if (handle == NULL) {
        return 1;
    }
    pthread_t threads[THREADS];
    const struct gm_cu *tables[THREADS] = {NULL};
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, get_table, (void *)&tables[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        void *verdict = NULL;
        if (pthread_join(threads[i], &verdict) != 0 || verdict == NULL || tables[i] != tables[0]) {
            return 3;
        }
    }
    dlclose(handle);
    return tables[0] != NULL && tables[0]->mem_map != NULL ? 0 : 4;
}

static void first_use_may_come_from_many_threads(void **state)
{
    (void)state;
    assert_int_equal(gm_test_in_child(first_use_by_many, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* These two first: a child must not inherit a driver that this process has loaded. */
        cmocka_unit_test(an_instance_already_loaded_is_preferred),
        cmocka_unit_test(first_use_may_come_from_many_threads),
        cmocka_unit_test(every_symbol_lands_in_its_field),
        cmocka_unit_test(a_real_driver_gets_the_machine_clock),
        cmocka_unit_test(a_simulated_driver_brings_its_clock),
        cmocka_unit_test(a_missing_library_is_enodev),
        cmocka_unit_test(a_library_without_a_required_function_is_enodev),
        cmocka_unit_test(something_that_is_no_library_is_enodev),
        cmocka_unit_test(a_replacement_is_used_until_it_is_taken_away),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
