/*
 * test_account.c - the limits of the process over all its devices, memory given back from aside, the map and the trace.
 */
#include "account.h"
#include "agent.h"
#include "pool_test.h"
#include "recorder.h"
#include "tend.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t soon(unsigned ms)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ms * 1000000ull;
}

static void begin_alone(void)
{
    begin();
    gm_agent_stop(); /* which would act on the limits, too */
}

/* ---- the account ---------------------------------------------------------------------------------------------- */

static void what_counts(void)
{
    begin_alone();
    check_number(0, gm_account_current());
    gmlake_ptr block = take(20 * MIB);
    check_number(stats().reserved, gm_account_current());
    check_number(stats().reserved, gm_account_peak());
    give(block);
    check_number(stats().reserved, gm_account_current());
    size_t released;
    check_number(0, gmlake_trim(lake, 0, &released));
    check_number(0, gm_account_current());
    check_number(20 * MIB, gm_account_peak());
    check_number(20 * MIB, gm_account_cut_segment());
    check_number(0, gm_account_segment_peak());
    set("enabled", "0"); /* the driver's memory counts, too */
    block = take(3 * MIB);
    check_number(3 * MIB, gm_account_current());
    check_number(3 * MIB, gm_account_segment_peak());
    set("memory_max", "4M");
    expect_refused(ENOMEM, 2 * MIB);
    give(block);
    check_number(0, gm_account_current());
    check_number(20 * MIB, gm_account_peak());
    set("enabled", "1");
    set("memory_max", "max");
    take(5 * MIB);
    end();
    check_number(0, gm_account_current()); /* the block that was live, too */
}
SIM_TEST(what_counts, "SIMCUDA_MEMORY=256M", "SIMCUDA_LEAKS=0", NULL)

static void one_limit_for_all_devices(void)
{
    struct gmlake *other;
    gmlake_ptr far;
    begin_alone();
    sim_use(1);
    check_number(0, gmlake_create(1, &other));
    set("memory_max", "64M");
    check_number(0, gmlake_alloc(other, 50 * MIB, NULL, &far));
    sim_use(0);
    expect_refused(ENOMEM, 20 * MIB);
    sim_use(1);
    check_number(0, gmlake_free(other, far, NULL));
    check(gm_account_current() >= 50 * MIB);
    sim_use(0);
    uint64_t refused = stats().oom;
    gmlake_ptr near = take(20 * MIB); /* what the other device has free is given up */
    check_number(refused, stats().oom);
    check(gm_account_current() <= 64 * MIB);
    CUcontext context;
    CUdevice device;
    works(sim.cuCtxGetCurrent(&context));
    works(sim.cuCtxGetDevice(&device));
    check_number(0, device); /* as it was before */
    give(near);
    sim_use(1);
    gmlake_destroy(other);
    sim_use(0);
    set("memory_max", "max");
    end();
}
SIM_TEST(one_limit_for_all_devices, "SIMCUDA_MEMORY=256M", "SIMCUDA_DEVICES=2", NULL)

static void below_what_is_held(void)
{
    begin_alone();
    gmlake_ptr live = take(30 * MIB);
    gmlake_ptr idle = take(40 * MIB);
    give(idle);
    set("memory_max", "32M");
    check_number(38 * MIB, gm_account_excess());
    expect_refused(ENOMEM, 60 * MIB);
    uint64_t released;
    check_number(0, gm_tend_reclaim(gm_account_excess(), soon(1000), &released));
    check(gm_account_current() <= 32 * MIB);
    check_number(stats().reclaimed, released);
    mark(live, 30 * MIB, 0x11);
    give(live);
    give(take(30 * MIB)); /* what is held already may be used again */
    set("memory_max", "max");
    end();
}
SIM_TEST(below_what_is_held, "SIMCUDA_MEMORY=256M", NULL)

