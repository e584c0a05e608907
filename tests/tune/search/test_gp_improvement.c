// test_gp_improvement.c: the logarithm of the expected improvement against values of many digits.
#include <math.h>
#include <support.h>
#include <tune/search/gp_improvement.h>

static void test_values_of_many_digits(void **state)
{
    (void)state;
    // By mpmath with 400 digits; the last by the series at infinity.
    const struct {
        double z, value, slope;
    } rows[] = {
        {10, 2.30258509299404568, 0.1},
        {3, 1.09873966532770777, 0.332840968451795236},
        {0, -0.918938533204672742, 1.25331413731550025},
        {-1, -2.48512102571264134, 1.90427123332969182},
        {-3, -7.86968605960302852, 3.53233751762516052},
        {-4.99, -16.6907299967958755, 5.35241723827688342},
        {-5.01, -16.7979663277395246, 5.37121707966680852},
        {-8, -37.122364261692633, 8.23939650684006689},
        {-20, -206.917838509425098, 20.0992628111012818},
        {-100, -5010.12957880024979, 100.019994004195865},
        {-1e4, -50000019.3396193072, 10000.000199999994},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double slope, value = trp_log_h(rows[i].z, &slope);
        assert_float_equal(value / rows[i].value, 1, 1e-12);
        assert_float_equal(slope / rows[i].slope, 1, 1e-12);
    }
}

static void test_it_rises_everywhere(void **state)
{
    (void)state;
    double slope, before = -INFINITY;
    for (double z = -60; z < 60; z += 0.01) {
        double value = trp_log_h(z, &slope), unused;
        assert_true(value > before && slope > 0);
        double rise = (trp_log_h(z + 1e-5, &unused) - trp_log_h(z - 1e-5, &unused)) / 2e-5;
        assert_float_equal(rise / slope, 1, 1e-5);
        before = value;
    }
    assert_true(isfinite(trp_log_h(-1e150, &slope)) && isfinite(slope));
    assert_true(isfinite(trp_log_h(1e150, &slope)) && isfinite(slope));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_many_digits),
        cmocka_unit_test(test_it_rises_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
