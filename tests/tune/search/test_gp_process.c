// test_gp_process.c: a Gaussian process against one that was worked out by hand, its gradients
// against differences, and hyperparameters that it finds again.
#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/search/gp_process.h>
#include <tune/space/random.h>

enum { N = 20, FEATURES = 4, LENGTHS = 3 };

// Two numbers that share a length, as a dimension that does not always count; a number; a name.
static const trp_gp_feature features[FEATURES] = {
    {.length = 0}, {.length = 0}, {.length = 1}, {.length = 2, .name = true}};

static double matern(double distance)
{
    double r = sqrt(5) * distance;
    return (1 + r + r * r / 3) * exp(-r);
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
    double a = 2.3, b = 2 * matern(2), det = a * a - b * b, scratch[4];
    for (size_t i = 0; i < 5; i++) {
        double k0 = 2 * matern(2 * fabs(where[i])), k1 = 2 * matern(2 * fabs(where[i] - 1)), mean,
               variance;
        trp_gp_process_predict(&process, &where[i], &mean, &variance, NULL, NULL, scratch);
        assert_float_equal(mean, (k0 - k1) * (a + b) / det, 1e-12);
        assert_float_equal(variance, 2 - (a * k0 * k0 - 2 * b * k0 * k1 + a * k1 * k1) / det,
                           1e-12);
    }
    double raw[] = {log(4), log(2), log(0.3 - 0.99e-6)}, loss, gradient[3];
    assert_int_equal(trp_gp_process_loss(&process, 2, targets, raw, &loss, gradient), TROUPE_OK);
    double fit = (a + b) / det + 0.5 * log(det); // y' inverse(K) y = 2 (a + b) / det.
    double prior = 0.1 / 4 + 0.1 * 4 - (log(2) - 2) - (0.1 * log(0.3) - 30 * 0.3);
    assert_float_equal(loss, fit + prior, 1e-9);
    trp_gp_process_close(&process);
}

// N points at random, with targets of a smooth function.
static void make(trp_gp_process *process, double *targets)
{
    trp_random random;
    trp_random_seed(&random, 7, 0);
    assert_int_equal(trp_gp_process_open(process, features, FEATURES, LENGTHS), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        double x[FEATURES];
        for (size_t f = 0; f + 1 < FEATURES; f++)
            x[f] = trp_random_unit(&random);
        x[3] = (double)trp_random_below(&random, 3);
        targets[i] = sin(4 * x[0]) + x[1] * x[1] - 0.5 * x[2] + (x[3] == 1);
        assert_int_equal(trp_gp_process_add(process, x), TROUPE_OK);
    }
    process->inverse[0] = 3;
    process->inverse[1] = 0.5;
    process->inverse[2] = 1.5;
    process->scale = 1.7;
    process->noise = 0.01;
}

static void test_gradients_are_differences(void **state)
{
    (void)state;
    trp_gp_process process;
    double targets[N], gradient[LENGTHS + 2], unused[LENGTHS + 2], up, down, loss;
    make(&process, targets);
    const double raw[LENGTHS + 2] = {1.1, -0.7, 0.4, 0.5, -4};
    assert_int_equal(trp_gp_process_loss(&process, N, targets, raw, &loss, gradient), TROUPE_OK);
    for (size_t i = 0; i < LENGTHS + 2; i++) {
        double moved[LENGTHS + 2], step = 1e-5;
        memcpy(moved, raw, sizeof moved);
        moved[i] = raw[i] + step;
        assert_int_equal(trp_gp_process_loss(&process, N, targets, moved, &up, unused), TROUPE_OK);
        moved[i] = raw[i] - step;
        assert_int_equal(trp_gp_process_loss(&process, N, targets, moved, &down, unused),
                         TROUPE_OK);
        assert_float_equal(gradient[i], (up - down) / (2 * step), 1e-5);
        assert_true(fabs(gradient[i]) > 1e-3);
    }
    assert_int_equal(trp_gp_process_condition(&process, N, targets), TROUPE_OK);
    const double x[FEATURES] = {0.31, 0.52, 0.73, 1};
    double mean, variance, mean_slope[FEATURES], variance_slope[FEATURES], scratch[2 * N];
    double mean_up, mean_down, variance_up, variance_down;
    trp_gp_process_predict(&process, x, &mean, &variance, mean_slope, variance_slope, scratch);
    for (size_t f = 0; f + 1 < FEATURES; f++) {
        double moved[FEATURES], step = 1e-5;
        memcpy(moved, x, sizeof moved);
        moved[f] = x[f] + step;
        trp_gp_process_predict(&process, moved, &mean_up, &variance_up, NULL, NULL, scratch);
        moved[f] = x[f] - step;
        trp_gp_process_predict(&process, moved, &mean_down, &variance_down, NULL, NULL, scratch);
        assert_float_equal(mean_slope[f], (mean_up - mean_down) / (2 * step), 1e-6);
        assert_float_equal(variance_slope[f], (variance_up - variance_down) / (2 * step), 1e-6);
    }
    assert_true(mean_slope[3] == 0 && variance_slope[3] == 0);
    trp_gp_process_close(&process);
}

