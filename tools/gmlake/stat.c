/*
 * stat.c - `gmlake stat`: the figures of the machine or of a process, from the mount.
 */
#include "command.h"
#include "json.h"
#include "mount.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const struct gm_command gm_command_stat;

/* Whether @text is a number as JSON writes them, without exponent. */
static bool is_number(const char *text)
{
    text += *text == '-';
    size_t whole = strspn(text, "0123456789");
    if (whole == 0 || (whole > 1 && text[0] == '0')) {
        return false;
    }
    if (text[whole] == '.') {
        size_t fraction = strspn(text + whole + 1, "0123456789");
        return fraction > 0 && text[whole + 1 + fraction] == '\0';
    }
    return text[whole] == '\0';
}

/* Prints flat keyed text ("key value" lines) as one JSON object. Takes @text apart. */
static void print_json(char *text)
{
    struct gm_json json = {.file = stdout};
    gm_json_object(&json, NULL);
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *blank = strchr(line, ' ');
        if (blank == NULL) {
            continue;
        }
        *blank = '\0';
        if (is_number(blank + 1)) {
            gm_json_literal(&json, line, blank + 1);
        } else {
            gm_json_string(&json, line, blank + 1);
        }
    }
    gm_json_end_object(&json);
    putchar('\n');
}

static int print_once(int directory, const struct gm_place *place, bool json)
{
    char *text;
    int rc = gm_mount_read(directory, "stats", &text);
    if (rc < 0) {
        return gm_mount_failed(&gm_command_stat, place, "stats", rc);
    }
    if (json) {
        print_json(text);
    } else {
        fputs(text, stdout);
    }
    free(text);
    return fflush(stdout) == 0 ? GM_EXIT_OK : GM_EXIT_ERROR;
}

static void wait_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

enum row { ROW_PID, ROW_JSON, ROW_INTERVAL, ROW_MOUNT };

static const struct gm_option options[] = {
    [ROW_PID] = GM_MOUNT_OPTION_PID,
    [ROW_JSON] = {"json", 0, NULL, "One JSON object a line."},
    [ROW_INTERVAL] = {"interval", 'i', "SEC", "Again every SEC seconds, until interrupted or the process ends."},
    [ROW_MOUNT] = GM_MOUNT_OPTION_MOUNT,
    {NULL, 0, NULL, NULL},
};

static int run(int argc, char **argv)
{
    struct gm_place place = {0};
    const char *value;
    bool json = false;
    double interval = 0;
    for (int row; (row = gm_mount_option_next(&gm_command_stat, argc, argv, &place, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        json |= row == ROW_JSON;
        if (row == ROW_INTERVAL && gm_text_parse_number(value, 0.01, 86400, &interval) < 0) {
            return gm_usage_error(&gm_command_stat, "--interval: '%s' is not a number of seconds (0.01 to 86400)",
                                  value);
        }
    }
    if (optind < argc) {
        return gm_usage_error(&gm_command_stat, "takes no operand, got '%s'", argv[optind]);
    }
    int directory;
    int status = gm_mount_open(&gm_command_stat, &place, &directory);
    if (status != GM_EXIT_OK) {
        return status;
    }
    status = print_once(directory, &place, json);
    while (status == GM_EXIT_OK && interval > 0) {
        wait_seconds(interval);
        if (!json) {
            putchar('\n');
        }
        status = print_once(directory, &place, json);
    }
    close(directory);
    return status;
}

const struct gm_command gm_command_stat = {
    .name = "stat",
    .summary = "print the figures of the machine or of one process",
    .synopsis = "[-p PID] [--json] [-i SEC] [--mount DIR]",
    .description =
        "    Prints the statistics file of gmlaked's mount: one figure a line, its name and its value, bytes\n"
        "    where the name does not say otherwise.\n",
    .options = options,
    .examples = "    gmlake stat\n    gmlake stat -p 4711 --json -i 1\n",
    .run = run,
};
