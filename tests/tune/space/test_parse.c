// test_parse.c: spaces of JSON: what is read, what is refused and in which words, and that a
// space's description is read back as the same space.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/space/dims.h>
#include <tune/space/space.h>

enum { DIMS_MAX = 64 };

static troupe_space *parsed(const char *json)
{
    troupe_space *space = NULL;
    if (troupe_space_parse(json, &space) != TROUPE_OK)
        fail_msg("%s: %s", json, troupe_last_error()->text);
    return space;
}

static void refused_as(troupe_status expected, const char *json, const char *words)
{
    troupe_space *space = (troupe_space *)&space;
    troupe_status status = troupe_space_parse(json, &space);
    const char *text = troupe_last_error()->text;
    if (status != expected)
        fail_msg("%s: %s, not %s", json, troupe_status_name(status), troupe_status_name(expected));
    if (strstr(text, words) == NULL)
        fail_msg("%s: the sentence \"%s\" does not say \"%s\"", json, text, words);
    assert_null(space);
}

// Also: the sentence names the row.
static void refused(const char *row, const char *words)
{
    char json[1024];
    snprintf(json, sizeof json, "{\"first\": {\"choice\": [\"a\", \"b\"]}, \"it\": %s}", row);
    refused_as(TROUPE_INVALID, json, words);
    if (strstr(troupe_last_error()->text, "the space's row \"it\": ") == NULL)
        fail_msg("%s: the sentence \"%s\" does not name the row", json, troupe_last_error()->text);
}

static const char whole[] =
    "{\"rate\": {\"log_uniform\": [1e-4, 1]}, \"width\": {\"integer\": [16, 1024], \"log\": true},"
    " \"optimizer\": {\"choice\": [\"sgd\", \"adam\", null, {\"name\": \"other\"}, [1, 2]]},"
    " \"size\": {\"ordered\": [1, 2, 8]},"
    " \"momentum\": {\"uniform\": [0, 1], \"step\": 0.1, \"when\": {\"optimizer\": [\"sgd\", "
    "null]}},"
    " \"nesterov\": {\"choice\": [true, false], \"when\": {\"optimizer\": \"sgd\"}},"
    " \"noise\": {\"normal\": [0, 1]}, \"bound\": {\"normal\": [1, 2], \"low\": 0, \"high\": 3},"
    " \"count\": {\"normal\": [50, 8], \"whole\": true, \"step\": 5},"
    " \"layers\": {\"grid\": [1, 2]}, \"one\": {\"integer\": [3, 3]}, \"epochs\": 81,"
    " \"deep\": {\"fixed\": {\"a\": [1]}}, \"some\": {\"fixed\": 7, \"when\": {\"layers\": [2]}},"
    " \"plan.steps\": {\"integer\": [1, 9], \"step\": 2}, \"text\": \"t\\u00e4xt\"}";

