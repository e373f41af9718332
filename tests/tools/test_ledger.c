/*
 * test_ledger.c - what is held at the driver, and the counting table in front of it.
 */
#include "gmtest.h"
#include "ledger.h"
#include "meter.h"

#define MB (1ull << 20)

static void a_chunk_is_held_until_its_last_mapping_is_gone(void **state)
{
    (void)state;
    struct gm_ledger ledger = {0};
    gm_ledger_created(&ledger, 1, 4 * MB);
    gm_ledger_mapped(&ledger, 0x1000000, 4 * MB, 1);
    gm_ledger_mapped(&ledger, 0x9000000, 4 * MB, 1);
    assert_int_equal(ledger.mappings, 2);
    gm_ledger_released(&ledger, 1);
    assert_int_equal(ledger.held, 4 * MB);
    gm_ledger_unmapped(&ledger, 0x1000000, 4 * MB);
    assert_int_equal(ledger.held, 4 * MB);
    gm_ledger_unmapped(&ledger, 0x9000000, 4 * MB);
    assert_int_equal(ledger.held, 0);
    assert_int_equal(ledger.held_peak, 4 * MB);
    assert_int_equal(ledger.mappings_peak, 2);
    assert_int_equal(ledger.unexplained, 0);
    gm_ledger_finish(&ledger);
}

static void a_handle_number_may_come_again_while_mapped(void **state)
{
    (void)state;
    struct gm_ledger ledger = {0};
    gm_ledger_created(&ledger, 7, 2 * MB);
    gm_ledger_mapped(&ledger, 0x2000000, 2 * MB, 7);
    gm_ledger_released(&ledger, 7);
    gm_ledger_created(&ledger, 7, 8 * MB);
    assert_int_equal(ledger.held, 10 * MB);
    gm_ledger_unmapped(&ledger, 0x2000000, 2 * MB);
    assert_int_equal(ledger.held, 8 * MB);
    gm_ledger_finish(&ledger);
}

static void one_unmap_may_cover_several_mappings(void **state)
{
    (void)state;
    struct gm_ledger ledger = {0};
    for (uint64_t i = 0; i < 4; i++) {
        gm_ledger_created(&ledger, i, 2 * MB);
        gm_ledger_mapped(&ledger, 0x10000000 + i * 2 * MB, 2 * MB, i);
        gm_ledger_released(&ledger, i);
    }
    gm_ledger_unmapped(&ledger, 0x10000000, 6 * MB);
    assert_int_equal(ledger.held, 2 * MB);
    assert_int_equal(ledger.mappings, 1);
    gm_ledger_finish(&ledger);
}

static void what_cannot_be_explained_is_counted(void **state)
{
    (void)state;
    struct gm_ledger ledger = {0};
    gm_ledger_released(&ledger, 3);
    gm_ledger_mapped(&ledger, 0x1000000, 2 * MB, 3);
    gm_ledger_unmapped(&ledger, 0x1000000, 2 * MB);
    gm_ledger_freed(&ledger, 0x1000000);
    gm_ledger_allocated(&ledger, 0x5000000, 100);
    gm_ledger_allocated(&ledger, 0x5000000, 200);
    assert_int_equal(ledger.unexplained, 5);
    assert_int_equal(ledger.held, 100);
    gm_ledger_finish(&ledger);
}

static void plain_memory_and_address_space(void **state)
{
    (void)state;
    struct gm_ledger ledger = {0};
    gm_ledger_allocated(&ledger, 0x1000, 512);
    gm_ledger_allocated(&ledger, 0x2000, 1024);
    gm_ledger_freed(&ledger, 0x1000);
    gm_ledger_reserved(&ledger, 64 * MB);
    gm_ledger_reserved(&ledger, 64 * MB);
    gm_ledger_unreserved(&ledger, 64 * MB);
    assert_int_equal(ledger.held, 1024);
    assert_int_equal(ledger.held_peak, 1536);
    assert_int_equal(ledger.va, 64 * MB);
    assert_int_equal(ledger.va_peak, 128 * MB);
    gm_ledger_finish(&ledger);
    assert_int_equal(ledger.held, 0);
}

/* --- the counting table in front of a driver that only counts ----------------------------------------------------- */

static uint64_t clock_ns;
static uint64_t asked_for_ns;
static CUresult answer;
static unsigned reached;

