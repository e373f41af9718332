/*
 * fuzz_parse.c - gm_parse_size() on any bytes: a known result, the output touched only on success, blanks around it
 * without meaning, and every value read back from its own decimal form.
 */
#include "fuzz.h"
#include "parse.h"

#include <errno.h>
#include <string.h>

#define UNTOUCHED 0x5eed5eed5eed5eedull

static void value_survives_printing(uint64_t value)
{
    char text[32];
    uint64_t back;
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    FUZZ_EXPECT(gm_parse_size(text, (size_t)length, &back) == 0);
    FUZZ_EXPECT(back == value);
}

static void blanks_mean_nothing(const uint8_t *data, size_t size, int expected, uint64_t value)
{
    char padded[80];
    uint64_t again = UNTOUCHED;
    if (size > sizeof padded - 3) {
        return;
    }
    padded[0] = '\t';
    memcpy(padded + 1, data, size);
    memcpy(padded + 1 + size, " \n", 2);
    FUZZ_EXPECT(gm_parse_size(padded, size + 3, &again) == expected);
    FUZZ_EXPECT(again == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t value = UNTOUCHED;
    int rc = gm_parse_size((const char *)data, size, &value);
    FUZZ_EXPECT(rc == 0 || rc == -EINVAL || rc == -ERANGE);
    FUZZ_EXPECT(rc == 0 || value == UNTOUCHED);
    if (rc == 0) {
        value_survives_printing(value);
    }
    blanks_mean_nothing(data, size, rc, value);
    return 0;
}
