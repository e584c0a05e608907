// test_safetensors.c: headers of safetensors files: what is read, and each way to be damaged, which
// is said in one sentence with the file's name.
#include "support.h"

#include <runtime/codec/safetensors.h>
#include <string.h>

static size_t make(unsigned char file[512], const char *header, size_t data)
{
    uint64_t length = strlen(header);
    memset(file, 0, 512);
    memcpy(file, &length, sizeof length);
    memcpy(file + 8, header, length);
    return 8 + length + data;
}

#define AT(from, to) "\"data_offsets\":[" #from "," #to "]}"

static void test_each_way_to_be_damaged_is_told(void **state)
{
    (void)state;
    const struct {
        const char *header;
        size_t data;
        const char *told;
    } cases[] = {
        {"[]", 0, "its header is no JSON object"},
        {" {}", 0, "its header is no JSON object"},
        {"{\"a\":}", 0, "its header is no JSON object: JSON: expected a value"},
        {"{\"a\":{}}", 0, "of tensor 'a' it does not say \"dtype\""},
        {"{\"a\":7}", 0, "of tensor 'a' it does not say \"dtype\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1]," AT(0, 1) "}", 1, "of tensor 'a' it does not"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":null," AT(0, 1) "}", 1, "of tensor 'a' it does not"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "the two"},
        {"{\"a\":{\"dtype\":\"U7\",\"shape\":[1]," AT(0, 1) "}", 1, "unknown element type 'U7'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3]," AT(0, 3) "}", 2, "bytes 0 to 3 of its data, wh"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]," AT(2, 1) "}", 2, "bytes 2 to 1 of its data"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]," AT(0, 4) "}", 4, "not those of its type F32"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3]," AT(0, 1) "}", 1, "not those of its type F4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]," AT(1, 2) "}", 2, "'a' begins at byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]," AT(0, 1) "}", 2, "expected none behind them"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2]," AT(
             0, 2) ",\"b\":{\"dtype\":\"U8\",\"shape\":[2]," AT(1, 3) "}",
         3, "'b' begins at byte"},
        {"{\"a\":1,\"a\":1}", 0, "each member of an object once"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "is not an object of texts"},
        {"{\"__metadata__\":\"a\"}", 0, "is not an object of texts"},
    };
    unsigned char file[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp_arena arena = {0};
        trp_safetensors found;
        size_t size = make(file, cases[i].header, cases[i].data);
        troupe_status status = trp_safetensors_parse("dir/it", file, size, &arena, &found);
        const char *text = troupe_last_error()->text;
        if (status != TROUPE_CORRUPT || strstr(text, "dir/it is damaged: ") != text ||
            strstr(text, cases[i].told) == NULL)
            fail_msg("%s: %d, %s", cases[i].header, status, text);
        trp_arena_clear(&arena);
    }
}

static void test_a_length_beyond_the_file_is_told(void **state)
{
    (void)state;
    unsigned char file[512];
    trp_arena arena = {0};
    trp_safetensors found;
    size_t size = make(file, "{}", 0);
    assert_int_equal(trp_safetensors_parse("it", file, size, &arena, &found), TROUPE_OK);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(trp_safetensors_parse("it", file, cut, &arena, &found), TROUPE_CORRUPT);
    memset(file, 0xff, 8);
    assert_int_equal(trp_safetensors_parse("it", file, size, &arena, &found), TROUPE_CORRUPT);
    assert_non_null(
        strstr(troupe_last_error()->text, "its header would have 18446744073709551615"));
    trp_arena_clear(&arena);
}

static void test_bools_are_0_or_1(void **state)
{
    (void)state;
    unsigned char file[512];
    trp_arena arena = {0};
    trp_safetensors found;
    size_t size = make(file, "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[3]," AT(0, 3) "}", 3);
    file[size - 1] = 1;
    assert_int_equal(trp_safetensors_parse("it", file, size, &arena, &found), TROUPE_OK);
    file[size - 2] = 2;
    assert_int_equal(trp_safetensors_parse("it", file, size, &arena, &found), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "'a' of bools has 2 as element 1"));
    trp_arena_clear(&arena);
}

static void test_what_a_tensor_cannot_be_is_listed_and_not_viewed(void **state)
{
    (void)state;
    const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4]," AT(0, 4) "}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4,1,1,1,1,1,1,1,1]," AT(0, 4) "}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904,0]," AT(0, 0) "}",
    };
    unsigned char file[512];
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        trp_arena arena = {0};
        trp_safetensors found;
        troupe_tensor value;
        size_t size = make(file, headers[i], i < 2 ? 4 : 0);
        assert_int_equal(trp_safetensors_parse("it", file, size, &arena, &found), TROUPE_OK);
        assert_int_equal(found.count, 1);
        assert_int_equal(trp_safetensor_value("it", found.items, file, &value), TROUPE_UNSUPPORTED);
        assert_non_null(strstr(troupe_last_error()->text, "it: tensor 'a' has elements of type"));
        trp_arena_clear(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_way_to_be_damaged_is_told),
        cmocka_unit_test(test_a_length_beyond_the_file_is_told),
        cmocka_unit_test(test_bools_are_0_or_1),
        cmocka_unit_test(test_what_a_tensor_cannot_be_is_listed_and_not_viewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
