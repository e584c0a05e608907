// test_http_body.c: tensors as JSON and as raw bytes.
#include "support.h"

#include <math.h>
#include <runtime/base/memory.h>
#include <serve/http_body.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static troupe_status read_json(const char *text, troupe_dtype dtype, troupe_tensor *x,
                               void **memory)
{
    return trp_body_read_json(text, strlen(text), dtype, x, memory);
}

static void test_numbers_become_a_tensor(void **state)
{
    (void)state;
    troupe_tensor x;
    void *memory;
    troupe_must(read_json("{\"note\": [1], \"instances\": [[1, 2.5, -3e2], [4, 5, 6]]}",
                          TROUPE_FLOAT32, &x, &memory));
    const float expected[] = {1, 2.5f, -300, 4, 5, 6};
    assert_int_equal(x.ndim, 2);
    assert_int_equal(x.shape[0], 2);
    assert_int_equal(x.shape[1], 3);
    assert_memory_equal(x.data, expected, sizeof expected);
    trp_free(memory);
    troupe_must(read_json("{\"instances\": [true, false]}", TROUPE_BOOL, &x, &memory));
    assert_int_equal(x.ndim, 1);
    assert_memory_equal(x.data, "\1\0", 2);
    trp_free(memory);
    troupe_must(read_json("{\"instances\": [[[7]]]}", TROUPE_DTYPE_NONE, &x, &memory));
    assert_int_equal(x.dtype, TROUPE_FLOAT64);
    assert_int_equal(x.ndim, 3);
    assert_true(*(const double *)x.data == 7);
    trp_free(memory);
    troupe_must(read_json("{\"instances\": [18446744073709551615]}", TROUPE_UINT64, &x, &memory));
    assert_true(*(const uint64_t *)x.data == UINT64_MAX);
    trp_free(memory);
}

static void test_what_is_no_tensor_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        troupe_dtype dtype;
        const char *said;
    } wrong[] = {
        {"", TROUPE_FLOAT32, "line 1"},
        {"[1]", TROUPE_FLOAT32, "no array \"instances\""},
        {"{\"instances\": 3}", TROUPE_FLOAT32, "no array \"instances\""},
        {"{\"instance\": [3]}", TROUPE_FLOAT32, "no array \"instances\""},
        {"{\"instances\": [[1, 2], [3]]}", TROUPE_FLOAT32, "ragged in row 1: expected 2 items"},
        {"{\"instances\": [[1, 2], [3, 4, 5]]}", TROUPE_FLOAT32, "ragged in row 1"},
        {"{\"instances\": [[1, 2], 3]}", TROUPE_FLOAT32, "ragged in row 1"},
        {"{\"instances\": [[1, 2], [3, [4]]]}", TROUPE_FLOAT32, "no number"},
        {"{\"instances\": [[1, 2, 3, 4, 5, 6, 7, 8], [], [], [], [], [], [], [], [], [], []]}",
         TROUPE_FLOAT32, "ragged"},
        {"{\"instances\": [[1, null]]}", TROUPE_FLOAT32, "no number"},
        {"{\"instances\": [1, \"x\"]}", TROUPE_FLOAT32, "row 1"},
        {"{\"instances\": [1, {}]}", TROUPE_FLOAT32, "row 1"},
        {"{\"instances\": [300]}", TROUPE_UINT8, "row 0"},
        {"{\"instances\": [1.5]}", TROUPE_INT32, "row 0"},
        {"{\"instances\": [1e300]}", TROUPE_FLOAT32, "row 0"},
        {"{\"instances\": [1]}", TROUPE_FLOAT16, "float16 cannot be JSON"},
        {"{\"instances\": [[[[[[[[[1]]]]]]]]]}", TROUPE_FLOAT32, "more than 8 dimensions"},
        {"{\"a\": \"[[[\\\"[\", \"b\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}", TROUPE_FLOAT32,
         "deeper than 16"},
        {"{\"instances\": [1]} x", TROUPE_FLOAT32, "line 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        troupe_tensor x = {0};
        void *memory = NULL;
        if (read_json(wrong[i].text, wrong[i].dtype, &x, &memory) == TROUPE_OK)
            fail_msg("taken: %s", wrong[i].text);
        if (!strstr(troupe_last_error()->text, wrong[i].said))
            fail_msg("%s: expected '%s' in: %s", wrong[i].text, wrong[i].said,
                     troupe_last_error()->text);
        assert_null(memory);
    }
}

