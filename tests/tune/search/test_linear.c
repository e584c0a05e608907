// test_linear.c: small linear algebra against products that are written out.
#include <math.h>
#include <support.h>
#include <tune/search/linear.h>
#include <tune/space/random.h>

enum { MOST = 24, WIDTH = 27 }; // Rows are wider than the matrix, as in a factor that grows.

// A matrix whose lower triangle is not far from the unit; above it there is no number.
static void make(trp_random *random, size_t n, double *a)
{
    for (size_t i = 0; i < n * WIDTH; i++) {
        double off = 0.5 * (trp_random_unit(random) - 0.5);
        a[i] = i % WIDTH > i / WIDTH ? (double)NAN : off + (i % WIDTH == i / WIDTH);
    }
}

static void test_dot_takes_every_number(void **state)
{
    (void)state;
    double a[11], b[11], sum = 0;
    for (size_t n = 0; n <= 11; n++) {
        assert_true(trp_dot(a, b, n) == sum);
        if (n < 11) {
            a[n] = (double)n + 1;
            b[n] = 3 - (double)n;
            sum += a[n] * b[n];
        }
    }
}

static void test_solutions_solve(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 2, 0);
    double a[MOST * WIDTH], b[MOST], x[MOST], back[MOST];
    for (size_t n = 1; n <= MOST; n++) {
        make(&random, n, a);
        for (size_t i = 0; i < n; i++)
            back[i] = x[i] = b[i] = trp_random_unit(&random);
        trp_solve_lower(a, n, WIDTH, x);
        trp_solve_lower_transposed(a, n, WIDTH, back);
        for (size_t i = 0; i < n; i++) {
            double lower = 0, upper = 0;
            for (size_t k = 0; k <= i; k++)
                lower += a[i * WIDTH + k] * x[k];
            for (size_t k = i; k < n; k++)
                upper += a[k * WIDTH + i] * back[k];
            assert_float_equal(lower, b[i], 1e-10);
            assert_float_equal(upper, b[i], 1e-10);
        }
    }
}

static void check_eigen(const double *a, size_t n, double tolerance)
{
    double copy[MOST * MOST], values[MOST], vectors[MOST * MOST];
    for (size_t i = 0; i < n * n; i++)
        copy[i] = a[i];
    trp_eigen(copy, n, values, vectors);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            double again = 0, product = 0;
            for (size_t k = 0; k < n; k++) {
                again += vectors[i * n + k] * values[k] * vectors[j * n + k];
                product += vectors[k * n + i] * vectors[k * n + j];
            }
            assert_float_equal(again, a[i * n + j], tolerance);
            assert_float_equal(product, i == j, 1e-12);
        }
    }
}

static void test_eigenvectors_give_the_matrix_back(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    double a[MOST * MOST];
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t i = 0; i < n; i++) { // Not definite: eigenvalues of either sign.
            for (size_t j = 0; j <= i; j++)
                a[i * n + j] = a[j * n + i] = trp_random_unit(&random) - 0.5;
        }
        check_eigen(a, n, 1e-12);
    }
    double zeros[9] = {0}, equal[9] = {2, 0, 0, 0, 2, 0, 0, 0, 2}, ones[9];
    for (size_t i = 0; i < 9; i++)
        ones[i] = 1;
    check_eigen(zeros, 3, 0);
    check_eigen(equal, 3, 0);
    check_eigen(ones, 3, 1e-14);
}

static void test_small_eigenvalues_beside_large_ones(void **state)
{
    (void)state;
    double a[] = {1e12, 1e-1, 1e-1, 1e-12}, values[2], vectors[4];
    trp_eigen(a, 2, values, vectors);
    double large = fmax(values[0], values[1]), small = fmin(values[0], values[1]);
    assert_float_equal(large, 1e12, 1e-3);
    assert_float_equal(small / (1e-12 - 1e-14), 1, 1e-6); // Of the determinant, 1 - 1e-2.
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_takes_every_number),
        cmocka_unit_test(test_solutions_solve),
        cmocka_unit_test(test_eigenvectors_give_the_matrix_back),
        cmocka_unit_test(test_small_eigenvalues_beside_large_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
