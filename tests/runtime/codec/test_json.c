// test_json.c: values as JSON, texts that are refused, and that what was written reads back.
#include <float.h>
#include <locale.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <shapes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>

TROUPE_STRUCT(inner, (bool, on), (int8_t, small));
TROUPE_STRUCT(mixture, (uint64_t, large), (int64_t, negative), (float, single), (double, pair, 2),
              (troupe_text, text), (troupe_text, nothing), (inner, part), (troupe_array_int, list),
              (troupe_bytes, bytes), (troupe_ref, ref), (char, place, 8), (inner, parts, 2),
              (troupe_array_layer, layers), (troupe_array_troupe_text, names));

static char *text_of(trp_buffer *out)
{
    trp_buffer_append(out, "", 1);
    assert_false(out->failed);
    return (char *)out->data;
}

// Of a copy that has exactly its size, so that a sanitizer sees any byte that is read beyond.
typedef struct exact {
    char *text;
    trp_json json;
    troupe_status status;
} exact;

static exact parse(const char *text, size_t size)
{
    exact made = {.text = (char *)trp_alloc(size > 0 ? size : 1)};
    assert_non_null(made.text);
    memcpy(made.text, text, size);
    made.status = trp_json_parse(made.text, size, &made.json);
    return made;
}

static troupe_status read_text(const troupe_type *type, const char *text, trp_arena *arena,
                               void *value)
{
    exact made = parse(text, strlen(text));
    assert_int_equal(made.status, TROUPE_OK);
    troupe_status status = trp_json_read(type, made.json, arena, value);
    trp_free(made.text);
    return status;
}

static const int some_items[] = {1, -2};
static const mixture sample = {.large = UINT64_MAX,
                               .negative = INT64_MIN,
                               .single = 0.1f,
                               .pair = {1.0 / 3, (double)NAN},
                               .text = "a \"b\"\\\n\x01\xc3\xa9",
                               .part = {true, -128},
                               .list = {some_items, 2},
                               .bytes = {"troup", 5},
                               .place = "here",
                               .parts = {{false, 1}, {true, 127}}};
static const char sample_text[] =
    "{\"large\": 18446744073709551615, \"negative\": -9223372036854775808, "
    "\"single\": 0.1, \"pair\": [0.3333333333333333, \"NaN\"], "
    "\"text\": \"a \\\"b\\\"\\\\\\u000a\\u0001\xc3\xa9\", \"nothing\": null, "
    "\"part\": {\"on\": true, \"small\": -128}, \"list\": [1, -2], "
    "\"bytes\": \"dHJvdXA=\", \"ref\": null, \"place\": \"here\", "
    "\"parts\": [{\"on\": false, \"small\": 1}, {\"on\": true, \"small\": 127}], "
    "\"layers\": [], \"names\": []}";

static void test_a_record_is_an_object(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_json_value(&out, &troupe_type_mixture, &sample);
    assert_string_equal(text_of(&out), sample_text);
    trp_buffer_free(&out);
}

static void test_numbers_read_back_as_the_same_bits(void **state)
{
    (void)state;
    shapes_random random = {1};
    static const double edges[] = {0.0,  -0.0, DBL_MAX, -DBL_MAX, DBL_MIN, 0x1p-1074,
                                   1e22, 1e23, 0.1,     1 / 3.0,  0x1p53};
    size_t edge_count = sizeof(edges) / sizeof(edges[0]);
    for (size_t i = 0; i < 20000 + edge_count; i++) {
        uint64_t bits = shapes_next(&random);
        double value, back = 1;
        float single, single_back = 1;
        trp_buffer out = {0};
        memcpy(&value, &bits, sizeof value);
        memcpy(&single, &bits, sizeof single);
        if (i >= 20000)
            value = edges[i - 20000];
        trp_json_number(&out, value);
        assert_int_equal(read_text(&troupe_type_double, text_of(&out), NULL, &back), TROUPE_OK);
        assert_true(isnan(value) ? isnan(back) : memcmp(&value, &back, sizeof value) == 0);
        trp_buffer_free(&out);
        trp_json_value(&out, &troupe_type_float, &single);
        assert_int_equal(read_text(&troupe_type_float, text_of(&out), NULL, &single_back),
                         TROUPE_OK);
        assert_true(isnan(single) ? isnan(single_back)
                                  : memcmp(&single, &single_back, sizeof single) == 0);
        trp_buffer_free(&out);
    }
}

