// test_template.c: arguments from templates: what is filled in, what stays, what is refused.
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/command/template.h>

#define LONG                                                                                       \
    "a_name_of_as_many_bytes_as_a_row_of_a_space_may_have_0123456789_0123456789_0123456789_"       \
    "0123456789_0123456789_0123456789_0123456"

static const char params_text[] =
    "{\"lr\": 1e-3, \"optimizer\": \"ad\\\"am\", \"plan\": "
    "{\"steps\": 7, \"of\": {\"x\": [1, 2]}}, \"a.b\": true, \"two words\": 4, \"" LONG "\": 5}";

static troupe_status fill(const char *text, bool optional, char *out, size_t capacity)
{
    trp_json params;
    trp_buffer filled = {0};
    assert_int_equal(trp_json_parse(params_text, sizeof params_text - 1, &params), TROUPE_OK);
    troupe_status status = trp_template_fill(text, params, 12, optional, &filled);
    snprintf(out, capacity, "%.*s", (int)filled.size, filled.size > 0 ? (char *)filled.data : "");
    trp_buffer_free(&filled);
    return status;
}

static void test_names_are_filled_in(void **state)
{
    (void)state;
    char out[512];
    static const char *const rows[][2] = {
        {"--lr={lr}", "--lr=1e-3"},
        {"{optimizer}", "ad\"am"},
        {"{plan.steps}/{plan.of.x}{lr}", "7/[1, 2]1e-3"},
        {"{a.b}", "true"},
        {"{" LONG "}", "5"},
        {"trial {trial}", "trial 12"},
        {"{params}", params_text},
        {"", ""},
        {"{{lr}", "{lr}"},
        {"{\"lr\": {lr}}", "{\"lr\": 1e-3}"}, // JSON as an argument.
        {"a { b } {", "a { b } {"},
        {"awk '{print $1}'", "awk '{print $1}'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(fill(rows[i][0], false, out, sizeof out), TROUPE_OK);
        assert_string_equal(out, rows[i][1]);
    }
}

static void test_a_name_that_the_space_lacks_is_refused(void **state)
{
    (void)state;
    char out[512];
    assert_int_equal(fill("--rate={rate}", false, out, sizeof out), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text,
                           "the argument '--rate={rate}' has {rate}, which the space has not"));
    assert_int_equal(fill("--{two words}", false, out, sizeof out), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "has a name between braces"));
    assert_int_equal(fill("{two  words}", false, out, sizeof out), TROUPE_OK); // Is none.
    assert_int_equal(fill("{plan.nothing}", false, out, sizeof out), TROUPE_INVALID);
    assert_int_equal(fill("--rate={rate};", true, out, sizeof out), TROUPE_OK);
    assert_string_equal(out, "--rate=;"); // A row that does not count in this trial.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_filled_in),
        cmocka_unit_test(test_a_name_that_the_space_lacks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
