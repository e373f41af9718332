/*
 * test_tunables.c - the table makes sense, values come from where they should, and readers never see half a value.
 */
#include "gmtest.h"
#include "tunables.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>

static const struct gm_tunable_info *row(int which)
{
    return &gm_tunable_table[which];
}

static int parse(int which, const char *text, uint64_t *out)
{
    return gm_tunable_parse((enum gmlake_tunable)which, text, strlen(text), out);
}

static void every_row_makes_sense(void **state)
{
    (void)state;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        const char *name = row(i)->name;
        if (row(i)->initial < row(i)->minimum || row(i)->initial > row(i)->maximum) {
            fail_msg("%s: the default is outside the range", name);
        }
        /* The word for "no override" must not be a value anyone can set by its limits. */
        if (row(i)->initial == GM_TUNABLE_NO_OVERRIDE || row(i)->maximum == GM_TUNABLE_NO_OVERRIDE) {
            fail_msg("%s: uses the word that means no override", name);
        }
        if (row(i)->type == GM_TUNABLE_BOOL && (row(i)->minimum != 0 || row(i)->maximum != 1)) {
            fail_msg("%s: a BOOL is 0 or 1", name);
        }
        /* A file name, an environment variable and a C identifier at once. */
        if (!islower((unsigned char)name[0]) || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name) ||
            strlen(name) > 40) {
            fail_msg("%s: not a lower-case name of at most 40 characters", name);
        }
        size_t help = strlen(row(i)->help);
        if (help < 20 || row(i)->help[help - 1] != '.' || row(i)->unit[0] == '\0') {
            fail_msg("%s: needs a unit and a help text that is a sentence", name);
        }
    }
}

static void names_are_unique_and_found(void **state)
{
    (void)state;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        const char *name = row(i)->name;
        assert_int_equal(gm_tunable_find(name, strlen(name)), i);
        /* Neither a prefix nor an extension of a name is the name. */
        assert_int_not_equal(gm_tunable_find(name, strlen(name) - 1), i);
    }
    assert_int_equal(gm_tunable_find("stitch_min", 10), GMLAKE_TUNABLE_stitch_min);
    assert_error(gm_tunable_find("no_such_tunable", 15), ENOENT);
    assert_error(gm_tunable_find("", 0), ENOENT);
    assert_error(gm_tunable_find("Enabled", 7), ENOENT);
}

static void limits_are_read_as_they_are(void **state)
{
    (void)state;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        uint64_t limits[] = {row(i)->minimum, row(i)->initial, row(i)->maximum};
        uint64_t value = 7;
        for (size_t j = 0; j < GM_ARRAY_LENGTH(limits); j++) {
            char text[32];
            snprintf(text, sizeof text, "%llu\n", (unsigned long long)limits[j]);
            assert_ok(parse(i, text, &value));
            assert_true(value == limits[j]);
        }
        static const char *const defaults[] = {"default", "default\n"};
        for (size_t j = 0; j < GM_ARRAY_LENGTH(defaults); j++) {
            value = 7;
            assert_ok(parse(i, defaults[j], &value));
            assert_true(value == row(i)->initial);
        }
        if (row(i)->maximum == GMLAKE_UNLIMITED) {
            assert_ok(parse(i, "max", &value));
            assert_true(value == GMLAKE_UNLIMITED);
        }
    }
}

static void values_outside_the_range_are_refused(void **state)
{
    (void)state;
    uint64_t value = 7;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        char text[32];
        if (row(i)->minimum > 0) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)row(i)->minimum - 1);
            assert_error(parse(i, text, &value), ERANGE);
        }
        if (row(i)->maximum < UINT64_MAX) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)row(i)->maximum + 1);
            assert_error(parse(i, text, &value), ERANGE);
            assert_error(parse(i, "max", &value), ERANGE);
        }
    }
    /* The word that means "no override" is refused even where the range has no end. */
    assert_error(parse(GMLAKE_TUNABLE_stitch_min, "18446744073709551614", &value), ERANGE);
    assert_true(value == 7);
}

static void what_is_no_value_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "defaults", "default \n x", "1 2", "yes", "-1"};
    uint64_t value = 7;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        for (size_t j = 0; j < GM_ARRAY_LENGTH(texts); j++) {
            assert_error(parse(i, texts[j], &value), EINVAL);
        }
    }
    assert_true(value == 7);
}