static void test_whole_numbers_are_written_as_others_are(void **state)
{
    (void)state;
    static const double values[] = {0, -0.0, 7, -7, 999999, 1e6, 999999999999999, 1e15, 0.5};
    static const char *const texts[] = {
        "0", "-0", "7", "-7", "999999", "1000000", "999999999999999", "1e+15", "0.5"};
    static const char *const single_texts[] = {"0",     "-0",    "7",     "-7", "999999",
                                               "1e+06", "1e+15", "1e+15", "0.5"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        float single = (float)values[i];
        trp_buffer out = {0};
        trp_json_number(&out, values[i]);
        assert_string_equal(text_of(&out), texts[i]);
        trp_buffer_free(&out);
        trp_json_value(&out, &troupe_type_float, &single);
        assert_string_equal(text_of(&out), single_texts[i]);
        trp_buffer_free(&out);
    }
}

static void test_what_json_has_no_number_for_is_a_text(void **state)
{
    (void)state;
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const char *const texts[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    for (int i = 0; i < 3; i++) {
        double back = 0;
        float single = 0;
        trp_buffer out = {0};
        trp_json_number(&out, values[i]);
        assert_string_equal(text_of(&out), texts[i]);
        assert_int_equal(read_text(&troupe_type_double, texts[i], NULL, &back), TROUPE_OK);
        assert_int_equal(read_text(&troupe_type_float, texts[i], NULL, &single), TROUPE_OK);
        assert_true(i == 0 ? isnan(back) && isnan(single)
                           : back == values[i] && (double)single == values[i]);
        trp_buffer_free(&out);
        int whole = 7;
        assert_int_equal(read_text(&troupe_type_int, texts[i], NULL, &whole), TROUPE_WRONG_TYPE);
    }
}

static void test_a_text_that_is_not_utf8_becomes_one(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_json_text(&out, "caf\xe9 \xc3\xa9\xf0\x9f\x98\x80 \xed\xa0\x80");
    assert_string_equal(text_of(&out), "\"caf\xef\xbf\xbd \xc3\xa9\xf0\x9f\x98\x80 "
                                       "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    trp_buffer_free(&out);
}

// What files do not hold, and what has no numbers of its own there.
static void without_addresses(everything *value)
{
    value->ref = (troupe_ref){0};
    value->actor = (troupe_actor){0};
    value->typed = (clerk_actor){{0}};
    value->refs = (troupe_array_troupe_ref){0};
    value->clerks = (troupe_array_clerk_actor){0};
    value->tensor = (troupe_tensor){0};
    value->tensors = (troupe_array_troupe_tensor){0};
}

static void test_random_values_of_every_kind_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        shapes_random random = {seed};
        shapes_memory memory = {NULL, 0};
        trp_arena arena = {0};
        trp_buffer out = {0}, again = {0};
        everything value, back;
        memset(&value, 0, sizeof(value));
        memset(&back, 0, sizeof(back));
        shapes_fill(&random, &memory, &troupe_type_everything, &value);
        without_addresses(&value);
        trp_json_value(&out, &troupe_type_everything, &value);
        int status = read_text(&troupe_type_everything, text_of(&out), &arena, &back);
        if (status != TROUPE_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, troupe_last_error()->text);
        trp_json_value(&again, &troupe_type_everything, &back);
        assert_string_equal(text_of(&again), text_of(&out));
        trp_buffer_free(&out);
        trp_buffer_free(&again);
        trp_arena_clear(&arena);
        shapes_free(&memory);
    }
}

