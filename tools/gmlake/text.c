/*
 * text.c - see text.h.
 */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <parse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tunables.h>

void gm_text_value(uint64_t value, bool bytes, char out[GM_TEXT_SIZE])
{
    static const char suffixes[] = "TGMK";
    if (bytes && value == GMLAKE_UNLIMITED) {
        snprintf(out, GM_TEXT_SIZE, "max");
        return;
    }
    for (unsigned i = 0; bytes && value != 0 && i < 4; i++) {
        unsigned shift = 40 - 10 * i;
        if (value % (1ull << shift) == 0) {
            snprintf(out, GM_TEXT_SIZE, "%" PRIu64 "%c", value >> shift, suffixes[i]);
            return;
        }
    }
    snprintf(out, GM_TEXT_SIZE, "%" PRIu64, value);
}

void gm_text_size(uint64_t bytes, char out[GM_TEXT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1024 && unit < 6; unit++) {
        value /= 1024;
    }
    snprintf(out, GM_TEXT_SIZE, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
}

int gm_text_parse_size(const char *text, uint64_t *out)
{
    uint64_t value;
    int rc = gm_parse_size(text, strlen(text), &value);
    if (rc < 0) {
        return rc;
    }
    if (value == 0 || value == UINT64_MAX) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}

int gm_text_parse_number(const char *text, double minimum, double maximum, double *out)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '.') {
        return -EINVAL;
    }
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || end == text || !isfinite(value)) {
        return -EINVAL;
    }
    if (value < minimum || value > maximum) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}

int gm_text_parse_setting(const char *setting, enum gmlake_tunable *which, uint64_t *value, const char **text,
                          char message[GM_SETTING_MESSAGE])
{
    const char *equals = strchr(setting, '=');
    if (equals == NULL) {
        snprintf(message, GM_SETTING_MESSAGE, "'%.60s' is not name=value", setting);
        return -EINVAL;
    }
    size_t length = (size_t)(equals - setting);
    int row = gm_tunable_find(setting, length);
    if (row < 0) {
        snprintf(message, GM_SETTING_MESSAGE, "no tunable '%.*s'; 'gmlake tunables' lists them",
                 (int)(length < 60 ? length : 60), setting);
        return -EINVAL;
    }
    uint64_t parsed;
    int rc = gm_tunable_parse((enum gmlake_tunable)row, equals + 1, strlen(equals + 1), &parsed);
    if (rc < 0) {
        const struct gm_tunable_info *info = &gm_tunable_table[row];
        char minimum[GM_TEXT_SIZE], maximum[GM_TEXT_SIZE];
        gm_text_value(info->minimum, info->type == GM_TUNABLE_BYTES, minimum);
        gm_text_value(info->maximum, info->type == GM_TUNABLE_BYTES, maximum);
        snprintf(message, GM_SETTING_MESSAGE, "%s: '%.60s' is %s; wanted: %s to %s", info->name, equals + 1,
                 rc == -ERANGE ? "outside its range" : "not a value", minimum, maximum);
        return -EINVAL;
    }
    *which = (enum gmlake_tunable)row;
    *value = parsed;
    *text = equals + 1;
    return 0;
}

void gm_text_environment_name(enum gmlake_tunable which, char out[64])
{
    int length = snprintf(out, 64, "GMLAKE_%s", gm_tunable_table[which].name);
    for (int i = 0; i < length && i < 63; i++) {
        out[i] = (char)toupper((unsigned char)out[i]);
    }
}
