// test_named.c: rows that name members of a config whose type nobody here has, as JSON.
#include <math.h>
#include <string.h>
#include <support.h>
#include <troupe/tune.h>
#include <tune/space/named.h>

#define NAMED(out, ...)                                                                            \
    trp_space_named((const troupe_param[]){__VA_ARGS__},                                           \
                    sizeof((const troupe_param[]){__VA_ARGS__}) / sizeof(troupe_param), (out))

static void test_rows_of_all_kinds(void **state)
{
    (void)state;
    trp_buffer out = {0};
    troupe_space *space;
    size_t count;
    assert_int_equal(NAMED(&out, TROUPE_NAMED_UNIFORM("rate", 0.5, 2, .step = 0.5),
                           TROUPE_NAMED_LOG_UNIFORM("fit.decay", 1e-4, 1),
                           TROUPE_NAMED_INTEGER("width", 1, 64, .log = true),
                           TROUPE_NAMED_CHOICE_TEXT("kind", "a \"b\"", "c"),
                           TROUPE_NAMED_CHOICE("batch", 4, 6),
                           {TROUPE_NAMED_PARAM_("noise"), .draw = TROUPE_DRAW_NORMAL, .mean = 1,
                            .deviation = 2, .low = -1, .high = 3},
                           {TROUPE_NAMED_PARAM_("epochs"), .draw = TROUPE_DRAW_FIXED, .low = 3},
                           {TROUPE_NAMED_PARAM_("name"), .draw = TROUPE_DRAW_FIXED, .text = "x"},
                           {TROUPE_NAMED_PARAM_("order"), .draw = TROUPE_DRAW_ORDERED,
                            .choices = {1, 2}, .choice_count = 2},
                           {TROUPE_NAMED_PARAM_("grid"), .draw = TROUPE_DRAW_GRID,
                            .choices = {1, 2}, .choice_count = 2},
                           TROUPE_NAMED_ONLY_WHEN_TEXT("batch", "kind", "c"),
                           TROUPE_NAMED_ONLY_WHEN("grid", "order", 1)),
                     TROUPE_OK);
    trp_buffer_append(&out, "", 1);
    assert_string_equal(
        (const char *)out.data,
        "{\"rate\": {\"uniform\": [0.5, 2], \"step\": 0.5}, "
        "\"fit.decay\": {\"log_uniform\": [0.0001, 1]}, "
        "\"width\": {\"integer\": [1, 64], \"log\": true}, "
        "\"kind\": {\"choice\": [\"a \\\"b\\\"\", \"c\"]}, "
        "\"batch\": {\"choice\": [4, 6], \"when\": {\"kind\": [\"c\"]}}, "
        "\"noise\": {\"normal\": [1, 2], \"low\": -1, \"high\": 3}, \"epochs\": {\"fixed\": 3}, "
        "\"name\": {\"fixed\": \"x\"}, \"order\": {\"ordered\": [1, 2]}, "
        "\"grid\": {\"grid\": [1, 2], \"when\": {\"order\": [1]}}}");
    assert_int_equal(troupe_space_parse((const char *)out.data, &space), TROUPE_OK);
    (void)troupe_space_dims(space, &count);
    assert_int_equal(count, 8);
    troupe_space_free(&space);
    trp_buffer_free(&out);
}

static void refused(troupe_status status, const char *part)
{
    if (status != TROUPE_INVALID || strstr(troupe_last_error()->text, part) == NULL)
        fail_msg("%s: \"%s\", not \"%s\"", troupe_status_name(status), troupe_last_error()->text,
                 part);
}

static void test_what_is_wrong(void **state)
{
    (void)state;
    static const double values[] = {1};
    static const char *const names[] = {"", ".a", "a.", "a..b", "a[2]"};
    trp_buffer out = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refused(NAMED(&out, TROUPE_NAMED_UNIFORM(names[i], 0, 1)), "expected the name of a member");
    refused(NAMED(&out, TROUPE_NAMED_UNIFORM(NULL, 0, 1)), "expected the name of a member");
    refused(NAMED(&out, TROUPE_NAMED_UNIFORM("a", 0, 1), TROUPE_NAMED_CHOICE("a", 1)),
            "space[1] (a): it is in the space already");
    refused(NAMED(&out, TROUPE_NAMED_ONLY_WHEN("a", "b", 1)), "no row that it could be on");
    refused(NAMED(&out, TROUPE_NAMED_UNIFORM("a", 0, 1), TROUPE_NAMED_ONLY_WHEN("a", NULL, 1)),
            "does not say on what");
    refused(NAMED(&out, {TROUPE_NAMED_PARAM_("a"), .draw = TROUPE_DRAW_CHOICE, .values = values,
                         .choice_count = 1}),
            "its values have a type");
    refused(NAMED(&out, {TROUPE_NAMED_PARAM_("a"), .draw = TROUPE_DRAW_CHOICE, .choice_count = 33}),
            "it has 33 choices");
    refused(NAMED(&out, {TROUPE_NAMED_PARAM_("a"), .draw = (troupe_draw)99}),
            "99 is not a kind of draw");
    refused(NAMED(&out, {.name = "a", .draw = TROUPE_DRAW_FIXED}), "");
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_all_kinds),
        cmocka_unit_test(test_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