// A17: what is given is merged into what there is, at each depth.
static void test_what_the_text_lacks_stays(void **state)
{
    (void)state;
    trp_arena arena = {0};
    mixture value = sample;
    assert_int_equal(read_text(&troupe_type_mixture,
                               " { \"later\": [{\"large\": 1}], \"p\\u0061rt\": {\"small\": 5.0},"
                               " \"text\": null, \"list\": null, \"single\": null,"
                               " \"place\": \"\\u00e9\" } ",
                               &arena, &value),
                     TROUPE_OK);
    assert_true(value.large == UINT64_MAX && value.part.on && value.part.small == 5);
    assert_null(value.text);
    assert_true(value.list.items == some_items && value.single == 0.1f);
    assert_string_equal(value.place, "\xc3\xa9");
    trp_arena_clear(&arena);
}

// A06, C05.
static void test_a_wrong_member_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{\"part\": {\"small\": \"abc\"}}",
         "member 'part.small' is \"abc\": expected an integer from -128 to 127"},
        {"{\"part\": {\"small\": 128}}",
         "member 'part.small' is 128: expected an integer from -128 to 127"},
        {"{\"parts\": [{}, {\"small\": 1.5}]}",
         "member 'parts[1].small' is 1.5: expected an integer from -128 to 127"},
        {"{\"large\": -1}",
         "member 'large' is -1: expected an integer from 0 to 18446744073709551615"},
        {"{\"large\": 18446744073709551616}", "member 'large' is 18446744073709551616: expected "
                                              "an integer from 0 to 18446744073709551615"},
        {"{\"negative\": 9223372036854775808}", "member 'negative' is 9223372036854775808: "
                                                "expected an integer from -9223372036854775808 "
                                                "to 9223372036854775807"},
        {"{\"single\": 1e39}", "member 'single' is 1e39: expected a number of a float's range"},
        {"{\"pair\": [1, 1e999]}", "member 'pair[1]' is 1e999: expected a number"},
        {"{\"pair\": [1, \"nan\"]}", "member 'pair[1]' is \"nan\": expected a number"},
        {"{\"pair\": [1]}", "member 'pair' is [1]: expected an array of 2 items"},
        {"{\"text\": 1}", "member 'text' is 1: expected a text"},
        {"{\"list\": {}}", "member 'list' is {}: expected an array"},
        {"{\"layers\": [{\"sizes\": [0, true]}]}",
         "member 'layers[0].sizes[1]' is true: expected an integer from -2147483648 to 2147483647"},
        {"{\"part\": {\"on\": 1}}", "member 'part.on' is 1: expected true or false"},
        {"{\"bytes\": \"a\"}", "member 'bytes' is \"a\": expected bytes as base64 text"},
        {"{\"bytes\": \"a=bc\"}", "member 'bytes' is \"a=bc\": expected bytes as base64 text"},
        {"{\"ref\": 1}", "member 'ref' is 1: expected null (files hold no troupe_ref)"},
        {"{\"place\": \"12345678\"}",
         "member 'place' is \"12345678\": expected a text of at most 7 bytes"},
        {"[1]", "the value is [1]: expected an object (mixture)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        trp_arena arena = {0};
        mixture value = sample, before = sample;
        assert_int_equal(read_text(&troupe_type_mixture, cases[i].text, &arena, &value),
                         TROUPE_WRONG_TYPE);
        assert_string_equal(troupe_last_error()->text, cases[i].error);
        assert_memory_equal(&value, &before, sizeof(value));
        trp_arena_clear(&arena);
    }
}

static void test_what_rfc_8259_allows_is_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "-0.0e-0",
                                        "1E+2",
                                        "123.456e7",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        " [ ] ",
                                        "\t{\r\n}\n",
                                        "[[],{},null,true,false]",
                                        "{\"\":0}",
                                        "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"",
                                        "\"\x7f\xf4\x8f\xbf\xbf\"",
                                        "1e999",
                                        "{\"a\":1,\"A\":2}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        exact made = parse(texts[i], strlen(texts[i]));
        if (made.status != TROUPE_OK)
            fail_msg("%s: %s", texts[i], troupe_last_error()->text);
        trp_free(made.text);
    }
}

