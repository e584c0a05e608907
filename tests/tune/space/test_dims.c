// test_dims.c: single dimensions: what is drawn lies within bounds and on steps, priors have the
// shape that they are said to have, and the unit interval maps there and back.
#include <math.h>
#include <support.h>
#include <tune/space/dims.h>

enum { DRAWS = 20000 };

static const troupe_dim real = {.kind = TROUPE_DIM_REAL, .low = -2, .high = 3, .parent = -1};
static const troupe_dim logged = {
    .kind = TROUPE_DIM_REAL, .low = 1e-4, .high = 1, .log = true, .parent = -1};
static const troupe_dim stepped = {
    .kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .step = 0.25, .parent = -1};
static const troupe_dim tenths = { // 3 * 0.1 > 0.3
    .kind = TROUPE_DIM_REAL,
    .low = 0,
    .high = 0.3,
    .step = 0.1,
    .parent = -1};
static const troupe_dim whole = {.kind = TROUPE_DIM_INTEGER, .low = -3, .high = 3, .parent = -1};
static const troupe_dim whole_log = {
    .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 1000, .log = true, .parent = -1};
static const troupe_dim choice = {
    .kind = TROUPE_DIM_CHOICE, .low = 0, .high = 4, .choices = 5, .parent = -1};
static const troupe_dim normal = {
    .kind = TROUPE_DIM_REAL, .low = -11, .high = 13, .mean = 1, .deviation = 2, .parent = -1};
static const troupe_dim *const all[] = {&real,  &logged,    &stepped, &tenths,
                                        &whole, &whole_log, &choice,  &normal};

static void test_draws_are_values_of_the_dimension(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int i = 0; i < DRAWS; i++) {
            double x = trp_dim_draw(all[k], &random);
            assert_true(x >= all[k]->low && x <= all[k]->high);
            assert_true(x == trp_dim_snap(all[k], x));
        }
}

static void test_units_map_there_and_back(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 4, 0);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int i = 0; i < 2000; i++) {
            double x = trp_dim_draw(all[k], &random), unit = trp_dim_unit(all[k], x);
            assert_true(unit >= 0 && unit < 1);
            double again = trp_dim_at(all[k], unit);
            if (trp_dim_values(all[k]) > 0)
                assert_true(again == x);
            else
                assert_true(fabs(again - x) <= 1e-9 * fmax(1, fabs(x)));
        }
}

// Each value of a finite dimension as often as its cell is wide: chi square, 1 in 10,000.
static void test_whole_values_are_alike(void **state)
{
    (void)state;
    const struct {
        const troupe_dim *dim;
        double most;
    } rows[] = {{&whole, 27.86}, {&stepped, 23.51}, {&choice, 23.51}};
    trp_random random;
    trp_random_seed(&random, 5, 0);
    for (size_t k = 0; k < 3; k++) {
        const troupe_dim *dim = rows[k].dim;
        double values = trp_dim_values(dim), counts[8] = {0}, sum = 0;
        for (int i = 0; i < DRAWS; i++)
            counts[(int)rint(trp_dim_unit(dim, trp_dim_draw(dim, &random)) * values - 0.5)]++;
        for (int i = 0; i < (int)values; i++)
            sum += pow(counts[i] - DRAWS / values, 2) / (DRAWS / values);
        assert_true(sum < rows[k].most);
    }
}

static void test_logarithms_and_normals_have_their_shape(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 6, 0);
    double logs = 0, mean = 0, square = 0, low = 0;
    for (int i = 0; i < DRAWS; i++) {
        logs += log10(trp_dim_draw(&logged, &random));
        double z = trp_dim_draw(&normal, &random);
        mean += z;
        square += z * z;
        low += trp_dim_draw(&whole_log, &random) < 10;
    }
    mean /= DRAWS;
    assert_true(fabs(logs / DRAWS + 2) < 0.04); // 5 standard errors.
    assert_true(fabs(mean - 1) < 0.08);
    assert_true(fabs(sqrt(square / DRAWS - mean * mean) - 2) < 0.06);
    // 1 to 9 have log(9.5 / 0.5) of log(1000.5 / 0.5).
    assert_true(fabs(low / DRAWS - log(19) / log(2001)) < 0.02);
}

static void test_a_dimension_counts_with_its_parent(void **state)
{
    (void)state;
    troupe_dim dims[3] = {choice, choice, real};
    dims[1].parent = 0;
    dims[1].when = 1u << 2;
    dims[2].parent = 1;
    dims[2].when = 1u << 0 | 1u << 4;
    trp_random random;
    trp_random_seed(&random, 7, 0);
    int counted = 0;
    for (int i = 0; i < 2000; i++) {
        double x[3];
        trp_dims_draw(dims, 3, &random, x);
        assert_int_equal(isnan(x[1]), x[0] != 2);
        assert_int_equal(isnan(x[2]), !(x[1] == 0 || x[1] == 4));
        counted += !isnan(x[2]);
    }
    assert_in_range(counted, 100, 230); // 1 in 5 times 2 in 5.
    double x[3] = {2, (double)NAN, 7};
    trp_dims_snap(dims, 3, x);
    assert_true(x[1] == 2 && isnan(x[2])); // It gets the middle, of which the third is none.
}

static void test_snapping_stays_within(void **state)
{
    (void)state;
    assert_true(trp_dim_snap(&real, 3) < 3);
    assert_true(trp_dim_snap(&real, -9) == -2);
    assert_true(trp_dim_snap(&stepped, 0.9) == 1);
    assert_true(trp_dim_snap(&stepped, 7) == 1);
    assert_true(trp_dim_snap(&whole, 2.4) == 2);
    troupe_dim uneven = whole;
    uneven.step = 4; // -3, 1
    assert_true(trp_dim_snap(&uneven, 3) == 1);
    assert_true(trp_dim_values(&uneven) == 2);
}

static void test_the_normal_distribution_maps_there_and_back(void **state)
{
    (void)state;
    assert_float_equal(trp_normal_below(1), 0.841344746068543, 1e-15);
    assert_float_equal(trp_normal_at(0.975), 1.959963984540054, 1e-12);
    for (double p = 1e-12; p < 0.5; p *= 1.7) {
        assert_float_equal(trp_normal_below(trp_normal_at(p)) / p, 1, 1e-9);
        assert_float_equal(trp_normal_at(1 - p), -trp_normal_at(p), 1e-4);
    }
    assert_true(trp_normal_at(0) < -8 && isfinite(trp_normal_at(0)));
    assert_true(trp_normal_at(1) > 8 && isfinite(trp_normal_at(1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_are_values_of_the_dimension),
        cmocka_unit_test(test_units_map_there_and_back),
        cmocka_unit_test(test_whole_values_are_alike),
        cmocka_unit_test(test_logarithms_and_normals_have_their_shape),
        cmocka_unit_test(test_a_dimension_counts_with_its_parent),
        cmocka_unit_test(test_snapping_stays_within),
        cmocka_unit_test(test_the_normal_distribution_maps_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
