/*
 * test_stream.c - stream order: what was freed on one stream is another's only when its work is done or waited for.
 */
#include "pool_test.h"

#include <pthread.h>

/* Blocks of 64 MiB on a device of 64 MiB: the second allocation can only get the first one's memory. */
static void other_streams_wait(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr address = take_on(60 * MIB, one);
    use(address, 60 * MIB, 0xbb, one);
    give_on(address, one);
    address = take_on(60 * MIB, two);
    use(address, 60 * MIB, 0x11, two);
    works(sim.cuStreamSynchronize(two));
    let_time_pass(100000);
    check_number(0x11, byte_at(address));
    check_number(0x11, byte_at(address + 60 * MIB - 1));
    give_on(address, two);
    end();
}
SIM_TEST(other_streams_wait, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=300", NULL)

/* A chunk of which another stream freed a part: one wait makes it ours, also once we freed the rest later. */
static void a_wait_reaches_what_both_freed(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    give_on(take_on(32 * MIB, one), one);
    let_time_pass(100000);
    uint64_t reserved = stats().reserved;
    gmlake_ptr left = take_on(16 * MIB, one);
    gmlake_ptr right = take_on(16 * MIB, two);
    check_number(reserved, stats().reserved);
    use(right, 16 * MIB, 0xbb, two);
    give_on(right, two);
    uint64_t waits = stats().stream_waits;
    give_on(take_on(16 * MIB, one), one);
    check_number(waits + 1, stats().stream_waits);
    give_on(left, one);
    gmlake_ptr all = take_on(32 * MIB, one);
    check_number(waits + 1, stats().stream_waits);
    check_number(reserved, stats().reserved);
    use(all, 32 * MIB, 0x11, one);
    works(sim.cuStreamSynchronize(one));
    let_time_pass(100000);
    check_number(0x11, byte_at(all));
    check_number(0x11, byte_at(all + 32 * MIB - 1));
    give_on(all, one);
    end();
}
SIM_TEST(a_wait_reaches_what_both_freed, "SIMCUDA_MEMORY=256M", "SIMCUDA_STREAM_DELAY_US=300", NULL)

static void same_stream_reuses_at_once(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    uint64_t start = sim.now_ns();
    gmlake_ptr first = take_on(60 * MIB, one);
    use(first, 60 * MIB, 0xbb, one);
    give_on(first, one);
    gmlake_ptr again = take_on(60 * MIB, one);
    check_number(first, again);
    check(sim.now_ns() - start < 50000000); /* nobody waited for the work */
    give_on(again, one);
    end();
}
SIM_TEST(same_stream_reuses_at_once, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=100000", NULL)

/* A stream that waited for another on the device gets its objects; when their slab is taken apart, a third stream must
 * not see the memory before the first one's work is done. */
static void slabs_taken_apart_keep_their_order(void)
{
    begin();
    CUstream owner = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream user = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream third = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr objects[64];
    for (int i = 0; i < 64; i++) {
        objects[i] = take_on(16 * KIB, owner);
    }
    gmlake_ptr rest = take_on(60 * MIB, user);
    for (int i = 0; i < 64; i++) {
        works(sim.cuMemsetD8Async(objects[i], 0xbb, 16 * KIB, user));
        give_on(objects[i], user);
    }
    give_on(rest, user);
    /* The owner waits for the user's work on the device, not on the host. */
    rest = take_on(60 * MIB, owner);
    give_on(rest, owner);
    gmlake_ptr object = take_on(16 * KIB, owner);
    give_on(object, owner);
    gmlake_ptr all = take_on(63 * MIB, third);
    works(sim.cuMemsetD8Async(all, 0x11, 63 * MIB, third));
    works(sim.cuStreamSynchronize(third));
    let_time_pass(1000000);
    for (size_t at = 0; at < 63 * MIB; at += 4 * KIB) {
        check_number(0x11, byte_at(all + at));
    }
    give_on(all, third);
    end();
}
SIM_TEST(slabs_taken_apart_keep_their_order, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=400", NULL)

/* More frees behind one long piece of work than there are events: all are known to be done when it is. */
static void more_frees_than_events(void)
{
    static gmlake_ptr blocks[4000];
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    give_on(take_on(1 * MIB, two), two);
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        blocks[i] = take_on(20 * KIB, one);
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        use(blocks[i], 1, 0xbb, one);
        give_on(blocks[i], one);
    }
    check_number(0, gmlake_forget_stream(lake, one));
    works(sim.cuStreamDestroy_v2(one));
    check_all();
    gmlake_ptr all = take_on(120 * MIB, two);
    use(all, 120 * MIB, 0x11, two);
    works(sim.cuStreamSynchronize(two));
    let_time_pass(10000000);
    check_number(0x11, byte_at(all));
    give_on(all, two);
    end();
}
SIM_TEST(more_frees_than_events, "SIMCUDA_MEMORY=128M", "SIMCUDA_STREAM_DELAY_US=100000", NULL)

/* A stream that was destroyed without a word: its memory is not lost, if a synchronisation is needed to know. */
static void a_stream_that_left_without_a_word(void)
{
    begin();
    CUstream one = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream two = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr address = take_on(60 * MIB, one);
    use(address, 60 * MIB, 0xbb, one);
    give_on(address, one);
    works(sim.cuStreamSynchronize(one));
    works(sim.cuStreamDestroy_v2(one));
    gmlake_ptr all = 0;
    check_number(0, gmlake_alloc(lake, 60 * MIB, two, &all));
    give_on(all, two);
    check_number(0, gmlake_check(lake));
    gmlake_destroy(lake);
}

static void test_a_stream_that_left_without_a_word(void **state)
{
    struct sim_outcome outcome; /* the driver complains of the handle, as it may */
    (void)state;
    sim_run(a_stream_that_left_without_a_word, &outcome, "SIMCUDA_MEMORY=64M", NULL);
}

static void a_stream_of_the_same_handle_is_another(void)
{
    begin();
    for (int i = 0; i < 40; i++) {
        CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
        gmlake_ptr address = take_on(40 * MIB, stream);
        use(address, 40 * MIB, (unsigned char)i, stream);
        works(sim.cuStreamSynchronize(stream));
        check_number(i, byte_at(address));
        use(address, 40 * MIB, 0xbb, stream);
        give_on(address, stream);
        check_number(0, gmlake_forget_stream(lake, stream));
        works(sim.cuStreamDestroy_v2(stream));
        check_all();
    }
    end();
}
SIM_TEST(a_stream_of_the_same_handle_is_another, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=0-900", NULL)

/* More streams than the allocator tells apart, each with work under way. */
static void many_streams(void)
{
    begin();
    static CUstream streams[600];
    for (size_t i = 0; i < GM_ARRAY_LENGTH(streams); i++) {
        streams[i] = sim_stream(CU_STREAM_NON_BLOCKING);
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < GM_ARRAY_LENGTH(streams); i++) {
            size_t bytes = i % 3 == 0 ? 3 * KIB : 9 * MIB;
            gmlake_ptr address = take_on(bytes, streams[i]);
            use(address, bytes, (unsigned char)i, streams[i]);
            works(sim.cuStreamSynchronize(streams[i]));
            check_number(i % 256, byte_at(address));
            use(address, bytes, 0xbb, streams[i]);
            give_on(address, streams[i]);
            if (i % 50 == 0) {
                check_all();
            }
        }
    }
    check(stats().streams <= 250);
    end();
}
SIM_TEST(many_streams, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=0-300", NULL)

/* The same from several threads: the table of streams is emptied under the feet of those who wait. */
#define THREADS 4
static CUcontext context;

static void *churn(void *arg)
{
    unsigned thread = *(unsigned *)arg;
    works(sim.cuCtxSetCurrent(context));
    for (unsigned i = 0; i < 400; i++) {
        CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
        size_t bytes = i % 2 == 0 ? 2 * KIB : 7 * MIB;
        unsigned char value = (unsigned char)(thread * 50 + i % 50);
        gmlake_ptr address = take_on(bytes, stream);
        use(address, bytes, value, stream);
        works(sim.cuStreamSynchronize(stream));
        check_number(value, byte_at(address));
        check_number(value, byte_at(address + bytes - 1));
        use(address, bytes, 0xff, stream);
        give_on(address, stream);
        if (i % 4 == 0) {
            check_number(0, gmlake_forget_stream(lake, stream));
            works(sim.cuStreamDestroy_v2(stream));
        }
    }
    return NULL;
}

static void many_streams_and_threads(void)
{
    begin();
    works(sim.cuCtxGetCurrent(&context));
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    for (unsigned t = 0; t < THREADS; t++) {
        numbers[t] = t;
        check_number(0, pthread_create(&threads[t], NULL, churn, &numbers[t]));
    }
    for (int t = 0; t < THREADS; t++) {
        check_number(0, pthread_join(threads[t], NULL));
    }
    end();
}
SIM_TEST(many_streams_and_threads, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=0-300", NULL)

/* --- threads' default streams ------------------------------------------------------------------------------------- */

/* What a thread does on its own default stream: its work on the block is late, its free is not. */
static void *use_and_give(void *arg)
{
    works(sim.cuCtxSetCurrent(context));
    gmlake_ptr address = take_on(60 * MIB, CU_STREAM_PER_THREAD);
    use(address, 60 * MIB, 0xbb, CU_STREAM_PER_THREAD);
    give_on(address, CU_STREAM_PER_THREAD);
    return arg;
}

static uint64_t synchronisations(void)
{
    static struct simcuda_call calls[256];
    uint64_t times = 0;
    size_t count = sim.query_calls(calls, GM_ARRAY_LENGTH(calls));
    for (size_t i = 0; i < count; i++) {
        times += strcmp(calls[i].name, "cuCtxSynchronize") == 0 ? calls[i].calls : 0;
    }
    return times;
}

/* The same handle on another thread is another stream: it gets the memory when the first one's work is done. */
static void in_a_row(bool others_came_before)
{
    pthread_t thread;
    begin();
    works(sim.cuCtxGetCurrent(&context));
    if (others_came_before) {
        give_on(take_on(MIB, CU_STREAM_PER_THREAD), CU_STREAM_PER_THREAD);
    }
    for (int i = 0; i < 3; i++) { /* the thread that comes next may lie where the last one lay */
        check_number(0, pthread_create(&thread, NULL, use_and_give, NULL));
        check_number(0, pthread_join(thread, NULL));
        gmlake_ptr second = take_on(60 * MIB, CU_STREAM_PER_THREAD);
        use(second, 60 * MIB, 0x11, CU_STREAM_PER_THREAD);
        works(sim.cuStreamSynchronize(CU_STREAM_PER_THREAD));
        let_time_pass(100000);
        check_number(0x11, byte_at(second));
        check_number(0x11, byte_at(second + 60 * MIB - 1));
        give_on(second, CU_STREAM_PER_THREAD);
    }
}

/* Nobody can record an event on the stream of a thread that is gone. */
static void threads_have_streams_of_their_own(void)
{
    in_a_row(false);
    end();
}
SIM_TEST(threads_have_streams_of_their_own, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=300", NULL)

/* Where there are several, the thread has recorded it itself: it is waited for on the device. */
static void a_threads_frees_are_recorded_by_it(void)
{
    in_a_row(true);
    check_number(0, synchronisations());
    end();
}
SIM_TEST(a_threads_frees_are_recorded_by_it, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=300", NULL)

static void a_thread_reuses_its_own_at_once(void)
{
    begin();
    uint64_t start = sim.now_ns();
    gmlake_ptr first = take_on(60 * MIB, CU_STREAM_PER_THREAD);
    use(first, 60 * MIB, 0xbb, CU_STREAM_PER_THREAD);
    give_on(first, CU_STREAM_PER_THREAD);
    gmlake_ptr again = take_on(60 * MIB, CU_STREAM_PER_THREAD);
    check_number(first, again);
    check(sim.now_ns() - start < 50000000); /* nobody waited for the work */
    give_on(again, CU_STREAM_PER_THREAD);
    end();
}
SIM_TEST(a_thread_reuses_its_own_at_once, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=100000", NULL)

static void *churn_on_own_stream(void *arg)
{
    unsigned thread = *(unsigned *)arg;
    works(sim.cuCtxSetCurrent(context));
    for (unsigned i = 0; i < 300; i++) {
        size_t bytes = i % 2 == 0 ? 2 * KIB : 7 * MIB;
        unsigned char value = (unsigned char)(thread * 50 + i % 50);
        gmlake_ptr address = take_on(bytes, CU_STREAM_PER_THREAD);
        use(address, bytes, value, CU_STREAM_PER_THREAD);
        works(sim.cuStreamSynchronize(CU_STREAM_PER_THREAD));
        check_number(value, byte_at(address));
        check_number(value, byte_at(address + bytes - 1));
        use(address, bytes, 0xff, CU_STREAM_PER_THREAD);
        give_on(address, CU_STREAM_PER_THREAD);
    }
    return NULL;
}

static void threads_on_their_streams_at_once(void)
{
    begin();
    works(sim.cuCtxGetCurrent(&context));
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        unsigned numbers[THREADS];
        for (unsigned t = 0; t < THREADS; t++) {
            numbers[t] = t;
            check_number(0, pthread_create(&threads[t], NULL, churn_on_own_stream, &numbers[t]));
        }
        for (int t = 0; t < THREADS; t++) {
            check_number(0, pthread_join(threads[t], NULL));
        }
        check_all();
    }
    end();
}
SIM_TEST(threads_on_their_streams_at_once, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=0-300", NULL)

/* The other name of the legacy stream is no other stream. */
static void the_legacy_stream_has_two_names(void)
{
    begin();
    gmlake_ptr address = take_on(60 * MIB, CU_STREAM_LEGACY);
    use(address, 60 * MIB, 0xbb, NULL);
    give(address);
    give_on(take_on(60 * MIB, CU_STREAM_LEGACY), CU_STREAM_LEGACY);
    check_number(1, stats().streams);
    end();
}
SIM_TEST(the_legacy_stream_has_two_names, "SIMCUDA_MEMORY=64M", "SIMCUDA_STREAM_DELAY_US=300", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_streams_wait),
        cmocka_unit_test(test_a_wait_reaches_what_both_freed),
        cmocka_unit_test(test_same_stream_reuses_at_once),
        cmocka_unit_test(test_slabs_taken_apart_keep_their_order),
        cmocka_unit_test(test_more_frees_than_events),
        cmocka_unit_test(test_a_stream_that_left_without_a_word),
        cmocka_unit_test(test_a_stream_of_the_same_handle_is_another),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_many_streams_and_threads),
        cmocka_unit_test(test_threads_have_streams_of_their_own),
        cmocka_unit_test(test_a_threads_frees_are_recorded_by_it),
        cmocka_unit_test(test_a_thread_reuses_its_own_at_once),
        cmocka_unit_test(test_threads_on_their_streams_at_once),
        cmocka_unit_test(test_the_legacy_stream_has_two_names),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