static void test_what_it_does_not_allow_is_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "expected a value, found the end at line 1, column 1"},
        {"{\"a\": 1,\n \"b\": 01}",
         "expected no digit after a leading 0, found '1' at line 2, column 8"},
        {"[1, 2", "expected ',' or ']', found the end at line 1, column 6"},
        {"[1,]", "expected a value, found ']' at line 1, column 4"},
        {"{\"a\" 1}", "expected ':', found '1' at line 1, column 6"},
        {"{a: 1}", "expected a member's name in quotes, found 'a' at line 1, column 2"},
        {"{\"a\": 1,}", "expected a member's name in quotes, found '}' at line 1, column 9"},
        {"{\"\xc3\xa9\": 1, \"\xc3\xa9\": 2}",
         "expected each member of an object once, found '\"' at line 1, column 10"},
        {"{\"a\": 1, \"\\u0061\": 2}",
         "expected each member of an object once, found '\"' at line 1, column 10"},
        {"\"a\x01\"", "expected a text's control characters as escapes, found byte 0x01 at line 1, "
                      "column 3"},
        {"\"a", "expected the closing quote of a text, found the end at line 1, column 3"},
        {"\"\xc3\"", "expected text in UTF-8 without a NUL, found byte 0xc3 at line 1, column 2"},
        {"\"\\u0000\"", "expected a text without a NUL, found '\\' at line 1, column 2"},
        {"1 2", "expected nothing after the value, found '2' at line 1, column 3"},
        {"NaN", "expected a value, found 'N' at line 1, column 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exact made = parse(cases[i].text, strlen(cases[i].text));
        char error[200];
        snprintf(error, sizeof(error), "JSON: %s", cases[i].error);
        assert_int_equal(made.status, TROUPE_MALFORMED);
        assert_string_equal(troupe_last_error()->text, error);
        trp_free(made.text);
    }
    static const char *const others[] = {"+1",
                                         ".5",
                                         "1.",
                                         "1e",
                                         "-",
                                         "0x1",
                                         "tru",
                                         "nul",
                                         "'a'",
                                         "\"\\x\"",
                                         "\"\\u12g4\"",
                                         "\"\\ud800\"",
                                         "\"\\udc00\"",
                                         "\"\\ud800\\u0041\"",
                                         "\"\xed\xa0\x80\"",
                                         "\"\xc0\x80\"",
                                         "[1 2]",
                                         "[",
                                         "{",
                                         "]",
                                         "{\"a\"",
                                         "{\"a\":",
                                         "{1:2}",
                                         "{\"a\":1 \"b\":2}",
                                         "\xef\xbb\xbf{}",
                                         "// a\n1",
                                         "Infinity",
                                         "True",
                                         "1\f"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        exact made = parse(others[i], strlen(others[i]));
        if (made.status != TROUPE_MALFORMED)
            fail_msg("accepted: %s", others[i]);
        trp_free(made.text);
    }
    assert_int_equal(trp_json_parse("1\0", 2, &(trp_json){0}), TROUPE_MALFORMED);
}

static void test_depth_numbers_and_many_members_are_bounded(void **state)
{
    (void)state;
    for (int depth = TRP_JSON_DEPTH_MAX; depth <= TRP_JSON_DEPTH_MAX + 1; depth++) {
        trp_buffer text = {0};
        for (int i = 0; i < depth; i++)
            trp_buffer_append(&text, i % 2 ? "[" : "{\"a\":", i % 2 ? 1 : 5);
        trp_buffer_append(&text, "1", 1);
        for (int i = depth; i-- > 0;)
            trp_buffer_append(&text, i % 2 ? "]" : "}", 1);
        exact made = parse((char *)text.data, text.size);
        assert_int_equal(made.status, depth <= TRP_JSON_DEPTH_MAX ? TROUPE_OK : TROUPE_MALFORMED);
        trp_free(made.text);
        trp_buffer_free(&text);
    }
    char digits[TRP_JSON_NUMBER_MAX + 1];
    memset(digits, '7', sizeof(digits));
    assert_int_equal(trp_json_parse(digits, sizeof(digits) - 1, &(trp_json){0}), TROUPE_OK);
    assert_int_equal(trp_json_parse(digits, sizeof(digits), &(trp_json){0}), TROUPE_MALFORMED);
    // Without and with one name twice, the second time far from the first.
    for (int twice = 0; twice < 2; twice++) {
        trp_buffer text = {0};
        trp_buffer_printf(&text, "[{\"inner\": 1}, {");
        for (int i = 0; i < 20000; i++)
            trp_buffer_printf(&text, "\"m%d\": {\"m%d\": %d}, ", i, i, i);
        trp_buffer_printf(&text, "\"m%s\": 1}]", twice ? "77" : "x");
        exact made = parse((char *)text.data, text.size);
        assert_int_equal(made.status, twice ? TROUPE_MALFORMED : TROUPE_OK);
        trp_free(made.text);
        trp_buffer_free(&text);
    }
}

