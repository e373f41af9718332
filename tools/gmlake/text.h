/*
 * text.h - numbers and settings as people write and read them.
 */
#ifndef GM_TEXT_H
#define GM_TEXT_H

#include <gmlake/gmlake.h>
#include <stdbool.h>
#include <stdint.h>

#define GM_TEXT_SIZE 32

/* The value of a tunable as one would write it: "max", "64M" where @bytes and exact, else the digits. */
void gm_text_value(uint64_t value, bool bytes, char out[GM_TEXT_SIZE]);

/* A size for reading: "13.42 GiB". */
void gm_text_size(uint64_t bytes, char out[GM_TEXT_SIZE]);

/* A size as in the tunables ("64M"), greater than 0 and not "max"; -EINVAL, -ERANGE. */
int gm_text_parse_size(const char *text, uint64_t *out);

/* A decimal number in [minimum, maximum], nothing after it; -EINVAL, -ERANGE. */
int gm_text_parse_number(const char *text, double minimum, double maximum, double *out);

/* What may be wrong with "name=value", as a sentence. */
enum { GM_SETTING_MESSAGE = 200 };

/*
 * Reads "name=value" of a tunable, checking both against tunables.def. -EINVAL with the reason in @message.
 * *text points to the value inside @setting.
 */
int gm_text_parse_setting(const char *setting, enum gmlake_tunable *which, uint64_t *value, const char **text,
                          char message[GM_SETTING_MESSAGE]);

/* The environment variable of @which: "GMLAKE_STITCH_MIN". */
void gm_text_environment_name(enum gmlake_tunable which, char out[64]);

#endif
