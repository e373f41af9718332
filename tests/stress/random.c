/*
 * random.c - random operations on an allocator over the simulated driver, with every check there is.
 *
 * WHAT IT DOES  Sizes from one byte to more than the device, spread over the octaves, repeated, and around multiples of
 *               2 MiB; several streams whose work completes late; frees on the same stream, on others and by
 *               gmlake_free_sync(); frees that must be refused; trims; tunables set to anything legal; streams
 *               destroyed and made anew; driver calls that fail. The device is small, so that it is often full.
 * WHAT IT SEES  gmlake_check() every few operations; the bytes of every block (blocks.h); overlaps, alignment,
 *               look-ups, the walk; misuse of the driver; an allocation refused though free chunks would have done;
 *               anything left on the device after gmlake_destroy().
 * STRUCTURE     Rounds. Each makes an allocator, lets the threads work, and destroys it, half of the time with blocks
 *               still live. One seed gives one run where there is one thread.
 */
#include "account.h"
#include "blocks.h"
#include "device.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE         ((uint64_t)2 << 20)
#define STREAMS_MOST 5u
#define LIVE_MOST    16384u
#define LIVE_USUAL   2048u
#define CROWD        8192u /* GM_CROWD of core/pool/block.h */
#define SIZES        8u
#define THREADS_MOST 64u

static struct options {
    uint64_t ops;
    uint64_t seconds; /* 0: until ops are done */
    uint64_t seed;
    uint64_t memory; /* of the device */
    uint64_t round;  /* operations of a round */
    uint64_t every;  /* operations between two checks */
    unsigned threads;
    bool faults;
    bool crowd; /* thousands of small blocks, now more and now less than make slabs serve larger ones */
} options = {
    .ops = 100000, .seed = 1, .memory = (uint64_t)256 << 20, .round = 20000, .every = 8, .threads = 1, .faults = true};

static struct gmlake *allocator;

/* Faults planned and ended so far, by all threads: a fault may meet any thread's call. */
static _Atomic unsigned faults_planned, faults_ended;

/* The streams, and what destroys one: only where there is one thread. */
static CUstream streams[STREAMS_MOST];
static unsigned stream_count;

struct worker {
    uint64_t random;
    uint64_t ops;
    uint64_t fault_until; /* operation up to which driver calls may fail */
    const char *fault;
    unsigned fill; /* percent of the device that the thread wants to see used */
    unsigned live_wanted;
    uint64_t sizes[SIZES];
    struct gm_live live[LIVE_MOST];
    unsigned live_count, live_peak;
    uint64_t live_bytes;
    uint64_t allocs, refused;
    pthread_t thread;
};

static uint64_t pick(struct worker *worker, uint64_t bound)
{
    return gm_random_below(&worker->random, bound);
}

/* Spread evenly over the octaves up to @most. */
static uint64_t any_octave(struct worker *worker, uint64_t most)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(most);
    uint64_t top = (uint64_t)1 << pick(worker, bits);
    uint64_t size = top + pick(worker, top);
    return size > most ? most : size;
}

static uint64_t any_size(struct worker *worker)
{
    uint64_t most = options.memory;
    if (options.crowd && pick(worker, 64) != 0) {
        return any_octave(worker, 80u << 10);
    }
    switch (pick(worker, 16)) {
    case 0:
        return 1 + pick(worker, 17u << 10); /* objects of slabs, and just above */
    case 1:
    case 2:
        return any_octave(worker, 64u << 10);
    case 3:
    case 4: {
        uint64_t pages = 1 + pick(worker, 16);
        return pages * PAGE + 512 * pick(worker, 3) - 512;
    }
    case 5:
        return pick(worker, 64) == 0 ? most + pick(worker, 3) * 512 - 512 : any_octave(worker, most / 2);
    case 6:
    case 7:
        return any_octave(worker, most / 4);
    default:
        return worker->sizes[pick(worker, SIZES)];
    }
}