// Whatever it is: it ends, and what it accepts can be walked, read and written.
static void try_all(const char *text, size_t size)
{
    exact made = parse(text, size);
    if (made.status == TROUPE_OK) {
        trp_arena arena = {0};
        trp_buffer out = {0};
        trp_json part, at = {0}, name;
        mixture value = sample;
        (void)trp_json_read(&troupe_type_mixture, made.json, &arena, &value);
        (void)trp_json_member(made.json, "names", &part);
        while (trp_json_next_member(made.json, &at, &name, &part)) {
            for (trp_json item = {0}; trp_json_next_item(part, &item);)
                assert_true(item.size > 0);
        }
        (void)trp_json_canonical(made.json, &out);
        trp_buffer_free(&out);
        trp_arena_clear(&arena);
    } else {
        assert_int_equal(made.status, TROUPE_MALFORMED);
    }
    trp_free(made.text);
}

static void test_every_cut_and_every_changed_byte_ends(void **state)
{
    (void)state;
    static const char document[] =
        "{\"large\": 12, \"pair\": [1.5e-3, -0], \"text\": \"\\ud83d\\ude00 \\n\xc3\xa9\", "
        "\"parts\": [{\"on\": true}, null], \"bytes\": \"dHJvdQ==\", \"names\": [\"\", \"x\"]}";
    static const char *const documents[] = {document, sample_text};
    for (size_t d = 0; d < 2; d++) {
        size_t size = strlen(documents[d]);
        char copy[sizeof(sample_text)];
        memcpy(copy, documents[d], size);
        for (size_t i = 0; i < size; i++) {
            exact cut = parse(copy, i);
            assert_int_equal(cut.status, TROUPE_MALFORMED);
            trp_free(cut.text);
            for (int byte = 0; byte < 256; byte++) {
                copy[i] = (char)byte;
                try_all(copy, size);
            }
            copy[i] = documents[d][i];
        }
    }
}

static void test_members_and_items_are_walked_in_order(void **state)
{
    (void)state;
    static const char text[] =
        " {\"a\" : [1, \"]\", [2, {}], {\"b\": 3}] ,\"b\":\"x\\\"}\" , \"c\\n\":{}} ";
    exact made = parse(text, strlen(text));
    assert_int_equal(made.status, TROUPE_OK);
    assert_true(trp_json_is_object(made.json) && !trp_json_is_array(made.json));
    trp_json at = {0}, name, value;
    static const char *const names[] = {"a", "b", "c\n"};
    for (int i = 0; i < 3; i++) {
        assert_true(trp_json_next_member(made.json, &at, &name, &value));
        assert_true(trp_json_equals(name, names[i]));
        assert_false(trp_json_equals(name, "c"));
    }
    assert_false(trp_json_next_member(made.json, &at, &name, &value));
    assert_true(trp_json_member(made.json, "a", &value));
    static const char *const items[] = {"1", "\"]\"", "[2, {}]", "{\"b\": 3}"};
    trp_json item = {0};
    for (int i = 0; i < 4; i++) {
        assert_true(trp_json_next_item(value, &item));
        assert_int_equal(item.size, strlen(items[i]));
        assert_memory_equal(item.at, items[i], item.size);
    }
    assert_false(trp_json_next_item(value, &item));
    assert_true(trp_json_member(made.json, "b", &value) && trp_json_equals(value, "x\"}"));
    assert_true(trp_json_is_text(value) && !trp_json_member(value, "b", &at));
    assert_false(trp_json_member(made.json, "d", &value));
    trp_free(made.text);
}