static void set_takes_values_of_the_range_only(void **state)
{
    (void)state;
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        enum gmlake_tunable which = (enum gmlake_tunable)i;
        assert_true(gm_tunable(which) == row(i)->initial);
        assert_ok(gm_tunable_set(which, row(i)->maximum));
        assert_true(gm_tunable(which) == row(i)->maximum);
        if (row(i)->minimum > 0) {
            assert_error(gm_tunable_set(which, row(i)->minimum - 1), ERANGE);
        }
        if (row(i)->maximum < UINT64_MAX) {
            assert_error(gm_tunable_set(which, row(i)->maximum + 1), ERANGE);
        }
        assert_error(gm_tunable_set(which, GM_TUNABLE_NO_OVERRIDE), ERANGE);
        assert_true(gm_tunable(which) == row(i)->maximum);
        assert_ok(gm_tunable_set(which, row(i)->initial));
        for (int j = 0; j < GMLAKE_TUNABLE_COUNT; j++) {
            assert_true(gm_tunable((enum gmlake_tunable)j) == row(j)->initial);
        }
    }
}

/* As the daemon does; then looks, as every allocation does. */
static void change(_Atomic uint64_t *word, uint64_t value, _Atomic uint64_t *changes)
{
    atomic_store(word, value);
    atomic_fetch_add(changes, 1);
    gm_tunables_look();
}

static void an_override_wins_until_it_is_cleared(void **state)
{
    (void)state;
    static _Atomic uint64_t changes = 7; /* of the daemon's life so far */
    static _Atomic uint64_t words[GMLAKE_TUNABLE_COUNT];
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        atomic_store(&words[i], GM_TUNABLE_NO_OVERRIDE);
    }
    enum gmlake_tunable which = GMLAKE_TUNABLE_stitch_min;
    assert_ok(gm_tunable_set(which, 100));
    gm_tunables_override_with(words, &changes);
    assert_int_equal(gm_tunable(which), 100);
    change(&words[which], 200, &changes);
    assert_int_equal(gm_tunable(which), 200);
    assert_ok(gm_tunable_set(which, 300));
    assert_int_equal(gm_tunable(which), 200);
    assert_int_equal(gm_tunable(GMLAKE_TUNABLE_split_min), row(GMLAKE_TUNABLE_split_min)->initial);
    change(&words[which], GM_TUNABLE_NO_OVERRIDE, &changes);
    assert_int_equal(gm_tunable(which), 300);
    change(&words[which], 400, &changes);
    assert_int_equal(gm_tunable(which), 400);
    gm_tunables_override_with(NULL, NULL);
    assert_int_equal(gm_tunable(which), 300);
    assert_ok(gm_tunable_set(which, row((int)which)->initial));
}

/* --- environment: read once in a process, so each case has a child of its own -------------------------------- */

static int good_environment(void *arg)
{
    (void)arg;
    setenv("GMLAKE_STITCH_MIN", "64M", 1);
    setenv("GMLAKE_ENABLED", "0", 1);
    setenv("GMLAKE_STITCH_CACHE_MAX", "max", 1);
    setenv("GMLAKE_CUT_BUDGET", " 123\n", 1);
    gm_tunables_from_environment();
    if (gm_tunable(GMLAKE_TUNABLE_stitch_min) != 64u << 20 || gm_tunable(GMLAKE_TUNABLE_enabled) != 0 ||
        gm_tunable(GMLAKE_TUNABLE_stitch_cache_max) != GMLAKE_UNLIMITED ||
        gm_tunable(GMLAKE_TUNABLE_cut_budget) != 123) {
        return 1;
    }
    if (gm_tunable(GMLAKE_TUNABLE_split_min) != row(GMLAKE_TUNABLE_split_min)->initial) {
        return 2;
    }
    /* Once only: what was set since stays. */
    setenv("GMLAKE_STITCH_MIN", "1M", 1);
    gm_tunable_set(GMLAKE_TUNABLE_enabled, 1);
    gm_tunables_from_environment();
    return gm_tunable(GMLAKE_TUNABLE_stitch_min) == 64u << 20 && gm_tunable(GMLAKE_TUNABLE_enabled) == 1 ? 0 : 3;
}

static void environment_gives_start_values(void **state)
{
    (void)state;
    assert_int_equal(gm_test_in_child(good_environment, NULL), 0);
    assert_int_equal(gm_tunable(GMLAKE_TUNABLE_stitch_min), row(GMLAKE_TUNABLE_stitch_min)->initial);
}