static void new_mood(struct worker *worker)
{
    worker->fill = 20 + (unsigned)pick(worker, 100);
    worker->live_wanted = options.crowd ? 6000 + (unsigned)pick(worker, 5000) : LIVE_USUAL;
    for (unsigned i = 0; i < SIZES; i++) {
        worker->sizes[i] = any_octave(worker, i < 2 ? 16u << 10 : options.memory / 8);
        if (pick(worker, 3) == 0) {
            worker->sizes[i] = (worker->sizes[i] + PAGE - 1) / PAGE * PAGE;
        }
    }
}

/* ---- frees ---- */

/* Orders @later behind all work queued on @earlier. */
static void order_behind(CUstream later, CUstream earlier)
{
    CUevent event;
    works(device.event_create(&event, CU_EVENT_DISABLE_TIMING));
    works(device.event_record(event, earlier, 0));
    works(device.stream_wait(later, event, 0));
    works(device.event_destroy(event));
}

static void forget_live(struct worker *worker, unsigned i)
{
    gm_live_leave(&worker->live[i]);
    worker->live_bytes -= worker->live[i].bytes;
    worker->live[i] = worker->live[--worker->live_count];
}

static void free_one(struct worker *worker, unsigned i)
{
    struct gm_live block = worker->live[i];
    unsigned stream = block.stream;
    if (pick(worker, 2) == 0) {
        works(device.stream_synchronise(streams[stream]));
        gm_live_compare(&block);
    }
    if (pick(worker, 8) == 0) {
        gm_live_expect_found(allocator, &block);
    }
    if (pick(worker, 4) == 0) {
        stream = (unsigned)pick(worker, stream_count);
        order_behind(streams[stream], streams[block.stream]);
    }
    gm_live_fill(&block, (uint32_t)gm_random(&worker->random), streams[stream]);
    forget_live(worker, i);
    bool synchronised = pick(worker, 8) == 0;
    int rc = synchronised ? gmlake_free_sync(allocator, block.address)
                          : gmlake_free(allocator, block.address, streams[stream]);
    if (rc != 0) {
        fail("gmlake_free%s of 0x%" PRIx64 " gives %d", synchronised ? "_sync" : "", block.address, rc);
    }
}

/* Frees that must be refused, and lose nothing. */
static void free_badly(struct worker *worker)
{
    static char foreign[64];
    gmlake_ptr address = (gmlake_ptr)(uintptr_t)foreign;
    if (worker->live_count > 0 && pick(worker, 4) != 0) {
        const struct gm_live *block = &worker->live[pick(worker, worker->live_count)];
        if (block->driver || block->bytes < 2) {
            return;
        }
        address = block->address + 1 + pick(worker, block->bytes - 1);
    }
    unsigned violations = device.violations();
    int rc = pick(worker, 2) == 0 ? gmlake_free(allocator, address, streams[pick(worker, stream_count)])
                                  : gmlake_free_sync(allocator, address);
    if (rc != -EINVAL) {
        fail("a free of 0x%" PRIx64 ", where no block begins, gives %d", address, rc);
    }
    if (device.violations() != violations) {
        fail("a free of 0x%" PRIx64 ", where no block begins, went on to the driver", address);
    }
    if (gmlake_free(allocator, 0, NULL) != 0 || gmlake_free_sync(allocator, 0) != 0) {
        fail("freeing 0 is not allowed");
    }
}

/* ---- allocations ---- */

/*
 * What may be taken from the device: what is free there and within memory_max, were the free chunks given back. A large
 * free chunk serves small requests only that way, so beyond memory_max it may not. The thread that keeps within
 * memory_high may give chunks back meanwhile: they are looked at last, lest one counts twice.
 */
static uint64_t most_from_device(uint64_t *free_chunks)
{
    struct gmlake_stats stats = {.size = sizeof stats};
    size_t left;
    size_t total;
    uint64_t most;
    works(device.memory_info(&left, &total));
    works(gmlake_get_tunable("memory_max", &most));
    uint64_t held = gm_account_current();
    works(gmlake_get_stats(allocator, &stats));
    uint64_t kept = held - stats.free_chunks;
    uint64_t room = left / PAGE * PAGE + stats.free_chunks;
    uint64_t allowed = most > kept ? most - kept : 0;
    *free_chunks = stats.free_chunks;
    return room < allowed ? room : allowed;
}

