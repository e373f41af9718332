/*
 * test_tree.c - the table of nodes and its numbers, what is read from them and what writing them does.
 */
#include "ask.h"
#include "events.h"
#include "gpus.h"
#include "machine.h"
#include "metrics.h"
#include "node.h"
#include "procfs.h"
#include "store.h"
#include "tunables.h"

#include "gmtest.h"

#include <sys/syscall.h>

/* A machine with this very process attached, which has published nothing. */
struct fixture {
    struct gm_machine machine;
    struct gm_process *process;
    int fds[2];
    int pidfd;
};

static int attach(struct fixture *fixture, pid_t pid, const uint64_t *wanted, struct gm_process **out)
{
    struct gm_identity identity = {.pid = pid, .uid = 1000, .gid = 100, .start_time = 5, .pidfd = fixture->pidfd};
    struct gm_pages pages;
    int fds[2];
    int rc = gm_pages_create(&pages, fds);
    if (rc < 0) {
        return rc;
    }
    close(fds[0]);
    close(fds[1]);
    rc = gm_machine_add(&fixture->machine, &identity, &pages, wanted, out);
    if (rc < 0) {
        gm_pages_destroy(&pages);
    }
    return rc;
}

static const uint64_t *nothing_wanted(void)
{
    static uint64_t words[GMLAKE_TUNABLE_COUNT];
    for (unsigned i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        words[i] = GMLAKE_CTL_NO_OVERRIDE;
    }
    return words;
}

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    gm_machine_init(&fixture.machine, NULL);
    *state = &fixture;
    return attach(&fixture, getpid(), nothing_wanted(), &fixture.process);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    gm_process_release(fixture->process);
    gm_machine_finish(&fixture->machine);
    close(fixture->pidfd);
    return 0;
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

static void every_node_is_found_by_its_number(void **state)
{
    (void)state;
    for (unsigned i = 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        uint64_t serial = gm_node_of_process(node) || gm_node_of_gpu(node) ? 12345 : 0;
        uint64_t found_serial = 99;
        assert_ptr_equal(gm_node_of_inode(gm_node_inode(node, serial), &found_serial), node);
        assert_int_equal(found_serial, serial);
    }
    assert_int_equal(gm_node_inode(gm_nodes, 0), 1);
}

static void numbers_that_nobody_gave_out_are_refused(void **state)
{
    (void)state;
    uint64_t serial;
    assert_null(gm_node_of_inode(0, &serial));
    assert_null(gm_node_of_inode(gm_node_count + 1, &serial));
    assert_null(gm_node_of_inode(5ull << 8 | 1, &serial)); /* the root of a process */
    assert_null(gm_node_of_inode(gm_node_inode(gm_node_holder(GM_IN_PROCESS), 0), &serial));
}

static void the_table_is_sound(void **state)
{
    (void)state;
    for (unsigned i = 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        assert_true(S_ISDIR(node->mode) == (node->holds != GM_IN_NOTHING));
        assert_true((node->show != NULL) == (S_ISREG(node->mode) && (node->mode & 0444) != 0));
        assert_true((node->store != NULL) == (S_ISREG(node->mode) && (node->mode & 0222) != 0));
        assert_non_null(node->help);
        if (node->name != NULL && i > 0) {
            assert_ptr_equal(gm_node_find(node->in, node->name), node); /* no name twice in one place */
        }
    }
    assert_null(gm_node_find(GM_IN_ROOT, "nothing"));
    assert_null(gm_node_find(GM_IN_PROCESS, ""));
}

static void only_plain_numbers_are_names(void **state)
{
    (void)state;
    pid_t pid;
    static const char *const bad[] = {"", "00", "01", "-1", "+1", "1 ", " 1", "1x", "0x1", "2147483648", "99999999999"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bad); i++) {
        assert_error(gm_node_parse_number(bad[i], &pid), ENOENT);
    }
    assert_ok(gm_node_parse_number("2147483647", &pid));
    assert_int_equal(pid, 2147483647);
    assert_ok(gm_node_parse_number("0", &pid));
    assert_int_equal(pid, 0);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

static int show(struct fixture *fixture, enum gm_place place, const char *name, struct gm_text *out)
{
    const struct gm_node *node = gm_node_find(place, name);
    assert_non_null(node);
    static struct gm_question question;
    static struct gm_watermark watermark;
    static struct gm_counts shown;
    struct gm_view view = {.machine = &fixture->machine,
                           .process = gm_node_of_process(node) ? fixture->process : NULL,
                           .argument = node->argument,
                           .room = 4096,
                           .question = &question,
                           .watermark = &watermark,
                           .shown = &shown};
    gm_text_clear(out);
    int rc = node->show(&view, out);
    if (rc == GM_ASKED && question.fd >= 0) {
        close(question.fd);
    }
    return rc;
}

