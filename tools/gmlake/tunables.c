/*
 * tunables.c - `gmlake tunables`: what can be tuned, from the table of tunables.def.
 */
#include "command.h"
#include "json.h"
#include "text.h"

#include <getopt.h>
#include <gmlake/gmlake.h>
#include <stdio.h>
#include <tunables.h>

extern const struct gm_command gm_command_tunables;

static const char *const type_names[] = {
    [GM_TUNABLE_BYTES] = "bytes", [GM_TUNABLE_COUNT] = "count", [GM_TUNABLE_BOOL] = "bool"};

static void print_json(void)
{
    struct gm_json json = {.file = stdout};
    gm_json_array(&json, NULL);
    for (size_t i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        const struct gm_tunable_info *row = &gm_tunable_table[i];
        gm_json_object(&json, NULL);
        gm_json_string(&json, "name", row->name);
        gm_json_string(&json, "type", type_names[row->type]);
        gm_json_string(&json, "unit", row->unit);
        gm_json_integer(&json, "minimum", row->minimum);
        gm_json_integer(&json, "maximum", row->maximum);
        gm_json_integer(&json, "default", row->initial);
        gm_json_string(&json, "help", row->help);
        gm_json_end_object(&json);
    }
    gm_json_end_array(&json);
    putchar('\n');
}

static void print_table(void)
{
    for (size_t i = 0; i < GMLAKE_TUNABLE_COUNT; i++) {
        const struct gm_tunable_info *row = &gm_tunable_table[i];
        char initial[GM_TEXT_SIZE], minimum[GM_TEXT_SIZE], maximum[GM_TEXT_SIZE];
        bool bytes = row->type == GM_TUNABLE_BYTES;
        gm_text_value(row->initial, bytes, initial);
        gm_text_value(row->minimum, bytes, minimum);
        gm_text_value(row->maximum, bytes, maximum);
        printf("%-18s default %s, %s to %s, %s\n    %s\n", row->name, initial, minimum, maximum, row->unit, row->help);
    }
}

static int run(int argc, char **argv)
{
    const char *value;
    bool json = false;
    for (int row; (row = gm_option_next(&gm_command_tunables, argc, argv, false, &value)) != -1;) {
        if (row < 0) {
            return GM_EXIT_USAGE;
        }
        json = true;
    }
    if (optind < argc) {
        return gm_usage_error(&gm_command_tunables, "takes no operand, got '%s'", argv[optind]);
    }
    (json ? print_json : print_table)();
    return GM_EXIT_OK;
}

static const struct gm_option options[] = {
    {"json", 0, NULL, "One JSON array of objects."},
    {NULL, 0, NULL, NULL},
};

const struct gm_command gm_command_tunables = {
    .name = "tunables",
    .summary = "list what can be tuned: names, defaults, ranges",
    .synopsis = "[--json]",
    .description =
        "    Lists the tunables. Each can be set by the environment variable GMLAKE_<NAME>, by\n"
        "    `gmlake run --set`, by `gmlake set`, and by writing to its file under tunables/ in the mount.\n",
    .options = options,
    .run = run,
};
