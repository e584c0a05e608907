// test_gp_minimize.c: minima of smooth functions, with and without bounds.
#include <math.h>
#include <runtime/base/memory.h>
#include <support.h>
#include <tune/search/gp_minimize.h>

enum { D = 6 };

static int calls;

static double rosenbrock(void *user, const double *x, double *gradient)
{
    double sum = 0;
    (void)user;
    calls++;
    for (int i = 0; i < D; i++)
        gradient[i] = 0;
    for (int i = 0; i + 1 < D; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        sum += 100 * a * a + b * b;
        gradient[i] += -400 * x[i] * a - 2 * b;
        gradient[i + 1] += 200 * a;
    }
    return sum;
}

// A bowl around a point that the user gives; where a coordinate is above 0.9, there is no value.
static double bowl(void *user, const double *x, double *gradient)
{
    const double *middle = user;
    double sum = 0;
    calls++;
    for (int i = 0; i < D; i++) {
        double weight = pow(10, i), z = x[i] - middle[i];
        if (x[i] > 0.9)
            return (double)NAN;
        sum += weight * z * z;
        gradient[i] = 2 * weight * z;
    }
    return sum;
}

static void test_a_long_valley(void **state)
{
    (void)state;
    double low[D], high[D], x[D], value;
    for (int i = 0; i < D; i++) {
        low[i] = -10;
        high[i] = 10;
        x[i] = i % 2 == 0 ? -1.2 : 1;
    }
    calls = 0;
    assert_int_equal(trp_gp_minimize(rosenbrock, NULL, D, low, high, 1e-8, 300, x, &value),
                     TROUPE_OK);
    for (int i = 0; i < D; i++)
        assert_float_equal(x[i], 1, 1e-6);
    assert_true(value < 1e-12 && calls < 200);
}

static void test_bounds_hold(void **state)
{
    (void)state;
    double middle[D] = {-1, 0.5, 2, 0.25, 0.3, 0.99}, low[D], high[D], x[D], value;
    const double expected[D] = {0, 0.5, 0.8, 0.25, 0.3, 0.8};
    for (int i = 0; i < D; i++) {
        low[i] = 0;
        high[i] = 0.8;
        x[i] = i % 2 == 0 ? 0 : 0.8; // It begins at bounds, some of which it has to leave.
    }
    assert_int_equal(trp_gp_minimize(bowl, middle, D, low, high, 1e-9, 300, x, &value), TROUPE_OK);
    for (int i = 0; i < D; i++) {
        assert_true(x[i] >= 0 && x[i] <= 0.8);
        assert_float_equal(x[i], expected[i], 1e-8);
    }
}

static void test_it_stays_where_the_function_is_defined(void **state)
{
    (void)state;
    double middle[D] = {0.5, 0.4, 0.6, 0.5, 0.4, 0.7}, low[D] = {0}, high[D], x[D], value;
    for (int i = 0; i < D; i++) {
        high[i] = 1;
        x[i] = 0.1;
    }
    assert_int_equal(trp_gp_minimize(bowl, middle, D, low, high, 1e-9, 300, x, &value), TROUPE_OK);
    assert_true(isfinite(value) && value < 1e-6);
    x[0] = 0.95; // Not even where it begins.
    assert_int_equal(trp_gp_minimize(bowl, middle, D, low, high, 1e-9, 300, x, &value), TROUPE_OK);
    assert_true(isnan(value) && x[0] == 0.95);
}

static void test_it_does_not_ask_too_often(void **state)
{
    (void)state;
    for (int most = 1; most < 20; most++) {
        double low[D], high[D], x[D], value, gradient[D];
        for (int i = 0; i < D; i++) {
            low[i] = -10;
            high[i] = 10;
            x[i] = -1.2;
        }
        double before = rosenbrock(NULL, x, gradient);
        calls = 0;
        assert_int_equal(trp_gp_minimize(rosenbrock, NULL, D, low, high, 0, most, x, &value),
                         TROUPE_OK);
        assert_true(calls <= most && value <= before);
        assert_true(value == rosenbrock(NULL, x, gradient)); // It is the value at x.
    }
}

// Descents that are asked in turns come to where each comes to alone.
static void test_descents_beside_each_other(void **state)
{
    (void)state;
    enum { BESIDE = 3 };
    trp_descent descents[BESIDE];
    double low[D], high[D], x[BESIDE][D], alone[D], value, gradient[D];
    double numbers[BESIDE][TRP_DESCENT_NUMBERS(D)];
    for (int i = 0; i < D; i++) {
        low[i] = -10;
        high[i] = 10;
    }
    for (int k = 0; k < BESIDE; k++) {
        for (int i = 0; i < D; i++)
            x[k][i] = k - 1.2 + 0.1 * i;
        trp_descent_begin(&descents[k], D, low, high, 1e-8, 40 + 60 * k, x[k], numbers[k]);
    }
    bool goes_on[BESIDE] = {true, true, true};
    while (goes_on[0] || goes_on[1] || goes_on[2]) {
        for (int k = 0; k < BESIDE; k++) {
            if (!goes_on[k])
                continue;
            double got = rosenbrock(NULL, descents[k].next, gradient);
            goes_on[k] = trp_descent_tell(&descents[k], got, gradient);
        }
    }
    for (int k = 0; k < BESIDE; k++) {
        for (int i = 0; i < D; i++)
            alone[i] = k - 1.2 + 0.1 * i;
        assert_int_equal(
            trp_gp_minimize(rosenbrock, NULL, D, low, high, 1e-8, 40 + 60 * k, alone, &value),
            TROUPE_OK);
        assert_memory_equal(alone, x[k], sizeof alone);
        assert_true(value == descents[k].value);
    }
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    double low[D] = {0}, high[D] = {0}, x[D] = {0}, value;
    trp_memory_fail_after(0);
    troupe_status got = trp_gp_minimize(rosenbrock, NULL, D, low, high, 0, 9, x, &value);
    trp_memory_fail_after(-1);
    assert_int_equal(got, TROUPE_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_valley),
        cmocka_unit_test(test_bounds_hold),
        cmocka_unit_test(test_it_stays_where_the_function_is_defined),
        cmocka_unit_test(test_it_does_not_ask_too_often),
        cmocka_unit_test(test_descents_beside_each_other),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