static int store(struct fixture *fixture, enum gm_place place, const char *name, const char *text)
{
    const struct gm_node *node = gm_node_find(place, name);
    assert_non_null(node);
    struct gm_question question;
    struct gm_view view = {.machine = &fixture->machine,
                           .process = gm_node_of_process(node) ? fixture->process : NULL,
                           .argument = node->argument,
                           .question = &question};
    return node->store(&view, text, strlen(text));
}

static void every_file_is_text_that_ends_in_a_newline(void **state)
{
    struct fixture *fixture = *state;
    struct gm_text text = {0};
    for (unsigned i = 0; i < gm_node_count; i++) {
        if (gm_nodes[i].show == NULL) {
            continue;
        }
        int rc = show(fixture, gm_nodes[i].in, gm_nodes[i].name, &text);
        if (strcmp(gm_nodes[i].name, "map") == 0) {
            assert_int_equal(rc, GM_ASKED);
            continue;
        }
        assert_ok(rc);
        if (strcmp(gm_nodes[i].name, "container") == 0) {
            assert_true(text.length == 1 || text.length == GM_CONTAINER_SIZE);
            continue;
        }
        if (strcmp(gm_nodes[i].name, "pools") == 0 || strcmp(gm_nodes[i].name, "procs") == 0 ||
            gm_nodes[i].argument == GM_NODE_STREAM) {
            assert_int_equal(text.length, 0); /* no device yet, nothing recorded */
            continue;
        }
        assert_true(text.length > 1 && text.data[text.length - 1] == '\n');
        assert_int_equal(strlen(text.data), text.length);
    }
    gm_text_clear(&text);
}

static void every_file_of_a_process_that_is_gone_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct gm_text text = {0};
    gm_machine_remove(&fixture->machine, fixture->process);
    for (unsigned i = 0; i < gm_node_count; i++) {
        const struct gm_node *node = &gm_nodes[i];
        /* uid, start_time and serial are known for ever; the file system refuses to read them. */
        if (!gm_node_of_process(node) || node->show == NULL || node->argument > 0 || strcmp(node->name, "uid") == 0 ||
            strcmp(node->name, "start_time") == 0 || strcmp(node->name, "serial") == 0 ||
            strcmp(node->name, "map") == 0) {
            continue;
        }
        assert_error(show(fixture, node->in, node->name, &text), ESRCH);
    }
    assert_error(store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", "1"), ESRCH);
    gm_text_clear(&text);
}

static void statistics_begin_with_their_age(void **state)
{
    struct fixture *fixture = *state;
    struct gm_text text = {0};
    assert_ok(show(fixture, GM_IN_PROCESS, "stats", &text));
    assert_int_equal(strncmp(text.data, "age_us ", 7), 0);
    assert_non_null(strstr(text.data, "\nstale 0\ngeneration 0\nrequested 0\n"));
    assert_ok(show(fixture, GM_IN_ROOT, "stats", &text));
    assert_int_equal(strncmp(text.data, "processes 1\ndevices 0\nrequested 0\n", 34), 0);
    gm_text_clear(&text);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

static void assert_shows(struct fixture *fixture, enum gm_place place, const char *name, const char *expected)
{
    struct gm_text text = {0};
    assert_ok(show(fixture, place, name, &text));
    assert_string_equal(text.data, expected);
    gm_text_clear(&text);
}

static uint64_t word_of(struct fixture *fixture, enum gmlake_tunable which)
{
    return atomic_load(&fixture->process->pages.tunables->word[which]);
}

static void a_value_is_taken_in_every_allowed_form(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"64M\n", 64u << 20}, {"64m", 64u << 20}, {"  1K \n", 1024},           {"0x100", 256},
                {"0100", 100},        {"0", 0},           {"max\n", GMLAKE_UNLIMITED}, {"1T", 1ull << 40}};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(good); i++) {
        assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", good[i].text));
        assert_true(word_of(fixture, GMLAKE_TUNABLE_stitch_min) == good[i].value);
    }
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", "1099511627776\n");
    assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", "max"));
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", "max\n");
}

