/*
 * test_text.c - numbers, settings and JSON as the command reads and writes them.
 */
#include "gmtest.h"
#include "json.h"
#include "text.h"

#include <math.h>

static void values_are_written_as_they_are_read(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        bool bytes;
        const char *text;
    } cases[] = {
        {0, true, "0"},
        {512, true, "512"},
        {1024, true, "1K"},
        {64ull << 20, true, "64M"},
        {1ull << 40, true, "1T"},
        {1025, true, "1025"},
        {UINT64_MAX, true, "max"},
        {3ull << 30, true, "3G"},
        {4096, false, "4096"},
        {UINT64_MAX, false, "18446744073709551615"},
        {1536, true, "1536"},
    };
    for (size_t i = 0; i < GM_ARRAY_LENGTH(cases); i++) {
        char text[GM_TEXT_SIZE];
        gm_text_value(cases[i].value, cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void sizes_for_people(void **state)
{
    (void)state;
    char text[GM_TEXT_SIZE];
    gm_text_size(1023, text);
    assert_string_equal(text, "1023 B");
    gm_text_size(3ull << 29, text);
    assert_string_equal(text, "1.50 GiB");
    gm_text_size(UINT64_MAX, text);
    assert_string_equal(text, "16.00 EiB");
}

static void sizes_and_numbers_are_read_strictly(void **state)
{
    (void)state;
    uint64_t size = 77;
    double number = 77;
    assert_error(gm_text_parse_size("", &size), EINVAL);
    assert_error(gm_text_parse_size("0", &size), ERANGE);
    assert_error(gm_text_parse_size("max", &size), ERANGE);
    assert_error(gm_text_parse_size("1GB", &size), EINVAL);
    assert_int_equal(size, 77);
    assert_ok(gm_text_parse_size("24G", &size));
    assert_int_equal(size, 24ull << 30);
    static const char *const not_numbers[] = {"", "x", "-1", "+1", " 1", "1 ", "1x", "nan", "inf", "1e999", "0x10z"};
    for (size_t i = 0; i < GM_ARRAY_LENGTH(not_numbers); i++) {
        assert_error(gm_text_parse_number(not_numbers[i], 0, 1000, &number), EINVAL);
    }
    assert_error(gm_text_parse_number("1000.5", 0, 1000, &number), ERANGE);
    assert_true(number == 77);
    assert_ok(gm_text_parse_number(".8", 0, 1000, &number));
    assert_true(fabs(number - 0.8) < 1e-12);
}

static void settings_are_checked_against_the_table(void **state)
{
    (void)state;
    enum gmlake_tunable which;
    uint64_t value;
    const char *text;
    char message[GM_SETTING_MESSAGE];
    assert_ok(gm_text_parse_setting("stitch_min=64M", &which, &value, &text, message));
    assert_int_equal(which, GMLAKE_TUNABLE_stitch_min);
    assert_int_equal(value, 64ull << 20);
    assert_string_equal(text, "64M");
    assert_error(gm_text_parse_setting("stitch_min", &which, &value, &text, message), EINVAL);
    assert_non_null(strstr(message, "not name=value"));
    assert_error(gm_text_parse_setting("stitch=1", &which, &value, &text, message), EINVAL);
    assert_non_null(strstr(message, "no tunable 'stitch'"));
    assert_error(gm_text_parse_setting("=1", &which, &value, &text, message), EINVAL);
    assert_error(gm_text_parse_setting("enabled=2", &which, &value, &text, message), EINVAL);
    assert_non_null(strstr(message, "outside its range; wanted: 0 to 1"));
    assert_error(gm_text_parse_setting("enabled=", &which, &value, &text, message), EINVAL);
    assert_non_null(strstr(message, "not a value"));
    char name[64];
    gm_text_environment_name(GMLAKE_TUNABLE_stitch_cache_max, name);
    assert_string_equal(name, "GMLAKE_STITCH_CACHE_MAX");
}

static void json_is_escaped_and_separated(void **state)
{
    (void)state;
    char *text;
    size_t length;
    struct gm_json json = {.file = open_memstream(&text, &length)};
    gm_json_object(&json, NULL);
    gm_json_string(&json, "a\"b", "x\\y\n\x01\xff");
    gm_json_object(&json, "empty");
    gm_json_end_object(&json);
    gm_json_array(&json, "list");
    gm_json_integer(&json, NULL, UINT64_MAX);
    gm_json_number(&json, NULL, 1.25, 1);
    gm_json_number(&json, NULL, NAN, 1);
    gm_json_number(&json, NULL, INFINITY, 1);
    gm_json_boolean(&json, NULL, true);
    gm_json_end_array(&json);
    gm_json_null(&json, "last");
    gm_json_end_object(&json);
    fclose(json.file);
    assert_string_equal(text, "{\"a\\\"b\": \"x\\\\y\\u000a\\u0001\\u00ff\", \"empty\": {}, "
                              "\"list\": [18446744073709551615, 1.2, null, null, true], \"last\": null}");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_written_as_they_are_read), cmocka_unit_test(sizes_for_people),
        cmocka_unit_test(sizes_and_numbers_are_read_strictly), cmocka_unit_test(settings_are_checked_against_the_table),
        cmocka_unit_test(json_is_escaped_and_separated),
    };
    return gm_test_result(cmocka_run_group_tests(tests, NULL, NULL));
}
