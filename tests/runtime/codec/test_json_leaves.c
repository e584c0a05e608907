// test_json_leaves.c: an object of objects as a list of names and values.
#include <runtime/base/memory.h>
#include <runtime/codec/json_leaves.h>
#include <string.h>
#include <support.h>

static bool list(void *user, const char *name, trp_json value)
{
    trp_buffer *out = user;
    trp_buffer_printf(out, "%s=", name);
    trp_json_plain(value, out);
    trp_buffer_append(out, ";", 1);
    return !out->failed;
}

static trp_json parse(const char *text)
{
    trp_json value;
    assert_int_equal(trp_json_parse(text, strlen(text), &value), TROUPE_OK);
    return value;
}

static void test_names_are_joined(void **state)
{
    (void)state;
    trp_buffer out = {0};
    trp_json value = parse("{\"rate\": 1e-3, \"fitting\": {\"batch\": 32, \"of\": {\"a\": true}}, "
                           "\"b\\u0022c\": \"x\\ny\", \"no\": null, \"list\": [1, {\"z\": 2}], "
                           "\"empty\": {}}");
    assert_true(trp_json_leaves(value, list, &out));
    trp_buffer_append(&out, "", 1);
    assert_string_equal((const char *)out.data,
                        "rate=1e-3;fitting/batch=32;fitting/of/a=true;b\"c=x\ny;no=;"
                        "list=[1, {\"z\": 2}];empty={};");
    trp_buffer_free(&out);
    assert_true(trp_json_leaves(parse("{}"), list, &out));
    assert_true(trp_json_leaves(parse("7"), list, &out));
    assert_int_equal(out.size, 0);
}

static void test_it_ends_where_memory_does(void **state)
{
    (void)state;
    trp_json value = parse("{\"a\": {\"b\": \"text\"}, \"c\": \"d\"}");
    int failures = 0;
    for (bool whole = false; !whole && failures < 100; failures++) {
        trp_buffer out = {0};
        trp_memory_fail_after(failures);
        whole = trp_json_leaves(value, list, &out);
        trp_memory_fail_after(-1);
        assert_true(!whole || out.size == strlen("a/b=text;c=d;"));
        trp_buffer_free(&out);
    }
    assert_in_range(failures, 2, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_joined),
        cmocka_unit_test(test_it_ends_where_memory_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
