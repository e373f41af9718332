/*
 * test_options.c - the command line of gmlaked, and the directories and sockets it makes and removes.
 */
#include "options.h"
#include "place.h"

#include "gmtest.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char work[64];

/* ---- options -------------------------------------------------------------------------------------------------- */

/* Parses a command line given as words between blanks; what it prints goes to nowhere. */
static int parse(const char *line, struct gm_options *out)
{
    char copy[8192];
    char *words[16] = {copy};
    int count = 0;
    snprintf(copy, sizeof copy, "gmlaked %s", line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    words[count] = NULL;
    fflush(NULL);
    int keep[2] = {dup(1), dup(2)};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 1);
    dup2(null, 2);
    optind = 0; /* begin anew */
    int code = gm_options_parse(count, words, out);
    fflush(NULL);
    dup2(keep[0], 1);
    dup2(keep[1], 2);
    close(keep[0]);
    close(keep[1]);
    close(null);
    return code;
}

static void every_option_is_taken(void **state)
{
    (void)state;
    struct gm_options options;
    assert_int_equal(parse("--mountpoint /a/b --socket /c/d --textfile /e=60 --daemon", &options), -1);
    assert_string_equal(options.mountpoint, "/a/b");
    assert_string_equal(options.socket, "/c/d");
    assert_string_equal(options.textfile_directory, "/e");
    assert_int_equal(options.textfile_seconds, 60);
    assert_true(options.daemonize);
    assert_int_equal(parse("-m /a -s /b -t /c -d -f", &options), -1);
    assert_string_equal(options.textfile_directory, "/c");
    assert_int_equal(options.textfile_seconds, 15);
    assert_false(options.daemonize);
    assert_int_equal(options.keeping, GM_KEEPING_SELF);
    assert_int_equal(parse("-m /a -s /b --keeper service", &options), -1);
    assert_int_equal(options.keeping, GM_KEEPING_SERVICE);
    assert_int_equal(parse("-m /a -s /b -k none", &options), -1);
    assert_int_equal(options.keeping, GM_KEEPING_NONE);
    assert_int_equal(parse("-m /a -s /b -k somebody", &options), 2);
    /* Another user is root's to choose. */
    assert_int_equal(parse("-m /a -s /b --user daemon", &options), getuid() == 0 ? -1 : 2);
    assert_string_equal(options.user, getuid() == 0 ? "daemon" : "");
}

static void relative_paths_are_made_absolute(void **state)
{
    (void)state;
    struct gm_options options;
    char expected[PATH_MAX];
    char here[PATH_MAX / 2];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(parse("-m lake -s run/sock", &options), -1);
    snprintf(expected, sizeof expected, "%s/lake", here);
    assert_string_equal(options.mountpoint, expected);
    snprintf(expected, sizeof expected, "%s/run/sock", here);
    assert_string_equal(options.socket, expected);
}

static void help_and_version_end_well(void **state)
{
    (void)state;
    struct gm_options options;
    assert_int_equal(parse("--help", &options), 0);
    assert_int_equal(parse("--version", &options), 0);
}

static void wrong_usage_is_told_apart(void **state)
{
    (void)state;
    struct gm_options options;
    static const char *const wrong[] = {"--nonsense",  "stray",    "--mountpoint",    "-t =5",
                                        "-t /a=0",     "-t /a=x",  "-t /a=",          "-t /a=1x",
                                        "-t /a=86401", "-t /a=-1", "-m /a -s /a/b/c", "-t /a=+1"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(wrong); i++) {
        assert_int_equal(parse(wrong[i], &options), 2);
    }
    char longest[2 * PATH_MAX] = "-m /";
    memset(longest + 4, 'x', PATH_MAX);
    assert_int_equal(parse(longest, &options), 2);
    longest[1] = 't';
    assert_int_equal(parse(longest, &options), 2);
}

static void a_mountpoint_beside_the_socket_is_fine(void **state)
{
    (void)state;
    struct gm_options options;
    assert_int_equal(parse("-m /a/b -s /a/bc", &options), -1);
}

static void defaults_are_roots_or_the_users(void **state)
{
    (void)state;
    struct gm_options options;
    if (geteuid() == 0) {
        assert_int_equal(parse("", &options), -1);
        assert_string_equal(options.mountpoint, "/gmlake");
        assert_string_equal(options.socket, "/run/gmlake/gmlaked.sock");
        assert_string_equal(options.textfile_directory, "");
        return;
    }
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    assert_int_equal(parse("", &options), -1);
    assert_string_equal(options.mountpoint, "/run/user/1/gmlake/mount");
    assert_string_equal(options.socket, "/run/user/1/gmlake/gmlaked.sock");
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(parse("", &options), 2);
}

/* ---- directories ---------------------------------------------------------------------------------------------- */

static void join(char out[PATH_MAX], const char *name)
{
    snprintf(out, PATH_MAX, "%s/%s", work, name);
}