static void test_lanes_are_single_predictions(void **state)
{
    (void)state;
    trp_gp_process process;
    double targets[N], lanes[TRP_GP_LANES * FEATURES], means[TRP_GP_LANES];
    double variances[TRP_GP_LANES], scratch[TRP_GP_LANES * N], mean, variance;
    make(&process, targets);
    assert_int_equal(trp_gp_process_condition(&process, N - 3, targets), TROUPE_OK);
    assert_int_equal(trp_gp_process_suppose(&process), TROUPE_OK);
    for (size_t i = 0; i < TRP_GP_LANES * FEATURES; i++)
        lanes[i] = (double)(i * i % 17) / 17;
    trp_gp_process_predict_lanes(&process, lanes, means, variances, scratch);
    for (size_t i = 0; i < TRP_GP_LANES; i++) {
        trp_gp_process_predict(&process, lanes + i * FEATURES, &mean, &variance, NULL, NULL,
                               scratch);
        assert_float_equal(means[i], mean, 1e-10);
        assert_float_equal(variances[i], variance, 1e-10);
    }
    trp_gp_process_close(&process);
}

// What is supposed of three points leaves every expectation as it was, as if they had been observed
// where they were expected.
static void test_suppositions_are_observations_of_what_was_expected(void **state)
{
    (void)state;
    trp_gp_process process;
    double targets[N], before[N], scratch[2 * N], mean, variance, supposed[N], x[FEATURES];
    make(&process, targets);
    const size_t known = N - 3;
    process.count = known;
    assert_int_equal(trp_gp_process_condition(&process, known, targets), TROUPE_OK);
    for (size_t i = 0; i < N; i++)
        trp_gp_process_predict(&process, process.points + i * FEATURES, &before[i], &variance, NULL,
                               NULL, scratch);
    process.count = N;
    assert_int_equal(trp_gp_process_suppose(&process), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        trp_gp_process_predict(&process, process.points + i * FEATURES, &mean, &supposed[i], NULL,
                               NULL, scratch);
        assert_float_equal(mean, before[i], 1e-12);
    }
    for (size_t i = known; i < N; i++)
        targets[i] = before[i];
    assert_int_equal(trp_gp_process_condition(&process, N, targets), TROUPE_OK);
    for (size_t i = 0; i < N; i++) {
        memcpy(x, process.points + i * FEATURES, sizeof x);
        trp_gp_process_predict(&process, x, &mean, &variance, NULL, NULL, scratch);
        assert_float_equal(mean, before[i], 1e-8);
        assert_float_equal(variance, supposed[i], 1e-10);
    }
    trp_gp_process_close(&process);
}