/* Sets one bad value, with standard error going to the file at @arg; 0 if the default was kept. */
static int bad_environment(void *arg)
{
    static const char *const bad[][2] = {
        {"GMLAKE_STITCH_MIN", "64MB"},
        {"GMLAKE_ENABLED", "2"},
        {"GMLAKE_SPLIT_MIN", ""},
        {"GMLAKE_CUT_MIN", "99999999999999999999"},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bad); i++) {
        setenv(bad[i][0], bad[i][1], 1);
    }
    setenv("GMLAKE_CUT_BUDGET", "77", 1);
    int log = open(arg, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(log, STDERR_FILENO);
    gm_tunables_from_environment();
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        uint64_t expected = i == GMLAKE_TUNABLE_cut_budget ? 77 : row(i)->initial;
        if (gm_tunable((enum gmlake_tunable)i) != expected) {
            return 1;
        }
    }
    return 0;
}

static void bad_environment_is_reported_and_the_default_kept(void **state)
{
    (void)state;
    char path[] = "/tmp/gmlake-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    int verdict = gm_test_in_child(bad_environment, path);
    char report[4096];
    ssize_t length = read(file, report, sizeof report - 1);
    close(file);
    unlink(path);
    assert_int_equal(verdict, 0);
    assert_true(length > 0);
    report[length] = '\0';
    assert_non_null(strstr(report, "GMLAKE_STITCH_MIN=64MB"));
    assert_non_null(strstr(report, "GMLAKE_ENABLED=2"));
    assert_non_null(strstr(report, "GMLAKE_SPLIT_MIN="));
    assert_non_null(strstr(report, "GMLAKE_CUT_MIN=99999999999999999999"));
    assert_null(strstr(report, "CUT_BUDGET"));
}

/* --- readers and writers at once ------------------------------------------------------------------------------ */

enum { WRITES = 100000, READERS = 3 };

/* Both halves of each value differ from those of the others: a mix of two would be none of them. */
static uint64_t legal[] = {0x0000000100000001, 0x0000000200000002, 0x0000000300000003, 0x0000000400000004};
static _Atomic uint64_t shared_words[GMLAKE_TUNABLE_COUNT];
static atomic_int writers_done;

static _Atomic uint64_t shared_changes;

static int is_legal(uint64_t value)
{
    for (size_t i = 0; i < GM_ARRAY_LENGTH(legal); i++) {
        if (value == legal[i]) {
            return 1;
        }
    }
    return 0;
}

static void *write_own(void *arg)
{
    (void)arg;
    for (int i = 0; i < WRITES; i++) {
        gm_tunable_set(GMLAKE_TUNABLE_stitch_min, legal[i % 2]);
    }
    return NULL;
}

static void *write_override(void *arg)
{
    (void)arg;
    for (int i = 0; i < WRITES; i++) {
        atomic_store_explicit(&shared_words[GMLAKE_TUNABLE_stitch_min],
                              i % 3 == 2 ? GM_TUNABLE_NO_OVERRIDE : legal[2 + i % 3], memory_order_relaxed);
        atomic_fetch_add(&shared_changes, 1);
        if (i % 64 == 0) {
            gm_tunables_override_with(i % 128 == 0 ? shared_words : NULL, &shared_changes);
        }
    }
    return NULL;
}

/* Returns NULL, or @arg when it saw a value nobody wrote. */
static void *read_all_the_time(void *arg)
{
    void *verdict = NULL;
    do {
        gm_tunables_look();
        if (!is_legal(gm_tunable(GMLAKE_TUNABLE_stitch_min))) {
            verdict = arg;
        }
    } while (!atomic_load(&writers_done));
    return verdict;
}

static void readers_see_whole_values(void **state)
{
    (void)state;
    pthread_t readers[READERS];
    pthread_t writers[2];
    for (int i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        atomic_store(&shared_words[i], GM_TUNABLE_NO_OVERRIDE);
    }
    assert_ok(gm_tunable_set(GMLAKE_TUNABLE_stitch_min, legal[0]));
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_all_the_time, legal), 0);
    }
    assert_int_equal(pthread_create(&writers[0], NULL, write_own, NULL), 0);
    assert_int_equal(pthread_create(&writers[1], NULL, write_override, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(writers[i], NULL), 0);
    }
    atomic_store(&writers_done, 1);
    for (int i = 0; i < READERS; i++) {
        void *verdict = NULL;
        assert_int_equal(pthread_join(readers[i], &verdict), 0);
        assert_null(verdict);
    }
    gm_tunables_override_with(NULL, NULL);
    assert_ok(gm_tunable_set(GMLAKE_TUNABLE_stitch_min, row(GMLAKE_TUNABLE_stitch_min)->initial));
}

