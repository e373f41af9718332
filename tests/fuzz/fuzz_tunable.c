/*
 * fuzz_tunable.c - names and values of tunables from any bytes: "name=value", as the command line has it. What is
 * accepted lies in the tunable's range and can be set; what is refused changes nothing.
 */
#include "fuzz.h"
#include "tunables.h"

#include <errno.h>
#include <string.h>

#define UNTOUCHED 0x5eed5eed5eed5eedull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *equals = memchr(text, '=', size);
    size_t name_length = equals != NULL ? (size_t)(equals - text) : 0;
    int found = gm_tunable_find(text, name_length);
    FUZZ_EXPECT(found == -ENOENT || (found >= 0 && found < GMLAKE_TUNABLE_COUNT));
    if (found < 0) {
        return 0;
    }
    enum gmlake_tunable which = (enum gmlake_tunable)found;
    uint64_t value = UNTOUCHED;
    int rc = gm_tunable_parse(which, equals + 1, size - name_length - 1, &value);
    FUZZ_EXPECT(rc == 0 || rc == -EINVAL || rc == -ERANGE);
    if (rc < 0) {
        FUZZ_EXPECT(value == UNTOUCHED);
        return 0;
    }
    FUZZ_EXPECT(value >= gm_tunable_table[which].minimum && value <= gm_tunable_table[which].maximum);
    FUZZ_EXPECT(gm_tunable_set(which, value) == 0);
    FUZZ_EXPECT(gm_tunable(which) == value);
    return 0;
}
