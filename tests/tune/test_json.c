// test_json.c: values as JSON, and that numbers read back as the same bits.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/json.h>
#include <tune/random.h>

TROUPE_STRUCT(inner, (bool, on), (int8_t, small));
TROUPE_STRUCT(everything, (uint64_t, large), (int64_t, negative), (float, single),
              (double, pair, 2), (troupe_text, text), (troupe_text, nothing), (inner, part),
              (troupe_array_int, list), (troupe_bytes, bytes), (troupe_ref, ref));

static char *text_of(trp_buffer *out)
{
    trp_buffer_append(out, "", 1);
    assert_false(out->failed);
    return (char *)out->data;
}

static void test_a_record_is_an_object(void **state)
{
    (void)state;
    static const int items[] = {1, -2};
    const everything value = {.large = UINT64_MAX,
                              .negative = INT64_MIN,
                              .single = 0.1f,
                              .pair = {1.0 / 3, (double)NAN},
                              .text = "a \"b\"\\\n\x01\xc3\xa9",
                              .part = {true, -128},
                              .list = {items, 2}};
    trp_buffer out = {0};
    trp_json_value(&out, &troupe_type_everything, &value);
    assert_string_equal(text_of(&out),
                        "{\"large\": 18446744073709551615, \"negative\": -9223372036854775808, "
                        "\"single\": 0.1, \"pair\": [0.3333333333333333, null], "
                        "\"text\": \"a \\\"b\\\"\\\\\\u000a\\u0001\xc3\xa9\", \"nothing\": null, "
                        "\"part\": {\"on\": true, \"small\": -128}, \"list\": [1, -2], "
                        "\"bytes\": null, \"ref\": null}");
    trp_buffer_free(&out);
}

static void test_numbers_read_back_as_the_same_bits(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = trp_random_next(&random);
        double value;
        float single;
        trp_buffer out = {0};
        memcpy(&value, &bits, sizeof value);
        memcpy(&single, &bits, sizeof single);
        if (isfinite(value)) {
            trp_json_number(&out, value);
            assert_true(strtod(text_of(&out), NULL) == value);
            trp_buffer_free(&out);
        }
        if (isfinite(single)) {
            trp_json_value(&out, &troupe_type_float, &single);
            assert_true((float)strtod(text_of(&out), NULL) == single);
            trp_buffer_free(&out);
        }
    }
}

static void test_what_json_cannot_say_is_null(void **state)
{
    (void)state;
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 3; i++) {
        trp_buffer out = {0};
        trp_json_number(&out, values[i]);
        assert_string_equal(text_of(&out), "null");
        trp_buffer_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_an_object),
        cmocka_unit_test(test_numbers_read_back_as_the_same_bits),
        cmocka_unit_test(test_what_json_cannot_say_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