static void what_is_no_value_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const char *const bad[] = {"",      "\n",   "   ",    "abc", "4MB",      "4MiB", "1.5G", "-5",
                                      "4M 5M", "1\n2", "1\0012", "0x",  "default1", "K",    "maxx"};
    static const char *const outside[] = {"18446744073709551616", "99999999999999999999", "16E7",
                                          "18446744073709551614"};
    assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", "4096"));
    for (size_t i = 0; i < GM_ARRAY_LENGTH(bad); i++) {
        assert_error(store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", bad[i]), EINVAL);
    }
    for (size_t i = 0; i < GM_ARRAY_LENGTH(outside); i++) {
        int rc = store(fixture, GM_IN_PROCESS_TUNABLES, "stitch_min", outside[i]);
        assert_int_equal(rc, strcmp(outside[i], "16E7") == 0 ? -EINVAL : -ERANGE);
    }
    assert_error(store(fixture, GM_IN_PROCESS_TUNABLES, "enabled", "2"), ERANGE);
    assert_error(store(fixture, GM_IN_PROCESS_TUNABLES, "split_min", "511"), ERANGE);
    assert_error(store(fixture, GM_IN_PROCESS_TUNABLES, "split_min", "max"), ERANGE);
    assert_true(word_of(fixture, GMLAKE_TUNABLE_stitch_min) == 4096);
    assert_true(word_of(fixture, GMLAKE_TUNABLE_enabled) == GMLAKE_CTL_NO_OVERRIDE);
}

static void a_process_overrides_the_machine_and_default_lets_go(void **state)
{
    struct fixture *fixture = *state;
    assert_shows(fixture, GM_IN_MACHINE_TUNABLES, "cut_min", "default\n");
    assert_ok(store(fixture, GM_IN_MACHINE_TUNABLES, "cut_min", "8M"));
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "8388608\n");
    assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "16M"));
    assert_ok(store(fixture, GM_IN_MACHINE_TUNABLES, "cut_min", "32M"));
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "16777216\n");
    assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "default\n"));
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "33554432\n");
    assert_ok(store(fixture, GM_IN_MACHINE_TUNABLES, "cut_min", " default "));
    assert_shows(fixture, GM_IN_PROCESS_TUNABLES, "cut_min", "4194304\n"); /* its own: the start value */
    assert_true(word_of(fixture, GMLAKE_TUNABLE_cut_min) == GMLAKE_CTL_NO_OVERRIDE);
}

static void each_change_has_a_number(void **state)
{
    struct fixture *fixture = *state;
    struct gm_text text = {0};
    uint64_t before = atomic_load(&fixture->process->pages.tunables->changes);
    assert_ok(store(fixture, GM_IN_PROCESS_TUNABLES, "cut_budget", "5"));
    char expected[128];
    snprintf(expected, sizeof expected, "cut_budget want=5 now=%llu serial=%llu seen=0\n",
             (unsigned long long)gm_tunable_table[GMLAKE_TUNABLE_cut_budget].initial, (unsigned long long)before + 1);
    assert_ok(show(fixture, GM_IN_PROCESS_TUNABLES, ".applied", &text));
    assert_non_null(strstr(text.data, expected));
    gm_text_clear(&text);
}

/* ---- the table of processes ----------------------------------------------------------------------------------- */

static void one_that_never_publishes_becomes_stale(void **state)
{
    struct fixture *fixture = *state;
    struct gm_reading reading;
    gm_process_read(fixture->process, &reading);
    assert_false(reading.stale);
    fixture->process->since_ns -= 4000000000u;
    gm_process_read(fixture->process, &reading);
    assert_true(reading.stale);
    assert_true(reading.age_us >= 4000000);
}

static void processes_are_walked_in_order_and_held(void **state)
{
    struct fixture *fixture = *state;
    static const pid_t pids[] = {70000, 2, 900, 65000, 3};
    struct gm_process *held[GM_ARRAY_LENGTH(pids)];
    for (size_t i = 0; i < GM_ARRAY_LENGTH(pids); i++) {
        assert_ok(attach(fixture, pids[i] + 5000000, nothing_wanted(), &held[i]));
        struct gm_process *again;
        assert_error(attach(fixture, pids[i] + 5000000, nothing_wanted(), &again), EEXIST);
    }
    assert_int_equal(gm_machine_process_count(&fixture->machine), 6);
    static const pid_t expected[] = {5000002, 5000003, 5000900, 5065000, 5070000};
    pid_t pid = 5000000;
    for (size_t i = 0; i < GM_ARRAY_LENGTH(expected); i++) {
        struct gm_process *process = gm_machine_next(&fixture->machine, pid);
        assert_non_null(process);
        pid = process->identity.pid;
        assert_int_equal(pid, expected[i]);
        gm_process_release(process);
    }
    assert_null(gm_machine_next(&fixture->machine, pid));
    assert_null(gm_machine_find_pid(&fixture->machine, 5000004));
    /* Removed while somebody holds it: gone from the table, memory still good. */
    uint64_t serial = held[1]->serial;
    gm_machine_remove(&fixture->machine, held[1]);
    gm_machine_remove(&fixture->machine, held[1]);
    assert_null(gm_machine_find_serial(&fixture->machine, serial));
    assert_true(atomic_load(&held[1]->pages.tunables->word[0]) == GMLAKE_CTL_NO_OVERRIDE);
    for (size_t i = 0; i < GM_ARRAY_LENGTH(pids); i++) {
        gm_process_release(held[i]);
    }
}