/* Refused, though as much lies in free chunks and on the device: then nothing is lost, and another look finds it. */
static void expect_refusal_is_right(uint64_t bytes)
{
    uint64_t free_chunks;
    uint64_t room = most_from_device(&free_chunks);
    uint64_t least = (uint64_t)1 << 20; /* a slab of the largest objects */
    uint64_t wanted = ((bytes > least ? bytes : least) + PAGE - 1) / PAGE * PAGE;
    if (bytes <= options.memory && room >= wanted) {
        fail("%" PRIu64 " bytes are refused with room for %" PRIu64 ", of it %" PRIu64 " in free chunks", bytes, room,
             free_chunks);
    }
}

static void allocate(struct worker *worker)
{
    uint64_t bytes = any_size(worker);
    unsigned stream = (unsigned)pick(worker, stream_count);
    gmlake_ptr address = 0xdead;
    unsigned ended = faults_ended;
    int rc = gmlake_alloc(allocator, bytes, streams[stream], &address);
    bool may_have_failed = faults_planned != ended;
    worker->allocs++;
    if (rc != 0) {
        worker->refused++;
        if (address != 0xdead) {
            fail("a refused allocation of %" PRIu64 " bytes changes its output", bytes);
        }
        if (!may_have_failed) {
            if (rc != -ENOMEM) {
                fail("%" PRIu64 " bytes: %d", bytes, rc);
            }
            if (options.threads == 1) {
                expect_refusal_is_right(bytes);
            }
        }
        return;
    }
    struct gmlake_block found;
    struct gm_live block = {.address = address, .bytes = bytes, .stream = stream};
    block.word = (uint32_t)gm_random(&worker->random);
    block.driver = gmlake_find(allocator, address, &found) != 0;
    gm_live_enter(&block);
    gm_live_fill(&block, block.word, streams[stream]);
    worker->live[worker->live_count++] = block;
    worker->live_peak = worker->live_count > worker->live_peak ? worker->live_count : worker->live_peak;
    worker->live_bytes += bytes;
}

/* ---- the rest ---- */

static const struct {
    const char *name;
    uint64_t least, most;
} tunables[] = {
#define GMLAKE_TUNABLE(name, type, min, max, def, unit, help) {#name, min, max},
#include <gmlake/tunables.def>
#undef GMLAKE_TUNABLE
};

#define TUNABLES (sizeof tunables / sizeof tunables[0])

static void set_a_tunable(struct worker *worker)
{
    size_t i = pick(worker, TUNABLES);
    uint64_t span = tunables[i].most - tunables[i].least;
    uint64_t reach = span > 4 * options.memory ? 4 * options.memory : span;
    char value[32];
    switch (pick(worker, 4)) {
    case 0:
        snprintf(value, sizeof value, "%" PRIu64, pick(worker, 2) == 0 ? tunables[i].least : tunables[i].most);
        break;
    case 1:
        snprintf(value, sizeof value, "%" PRIu64, tunables[i].least + any_octave(worker, reach));
        break;
    default:
        snprintf(value, sizeof value, "default");
        break;
    }
    int rc = gmlake_set_tunable(tunables[i].name, value);
    if (rc != 0) {
        fail("%s=%s: %d", tunables[i].name, value, rc);
    }
}

static void restore_tunables(void)
{
    for (size_t i = 0; i < TUNABLES; i++) {
        works(gmlake_set_tunable(tunables[i].name, "default"));
    }
}

/* Calls that the test itself does not make. */
static const char *const may_fail[] = {"cuMemCreate",         "cuMemMap",
                                       "cuMemSetAccess",      "cuMemAddressReserve",
                                       "cuEventRecord",       "cuEventQuery",
                                       "cuEventSynchronize",  "cuCtxSynchronize",
                                       "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"};

static void plan_a_fault(struct worker *worker)
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNKNOWN};
    if (!options.faults || worker->fault != NULL) {
        return;
    }
    worker->fault = may_fail[pick(worker, sizeof may_fail / sizeof may_fail[0])];
    worker->fault_until = worker->ops + 16;
    faults_planned++;
    device.fail_call(worker->fault, 1 + (unsigned)pick(worker, 6), codes[pick(worker, 3)]);
}