static void test_equal_values_have_one_canonical_form(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {" {\"b\": [ 1.0, 1e2, -0.0 ], \"a\\u0062\": \"\\u0041\\/\\u000a\\u001f\" } ",
         "{\"ab\":\"A/\\n\\u001f\",\"b\":[1,100,0]}"},
        {"[18446744073709551615, 1e21, 1E20, 0.000001, 0.0000001, 0.1, 333333333.33333329, 5e-324]",
         "[18446744073709551615,1e+21,100000000000000000000,0.000001,1e-7,0.1,333333333.3333333,"
         "5e-324]"},
        {"{\"\xef\xac\xb3\": 1, \"\xf0\x9f\x98\x80\": 2, \"\\u20ac\": 3, \"1\": 4, \"\": 5}",
         "{\"\":5,\"1\":4,\"\xe2\x82\xac\":3,\"\xf0\x9f\x98\x80\":2,\"\xef\xac\xb3\":1}"},
        {"[1.7976931348623157e308, 123456.789e3, 100000000000000000000000, true, null, {}]",
         "[1.7976931348623157e+308,123456789,1e+23,true,null,{}]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = cases[i].text;
        for (int round = 0; round < 2; round++) { // The canonical form is its own.
            trp_buffer out = {0};
            exact made = parse(text, strlen(text));
            assert_int_equal(made.status, TROUPE_OK);
            assert_int_equal(trp_json_canonical(made.json, &out), TROUPE_OK);
            assert_string_equal(text_of(&out), cases[i].canonical);
            trp_free(made.text);
            trp_buffer_free(&out);
            text = cases[i].canonical;
        }
    }
    trp_buffer out = {0};
    trp_json large;
    assert_int_equal(trp_json_parse("1e999", 5, &large), TROUPE_OK);
    assert_int_equal(trp_json_canonical(large, &out), TROUPE_MALFORMED);
    trp_buffer_free(&out);
}

static void test_the_locale_changes_nothing(void **state)
{
    (void)state;
    // Where the system has none of these, there is nothing to be seen.
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *set = NULL;
    for (size_t i = 0; i < 4 && set == NULL; i++)
        set = setlocale(LC_NUMERIC, locales[i]);
    if (set == NULL)
        skip();
    trp_buffer out = {0};
    double back = 0;
    trp_json_number(&out, 2.5e-30);
    assert_string_equal(text_of(&out), "2.5e-30");
    assert_int_equal(read_text(&troupe_type_double, "1234.5678", NULL, &back), TROUPE_OK);
    setlocale(LC_NUMERIC, "C");
    assert_true(back == 1234.5678);
    trp_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_an_object),
        cmocka_unit_test(test_numbers_read_back_as_the_same_bits),
        cmocka_unit_test(test_whole_numbers_are_written_as_others_are),
        cmocka_unit_test(test_what_json_has_no_number_for_is_a_text),
        cmocka_unit_test(test_a_text_that_is_not_utf8_becomes_one),
        cmocka_unit_test(test_random_values_of_every_kind_come_back),
        cmocka_unit_test(test_what_the_text_lacks_stays),
        cmocka_unit_test(test_a_wrong_member_is_named),
        cmocka_unit_test(test_what_rfc_8259_allows_is_accepted),
        cmocka_unit_test(test_what_it_does_not_allow_is_refused_with_the_place),
        cmocka_unit_test(test_depth_numbers_and_many_members_are_bounded),
        cmocka_unit_test(test_every_cut_and_every_changed_byte_ends),
        cmocka_unit_test(test_members_and_items_are_walked_in_order),
        cmocka_unit_test(test_equal_values_have_one_canonical_form),
        cmocka_unit_test(test_the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