static void what_a_process_wanted_of_an_earlier_daemon_is_taken_over_if_it_is_sane(void **state)
{
    struct fixture *fixture = *state;
    uint64_t wanted[GMLAKE_TUNABLE_COUNT];
    struct gm_process *process;
    memcpy(wanted, nothing_wanted(), sizeof wanted);
    wanted[GMLAKE_TUNABLE_stitch_min] = 12345;
    wanted[GMLAKE_TUNABLE_enabled] = 17; /* out of range */
    assert_ok(attach(fixture, 4999999, wanted, &process));
    assert_true(atomic_load(&process->pages.tunables->word[GMLAKE_TUNABLE_stitch_min]) == 12345);
    assert_true(atomic_load(&process->pages.tunables->word[GMLAKE_TUNABLE_enabled]) == GMLAKE_CTL_NO_OVERRIDE);
    gm_process_release(process);
}

/* ---- metrics and /proc ---------------------------------------------------------------------------------------- */

static void metric_names_have_base_units(void **state)
{
    (void)state;
    static const struct {
        enum gm_stat row;
        const char *name;
    } names[] = {{GM_STAT_requested, "gmlake_process_requested_bytes"},
                 {GM_STAT_reserved_peak, "gmlake_process_reserved_peak_bytes"},
                 {GM_STAT_va_bytes, "gmlake_process_va_bytes"},
                 {GM_STAT_blocks, "gmlake_process_blocks"},
                 {GM_STAT_allocs, "gmlake_process_allocs_total"},
                 {GM_STAT_driver_ns, "gmlake_process_driver_seconds_total"},
                 {GM_STAT_primitive_bytes, "gmlake_process_primitive_bytes"}};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(names); i++) {
        char name[128];
        gm_metric_name("process", names[i].row, name, sizeof name);
        assert_string_equal(name, names[i].name);
    }
}

/* 32 digits twice: a container's id. */
#define DIGITS "0123456789abcdef0123456789abcdef"

static void a_container_is_found_in_its_cgroup(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *id;
    } cases[] = {
        {"0::/system.slice/docker-" DIGITS DIGITS ".scope\n", DIGITS DIGITS},
        {"0::/kubepods/pod1234-ab/" DIGITS DIGITS "\n", DIGITS DIGITS},
        {"12:cpu:/docker/" DIGITS DIGITS "/docker/f" DIGITS "0123456789abcdef0123456789abcde\n",
         "f" DIGITS "0123456789abcdef0123456789abcde"},
        {"0::/user.slice/user-0.slice\n", ""},
        {"0::/a/" DIGITS DIGITS "0\n", ""},
        {"0::/a/" DIGITS "\n", ""},
        {"", ""},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        char id[GM_CONTAINER_SIZE];
        gm_proc_container_parse(cases[i].text, id);
        assert_string_equal(id, cases[i].id);
    }
}