static void end_fault(struct worker *worker)
{
    if (worker->fault != NULL && worker->ops >= worker->fault_until) {
        device.fail_call(worker->fault, 0, 0);
        worker->fault = NULL;
        faults_ended++;
    }
}

static void trim(struct worker *worker)
{
    size_t keep = pick(worker, 2) == 0 ? 0 : any_octave(worker, options.memory);
    size_t released = 0;
    int rc = gmlake_trim(allocator, keep, &released);
    struct gmlake_stats stats = {.size = sizeof stats};
    works(gmlake_get_stats(allocator, &stats));
    if (options.threads > 1 || worker->fault != NULL) {
        return;
    }
    if (rc != 0 || stats.free_chunks > keep || released % PAGE != 0) {
        fail("a trim to %zu gives %d and leaves %" PRIu64 " bytes", keep, rc, stats.free_chunks);
    }
}

/* Destroys a stream, whose work goes on, and makes another in its place. */
static void renew_a_stream(struct worker *worker)
{
    unsigned i = (unsigned)pick(worker, stream_count);
    if (options.threads > 1 || streams[i] == NULL) {
        return;
    }
    CUstream fresh;
    works(device.stream_create(&fresh, CU_STREAM_NON_BLOCKING));
    order_behind(fresh, streams[i]);
    works(gmlake_forget_stream(allocator, streams[i]));
    works(device.stream_destroy(streams[i]));
    streams[i] = fresh;
}

static void step(struct worker *worker)
{
    uint64_t used = worker->live_bytes * options.threads * 100 / options.memory;
    bool may_take = worker->live_count < worker->live_wanted;
    bool wants_more = used < worker->fill;
    unsigned takes = options.crowd ? 900 : wants_more ? 700 : 400;
    unsigned what = (unsigned)pick(worker, 1000);
    worker->ops++;
    end_fault(worker);
    if (what < 3) {
        trim(worker);
    } else if (what < 10) {
        set_a_tunable(worker);
    } else if (what < 20) {
        free_badly(worker);
    } else if (what < 23) {
        plan_a_fault(worker);
    } else if (what < 25) {
        renew_a_stream(worker);
    } else if (what < 30) {
        device.advance_to_ns(device.now_ns() + pick(worker, 1000000));
    } else if (what < 33) {
        new_mood(worker);
    } else if (worker->live_count == 0 || (may_take && what < takes)) {
        allocate(worker);
    } else {
        free_one(worker, (unsigned)pick(worker, worker->live_count));
    }
    if (worker->ops % options.every == 0) {
        int rc = gmlake_check(allocator);
        if (rc != 0) {
            fail("after operation %" PRIu64 " gmlake_check() gives %d", worker->ops, rc);
        }
    }
    if (options.threads == 1 && worker->ops % (64 * options.every) == 0) {
        gm_live_expect_walked(allocator);
        gm_device_expect_no_violation();
    }
}

static bool out_of_time(void)
{
    static time_t started;
    if (started == 0) {
        started = time(NULL);
    }
    return options.seconds != 0 && (uint64_t)(time(NULL) - started) >= options.seconds;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    works(device.set_current(device.context));
    uint64_t until = worker->ops + options.round / options.threads;
    new_mood(worker);
    while (worker->ops < until) {
        step(worker);
    }
    return NULL;
}

static void make_streams(uint64_t *random)
{
    stream_count = 1 + (unsigned)gm_random_below(random, STREAMS_MOST);
    for (unsigned i = 0; i < stream_count; i++) {
        streams[i] = NULL;
        if (i > 0 || gm_random_below(random, 2) == 0) {
            works(device.stream_create(&streams[i], CU_STREAM_NON_BLOCKING));
        }
    }
}

static void end_round(struct worker *workers, uint64_t *random)
{
    bool keep = gm_random_below(random, 2) == 0;
    for (unsigned t = 0; t < options.threads; t++) {
        workers[t].fault_until = 0;
        end_fault(&workers[t]);
    }
    works(gmlake_check(allocator));
    gm_live_expect_walked(allocator);
    works(device.synchronise());
    for (unsigned t = 0; t < options.threads; t++) {
        struct worker *worker = &workers[t];
        for (unsigned i = worker->live_count; i-- > 0;) {
            gm_live_compare(&worker->live[i]);
            if (worker->live[i].driver || !keep) {
                works(gmlake_free(allocator, worker->live[i].address, NULL));
            }
            forget_live(worker, i);
        }
    }
    works(gmlake_check(allocator));
    gmlake_destroy(allocator);
    gm_device_expect_empty();
    for (unsigned i = 0; i < stream_count; i++) {
        if (streams[i] != NULL) {
            works(device.stream_destroy(streams[i]));
        }
    }
    restore_tunables();
}

