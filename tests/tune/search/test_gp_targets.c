// test_gp_targets.c: scores as targets: their order, their spread, and skewed ones made less so.
#include <math.h>
#include <support.h>
#include <tune/search/gp_targets.h>
#include <tune/space/dims.h>

enum { N = 200 };

static void check_standard(const double *targets, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += targets[i];
        squares += targets[i] * targets[i];
    }
    assert_float_equal(sum / (double)n, 0, 1e-9);
    assert_float_equal(squares / (double)n, 1, 1e-9);
}

static double skew(const double *x, size_t n)
{
    double cubes = 0;
    for (size_t i = 0; i < n; i++)
        cubes += x[i] * x[i] * x[i];
    return cubes / (double)n;
}

static void test_skewed_scores_become_even(void **state)
{
    (void)state;
    double plain[N], right[N], left[N], targets[N];
    for (int i = 0; i < N; i++) { // Quantiles of the normal distribution, and of two skewed ones.
        plain[i] = 5 + 3 * trp_normal_at((i + 0.5) / N);
        right[i] = 1e4 * exp(trp_normal_at((i + 0.5) / N));
        left[i] = -right[i];
    }
    assert_true(trp_gp_targets(plain, N, targets));
    check_standard(targets, N);
    for (int i = 0; i < N; i++) // They are left as they are.
        assert_float_equal(targets[i], (plain[i] - 5) / 3, 0.02);
    assert_true(trp_gp_targets(right, N, targets));
    check_standard(targets, N);
    assert_true(fabs(skew(targets, N)) < 0.4); // Of e^x it is 6.
    for (int i = 1; i < N; i++)
        assert_true(targets[i] > targets[i - 1]);
    assert_true(trp_gp_targets(left, N, targets));
    assert_true(fabs(skew(targets, N)) < 0.4);
    for (int i = 1; i < N; i++)
        assert_true(targets[i] < targets[i - 1]);
}

static void test_what_is_no_number_is_the_worst_or_the_best(void **state)
{
    (void)state;
    const double scores[] = {3, INFINITY, 1, -INFINITY, 2, INFINITY}, none[] = {INFINITY, INFINITY};
    double targets[6];
    assert_true(trp_gp_targets(scores, 6, targets));
    check_standard(targets, 6);
    assert_true(targets[1] == targets[0] && targets[5] == targets[0]);
    assert_true(targets[3] == targets[2] && targets[2] < targets[4] && targets[4] < targets[0]);
    assert_false(trp_gp_targets(none, 2, targets));
    assert_false(trp_gp_targets(none, 0, targets));
}

static void test_extreme_scores(void **state)
{
    (void)state;
    const double huge[] = {1e308, -1e308, 0}, tiny[] = {1e-320, 2e-320, 3e-320, 4e-320};
    const double equal[] = {7, 7, 7}, close[] = {1e9, 1e9 + 1e-6, 1e9 - 1e-6}, one[] = {-4};
    double targets[4];
    assert_true(trp_gp_targets(huge, 3, targets));
    check_standard(targets, 3);
    assert_true(trp_gp_targets(tiny, 4, targets));
    check_standard(targets, 4);
    assert_true(trp_gp_targets(close, 3, targets));
    assert_true(targets[1] >= targets[0] && targets[0] >= targets[2]);
    assert_true(trp_gp_targets(equal, 3, targets));
    assert_true(targets[0] == 0 && targets[1] == 0 && targets[2] == 0);
    assert_true(trp_gp_targets(one, 1, targets));
    assert_true(targets[0] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skewed_scores_become_even),
        cmocka_unit_test(test_what_is_no_number_is_the_worst_or_the_best),
        cmocka_unit_test(test_extreme_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
