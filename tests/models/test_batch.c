// test_batch.c: columns of a batch by name, type and number of dimensions.
#include <support.h>

#include <models/batch.h>
#include <string.h>
#include <troupe.h>

static const float pixels[6] = {0, 1, 2, 3, 4, 5};
static const int64_t labels[3] = {7, 8, 9};

static void test_columns_are_found_by_name_and_type(void **state)
{
    (void)state;
    const trp_column items[] = {{"image", troupe_tensor_of(TROUPE_FLOAT32, pixels, 3, 2)},
                                {"label", troupe_tensor_of(TROUPE_INT64, labels, 3)}};
    const struct troupe_columns columns = {2, items};
    const troupe_batch batch = {.rows = 3, .columns_ = &columns};
    troupe_tensor seen = {0};
    assert_int_equal(troupe_column(&batch, "label", TROUPE_INT64, 1, &seen), TROUPE_OK);
    assert_ptr_equal(seen.data, labels);
    assert_int_equal(troupe_column(&batch, "image", TROUPE_DTYPE_NONE, TROUPE_DIMS_ANY, &seen),
                     TROUPE_OK);
    assert_ptr_equal(seen.data, pixels);
    assert_int_equal(seen.shape[0], 3);
    assert_int_equal(seen.shape[1], 2);
}

static void test_a_wrong_name_or_type_is_told_and_sets_nothing(void **state)
{
    (void)state;
    const trp_column items[] = {{"image", troupe_tensor_of(TROUPE_FLOAT32, pixels, 3, 2)},
                                {"label", troupe_tensor_of(TROUPE_INT64, labels, 3)}};
    const struct troupe_columns columns = {2, items}, none = {0, NULL};
    const troupe_batch batch = {.rows = 3, .columns_ = &columns}, empty = {.columns_ = &none};
    troupe_tensor seen = {0};
    const char *text = troupe_last_error()->text;
    assert_int_equal(troupe_column(&batch, "target", TROUPE_INT64, 1, &seen), TROUPE_NOT_FOUND);
    assert_string_equal(text, "a batch has no column 'target': it has image, label");
    assert_int_equal(troupe_column(&empty, "image", TROUPE_FLOAT32, 2, &seen), TROUPE_NOT_FOUND);
    assert_string_equal(text, "a batch has no column 'image': it has none");
    assert_int_equal(troupe_column(&batch, "image", TROUPE_FLOAT64, 2, &seen), TROUPE_WRONG_TYPE);
    assert_non_null(strstr(text, "column 'image' of a batch: "));
    assert_non_null(strstr(text, "float32[3,2] where float64[?,?] was expected"));
    assert_null(seen.data);
}

static void test_the_dimensions_of_a_row_are_compared(void **state)
{
    (void)state;
    static const float frames[12];
    const trp_column items[] = {{"image", troupe_tensor_of(TROUPE_FLOAT32, pixels, 3, 2)},
                                {"film", troupe_tensor_of(TROUPE_FLOAT32, frames, 3, 2, 2)}};
    const struct troupe_columns columns = {2, items};
    const troupe_batch batch = {.rows = 3, .columns_ = &columns};
    troupe_tensor seen = {0}, none = {0};
    const char *text = troupe_last_error()->text;
    assert_int_equal(troupe_column_of(&batch, "image", &seen, TROUPE_FLOAT32, 3),
                     TROUPE_WRONG_TYPE);
    assert_string_equal(text, "column 'image' of a batch: float32[3,2] where float32[?,3] was "
                              "expected");
    assert_int_equal(troupe_column_of(&batch, "film", &seen, TROUPE_FLOAT32, 0, 4),
                     TROUPE_WRONG_TYPE);
    assert_string_equal(text, "column 'film' of a batch: float32[3,2,2] where float32[?,?,4] was "
                              "expected");
    assert_int_equal(troupe_column_of(&batch, "image", &seen, TROUPE_FLOAT64, 2),
                     TROUPE_WRONG_TYPE);
    assert_int_equal(troupe_column_of(&batch, "image", &seen, TROUPE_FLOAT32, 2, 2),
                     TROUPE_WRONG_TYPE);
    assert_int_equal(troupe_column_of(&batch, "films", &seen, TROUPE_FLOAT32, 2), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_column_like(&batch, "image", &none, &seen), TROUPE_INVALID);
    assert_non_null(strstr(text, "1 to 8"));
    assert_null(seen.data);
    assert_int_equal(troupe_column_of(&batch, "image", &seen, TROUPE_FLOAT32, 2), TROUPE_OK);
    assert_ptr_equal(seen.data, pixels);
    assert_int_equal(troupe_column_of(&batch, "film", &seen, TROUPE_DTYPE_NONE, 2, 0), TROUPE_OK);
    assert_ptr_equal(seen.data, frames);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_found_by_name_and_type),
        cmocka_unit_test(test_a_wrong_name_or_type_is_told_and_sets_nothing),
        cmocka_unit_test(test_the_dimensions_of_a_row_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
