// test_gp_process.c: a Gaussian process against one that was worked out by hand, its slopes against
// differences, and that it may grow.
#include "gp_points.h"

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/search/gp_process.h>

// What is expected at one point. Slopes may be NULL.
static void predict(const trp_gp_process *process, const double *x, double *mean, double *variance,
                    double *mean_slope, double *variance_slope)
{
    enum { LANES = TRP_GP_LANES };
    static double scratch[TRP_GP_SCRATCH(120)];
    double at[FEATURES * LANES], means[LANES], variances[LANES];
    double slopes[2][FEATURES * LANES];
    size_t size = process->feature_count;
    for (size_t i = 0; i < size * LANES; i++)
        at[i] = x[i / LANES];
    trp_gp_process_predict(process, at, means, variances, mean_slope == NULL ? NULL : slopes[0],
                           mean_slope == NULL ? NULL : slopes[1], scratch);
    *mean = means[3];
    *variance = variances[3];
    for (size_t f = 0; mean_slope != NULL && f < size; f++) {
        mean_slope[f] = slopes[0][f * LANES + 3];
        variance_slope[f] = slopes[1][f * LANES + 3];
    }
}

// Points 0 and 1 with targets 1 and -1.
static void test_two_points_by_hand(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    trp_gp_process process;
    assert_int_equal(trp_gp_process_open(&process, &one, 1, 1), TROUPE_OK);
    const double at[] = {0, 1}, targets[] = {1, -1}, where[] = {0, 0.5, 1, 0.2, 30};
    assert_int_equal(trp_gp_process_add(&process, &at[0]), TROUPE_OK);
    assert_int_equal(trp_gp_process_add(&process, &at[1]), TROUPE_OK);
    process.inverse[0] = 4; // A length of a half.
    process.scale = 2;
    process.noise = 0.3;
    assert_int_equal(trp_gp_process_condition(&process, 2, targets), TROUPE_OK);
    double a = 2.3, b = 2 * matern(2), det = a * a - b * b;
    for (size_t i = 0; i < 5; i++) {
        double k0 = 2 * matern(2 * fabs(where[i])), k1 = 2 * matern(2 * fabs(where[i] - 1)), mean,
               variance;
        predict(&process, &where[i], &mean, &variance, NULL, NULL);
        assert_float_equal(mean, (k0 - k1) * (a + b) / det, 1e-12);
        assert_float_equal(variance, 2 - (a * k0 * k0 - 2 * b * k0 * k1 + a * k1 * k1) / det,
                           1e-12);
    }
    trp_gp_process_close(&process);
}

static void test_slopes_are_differences(void **state)
{
    (void)state;
    trp_gp_process process;
    double targets[N];
    make(&process, targets);
    assert_int_equal(trp_gp_process_condition(&process, N, targets), TROUPE_OK);
    const double x[FEATURES] = {0.31, 0.52, 0.73, 1};
    double mean, variance, mean_slope[FEATURES], variance_slope[FEATURES];
    double mean_up, mean_down, variance_up, variance_down;
    predict(&process, x, &mean, &variance, mean_slope, variance_slope);
    for (size_t f = 0; f + 1 < FEATURES; f++) {
        double moved[FEATURES], step = 1e-5;
        memcpy(moved, x, sizeof moved);
        moved[f] = x[f] + step;
        predict(&process, moved, &mean_up, &variance_up, NULL, NULL);
        moved[f] = x[f] - step;
        predict(&process, moved, &mean_down, &variance_down, NULL, NULL);
        assert_float_equal(mean_slope[f], (mean_up - mean_down) / (2 * step), 1e-6);
        assert_float_equal(variance_slope[f], (variance_up - variance_down) / (2 * step), 1e-6);
    }
    assert_true(mean_slope[3] == 0 && variance_slope[3] == 0);
    trp_gp_process_close(&process);
}