// What is written is read as the same bits.
static void test_predictions_keep_their_bits(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 3 };
    float numbers[ROWS][COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            numbers[i][j] = expf((float)(i * j) / 3 - 30) * (j == 1 ? -1.0f : 1.0f);
    troupe_tensor y = troupe_tensor_of(TROUPE_FLOAT32, numbers, ROWS, COLUMNS), back;
    trp_buffer out = {0};
    void *memory;
    troupe_must(trp_body_write_json(&y, &out));
    assert_memory_equal(out.data, "{\"predictions\": [[", 18);
    trp_buffer text = {0};
    trp_buffer_printf(&text, "{\"instances\"%.*s", (int)(out.size - 14), (char *)out.data + 14);
    troupe_must(trp_body_read_json((char *)text.data, text.size, TROUPE_FLOAT32, &back, &memory));
    assert_int_equal(back.shape[0], ROWS);
    assert_memory_equal(back.data, numbers, sizeof numbers);
    trp_free(memory);
    trp_buffer_free(&out);
    trp_buffer_free(&text);
    const double one = 2;
    y = (troupe_tensor){.data = &one, .dtype = TROUPE_FLOAT64};
    troupe_must(trp_body_write_json(&y, &out));
    assert_int_equal(strncmp((char *)out.data, "{\"predictions\": 2", 17), 0);
    trp_buffer_free(&out);
    y.dtype = TROUPE_BFLOAT16;
    assert_int_equal(trp_body_write_json(&y, &out), TROUPE_UNSUPPORTED);
}

static void test_headers_become_a_shape(void **state)
{
    (void)state;
    troupe_tensor x;
    char text[200];
    troupe_must(trp_body_read_shape("int16", "2,3,4", &x));
    assert_int_equal(x.dtype, TROUPE_INT16);
    assert_int_equal(x.ndim, 3);
    assert_int_equal(x.shape[2], 4);
    trp_body_write_shape(&x, text, sizeof text);
    assert_string_equal(text, "2,3,4");
    static const char *const wrong[][2] = {
        {"float", "1"},
        {"none", "1"},
        {"", "1"},
        {"int8", ""},
        {"int8", ","},
        {"int8", "1,"},
        {"int8", "-1"},
        {"int8", "1 "},
        {"int8", "99999999999999999999999"},
        {"int8", "1x"},
        {"int8", "1,,2"},
        {"int8", "1,2,3,4,5,6,7,8,9"},
        {"int8", "9999999999,9999999999"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (trp_body_read_shape(wrong[i][0], wrong[i][1], &x) == TROUPE_OK)
            fail_msg("taken: %s %s", wrong[i][0], wrong[i][1]);
}

// Any bytes, and cuts and changes of good ones: read, or refused with a sentence.
static void test_garbage_is_refused(void **state)
{
    (void)state;
    static const char good[] = "{\"instances\": [[1, -2.5e1, 0], [4, 5, 6]], \"x\": \"\\u0041\"}";
    char text[sizeof good];
    srand(7);
    for (int i = 0; i < 20000; i++) {
        troupe_tensor x;
        void *memory;
        size_t size = (size_t)rand() % sizeof good;
        memcpy(text, good, size);
        for (int j = rand() % 4; j > 0 && size > 0; j--)
            text[(size_t)rand() % size] = (char)("[]{},:\"0-e\\ "[rand() % 12]);
        if (trp_body_read_json(text, size, TROUPE_FLOAT32, &x, &memory) == TROUPE_OK)
            trp_free(memory);
        else
            assert_int_not_equal(strlen(troupe_last_error()->text), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_become_a_tensor),
        cmocka_unit_test(test_what_is_no_tensor_is_named),
        cmocka_unit_test(test_predictions_keep_their_bits),
        cmocka_unit_test(test_headers_become_a_shape),
        cmocka_unit_test(test_garbage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
