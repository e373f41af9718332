/*
 * json.c - see json.h.
 */
#include "json.h"

#include <inttypes.h>
#include <math.h>

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20 || *c >= 0x7f) {
            /* Bytes beyond ASCII may be no UTF-8 (file names): written as if Latin-1, so the line is always valid. */
            fprintf(file, "\\u%04x", *c);
        } else {
            fputc(*c, file);
        }
    }
    fputc('"', file);
}

/* What comes before a value: the comma and the key. */
static void begin(struct gm_json *json, const char *key)
{
    if (json->filled & 1u) {
        fputs(", ", json->file);
    }
    json->filled |= 1u;
    if (key != NULL) {
        write_string(json->file, key);
        fputs(": ", json->file);
    }
}

static void open_value(struct gm_json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->file);
    json->filled <<= 1;
}

static void close_value(struct gm_json *json, char bracket)
{
    fputc(bracket, json->file);
    json->filled >>= 1;
}

void gm_json_object(struct gm_json *json, const char *key)
{
    open_value(json, key, '{');
}

void gm_json_array(struct gm_json *json, const char *key)
{
    open_value(json, key, '[');
}

void gm_json_end_object(struct gm_json *json)
{
    close_value(json, '}');
}

void gm_json_end_array(struct gm_json *json)
{
    close_value(json, ']');
}

void gm_json_string(struct gm_json *json, const char *key, const char *value)
{
    begin(json, key);
    write_string(json->file, value);
}

void gm_json_integer(struct gm_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    fprintf(json->file, "%" PRIu64, value);
}

void gm_json_boolean(struct gm_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->file);
}

void gm_json_literal(struct gm_json *json, const char *key, const char *text)
{
    begin(json, key);
    fputs(text, json->file);
}

void gm_json_null(struct gm_json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->file);
}

void gm_json_number(struct gm_json *json, const char *key, double value, int digits)
{
    if (!isfinite(value)) {
        gm_json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->file, "%.*f", digits, value);
}
