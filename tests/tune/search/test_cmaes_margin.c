// test_cmaes_margin.c: cells of whole numbers in the unit interval, and the probability that the
// cells beside the mean's keep.
#include <points.h>
#include <tune/search/cmaes_margin.h>

static const troupe_dim whole = WHOLE(-2, 2);
static const troupe_dim whole_log = {
    .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 1000, .step = 1, .log = true, .parent = -1};
static const troupe_dim stepped = {
    .kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .step = 0.25, .parent = -1};
static const troupe_dim ordered = {
    .kind = TROUPE_DIM_CHOICE, .high = 3, .choices = 4, .ordered = true, .parent = -1};
static const troupe_dim two = WHOLE(0, 1);
static const troupe_dim *const all[] = {&whole, &whole_log, &stepped, &ordered, &two};
enum { DIMS = sizeof all / sizeof *all };

static void test_what_has_cells(void **state)
{
    (void)state;
    const troupe_dim real = REAL(0, 1), vast = WHOLE(0, 1e9), choice = CHOICE(3);
    for (size_t i = 0; i < DIMS; i++)
        assert_true(trp_margin_has_cells(all[i]));
    assert_true(trp_margin_has_cells(&choice));
    assert_false(trp_margin_has_cells(&real));
    assert_false(trp_margin_has_cells(&vast));
}

// Within a cell the value is one and the same, beyond its edges it is the next.
static void test_edges_are_where_the_value_changes(void **state)
{
    (void)state;
    for (size_t k = 0; k < DIMS; k++) {
        int cells = 0;
        double low, high, last = -1;
        for (double unit = 0; unit < 1; unit += 1e-4) {
            trp_margin_cell(all[k], unit, &low, &high);
            double value = trp_dim_at(all[k], unit);
            assert_true(low <= unit + 1e-12 && unit < high + 1e-12);
            assert_int_equal(isinf(low) != 0, value == all[k]->low);
            assert_int_equal(isinf(high) != 0, value == all[k]->high);
            if (!isinf(low)) {
                assert_true(trp_dim_at(all[k], low + 1e-9) == value);
                assert_true(trp_dim_at(all[k], low - 1e-9) < value);
            }
            if (!isinf(high)) {
                assert_true(trp_dim_at(all[k], high - 1e-9) == value);
                assert_true(trp_dim_at(all[k], high + 1e-9) > value);
            }
            cells += value != last;
            last = value;
        }
        assert_true(cells == trp_dim_values(all[k]) || all[k] == &whole_log);
    }
    double low, high; // A mean may lie outside.
    trp_margin_cell(&whole, 7, &low, &high);
    assert_float_equal(low, 0.8, 1e-12);
    trp_margin_cell(&whole, -7, &low, &high);
    assert_float_equal(high, 0.2, 1e-12);
}

static void test_neighbours_keep_their_margin(void **state)
{
    (void)state;
    const double margin = 0.05;
    int moved = 0, left_alone = 0;
    for (size_t k = 0; k < DIMS; k++) {
        for (double at = -0.3; at < 1.3; at += 0.0171) {
            for (double deviation = 1e-6; deviation < 10; deviation *= 3) {
                double mean = at, scale = 1, low, high;
                trp_margin_keep(all[k], deviation, margin, &mean, &scale);
                trp_margin_cell(all[k], at, &low, &high);
                assert_true(mean >= low - 1e-12 && mean <= high + 1e-12); // Of the same value.
                assert_true(scale > 0 && isfinite(scale));
                double below = trp_normal_below((low - mean) / (scale * deviation));
                double above = trp_normal_below((mean - high) / (scale * deviation));
                double least = isinf(low) || isinf(high) ? margin : margin / 2;
                assert_true(isinf(low) || below > least * 0.9999);
                assert_true(isinf(high) || above > least * 0.9999);
                bool same = mean == at && scale == 1;
                moved += !same;
                left_alone += same;
            }
        }
    }
    assert_true(moved > 100 && left_alone > 100);
}

// The distribution in the middle of a wide cell that nothing else could be drawn of.
static void test_a_cell_between_two(void **state)
{
    (void)state;
    double mean = 0.5, scale = 1;
    trp_margin_keep(&whole, 1e-3, 0.05, &mean, &scale);
    assert_float_equal(mean, 0.5, 1e-12);
    // Half the cell of 0.2 is as far as 2.5 % of the distribution lie: 1.96 deviations.
    assert_float_equal(scale * 1e-3, 0.1 / 1.959963984540054, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_has_cells),
        cmocka_unit_test(test_edges_are_where_the_value_changes),
        cmocka_unit_test(test_neighbours_keep_their_margin),
        cmocka_unit_test(test_a_cell_between_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
