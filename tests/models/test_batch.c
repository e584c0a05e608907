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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_found_by_name_and_type),
        cmocka_unit_test(test_a_wrong_name_or_type_is_told_and_sets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
