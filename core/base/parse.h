/*
 * parse.h - the one strict reader of numbers and sizes: environment, API, mount and tools all use it.
 *
 * Stricter than the kernel's memparse on purpose: there, an empty string is 0, a leading zero means octal and
 * overflow wraps silently.
 */
#ifndef GM_PARSE_H
#define GM_PARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads @text (@length bytes, no terminator needed): decimal or 0x hexadecimal, then at most one of K M G T (powers
 * of 1024, either case); "max" is UINT64_MAX. Blanks and one newline around it are ignored.
 * -EINVAL empty, not a number, or anything after it; -ERANGE does not fit in 64 bits.
 */
int gm_parse_size(const char *text, size_t length, uint64_t *out);

#endif
