/*
 * test_check.c - the check of all invariants notices each of them when it is broken, and names it: in an allocator that
 * has something of every kind, one thing is spoilt at a time.
 */
#include "pool_test.h"
#include "spoil.h"

static unsigned number;

/* Slabs with room and an object that awaits another stream, a stitched block, dead addresses, gaps, a kept block. */
static void make_something_of_everything(void)
{
    gmlake_ptr blocks[8];
    CUstream stream;
    begin();
    works(sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 8; i++) {
        blocks[i] = take(16 * MIB);
    }
    for (int i = 0; i < 6; i += 2) {
        give(blocks[i]);
    }
    take(32 * MIB);
    check(stats().stitched_blocks > 0);
    give(blocks[7]);
    gmlake_ptr apart[6];
    for (int i = 0; i < 6; i++) {
        apart[i] = take(3 * MIB); /* of another class */
    }
    gmlake_ptr dead = take(60 * MIB);
    gmlake_ptr free_again = take(60 * MIB);
    take(60 * MIB);
    give(dead);
    check_number(0, gmlake_trim(lake, 0, NULL));
    check_number(0, gmlake_free_sync(lake, apart[2]));
    give(apart[4]);
    give(free_again);
    for (int i = 0; i < 40; i++) {
        gmlake_ptr small = take(1000);
        if (i == 20) {
            use(small, 1000, 1, stream);
            give_on(small, stream);
        }
    }
    give(take(9 * MIB));
    check_all();
}

static void spoil_one(void)
{
    make_something_of_everything();
    check(spoil(lake, number));
    check_number(-EUCLEAN, gmlake_check(lake));
}

static void each_is_noticed(void **state)
{
    (void)state;
    for (number = 0; spoil_says(number) != NULL; number++) {
        struct sim_outcome outcome; /* what is spoilt cannot be destroyed: leaks are told of */
        print_message("%s\n", spoil_says(number));
        sim_run(spoil_one, &outcome, "SIMCUDA_MEMORY=1G", "SIMCUDA_STREAM_DELAY_US=1000000", NULL);
        if (strstr(outcome.errors, spoil_says(number)) == NULL) {
            fail_msg("not '%s' but '%s'", spoil_says(number), outcome.errors);
        }
    }
}

static void sound(void)
{
    make_something_of_everything();
    let_time_pass(2000000);
    works(sim.cuCtxSynchronize());
    end();
}
SIM_TEST(sound, "SIMCUDA_MEMORY=1G", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_noticed),
        cmocka_unit_test(test_sound),
    };
    return gm_test_result(cmocka_run_group_tests_name("check", tests, NULL, NULL));
}