static void test_each_kind_is_read(void **state)
{
    (void)state;
    troupe_space *space = parsed(whole);
    size_t count;
    const troupe_dim *dims = troupe_space_dims(space, &count);
    static const struct {
        const char *name;
        troupe_dim_kind kind;
        double low, high, step;
        bool log;
        int choices, parent;
        unsigned when;
    } expected[] = {
        {"rate", TROUPE_DIM_REAL, 1e-4, 1, 0, true, 0, -1, 0},
        {"width", TROUPE_DIM_INTEGER, 16, 1024, 1, true, 0, -1, 0},
        {"optimizer", TROUPE_DIM_CHOICE, 0, 4, 0, false, 5, -1, 0},
        {"size", TROUPE_DIM_CHOICE, 0, 2, 0, false, 3, -1, 0},
        {"momentum", TROUPE_DIM_REAL, 0, 1, 0.1, false, 0, 2, 5},
        {"nesterov", TROUPE_DIM_CHOICE, 0, 1, 0, false, 2, 2, 1},
        {"noise", TROUPE_DIM_REAL, -6, 6, 0, false, 0, -1, 0},
        {"bound", TROUPE_DIM_REAL, 0, 3, 0, false, 0, -1, 0},
        {"count", TROUPE_DIM_INTEGER, 5, 95, 5, false, 0, -1, 0},
        {"layers", TROUPE_DIM_CHOICE, 0, 1, 0, false, 2, -1, 0},
        {"plan.steps", TROUPE_DIM_INTEGER, 1, 9, 2, false, 0, -1, 0},
    };
    assert_int_equal(count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(dims[i].name, expected[i].name);
        assert_int_equal(dims[i].kind, expected[i].kind);
        assert_true(dims[i].low == expected[i].low && dims[i].high == expected[i].high);
        assert_true(dims[i].step == expected[i].step && dims[i].log == expected[i].log);
        assert_int_equal(dims[i].choices, expected[i].choices);
        assert_int_equal(dims[i].parent, expected[i].parent);
        assert_int_equal(dims[i].when, expected[i].when);
        assert_int_equal(dims[i].ordered, i == 3);
        assert_int_equal(dims[i].grid, i == 9);
        assert_true((dims[i].deviation > 0) == (i == 6 || i == 7 || i == 8));
    }
    const double x[] = {0.5, 64, 0, 2, 0.5, 1, -1, 2, 50, 1, 3};
    assert_string_equal(
        troupe_space_json(space, x),
        "{\"rate\": 0.5, \"width\": 64, \"optimizer\": \"sgd\", \"size\": 8, \"momentum\": 0.5, "
        "\"nesterov\": false, \"noise\": -1, \"bound\": 2, \"count\": 50, \"layers\": 2, "
        "\"one\": 3, \"epochs\": 81, \"deep\": {\"a\":[1]}, \"some\": 7, \"plan.steps\": 3, "
        "\"text\": \"täxt\"}");
    troupe_arena_reset();
    troupe_space_free(&space);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    refused_as(TROUPE_MALFORMED, "{\"rate\": ", "the space: ");
    refused_as(TROUPE_MALFORMED, "", "the space: ");
    refused_as(TROUPE_MALFORMED, "{\"a\": 1, \"a\": 2}", "the space: ");
    refused_as(TROUPE_INVALID, "[1]", "the space is no object");
    refused_as(TROUPE_INVALID, "{\"\": 1}", "the name has 0 bytes, must have 1 to 127");
    char name[256] = "{\"";
    memset(name + 2, 'n', 128);
    strcpy(name + 130, "\": 1}");
    refused_as(TROUPE_INVALID, name, "the name has 128 bytes");
    refused("{}", "does not say how it is drawn");
    refused("{\"log\": true}", "does not say how it is drawn");
    refused("{\"unifrom\": [0, 1]}", "it has \"unifrom\": expected one of uniform");
    refused("{\"uniform\": [0, 1], \"steps\": 2}", "it has \"steps\"");
    refused("{\"uniform\": [0, 1], \"integer\": [0, 1]}", "it has uniform and integer");
    refused("{\"uniform\": 3}", "it is drawn of 3: expected [low, high]");
    refused("{\"uniform\": [0]}", "expected [low, high]");
    refused("{\"uniform\": [0, 1, 2]}", "expected [low, high]");
    refused("{\"uniform\": [0, \"1\"]}", "a bound is \"1\": expected a number");
    refused("{\"uniform\": [\"NaN\", 1]}", "a bound is \"NaN\": expected a number");
    refused("{\"uniform\": [1, 0]}", "low is 1 and high is 0");
    refused("{\"uniform\": [1, 1]}", "low below high");
    refused("{\"log_uniform\": [0, 1]}", "low is 0, must be positive");
    refused("{\"uniform\": [0, 1], \"log\": true}", "real numbers are log-uniform");
    refused("{\"uniform\": [0, 1], \"log\": 1}", "log is 1: expected true or false");
    refused("{\"uniform\": [0, 1], \"step\": 2}", "step is 2, and the range from 0 to 1 is only 1");
    refused("{\"uniform\": [0, 1], \"step\": -1}", "step is -1, must be finite and positive");
    refused("{\"uniform\": [0, 1], \"step\": 1e-300}", "which is lost beside 1");
    refused("{\"uniform\": [0, 1], \"step\": \"a\"}", "step is \"a\": expected a number");
    refused("{\"uniform\": [0, 1], \"low\": 0, \"high\": 1}", "low, high and whole are for normal");
    refused("{\"integer\": [0.5, 3]}", "both must be whole");
    refused("{\"integer\": [4, 3]}", "low not above high");
    refused("{\"integer\": [0, 1e17]}", "does not hold all of 0 to 1e+17");
    refused("{\"integer\": [0, 8], \"log\": true}", "low is 0, must be positive");
    refused("{\"integer\": [1, 8], \"step\": 1.5}", "step is 1.5, must be whole");
    refused("{\"integer\": [1, 8], \"step\": 9}", "step is 9, and the range from 1 to 8 is only 7");
    refused("{\"normal\": [0]}", "expected [mean, deviation]");
    refused("{\"normal\": [0, 0]}", "the deviation positive");
    refused("{\"normal\": [0, 1], \"low\": 1}", "one of low and high");
    refused("{\"normal\": [0, 1], \"low\": 1, \"high\": -1}", "low below high");
    refused("{\"normal\": [0, 1], \"low\": 7, \"high\": 9}", "nothing that a normal draw");
    refused("{\"normal\": [0, 1], \"step\": 20, \"low\": 1, \"high\": 2}", "nothing that a normal");
    refused("{\"choice\": []}", "it has 0 choices, must have 1 to 1024");
    refused("{\"choice\": {\"a\": 1}}", "its choices are {\"a\": 1}: expected an array");
    refused("{\"choice\": [1, 2], \"step\": 1}", "step and log are for ranges");
    refused("{\"uniform\": [0, 1], \"when\": 3}", "when is 3: expected an object");
    refused("{\"uniform\": [0, 1], \"when\": {}}", "expected one name and its choices");
    refused("{\"uniform\": [0, 1], \"when\": {\"a\": 1, \"b\": 2}}", "expected one name");
    refused("{\"uniform\": [0, 1], \"when\": {\"none\": 1}}", "has no row before it");
    refused("{\"uniform\": [0, 1], \"when\": {\"it\": 1}}", "its condition is on itself");
    refused("{\"uniform\": [0, 1], \"when\": {\"first\": \"c\"}}",
            "its condition is on \"c\", which is no choice of first");
    refused("{\"uniform\": [0, 1], \"when\": {\"first\": []}}", "no choices of first");
    refused_as(TROUPE_INVALID,
               "{\"a\": {\"uniform\": [0, 1]}, \"b\": {\"fixed\": 1, \"when\": {\"a\": 1}}}",
               "its condition is on a, which is not a choice");
    refused_as(TROUPE_INVALID,
               "{\"a\": {\"choice\": [1, 2], \"when\": {\"b\": 1}},"
               " \"b\": {\"choice\": [1, 2], \"when\": {\"a\": 1}}}",
               "the space's row \"a\": its condition is on b, which has no row before it");
}

