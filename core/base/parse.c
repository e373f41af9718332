/*
 * parse.c - see parse.h. No allocation, no locale.
 */
#include "parse.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static int shift_of(char c)
{
    switch (c | 0x20) {
    case 'k':
        return 10;
    case 'm':
        return 20;
    case 'g':
        return 30;
    case 't':
        return 40;
    default:
        return -1;
    }
}

int gm_parse_size(const char *text, size_t length, uint64_t *out)
{
    const char *end = text + length;
    while (text < end && is_blank(*text)) {
        text++;
    }
    while (end > text && is_blank(end[-1])) {
        end--;
    }
    if (end - text == 3 && strncasecmp(text, "max", 3) == 0) {
        *out = UINT64_MAX;
        return 0;
    }
    int base = 10;
    if (end - text > 2 && text[0] == '0' && (text[1] | 0x20) == 'x') {
        base = 16;
        text += 2;
    }
    if (text == end || digit_of(*text) >= base) {
        return -EINVAL;
    }
    uint64_t value = 0;
    int overflow = 0;
    for (; text < end && digit_of(*text) < base; text++) {
        overflow |= __builtin_mul_overflow(value, (uint64_t)base, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)digit_of(*text), &value);
    }
    if (text < end) {
        int shift = shift_of(*text++);
        if (shift < 0 || text < end) {
            return -EINVAL;
        }
        overflow |= value > UINT64_MAX >> shift;
        value <<= shift;
    }
    if (overflow) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}