static uint64_t fake_now_ns(void)
{
    return clock_ns;
}

static void fake_advance(uint64_t ns)
{
    asked_for_ns = ns;
    clock_ns = ns > clock_ns ? ns : clock_ns;
}

/* A function of the fake driver: takes 100 ns and gives `answer`. */
#define GM_CU_SYMBOL(need, field, name, parameters)                                                                    \
    static CUresult CUDAAPI fake_##field parameters;                                                                   \
    static CUresult CUDAAPI fake_##field parameters                                                                    \
    {                                                                                                                  \
        clock_ns += 100;                                                                                               \
        reached++;                                                                                                     \
        return answer;                                                                                                 \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <symbols.def>
#pragma GCC diagnostic pop
#undef GM_CU_SYMBOL

static const struct gm_cu fake_driver = {
#define GM_CU_SYMBOL(need, field, name, parameters) .field = fake_##field,
#include <symbols.def>
#undef GM_CU_SYMBOL
    .now_ns = fake_now_ns,
};

static void start_meter(void)
{
    clock_ns = 0;
    asked_for_ns = 0;
    reached = 0;
    answer = CUDA_SUCCESS;
    gm_meter_start(&fake_driver, fake_advance);
}

static void no_function_passes_uncounted(void **state)
{
    (void)state;
    start_meter();
#define GM_CU_SYMBOL(need, field, exported, parameters)                                                                \
    assert_true(gm_meter.table.field != fake_driver.field);                                                            \
    assert_string_equal(gm_meter.rows[GM_METER_##field].name, exported);
#include <symbols.def>
#undef GM_CU_SYMBOL
    gm_meter_stop();
}

static void calls_are_forwarded_counted_and_timed(void **state)
{
    (void)state;
    start_meter();
    CUdeviceptr address = 42;
    gm_meter.trace_ns = 5000;
    assert_int_equal(gm_meter.table.mem_alloc(&address, 1024), CUDA_SUCCESS);
    assert_int_equal(gm_meter.table.mem_create((CUmemGenericAllocationHandle *)&address, 2 * MB, NULL, 0),
                     CUDA_SUCCESS);
    assert_int_equal(asked_for_ns, 5000);
    assert_int_equal(clock_ns, 5200);
    assert_int_equal(reached, 2);
    assert_int_equal(gm_meter.calls, 2);
    assert_int_equal(gm_meter.driver_ns, 200);
    assert_int_equal(gm_meter.rows[GM_METER_mem_alloc].calls, 1);
    assert_int_equal(gm_meter.rows[GM_METER_mem_create].ns, 100);
    assert_int_equal(gm_meter.ledger.held, 2 * MB + 1024);
    gm_meter_stop();
}

static void failed_calls_change_no_account(void **state)
{
    (void)state;
    start_meter();
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address = 42;
    assert_int_equal(gm_meter.table.mem_alloc(&address, 1024), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gm_meter.table.mem_map(0x2000000, 2 * MB, 0, 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gm_meter.table.mem_address_reserve(&address, 2 * MB, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gm_meter.calls, 3);
    assert_int_equal(gm_meter.ledger.held, 0);
    assert_int_equal(gm_meter.ledger.va, 0);
    assert_int_equal(gm_meter.ledger.unexplained, 0);
    gm_meter_stop();
}

static void the_core_gets_the_table(void **state)
{
    (void)state;
    start_meter();
    const struct gm_cu *table;
    assert_ok(gm_cu_get(&table));
    assert_ptr_equal(table, &gm_meter.table);
    gm_meter.trace_ns = 777;
    assert_int_equal(table->now_ns(), 777);
    assert_int_equal(gm_meter.calls, 0);
    gm_meter_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_held_until_its_last_mapping_is_gone),
        cmocka_unit_test(a_handle_number_may_come_again_while_mapped),
        cmocka_unit_test(one_unmap_may_cover_several_mappings),
        cmocka_unit_test(what_cannot_be_explained_is_counted),
        cmocka_unit_test(plain_memory_and_address_space),
        cmocka_unit_test(no_function_passes_uncounted),
        cmocka_unit_test(calls_are_forwarded_counted_and_timed),
        cmocka_unit_test(failed_calls_change_no_account),
        cmocka_unit_test(the_core_gets_the_table),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