static void run_round(struct worker *workers, uint64_t *random)
{
    make_streams(random);
    works(gmlake_create(0, &allocator));
    for (unsigned t = 1; t < options.threads; t++) {
        works(pthread_create(&workers[t].thread, NULL, work, &workers[t]));
    }
    work(&workers[0]);
    for (unsigned t = 1; t < options.threads; t++) {
        works(pthread_join(workers[t].thread, NULL));
    }
    end_round(workers, random);
}

static uint64_t size_of_text(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    static const char suffixes[] = "KMG";
    const char *suffix = *end != '\0' ? strchr(suffixes, *end & ~0x20) : NULL;
    return suffix == NULL ? value : value << 10 * (suffix - suffixes + 1);
}

static void read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"ops", required_argument, NULL, 'o'},     {"seconds", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 't'}, {"seed", required_argument, NULL, 'r'},
        {"device", required_argument, NULL, 'd'},  {"every", required_argument, NULL, 'e'},
        {"round", required_argument, NULL, 'n'},   {"no-faults", no_argument, NULL, 'f'},
        {"crowd", no_argument, NULL, 'c'},         {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        uint64_t value = optarg != NULL ? size_of_text(optarg) : 0;
        switch (option) {
        case 'o':
            options.ops = value;
            break;
        case 's':
            options.seconds = value;
            options.ops = UINT64_MAX;
            break;
        case 't':
            options.threads = value < 1 ? 1 : value > THREADS_MOST ? THREADS_MOST : (unsigned)value;
            break;
        case 'r':
            options.seed = value == 0 ? 1 : value;
            break;
        case 'd':
            options.memory = value;
            break;
        case 'e':
            options.every = value == 0 ? 1 : value;
            break;
        case 'n':
            options.round = value < THREADS_MOST ? THREADS_MOST : value;
            break;
        case 'f':
            options.faults = false;
            break;
        case 'c':
            options.crowd = true;
            break;
        default:
            fprintf(stderr,
                    "usage: random [--ops N | --seconds S] [--threads T] [--seed S] [--device SIZE] [--every N] "
                    "[--round N] [--no-faults] [--crowd]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    snprintf(gm_device_recipe, sizeof gm_device_recipe,
             "%s --seed %" PRIu64 " --threads %u --device %" PRIu64 " --every %" PRIu64 " --round %" PRIu64
             " --ops %" PRIu64 "%s%s",
             argv[0], options.seed, options.threads, options.memory, options.every, options.round, options.ops,
             options.faults ? "" : " --no-faults", options.crowd ? " --crowd" : "");
    printf("%s\n", gm_device_recipe);
    fflush(stdout);
    gm_device_open(gm_device_path(), options.memory, 400);
    uint64_t random = options.seed * 0x9e3779b97f4a7c15u + 1;
    struct worker *workers = calloc(options.threads, sizeof *workers);
    if (workers == NULL) {
        fail("no memory for the test");
    }
    for (unsigned t = 0; t < options.threads; t++) {
        workers[t].random = gm_random(&random) | 1;
    }
    uint64_t done = 0;
    while (done < options.ops && !out_of_time()) {
        run_round(workers, &random);
        done += options.round;
    }
    uint64_t allocs = 0;
    uint64_t refused = 0;
    unsigned peak = 0;
    for (unsigned t = 0; t < options.threads; t++) {
        allocs += workers[t].allocs;
        refused += workers[t].refused;
        peak += workers[t].live_peak;
    }
    printf("%" PRIu64 " operations, %" PRIu64 " allocations, %" PRIu64 " of them refused, %u blocks at most\n", done,
           allocs, refused, peak);
    if (options.crowd && peak < CROWD) {
        fail("no crowd came together");
    }
    free(workers);
    return 0;
}