// Of a function of the first two features alone, with noise.
static void test_a_fit_finds_what_matters(void **state)
{
    (void)state;
    enum { MANY = 80 };
    static const trp_gp_feature plain[3] = {{.length = 0}, {.length = 1}, {.length = 2}};
    trp_gp_process process;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    assert_int_equal(trp_gp_process_open(&process, plain, 3, 3), TROUPE_OK);
    double targets[MANY], raw[5], before, after, gradient[5];
    for (size_t i = 0; i < MANY; i++) {
        double x[3];
        for (size_t f = 0; f < 3; f++)
            x[f] = trp_random_unit(&random);
        targets[i] = 1.5 * sin(9 * x[0]) + x[1] + 0.1 * (trp_random_unit(&random) - 0.5);
        assert_int_equal(trp_gp_process_add(&process, x), TROUPE_OK);
    }
    for (size_t i = 0; i < 5; i++)
        raw[i] = i < 4 ? 0 : log(0.1);
    assert_int_equal(trp_gp_process_loss(&process, MANY, targets, raw, &before, gradient),
                     TROUPE_OK);
    assert_int_equal(trp_gp_process_fit(&process, MANY, targets, true), TROUPE_OK);
    assert_true(process.inverse[0] > 4 * process.inverse[1]);
    assert_true(process.inverse[1] > process.inverse[2]);
    assert_true(process.noise > 1e-6 && process.noise < 0.01); // It is 0.1^2 / 12.
    for (size_t i = 0; i < 5; i++)
        raw[i] = log(i < 3 ? process.inverse[i] : i == 3 ? process.scale : process.noise - 0.99e-6);
    assert_int_equal(trp_gp_process_loss(&process, MANY, targets, raw, &after, gradient),
                     TROUPE_OK);
    assert_true(after < before);
    for (size_t i = 0; i < 5; i++)
        assert_true(fabs(gradient[i]) < 0.1);
    trp_gp_process_close(&process);
}

// By half of the points the same is found, if less closely; all of them stay what is conditioned
// on.
static void test_a_part_of_many_points_finds_it_too(void **state)
{
    (void)state;
    enum { MANY = 120, MOST = 60 };
    static const trp_gp_feature plain[2] = {{.length = 0}, {.length = 1}};
    trp_gp_process process;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    assert_int_equal(trp_gp_process_open(&process, plain, 2, 2), TROUPE_OK);
    double targets[MANY], scratch[2 * MANY], mean, variance;
    for (size_t i = 0; i < MANY; i++) {
        double x[2] = {trp_random_unit(&random), trp_random_unit(&random)};
        targets[i] = 1.5 * sin(9 * x[0]) + 0.3 * x[1];
        assert_int_equal(trp_gp_process_add(&process, x), TROUPE_OK);
    }
    for (long allowed = 0; allowed < 6; allowed++) { // Then it keeps what it has.
        trp_memory_fail_after(allowed);
        troupe_status got = trp_gp_process_fit_part(&process, MANY, targets, MOST);
        trp_memory_fail_after(-1);
        assert_int_equal(got, TROUPE_NO_MEMORY);
        assert_true(process.inverse[0] == 1 && process.scale == 1);
    }
    assert_int_equal(trp_gp_process_fit_part(&process, MANY, targets, MOST), TROUPE_OK);
    assert_true(process.inverse[0] > 4 * process.inverse[1] && process.noise < 0.01);
    assert_int_equal(process.count, MANY);
    assert_int_equal(trp_gp_process_condition(&process, MANY, targets), TROUPE_OK);
    const double where[2] = {0.5, 0.5};
    trp_gp_process_predict(&process, where, &mean, &variance, NULL, NULL, scratch);
    assert_float_equal(mean, 1.5 * sin(4.5) + 0.15, 0.05);
    trp_gp_process_close(&process);
}

static void test_equal_points_do_no_harm(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    trp_gp_process process;
    assert_int_equal(trp_gp_process_open(&process, &one, 1, 1), TROUPE_OK);
    double targets[60], x = 0.5, mean, variance, scratch[120];
    for (size_t i = 0; i < 60; i++) {
        targets[i] = i % 2 == 0 ? 1 : -1;
        assert_int_equal(trp_gp_process_add(&process, &x), TROUPE_OK);
    }
    assert_int_equal(trp_gp_process_fit(&process, 60, targets, true), TROUPE_OK);
    process.scale = 100;
    process.noise = 1e-20; // Too little for a factor.
    assert_int_equal(trp_gp_process_condition(&process, 60, targets), TROUPE_OK);
    trp_gp_process_predict(&process, &x, &mean, &variance, NULL, NULL, scratch);
    assert_float_equal(mean, 0, 1e-3);
    assert_true(variance > 0);
    trp_gp_process_close(&process);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    for (long allowed = 0; allowed < 9; allowed++) {
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
            got = trp_gp_process_fit(&process, 40, targets, false);
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
        cmocka_unit_test(test_gradients_are_differences),
        cmocka_unit_test(test_lanes_are_single_predictions),
        cmocka_unit_test(test_suppositions_are_observations_of_what_was_expected),
        cmocka_unit_test(test_a_fit_finds_what_matters),
        cmocka_unit_test(test_a_part_of_many_points_finds_it_too),
        cmocka_unit_test(test_equal_points_do_no_harm),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