/* --- a change is in force in whatever begins after it ------------------------------------------------------------ */

static _Atomic uint64_t written; /* into the word of stitch_min, before the reader's look began */

static void *write_rising(void *arg)
{
    for (uint64_t i = 1; i <= WRITES; i++) {
        atomic_store(&shared_words[GMLAKE_TUNABLE_stitch_min], i);
        atomic_fetch_add(&shared_changes, 1);
        atomic_store(&written, i);
    }
    atomic_store(&writers_done, 1);
    return arg;
}

/* Others, who renew all values for a change of another one, may not bring an old one back. */
static void *write_another(void *arg)
{
    for (uint64_t i = 0; !atomic_load(&writers_done); i++) {
        gm_tunable_set(GMLAKE_TUNABLE_cut_min, row(GMLAKE_TUNABLE_cut_min)->minimum + i % 2);
    }
    return arg;
}

static void *look_for_old_values(void *arg)
{
    void *verdict = NULL;
    do {
        uint64_t least = atomic_load(&written);
        gm_tunables_look();
        if (gm_tunable(GMLAKE_TUNABLE_stitch_min) < least) {
            verdict = arg;
        }
    } while (!atomic_load(&writers_done));
    return verdict;
}

static void no_look_misses_a_change(void **state)
{
    (void)state;
    pthread_t threads[READERS + 2];
    int old_value;
    atomic_store(&writers_done, 0);
    atomic_store(&written, 0);
    atomic_store(&shared_words[GMLAKE_TUNABLE_stitch_min], 0);
    gm_tunables_override_with(shared_words, &shared_changes);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, look_for_old_values, &old_value), 0);
    }
    assert_int_equal(pthread_create(&threads[READERS], NULL, write_another, NULL), 0);
    assert_int_equal(pthread_create(&threads[READERS + 1], NULL, write_rising, NULL), 0);
    for (int i = 0; i < READERS + 2; i++) {
        void *verdict = NULL;
        assert_int_equal(pthread_join(threads[i], &verdict), 0);
        assert_null(verdict);
    }
    gm_tunables_override_with(NULL, NULL);
    assert_ok(gm_tunable_set(GMLAKE_TUNABLE_cut_min, row(GMLAKE_TUNABLE_cut_min)->initial));
}

static int look_in_child(void *arg)
{
    (void)arg;
    gm_tunables_look();
    return gm_tunable(GMLAKE_TUNABLE_stitch_min) == 5 ? 0 : 1;
}

/* The daemon tunes the parent, and a change at the moment of the fork must not hold up the child. */
static void a_child_has_no_overrides(void **state)
{
    (void)state;
    gm_tunables_from_environment();
    assert_ok(gm_tunable_set(GMLAKE_TUNABLE_stitch_min, 5));
    atomic_store(&shared_words[GMLAKE_TUNABLE_stitch_min], 6);
    gm_tunables_override_with(shared_words, &shared_changes);
    assert_int_equal(gm_tunable(GMLAKE_TUNABLE_stitch_min), 6);
    assert_int_equal(gm_test_in_child(look_in_child, NULL), 0);
    gm_tunables_override_with(NULL, NULL);
    assert_ok(gm_tunable_set(GMLAKE_TUNABLE_stitch_min, row(GMLAKE_TUNABLE_stitch_min)->initial));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_makes_sense),
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(limits_are_read_as_they_are),
        cmocka_unit_test(values_outside_the_range_are_refused),
        cmocka_unit_test(what_is_no_value_is_refused),
        cmocka_unit_test(set_takes_values_of_the_range_only),
        cmocka_unit_test(an_override_wins_until_it_is_cleared),
        cmocka_unit_test(environment_gives_start_values),
        cmocka_unit_test(bad_environment_is_reported_and_the_default_kept),
        cmocka_unit_test(readers_see_whole_values),
        cmocka_unit_test(no_look_misses_a_change),
        cmocka_unit_test(a_child_has_no_overrides),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