static void gpus_are_numbered_as_the_driver_does(void **state)
{
    (void)state;
    struct gm_machine machine;
    struct gm_device device = {.ordinal = 0};
    char root[] = "/tmp/gmlake-test-gpus-XXXXXX";
    char path[128];
    unsigned index = 77;
    assert_int_equal(gm_machine_init(&machine, NULL), 0);
    assert_non_null(mkdtemp(root));
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/0000:%02x:00.0", root, 0x10 + i);
        assert_int_equal(mkdir(path, 0700), 0);
        strcat(path, "/information");
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "Model: \t NVIDIA\nGPU UUID: \t GPU-0%u000000-0000-0000-0000-000000000000\n", i + 1);
        fclose(file);
    }
    gm_gpus_number(&machine, root);
    device.uuid[0] = 2; /* the process sees only this one, as its device 0 */
    assert_int_equal(gm_gpu_index(&machine, &device, &index), 0);
    assert_int_equal(index, 1);
    device.uuid[0] = 3; /* not listed, and 0 is taken */
    assert_int_equal(gm_gpu_index(&machine, &device, &index), 0);
    assert_int_equal(index, 2);
    device.uuid[0] = 4;
    device.ordinal = 9; /* what it is called if nobody else is */
    assert_int_equal(gm_gpu_index(&machine, &device, &index), 0);
    assert_int_equal(index, 9);
    device.uuid[0] = 0; /* not told yet */
    assert_int_equal(gm_gpu_index(&machine, &device, &index), -ENOSPC);
    for (unsigned i = 0; i < GM_GPUS_MAX; i++) {
        device.uuid[0] = (uint8_t)(100 + i);
        device.ordinal = 1023;
        int rc = gm_gpu_index(&machine, &device, &index);
        assert_int_equal(rc, i < GM_GPUS_MAX - 4 ? 0 : -ENOSPC);
    }
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/0000:%02x:00.0/information", root, 0x10 + i);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
    rmdir(root);
    gm_machine_finish(&machine);
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    struct gm_text text = {0};
    gm_metric_label(&text, "a\"b\\c\nd");
    assert_string_equal(text.data, "\"a\\\"b\\\\c\\nd\"");
    gm_text_clear(&text);
}

static void names_become_printable(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } names[] = {{"python", "python"},
                 {"a\nb\tc\x7f", "a?b?c?"},
                 {"\xff\xfe", "??"},
                 {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
                 {"cut\xc3", "cut?"},
                 {"\xc0\xaf", "??"},           /* overlong */
                 {"\xed\xa0\x80", "???"},      /* surrogate */
                 {"\xf4\x90\x80\x80", "????"}, /* beyond Unicode */
                 {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(names); i++) {
        char text[32];
        strcpy(text, names[i].from);
        gm_make_printable(text, strlen(text));
        assert_string_equal(text, names[i].to);
    }
}

static void proc_stat_is_read_past_any_name(void **state)
{
    (void)state;
    struct gm_proc_stat stat;
    assert_ok(gm_proc_stat_parse("12 (a) b) (c) T 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0 987654 1 2", &stat));
    assert_int_equal(stat.state, 'T');
    assert_int_equal(stat.start_time, 987654);
    assert_error(gm_proc_stat_parse("12 (a) T 1 2", &stat), EBADMSG);
    assert_error(gm_proc_stat_parse("", &stat), EBADMSG);
    assert_error(gm_proc_stat(0x3fffffff, &stat), ESRCH);
    pid_t group;
    assert_ok(gm_proc_thread_group(gettid(), &group));
    assert_int_equal(group, getpid());
    assert_error(gm_proc_thread_group(0, &group), ESRCH);
}

static void text_grows_and_keeps_zero_bytes(void **state)
{
    (void)state;
    struct gm_text text = {0};
    for (int i = 0; i < 10000; i++) {
        gm_text_add(&text, "%d\n", i % 10);
    }
    assert_int_equal(text.length, 20000);
    gm_text_append(&text, "\0x", 2);
    assert_int_equal(text.length, 20002);
    assert_false(text.failed);
    gm_text_clear(&text);
    assert_null(text.data);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_node_is_found_by_its_number),
        TEST(numbers_that_nobody_gave_out_are_refused),
        TEST(the_table_is_sound),
        TEST(only_plain_numbers_are_names),
        TEST(every_file_is_text_that_ends_in_a_newline),
        TEST(every_file_of_a_process_that_is_gone_says_so),
        TEST(statistics_begin_with_their_age),
        TEST(a_value_is_taken_in_every_allowed_form),
        TEST(what_is_no_value_changes_nothing),
        TEST(a_process_overrides_the_machine_and_default_lets_go),
        TEST(each_change_has_a_number),
        TEST(one_that_never_publishes_becomes_stale),
        TEST(processes_are_walked_in_order_and_held),
        TEST(what_a_process_wanted_of_an_earlier_daemon_is_taken_over_if_it_is_sane),
        TEST(metric_names_have_base_units),
        TEST(a_container_is_found_in_its_cgroup),
        TEST(gpus_are_numbered_as_the_driver_does),
        TEST(label_values_are_escaped),
        TEST(names_become_printable),
        TEST(proc_stat_is_read_past_any_name),
        TEST(text_grows_and_keeps_zero_bytes),
    };
    return gm_test_result(cmocka_run_group_tests_name("tree", tests, NULL, NULL));
}
