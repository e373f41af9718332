/*
 * test_parse.c - every rule of parse.h, and that a failure leaves the output alone.
 */
#include "gmtest.h"
#include "parse.h"

#define UNTOUCHED 0x5eed5eed5eed5eedull

static int parse(const char *text, uint64_t *out)
{
    *out = UNTOUCHED;
    return gm_parse_size(text, strlen(text), out);
}

static void accepts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"18446744073709551615", UINT64_MAX},
        /* powers of 1024, either case */
        {"4k", 4096},
        {"4K", 4096},
        {"4m", 4ull << 20},
        {"4M", 4ull << 20},
        {"3g", 3ull << 30},
        {"3G", 3ull << 30},
        {"2t", 2ull << 40},
        {"2T", 2ull << 40},
        {"0T", 0},
        {"16777215T", 16777215ull << 40},
        /* a leading zero is decimal, not octal */
        {"0100", 100},
        {"010K", 10240},
        {"00", 0},
        /* hexadecimal, either case, with a suffix too */
        {"0x10", 16},
        {"0X10", 16},
        {"0xfF", 255},
        {"0xffffffffffffffff", UINT64_MAX},
        {"0x10M", 16ull << 20},
        /* no limit */
        {"max", UINT64_MAX},
        {"MAX", UINT64_MAX},
        {" max\n", UINT64_MAX},
        /* blanks around the value */
        {"4M\n", 4ull << 20},
        {"4K ", 4096},
        {"  7", 7},
        {"\t7\r\n", 7},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        uint64_t value;
        int rc = parse(cases[i].text, &value);
        if (rc != 0 || value != cases[i].value) {
            fail_msg("\"%s\": result %d, value %llu; expected %llu", cases[i].text, rc, (unsigned long long)value,
                     (unsigned long long)cases[i].value);
        }
    }
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        /* nothing */
        {"", EINVAL},
        {" ", EINVAL},
        {"\n", EINVAL},
        /* not a number */
        {"abc", EINVAL},
        {"-5", EINVAL},
        {"+5", EINVAL},
        {"1.5G", EINVAL},
        {",5", EINVAL},
        {"K", EINVAL},
        {"x10", EINVAL},
        {"0x", EINVAL},
        {"0xg", EINVAL},
        {"ma", EINVAL},
        {"maxx", EINVAL},
        {"max5", EINVAL},
        /* anything after it */
        {"4MB", EINVAL},
        {"4MiB", EINVAL},
        {"4M 5M", EINVAL},
        {"4 M", EINVAL},
        {"4\n4", EINVAL},
        {"4kk", EINVAL},
        {"12a", EINVAL},
        {"1e3", EINVAL},
        {"4P", EINVAL},
        {"16E", EINVAL},
        {"7\x01", EINVAL},
        {"7\xff", EINVAL},
        /* does not fit: no silent wrap */
        {"18446744073709551616", ERANGE},
        {"99999999999999999999", ERANGE},
        {"340282366920938463463374607431768211456", ERANGE},
        {"0x10000000000000000", ERANGE},
        {"16777216T", ERANGE},
        {"17179869184G", ERANGE},
        {"18446744073709551615K", ERANGE},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        uint64_t value;
        int rc = parse(cases[i].text, &value);
        if (rc != -cases[i].error) {
            fail_msg("\"%s\": result %d, expected %d", cases[i].text, rc, -cases[i].error);
        }
        assert_true(value == UNTOUCHED);
    }
}

/* A wrong text that is also too long is wrong first: overflow must not hide the trailing rubbish. */
static void rubbish_wins_over_overflow(void **state)
{
    (void)state;
    uint64_t value;
    assert_error(parse("99999999999999999999x", &value), EINVAL);
    assert_error(parse("99999999999999999999 1", &value), EINVAL);
}

/* @length rules: the text has no terminator, and a NUL inside it is rubbish. */
static void length_bounds_the_text(void **state)
{
    (void)state;
    uint64_t value = UNTOUCHED;
    assert_ok(gm_parse_size("1234", 2, &value));
    assert_int_equal(value, 12);
    assert_error(gm_parse_size("", 0, &value), EINVAL);
    assert_error(gm_parse_size("5\0", 2, &value), EINVAL);
    assert_error(gm_parse_size("\0", 1, &value), EINVAL);
    assert_error(gm_parse_size("0x10", 2, &value), EINVAL);
    assert_int_equal(value, 12);

    /* Exactly sized on the heap: a read past the end is seen by AddressSanitizer. */
    static const char *const edges[] = {"0", "0x", "9K", "max", "ma", " ", "4M 5M", "0x1"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(edges); i++) {
        size_t length = strlen(edges[i]);
        char *exact = malloc(length);
        assert_non_null(exact);
        memcpy(exact, edges[i], length);
        uint64_t with_terminator = 0;
        uint64_t without = 0;
        assert_int_equal(gm_parse_size(exact, length, &without), gm_parse_size(edges[i], length, &with_terminator));
        assert_int_equal(without, with_terminator);
        free(exact);
    }
}

/* Every value survives being written in decimal and in hexadecimal. */
static void round_trip(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t offset = 0; offset <= 2; offset++) {
            uint64_t value = (UINT64_C(1) << bit) + offset - 1;
            char text[32];
            uint64_t back;
            snprintf(text, sizeof text, "%llu", (unsigned long long)value);
            assert_ok(parse(text, &back));
            assert_true(back == value);
            snprintf(text, sizeof text, "0x%llx\n", (unsigned long long)value);
            assert_ok(parse(text, &back));
            assert_true(back == value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(rubbish_wins_over_overflow),
        cmocka_unit_test(length_bounds_the_text),
        cmocka_unit_test(round_trip),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
