/*
 * json.h - writes JSON, one value after the other; commas and escaping are its business.
 *
 * STRUCTURE    Every call inside an object takes the key, every call inside an array a NULL key.
 *              Invariant: one bit of `filled` for each open object or array says whether it needs a comma.
 * CONCURRENCY  one writer a thread.
 */
#ifndef GM_JSON_H
#define GM_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct gm_json {
    FILE *file;
    unsigned filled; /* bit 0: the innermost open value has a member already */
};

void gm_json_object(struct gm_json *json, const char *key);
void gm_json_array(struct gm_json *json, const char *key);
void gm_json_end_object(struct gm_json *json);
void gm_json_end_array(struct gm_json *json);

void gm_json_string(struct gm_json *json, const char *key, const char *value);
void gm_json_integer(struct gm_json *json, const char *key, uint64_t value);
void gm_json_boolean(struct gm_json *json, const char *key, bool value);
/* @text, which is a number in JSON's syntax, as it is. */
void gm_json_literal(struct gm_json *json, const char *key, const char *text);
void gm_json_null(struct gm_json *json, const char *key);

/* @value with @digits after the point; null where it is not finite (JSON has no words for that). */
void gm_json_number(struct gm_json *json, const char *key, double value, int digits);

#endif