// What a lane expects does not depend on the others, and what a process has grown to, point after
// point, has the bits of one that was made at once.
static void test_lanes_and_growth_change_no_bit(void **state)
{
    (void)state;
    enum { LANES = TRP_GP_LANES };
    trp_gp_process process, grown;
    double targets[N], lanes[LANES * FEATURES], means[2][LANES], variances[2][LANES];
    double scratch[TRP_GP_SCRATCH(N)], x[FEATURES], mean, variance;
    make(&process, targets);
    make(&grown, targets);
    grown.count = 0;
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(trp_gp_process_add(&grown, process.points + i * FEATURES), TROUPE_OK);
        if (i % 3 == 0) {
            assert_int_equal(trp_gp_process_condition(&grown, i + 1, targets), TROUPE_OK);
            for (size_t k = 0; k < 2; k++) // Some that run meanwhile.
                assert_int_equal(trp_gp_process_add(&grown, process.points + k), TROUPE_OK);
            assert_int_equal(trp_gp_process_suppose(&grown), TROUPE_OK);
            grown.count -= 2;
        }
    }
    assert_int_equal(trp_gp_process_condition(&grown, N - 3, targets), TROUPE_OK);
    assert_int_equal(trp_gp_process_suppose(&grown), TROUPE_OK);
    assert_int_equal(trp_gp_process_condition(&process, N - 3, targets), TROUPE_OK);
    assert_int_equal(trp_gp_process_suppose(&process), TROUPE_OK);
    for (size_t i = 0; i < LANES * FEATURES; i++)
        lanes[i] = (double)(i * i % 17) / 17;
    trp_gp_process_predict(&process, lanes, means[0], variances[0], NULL, NULL, scratch);
    trp_gp_process_predict(&grown, lanes, means[1], variances[1], NULL, NULL, scratch);
    assert_memory_equal(means[0], means[1], sizeof means[0]);
    assert_memory_equal(variances[0], variances[1], sizeof variances[0]);
    for (size_t lane = 0; lane < LANES; lane++) {
        for (size_t f = 0; f < FEATURES; f++)
            x[f] = lanes[f * LANES + lane];
        predict(&process, x, &mean, &variance, NULL, NULL);
        assert_true(mean == means[0][lane] && variance == variances[0][lane]);
    }
    grown.noise *= 2; // Other hyperparameters, and nothing of the factor holds.
    process.noise *= 2;
    process.factored = 0;
    assert_int_equal(trp_gp_process_condition(&grown, N, targets), TROUPE_OK);
    assert_int_equal(trp_gp_process_condition(&process, N, targets), TROUPE_OK);
    assert_memory_equal(grown.weights, process.weights, N * sizeof *grown.weights);
    trp_gp_process_close(&process);
    trp_gp_process_close(&grown);
}

// What is supposed of three points leaves every expectation as it was, as if they had been observed
// where they were expected.
static void test_suppositions_are_observations_of_what_was_expected(void **state)
{
    (void)state;
    trp_gp_process process;
    double targets[N], before[N], mean, variance, supposed[N], x[FEATURES];
    make(&process, targets);
    const size_t known = N - 3;
    process.count = known;
    assert_int_equal(trp_gp_process_condition(&process, known, targets), TROUPE_OK);
    for (size_t i = 0; i < N; i++)
        predict(&process, process.points + i * FEATURES, &before[i], &variance, NULL, NULL);
    process.count = N;
    assert_int_equal(trp_gp_process_suppose(&process), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        predict(&process, process.points + i * FEATURES, &mean, &supposed[i], NULL, NULL);
        assert_float_equal(mean, before[i], 1e-12);
    }
    for (size_t i = known; i < N; i++)
        targets[i] = before[i];
    assert_int_equal(trp_gp_process_condition(&process, N, targets), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        memcpy(x, process.points + i * FEATURES, sizeof x);
        predict(&process, x, &mean, &variance, NULL, NULL);
        assert_float_equal(mean, before[i], 1e-8);
        assert_float_equal(variance, supposed[i], 1e-10);
    }
    trp_gp_process_close(&process);
}

static void test_equal_points_do_no_harm(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    trp_gp_process process;
    assert_int_equal(trp_gp_process_open(&process, &one, 1, 1), TROUPE_OK);
    double targets[60], x = 0.5, mean, variance;
    for (size_t i = 0; i < 60; i++) {
        targets[i] = i % 2 == 0 ? 1 : -1;
        assert_int_equal(trp_gp_process_add(&process, &x), TROUPE_OK);
    }
    process.scale = 100;
    process.noise = 1e-20; // Too little for a factor.
    assert_int_equal(trp_gp_process_condition(&process, 60, targets), TROUPE_OK);
    predict(&process, &x, &mean, &variance, NULL, NULL);
    assert_float_equal(mean, 0, 1e-3);
    assert_true(variance > 0);
    trp_gp_process_close(&process);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    for (long allowed = 0; allowed < 8; allowed++) {
        trp_gp_process process;
        double targets[40] = {1}, x[FEATURES] = {0};
        trp_memory_fail_after(allowed);
        troupe_status got = trp_gp_process_open(&process, features, FEATURES, LENGTHS);
        bool open = got == TROUPE_OK;
        for (size_t i = 0; i < 40 && got == TROUPE_OK; i++) {
            x[0] = (double)i;
            got = trp_gp_process_add(&process, x);
        }
        if (got == TROUPE_OK)
            got = trp_gp_process_condition(&process, 40, targets);
        trp_memory_fail_after(-1);
        assert_int_equal(got, TROUPE_NO_MEMORY);
        if (open)
            trp_gp_process_close(&process);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_points_by_hand),
        cmocka_unit_test(test_slopes_are_differences),
        cmocka_unit_test(test_lanes_and_growth_change_no_bit),
        cmocka_unit_test(test_suppositions_are_observations_of_what_was_expected),
        cmocka_unit_test(test_equal_points_do_no_harm),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