static void *grow_and_shrink(void *seed)
{
    sim_use(0);
    unsigned state = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < 3000; i++) {
        gmlake_ptr address;
        state = state * 1103515245u + 12345u;
        if (gmlake_alloc(lake, (state >> 8) % (12 * MIB) + 1, NULL, &address) == 0) {
            check_number(0, gmlake_free(lake, address, NULL));
        }
        if (i % 64 == 0) {
            uint64_t released;
            (void)gm_tend_reclaim(20 * MIB, 0, &released);
        }
        check(gm_account_current() <= 48 * MIB);
    }
    return NULL;
}

static void never_beyond(void)
{
    pthread_t threads[4];
    begin();
    set("memory_max", "48M");
    for (uintptr_t i = 0; i < GM_ARRAY_LENGTH(threads); i++) {
        check_number(0, pthread_create(&threads[i], NULL, grow_and_shrink, (void *)(i + 1)));
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    check(gm_account_peak() <= 48 * MIB);
    check_number(stats().reserved, gm_account_current());
    set("memory_max", "max");
    end();
}
SIM_TEST(never_beyond, "SIMCUDA_MEMORY=256M", NULL)

/* ---- from aside ----------------------------------------------------------------------------------------------- */

/* On a thread without a context, as the worker's. */
struct errand {
    uint64_t bytes;
    unsigned deadline_ms;
    uint64_t released;
    int rc;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;
    errand->rc = gm_tend_reclaim(errand->bytes, soon(errand->deadline_ms), &errand->released);
    CUcontext context = NULL;
    check(sim.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == NULL);
    return NULL;
}

static struct errand reclaim_aside(uint64_t bytes, unsigned deadline_ms)
{
    struct errand errand = {.bytes = bytes, .deadline_ms = deadline_ms};
    pthread_t thread;
    check_number(0, pthread_create(&thread, NULL, run_errand, &errand));
    pthread_join(thread, NULL);
    return errand;
}

static void an_amount_is_given_back(void)
{
    begin_alone();
    gmlake_ptr blocks[20];
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i++) {
        blocks[i] = take(6 * MIB);
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(blocks); i += 2) {
        give(blocks[i]);
    }
    uint64_t held = gm_account_current();
    struct errand errand = reclaim_aside(20 * MIB, 1000);
    check_number(0, errand.rc);
    check(errand.released >= 20 * MIB && errand.released < 40 * MIB);
    check_number(held - errand.released, gm_account_current());
    check_all();
    errand = reclaim_aside(500 * MIB, 1000); /* more than there is */
    check_number(-EAGAIN, errand.rc);
    check_number(60 * MIB, stats().reclaimed);
    errand = reclaim_aside(UINT64_MAX, 1000); /* all of nothing */
    check_number(0, errand.rc);
    check_number(0, errand.released);
    check_number(2, stats().reclaim_events);
    for (size_t i = 1; i < GM_ARRAY_LENGTH(blocks); i += 2) {
        give(blocks[i]);
    }
    check_number(0, reclaim_aside(UINT64_MAX, 1000).rc);
    check_number(0, gm_account_current());
    end();
}
SIM_TEST(an_amount_is_given_back, "SIMCUDA_MEMORY=256M", NULL)

/* Frees that the device is not done with yet, and such that only a synchronisation tells of. */
static void waits_for_the_device(void)
{
    begin_alone();
    set("cross_stream_wait", "0");
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr block = take_on(30 * MIB, stream);
    use(block, 30 * MIB, 0x22, stream);
    give_on(block, stream);
    gmlake_ptr owed = take(10 * MIB);
    use(owed, 10 * MIB, 0x33, stream);
    check_number(0, gmlake_free_sync(lake, owed));
    struct errand errand = reclaim_aside(UINT64_MAX, 0);
    check_number(-EAGAIN, errand.rc); /* no time to wait */
    check_number(0, errand.released);
    errand = reclaim_aside(UINT64_MAX, 5000);
    check_number(0, errand.rc);
    check_number(40 * MIB, errand.released);
    end();
}
SIM_TEST(waits_for_the_device, "SIMCUDA_MEMORY=256M", "SIMCUDA_STREAM_DELAY_US=5000", NULL)