// ---- descriptions

static char *described(const troupe_space *space)
{
    trp_buffer out = {0};
    trp_space_describe(space, &out);
    trp_buffer_append(&out, "", 1);
    char *text = strdup((const char *)out.data);
    trp_buffer_free(&out);
    return text;
}

static void assert_same_dims(const troupe_space *a, const troupe_space *b)
{
    assert_int_equal(a->dim_count, b->dim_count);
    for (size_t i = 0; i < a->dim_count; i++) {
        const troupe_dim *one = &a->dims[i], *other = &b->dims[i];
        assert_string_equal(one->name, other->name);
        assert_int_equal(one->kind, other->kind);
        assert_true(one->low == other->low && one->high == other->high);
        assert_true(one->step == other->step && one->log == other->log);
        assert_true(one->mean == other->mean && one->deviation == other->deviation);
        assert_true(one->choices == other->choices && one->ordered == other->ordered);
        assert_true(one->grid == other->grid && one->parent == other->parent);
        assert_int_equal(one->when, other->when);
    }
}

static void check_description(const troupe_space *space)
{
    char *text = described(space);
    troupe_space *again = parsed(text);
    char *twice = described(again);
    trp_json value;
    assert_string_equal(text, twice);
    assert_same_dims(space, again);
    assert_int_equal(trp_json_parse(text, strlen(text), &value), TROUPE_OK);
    assert_int_equal(trp_space_check_same(space, value), TROUPE_OK);
    assert_int_equal(trp_space_check_same(again, value), TROUPE_OK);
    troupe_space_free(&again);
    free(text);
    free(twice);
}

