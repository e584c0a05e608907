// test_gp_likelihood.c: the likelihood of a process' hyperparameters against one that was worked
// out by hand, its gradient against differences, and hyperparameters that are found again.
#include "gp_points.h"

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <tune/search/gp_likelihood.h>

// Points 0 and 1 with targets 1 and -1.
static void test_two_points_by_hand(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    trp_gp_process process;
    assert_int_equal(trp_gp_process_open(&process, &one, 1, 1), TROUPE_OK);
    const double at[] = {0, 1}, targets[] = {1, -1};
    assert_int_equal(trp_gp_process_add(&process, &at[0]), TROUPE_OK);
    assert_int_equal(trp_gp_process_add(&process, &at[1]), TROUPE_OK);
    double a = 2.3, b = 2 * matern(2), det = a * a - b * b;
    double raw[] = {log(4), log(2), log(0.3 - 0.99e-6)}, loss, gradient[3];
    assert_int_equal(trp_gp_loss(&process, 2, targets, raw, &loss, gradient), TROUPE_OK);
    double fit = (a + b) / det + 0.5 * log(det); // y' inverse(K) y = 2 (a + b) / det.
    double prior = 0.1 / 4 + 0.1 * 4 - (log(2) - 2) - (0.1 * log(0.3) - 30 * 0.3);
    assert_float_equal(loss, fit + prior, 1e-9);
    trp_gp_process_close(&process);
}

// Of numbers of points that fill rows of lanes, and that do not.
static void check_gradient(size_t n)
{
    trp_gp_process process;
    double targets[N], gradient[LENGTHS + 2], unused[LENGTHS + 2], up, down, loss;
    make(&process, targets);
    const double raw[LENGTHS + 2] = {1.1, -0.7, 0.4, 0.5, -4};
    assert_int_equal(trp_gp_loss(&process, n, targets, raw, &loss, gradient), TROUPE_OK);
    for (size_t i = 0; i < LENGTHS + 2; i++) {
        double moved[LENGTHS + 2], step = 1e-5;
        memcpy(moved, raw, sizeof moved);
        moved[i] = raw[i] + step;
        assert_int_equal(trp_gp_loss(&process, n, targets, moved, &up, unused), TROUPE_OK);
        moved[i] = raw[i] - step;
        assert_int_equal(trp_gp_loss(&process, n, targets, moved, &down, unused), TROUPE_OK);
        assert_float_equal(gradient[i], (up - down) / (2 * step), 1e-5);
        assert_true(fabs(gradient[i]) > 1e-3);
    }
    trp_gp_process_close(&process);
}

static void test_gradients_are_differences(void **state)
{
    (void)state;
    for (size_t n = 6; n <= N; n += 2)
        check_gradient(n);
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
    assert_int_equal(trp_gp_loss(&process, MANY, targets, raw, &before, gradient), TROUPE_OK);
    assert_int_equal(trp_gp_fit(&process, MANY, targets), TROUPE_OK);
    assert_true(process.inverse[0] > 4 * process.inverse[1]);
    assert_true(process.inverse[1] > process.inverse[2]);
    assert_true(process.noise > 1e-6 && process.noise < 0.01); // It is 0.1^2 / 12.
    for (size_t i = 0; i < 5; i++)
        raw[i] = log(i < 3 ? process.inverse[i] : i == 3 ? process.scale : process.noise - 0.99e-6);
    assert_int_equal(trp_gp_loss(&process, MANY, targets, raw, &after, gradient), TROUPE_OK);
    assert_true(after < before);
    for (size_t i = 0; i < 5; i++)
        assert_true(fabs(gradient[i]) < 0.1);
    trp_gp_process_close(&process);
}

// By a part of the points the same is found, if less closely; all of them stay what is conditioned
// on. What was there before does not matter.
static void test_a_part_of_many_points_finds_it_too(void **state)
{
    (void)state;
    enum { MANY = 400 };
    static const trp_gp_feature plain[2] = {{.length = 0}, {.length = 1}};
    trp_gp_process process, other;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    assert_int_equal(trp_gp_process_open(&process, plain, 2, 2), TROUPE_OK);
    assert_int_equal(trp_gp_process_open(&other, plain, 2, 2), TROUPE_OK);
    double targets[MANY];
    for (size_t i = 0; i < MANY; i++) {
        double x[2] = {trp_random_unit(&random), trp_random_unit(&random)};
        targets[i] = 1.5 * sin(9 * x[0]) + 0.3 * x[1];
        assert_int_equal(trp_gp_process_add(&process, x), TROUPE_OK);
        assert_int_equal(trp_gp_process_add(&other, x), TROUPE_OK);
    }
    for (long allowed = 0; allowed < 9; allowed++) { // Then it keeps what it has.
        trp_memory_fail_after(allowed);
        troupe_status got = trp_gp_fit(&process, MANY, targets);
        trp_memory_fail_after(-1);
        assert_int_equal(got, TROUPE_NO_MEMORY);
        assert_true(process.inverse[0] == 1 && process.scale == 1);
    }
    assert_int_equal(trp_gp_fit(&process, MANY, targets), TROUPE_OK);
    assert_true(process.inverse[0] > 4 * process.inverse[1] && process.noise < 0.01);
    assert_int_equal(process.count, MANY);
    assert_int_equal(trp_gp_fit(&other, 30, targets), TROUPE_OK);
    assert_true(other.inverse[0] != process.inverse[0]);
    assert_int_equal(trp_gp_fit(&other, MANY, targets), TROUPE_OK);
    assert_memory_equal(other.inverse, process.inverse, 2 * sizeof *other.inverse);
    assert_true(other.scale == process.scale && other.noise == process.noise);
    trp_gp_process_close(&process);
    trp_gp_process_close(&other);
}

static void test_equal_points_do_no_harm(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    trp_gp_process process;
    assert_int_equal(trp_gp_process_open(&process, &one, 1, 1), TROUPE_OK);
    double targets[60], x = 0.5;
    for (size_t i = 0; i < 60; i++) {
        targets[i] = i % 2 == 0 ? 1 : -1;
        assert_int_equal(trp_gp_process_add(&process, &x), TROUPE_OK);
    }
    assert_int_equal(trp_gp_fit(&process, 60, targets), TROUPE_OK);
    assert_true(isfinite(process.inverse[0]) && process.noise > 0.1);
    trp_gp_process_close(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_points_by_hand),
        cmocka_unit_test(test_gradients_are_differences),
        cmocka_unit_test(test_a_fit_finds_what_matters),
        cmocka_unit_test(test_a_part_of_many_points_finds_it_too),
        cmocka_unit_test(test_equal_points_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