/* The agent itself, without a daemon: an idle process gives back what is beyond memory_high, and what is kept for
 * reuse. */
static bool comes_down_to(uint64_t bytes)
{
    for (int i = 0; i < 1000 && gm_account_current() > bytes; i++) {
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return gm_account_current() <= bytes;
}

static void an_idle_process_obeys(void)
{
    begin();
    gmlake_ptr live = take(10 * MIB);
    give(take(60 * MIB));
    check_number(0, gmlake_free_sync(lake, take(40 * MIB)));
    uint64_t held = gm_account_current();
    check(held >= 70 * MIB);
    set("memory_high", "30M");
    check(comes_down_to(30 * MIB));
    check(gm_account_current() >= 10 * MIB);
    set("memory_high", "max");
    set("memory_max", "12M");
    check(comes_down_to(12 * MIB));
    set("memory_max", "max");
    give(live);
    end();
}
SIM_TEST(an_idle_process_obeys, "SIMCUDA_MEMORY=256M", NULL)

static void *tend_for_ever(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        uint64_t released;
        (void)gm_tend_reclaim(UINT64_MAX, 0, &released);
        gm_tend_idle();
        (void)gm_tend_map(NULL, 0);
    }
    return NULL;
}

static void allocators_come_and_go(void)
{
    pthread_t thread;
    atomic_bool stop = false;
    sim_start();
    check_number(0, pthread_create(&thread, NULL, tend_for_ever, &stop));
    for (int i = 0; i < 200; i++) {
        begin();
        give(take((size_t)(i % 7 + 1) * MIB));
        end();
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
SIM_TEST(allocators_come_and_go, "SIMCUDA_MEMORY=256M", NULL)

/* ---- the map -------------------------------------------------------------------------------------------------- */

static void the_map_is_the_walk(void)
{
    static struct gmlake_ctl_block blocks[256];
    begin_alone();
    gmlake_ptr live = take(5 * MIB);
    gmlake_ptr small = take(700);
    uint64_t count = gm_tend_map(blocks, GM_ARRAY_LENGTH(blocks));
    check(count > 60 && count == gm_tend_map(NULL, 0)); /* a slab has 64 objects */
    int found = 0;
    uint64_t live_bytes = 0;
    for (uint64_t i = 0; i < count && i < GM_ARRAY_LENGTH(blocks); i++) {
        if (blocks[i].address == live) {
            found++;
            check_number(5 * MIB, blocks[i].requested);
            check_number(GMLAKE_CTL_BLOCK_PRIMITIVE, blocks[i].kind);
            check_number(2, blocks[i].operations);
        }
        live_bytes += blocks[i].kind != GMLAKE_CTL_BLOCK_FREE ? blocks[i].requested : 0;
    }
    check_number(1, found);
    check(live_bytes >= 700 && live_bytes <= 5 * MIB + 700);
    give(live);
    give(small);
    end();
}
SIM_TEST(the_map_is_the_walk, "SIMCUDA_MEMORY=256M", NULL)

/* ---- the recorder --------------------------------------------------------------------------------------------- */

static int ring_file(size_t size)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    check(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    works(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    return fd;
}

static void take_the_lock(void)
{
    (void)stats();
}

static struct gmlake_ctl_event event_at(const struct gmlake_ctl_ring *ring, uint64_t number, uint64_t slots)
{
    struct gmlake_ctl_event event;
    const struct gmlake_ctl_ring_slot *slot = &ring->slot[number % slots];
    check_number(number + 1, atomic_load(&slot->sequence));
    uint64_t words[GMLAKE_CTL_EVENT_WORDS];
    for (size_t i = 0; i < GMLAKE_CTL_EVENT_WORDS; i++) {
        words[i] = atomic_load(&slot->word[i]);
    }
    memcpy(&event, words, sizeof event);
    return event;
}

static void events_are_recorded(void)
{
    begin_alone();
    enum { SLOTS = 8 };
    size_t size = sizeof(struct gmlake_ctl_ring) + SLOTS * sizeof(struct gmlake_ctl_ring_slot);
    int fd = ring_file(size);
    struct gmlake_ctl_ring *ring = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    check(ring != MAP_FAILED);
    give(take(MIB)); /* before: not recorded */
    check_number(-EINVAL, gm_recorder_start(fd, sizeof(struct gmlake_ctl_ring), take_the_lock));
    check_number(0, gm_recorder_start(fd, size, take_the_lock));
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    gmlake_ptr a = take_on(3 * MIB, stream);
    gmlake_ptr b = take(1000);
    expect_refused(ENOMEM, 1 << 30); /* what fails is no event */
    give_on(a, stream);
    check_number(0, gmlake_free_sync(lake, b));
    check_number(4, atomic_load(&ring->head));
    struct gmlake_ctl_event event = event_at(ring, 0, SLOTS);
    check(event.kind == GMLAKE_CTL_EVENT_ALLOC && event.address == a && event.bytes == 3 * MIB);
    check_number((uintptr_t)stream, event.stream);
    event = event_at(ring, 1, SLOTS);
    check(event.kind == GMLAKE_CTL_EVENT_ALLOC && event.address == b && event.bytes == 1000 && event.stream == 0);
    event = event_at(ring, 2, SLOTS);
    check(event.kind == GMLAKE_CTL_EVENT_FREE && event.address == a && event.stream == (uintptr_t)stream);
    event = event_at(ring, 3, SLOTS);
    check(event.kind == GMLAKE_CTL_EVENT_FREE_SYNC && event.address == b);
    for (int i = 0; i < 10; i++) {
        give(take(MIB));
    }
    check_number(24, atomic_load(&ring->head));
    check_number(GMLAKE_CTL_EVENT_FREE, event_at(ring, 23, SLOTS).kind);
    gm_recorder_stop(take_the_lock);
    give(take(MIB));
    check_number(24, atomic_load(&ring->head));
    munmap(ring, size);
    close(fd);
    end();
}
SIM_TEST(events_are_recorded, "SIMCUDA_MEMORY=256M", NULL)

static void *take_and_give(void *unused)
{
    (void)unused;
    sim_use(0);
    for (int i = 0; i < 20000; i++) {
        give(take(700));
    }
    return NULL;
}

/* Switched on and off under way, over and over: nobody writes to a ring that is unmapped. */
static void a_trace_comes_and_goes(void)
{
    pthread_t threads[2];
    begin_alone();
    size_t size = 1 << 16;
    int fd = ring_file(size);
    for (size_t i = 0; i < GM_ARRAY_LENGTH(threads); i++) {
        check_number(0, pthread_create(&threads[i], NULL, take_and_give, NULL));
    }
    for (int i = 0; i < 200; i++) {
        check_number(0, gm_recorder_start(fd, size, take_the_lock));
        if (i % 3 == 0) {
            gm_recorder_stop(take_the_lock);
        }
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    gm_recorder_stop(take_the_lock);
    close(fd);
    end();
}
SIM_TEST(a_trace_comes_and_goes, "SIMCUDA_MEMORY=256M", NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_one_limit_for_all_devices),
        cmocka_unit_test(test_below_what_is_held),
        cmocka_unit_test(test_never_beyond),
        cmocka_unit_test(test_an_amount_is_given_back),
        cmocka_unit_test(test_waits_for_the_device),
        cmocka_unit_test(test_an_idle_process_obeys),
        cmocka_unit_test(test_allocators_come_and_go),
        cmocka_unit_test(test_the_map_is_the_walk),
        cmocka_unit_test(test_events_are_recorded),
        cmocka_unit_test(test_a_trace_comes_and_goes),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