TROUPE_STRUCT(inner, (float, decay), (int, steps));
TROUPE_STRUCT(settings, (double, rate), (float, decay), (troupe_text, optimizer), (inner, plan),
              (double, weights, 2), (bool, flag), (uint64_t, large), (char, place, 4),
              (int16_t, low));

static void test_descriptions_are_read_back(void **state)
{
    (void)state;
    troupe_space *space = parsed(whole);
    check_description(space);
    troupe_space_free(&space);
    space = parsed("{}");
    check_description(space);
    troupe_space_free(&space);
    const troupe_param rows[] = {
        TROUPE_CHOICE_TEXT(settings, optimizer, "sgd", "adam \"2\""),
        TROUPE_LOG_UNIFORM(settings, rate, 0.1, 0.3),
        TROUPE_ONLY_WHEN_TEXT(settings, rate, optimizer, "sgd"),
        TROUPE_UNIFORM(settings, decay, 0.1, 0.3),
        TROUPE_NORMAL(settings, plan.decay, 0.1, 0.3),
        TROUPE_CHOICE_OF(settings, weights, {1, 2}, {0.1, 1e300}),
        TROUPE_INTEGER(settings, flag, 0, 1),
        TROUPE_FIXED(settings, large, 0x1p63),
        TROUPE_NORMAL(settings, low, 3, 700, .step = 7),
        TROUPE_FIXED_TEXT(settings, place, "abc"),
        TROUPE_ONLY_WHEN(settings, place, flag, true),
        TROUPE_GRID(settings, plan.steps, 1, 2),
        TROUPE_UNIFORM(troupe_train_options, gpus_per_rank, 0, 1, .step = 0.3),
    };
    troupe_must(troupe_space_open(settings, rows, &space));
    check_description(space);
    troupe_space_free(&space);
}

static void differs(const char *json, const char *was, const char *words)
{
    troupe_space *space = parsed(json);
    trp_json value;
    assert_int_equal(trp_json_parse(was, strlen(was), &value), TROUPE_OK);
    assert_int_equal(trp_space_check_same(space, value), TROUPE_EXISTS);
    if (strstr(troupe_last_error()->text, words) == NULL)
        fail_msg("the sentence \"%s\" does not say \"%s\"", troupe_last_error()->text, words);
    troupe_space_free(&space);
}

static void test_what_differs_is_named(void **state)
{
    (void)state;
    differs("{\"a\": {\"uniform\": [0, 1]}}", "{\"a\": {\"uniform\": [0, 2]}}",
            "a was {\"uniform\": [0, 2]} and is {\"uniform\": [0, 1]}");
    differs("{\"a\": 1, \"b\": 2}", "{\"a\": 1}", "it had no row b");
    differs("{\"a\": 1}", "{\"a\": 1, \"b\": 2}", "its row 1 was \"b\" and is missing");
    differs("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}", "its row 0 was \"b\" and is a");
    differs("{\"a\": 1}", "[]", "it had no row a");
}

// ---- short memory

static void test_short_memory_is_told(void **state)
{
    (void)state;
    troupe_space *space = NULL;
    troupe_status status = TROUPE_NO_MEMORY;
    int failures = 0;
    for (; status != TROUPE_OK && failures < 2000; failures++) {
        trp_memory_fail_after(failures);
        status = troupe_space_parse(whole, &space);
        trp_memory_fail_after(-1);
        assert_true(status == TROUPE_OK || (status == TROUPE_NO_MEMORY && space == NULL));
    }
    assert_in_range(failures, 5, 1999);
    const double x[] = {0.5, 64, 0, 2, 0.5, 1, -1, 2, 50, 1, 3};
    trp_memory_fail_after(0);
    const char *json = troupe_space_json(space, x);
    trp_memory_fail_after(-1);
    assert_null(json);
    assert_int_equal(troupe_last_error()->status, TROUPE_NO_MEMORY);
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_is_read),
        cmocka_unit_test(test_what_is_wrong_is_said),
        cmocka_unit_test(test_descriptions_are_read_back),
        cmocka_unit_test(test_what_differs_is_named),
        cmocka_unit_test(test_short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
