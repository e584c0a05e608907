// test_csv.c: fields of CSV.
#include <math.h>
#include <runtime/codec/csv.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

static void test_fields_are_quoted_where_they_must_be(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain", "a b", "a,b", "\"", "two\nlines", "cr\r", ""};
    static const char *const fields[] = {"plain",          "a b",      "\"a,b\"", "\"\"\"\"",
                                         "\"two\nlines\"", "\"cr\r\"", "\"\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        trp_buffer out = {0};
        trp_csv_text(&out, texts[i]);
        trp_buffer_append(&out, "", 1);
        assert_string_equal((const char *)out.data, fields[i]);
        trp_buffer_free(&out);
    }
}

static void test_numbers_are_read_back(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_csv_number(&out, 0.1);
    trp_buffer_append(&out, " ", 1);
    trp_csv_number(&out, (double)NAN);
    trp_buffer_append(&out, " ", 1);
    trp_csv_number(&out, (double)INFINITY);
    trp_buffer_append(&out, " ", 1);
    trp_csv_number(&out, -(double)INFINITY);
    trp_buffer_append(&out, "", 1);
    assert_string_equal((const char *)out.data, "0.1 nan inf -inf");
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_quoted_where_they_must_be),
        cmocka_unit_test(test_numbers_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