static bool is_there(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

static void directories_that_were_made_are_removed_and_no_others(void **state)
{
    (void)state;
    struct gm_made made = {0};
    char path[PATH_MAX];
    char above[PATH_MAX];
    join(path, "a/b/c");
    join(above, "a");
    assert_ok(mkdir(above, 0755));
    assert_ok(gm_directory_make(path, 0755, &made));
    assert_ok(gm_directory_make(path, 0755, &made)); /* again: is there */
    assert_true(is_there(path));
    assert_int_equal(made.count, 2);
    gm_directories_remove(&made);
    assert_true(is_there(above));
    assert_ok(rmdir(above)); /* empty */
}

static void a_directory_that_somebody_uses_stays(void **state)
{
    (void)state;
    struct gm_made made = {0};
    char path[PATH_MAX];
    char inside[PATH_MAX];
    join(path, "used");
    join(inside, "used/file");
    assert_ok(gm_directory_make(path, 0755, &made));
    close(open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    gm_directories_remove(&made);
    assert_true(is_there(inside));
    unlink(inside);
    rmdir(path);
}

static void a_file_in_the_way_is_an_error(void **state)
{
    (void)state;
    struct gm_made made = {0};
    char file[PATH_MAX];
    char below[PATH_MAX];
    char absolute[PATH_MAX];
    join(file, "file");
    join(below, "file/x/y");
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_error(gm_directory_make(below, 0755, &made), ENOTDIR);
    assert_error(gm_mountpoint_prepare(below, &made, absolute), ENOTDIR);
    assert_int_equal(made.count, 0);
    unlink(file);
}

static void a_mountpoint_is_named_in_full(void **state)
{
    (void)state;
    struct gm_made made = {0};
    char path[PATH_MAX];
    char absolute[PATH_MAX];
    char expected[PATH_MAX];
    join(path, "x/../m/.");
    join(expected, "m");
    assert_ok(gm_mountpoint_prepare(path, &made, absolute));
    assert_string_equal(absolute, expected);
    gm_directories_remove(&made);
    rmdir(expected);
    join(path, "x");
    rmdir(path);
}

/* ---- sockets -------------------------------------------------------------------------------------------------- */

static void a_socket_is_made_with_its_directory_and_goes_again(void **state)
{
    (void)state;
    struct gm_made made = {0};
    struct gm_socket opened;
    struct gm_socket second;
    struct stat about;
    char path[PATH_MAX];
    join(path, "run/deep/sock");
    assert_ok(gm_socket_open(path, &made, &opened));
    assert_ok(lstat(path, &about));
    assert_int_equal(about.st_mode & 07777, geteuid() == 0 ? 0666 : 0600);
    assert_error(gm_socket_open(path, &made, &second), EADDRINUSE);
    gm_socket_close(&opened);
    assert_false(is_there(path));
    gm_directories_remove(&made);
    join(path, "run");
    assert_false(is_there(path));
}

static void a_dead_socket_is_replaced_a_living_one_is_not(void **state)
{
    (void)state;
    struct gm_made made = {0};
    struct gm_socket opened;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[PATH_MAX];
    join(path, "sock");
    snprintf(address.sun_path, sizeof address.sun_path, "%s/sock", work);
    int other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_ok(bind(other, (struct sockaddr *)&address, sizeof address));
    assert_ok(listen(other, 1));
    assert_error(gm_socket_open(path, &made, &opened), EADDRINUSE);
    assert_true(is_there(path));
    close(other); /* now it is dead */
    assert_ok(gm_socket_open(path, &made, &opened));
    gm_socket_close(&opened);
    assert_false(is_there(path));
}

static void what_cannot_be_a_socket_is_refused(void **state)
{
    (void)state;
    struct gm_made made = {0};
    struct gm_socket opened;
    char path[PATH_MAX];
    char lock[PATH_MAX];
    join(path, "plain");
    join(lock, "plain.lock");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_error(gm_socket_open(path, &made, &opened), EEXIST);
    assert_true(is_there(path)); /* not ours to remove */
    assert_false(is_there(lock));
    unlink(path);
    memset(path, 'x', 200);
    path[0] = '/';
    path[200] = '\0';
    assert_error(gm_socket_open(path, &made, &opened), ENAMETOOLONG);
    join(path, "link");
    join(lock, "link.lock");
    assert_ok(symlink("/nowhere", lock)); /* the lock file is not looked for through a link */
    assert_error(gm_socket_open(path, &made, &opened), ELOOP);
    unlink(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_taken),
        cmocka_unit_test(relative_paths_are_made_absolute),
        cmocka_unit_test(help_and_version_end_well),
        cmocka_unit_test(wrong_usage_is_told_apart),
        cmocka_unit_test(a_mountpoint_beside_the_socket_is_fine),
        cmocka_unit_test(defaults_are_roots_or_the_users),
        cmocka_unit_test(directories_that_were_made_are_removed_and_no_others),
        cmocka_unit_test(a_directory_that_somebody_uses_stays),
        cmocka_unit_test(a_file_in_the_way_is_an_error),
        cmocka_unit_test(a_mountpoint_is_named_in_full),
        cmocka_unit_test(a_socket_is_made_with_its_directory_and_goes_again),
        cmocka_unit_test(a_dead_socket_is_replaced_a_living_one_is_not),
        cmocka_unit_test(what_cannot_be_a_socket_is_refused),
    };
    strcpy(work, "/tmp/gmlake-test-options-XXXXXX");
    if (mkdtemp(work) == NULL) {
        return 1;
    }
    int failed = cmocka_run_group_tests_name("options", tests, NULL, NULL);
    if (rmdir(work) < 0) {
        fprintf(stderr, "%s: something was left behind\n", work);
        failed++;
    }
    return gm_test_result(failed);
}
