// test_gp_features.c: points as features: places in the unit interval, names, and dimensions that
// do not always count.
#include <points.h>
#include <runtime/base/memory.h>
#include <tune/search/gp_features.h>

static const troupe_dim dims[] = {
    CHOICE(3),
    LOGGED(1e-4, 1),
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 10, .parent = 0, .when = 2},
    WHOLE(1, 4),
    {.kind = TROUPE_DIM_CHOICE, .high = 4, .choices = 5, .ordered = true, .parent = -1},
};
static const troupe_problem problem = PROBLEM(dims);

static void test_each_kind_of_dimension(void **state)
{
    (void)state;
    trp_gp_features features;
    assert_int_equal(trp_gp_features_open(&features, &problem), TROUPE_OK);
    assert_int_equal(features.count, 6);
    const bool names[] = {true, false, false, false, false, false};
    const size_t lengths[] = {0, 1, 2, 2, 3, 4}, firsts[] = {0, 1, 2, 4, 5};
    for (size_t f = 0; f < 6; f++) {
        assert_int_equal(features.features[f].name, names[f]);
        assert_int_equal(features.features[f].length, lengths[f]);
    }
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(features.first[i], firsts[i]);
    double out[6];
    const double counts[] = {1, 1e-3, 2.5, 2, 4}, not [] = {2, 1e-3, NAN, 1, 0};
    trp_gp_features_of(&features, counts, out);
    const double expected[] = {0.5, 0.25, 0.25, 1, 0.375, 0.9};
    for (size_t f = 0; f < 6; f++)
        assert_float_equal(out[f], expected[f], 1e-12);
    trp_gp_features_of(&features, not, out);
    const double expected_not[] = {2.5 / 3, 0.25, 0.5, 0, 0.125, 0.1};
    for (size_t f = 0; f < 6; f++)
        assert_float_equal(out[f], expected_not[f], 1e-12);
    trp_gp_features_close(&features);
    assert_null(features.features);
    for (long allowed = 0; allowed < 2; allowed++) {
        trp_memory_fail_after(allowed);
        troupe_status got = trp_gp_features_open(&features, &problem);
        trp_memory_fail_after(-1);
        assert_int_equal(got, TROUPE_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_kind_of_dimension)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
