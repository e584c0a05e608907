// test_gp_lanes.c: the kernels of each set of instructions against plain sums, that all come to the
// same bits, and that a factor does not depend on how its rows were grouped.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/search/gp_lanes.h>
#include <tune/space/random.h>

enum { LANES = TRP_GP_LANES, MOST = 45, FEATURES = 3, WIDTH = MOST + 3 };

static const trp_gp_feature features[FEATURES] = {
    {.length = 1}, {.length = 0}, {.length = 1, .name = true}};
static const double inverse[2] = {2.5, 0.7};

typedef struct setting {
    trp_random random;
    double points[MOST * FEATURES], at[FEATURES * LANES], l[MOST * WIDTH], column[MOST * LANES];
    trp_gp_points of;
} setting;

static void make(setting *s)
{
    trp_random_seed(&s->random, 3, 0);
    for (size_t i = 0; i < MOST * FEATURES; i++)
        s->points[i] = i % FEATURES == 2 ? (double)trp_random_below(&s->random, 3)
                                         : trp_random_unit(&s->random);
    for (size_t i = 0; i < FEATURES * LANES; i++)
        s->at[i] =
            i / LANES == 2 ? (double)trp_random_below(&s->random, 3) : trp_random_unit(&s->random);
    for (size_t i = 0; i < MOST * WIDTH; i++)
        s->l[i] = (i % WIDTH == i / WIDTH) + 0.3 * (trp_random_unit(&s->random) - 0.5);
    for (size_t i = 0; i < MOST * LANES; i++)
        s->column[i] = trp_random_unit(&s->random) - 0.5;
    s->of = (trp_gp_points){.features = features,
                            .feature_count = FEATURES,
                            .points = s->points,
                            .inverse = inverse,
                            .scale = 1.7};
}

static double difference(const setting *s, size_t f, size_t lane, size_t point)
{
    double apart = s->at[f * LANES + lane] - s->points[point * FEATURES + f];
    return features[f].name ? apart != 0 : apart;
}

static void check_covariances(const trp_gp_kernels *with, const setting *s)
{
    double values[MOST * LANES], slopes[MOST * LANES], alone[MOST * LANES];
    with->covary(&s->of, MOST, s->at, values, slopes);
    with->covary(&s->of, MOST, s->at, alone, NULL);
    assert_memory_equal(values, alone, sizeof values);
    for (size_t i = 0; i < MOST * LANES; i++) {
        double square = 0;
        for (size_t f = 0; f < FEATURES; f++)
            square += inverse[features[f].length] * pow(difference(s, f, i % LANES, i / LANES), 2);
        double r = sqrt(5 * square);
        assert_float_equal(values[i], 1.7 * (1 + r + r * r / 3) * exp(-r), 1e-14);
        assert_float_equal(slopes[i], -1.7 * 5 / 6 * (1 + r) * exp(-r), 1e-14);
    }
}

static void check_spread(const trp_gp_kernels *with, const setting *s)
{
    for (int squared = 0; squared < 2; squared++) {
        double sums[FEATURES * LANES];
        for (size_t i = 0; i < FEATURES * LANES; i++)
            sums[i] = (double)i;
        with->spread(&s->of, MOST, s->at, s->column, squared, sums);
        for (size_t i = 0; i < FEATURES * LANES; i++) {
            double expected = (double)i;
            for (size_t k = 0; k < MOST; k++) {
                double apart = difference(s, i / LANES, i % LANES, k);
                apart = squared ? apart * apart : features[i / LANES].name ? 0 : apart;
                expected += s->column[k * LANES + i % LANES] * apart;
            }
            assert_float_equal(sums[i], expected, 1e-12);
        }
    }
}

static void check_solutions(const trp_gp_kernels *with, const setting *s, size_t n)
{
    double x[MOST * LANES], y[MOST * LANES];
    memcpy(x, s->column, sizeof x);
    memcpy(y, s->column, sizeof y);
    with->solve(s->l, n, WIDTH, x);
    with->solve_transposed(s->l, n, WIDTH, y);
    for (size_t i = 0; i < n * LANES; i++) {
        double lower = 0, upper = 0;
        for (size_t k = 0; k < n; k++) {
            if (k <= i / LANES)
                lower += s->l[i / LANES * WIDTH + k] * x[k * LANES + i % LANES];
            if (k >= i / LANES)
                upper += s->l[k * WIDTH + i / LANES] * y[k * LANES + i % LANES];
        }
        assert_float_equal(lower, s->column[i], 1e-9);
        assert_float_equal(upper, s->column[i], 1e-9);
    }
    assert_memory_equal(x + n * LANES, s->column + n * LANES, (MOST - n) * LANES * sizeof *x);
    assert_memory_equal(y + n * LANES, s->column + n * LANES, (MOST - n) * LANES * sizeof *y);
}

static void check_products(const trp_gp_kernels *with, const setting *s)
{
    double tile[LANES * LANES];
    const double *a = s->column, *b = s->column + 5 * LANES;
    for (size_t i = 0; i < LANES * LANES; i++)
        tile[i] = (double)i;
    with->subtract(a, b, MOST - 5, tile);
    for (size_t i = 0; i < LANES * LANES; i++) {
        double expected = (double)i;
        for (size_t k = 0; k < MOST - 5; k++)
            expected -= a[k * LANES + i / LANES] * b[k * LANES + i % LANES];
        assert_float_equal(tile[i], expected, 1e-12);
    }
}

static void test_kernels_are_plain_sums(void **state)
{
    (void)state;
    setting s;
    make(&s);
    assert_ptr_equal(trp_gp_kernels_best(), trp_gp_kernels_at(0));
    for (size_t k = 0; trp_gp_kernels_at(k) != NULL; k++) {
        const trp_gp_kernels *with = trp_gp_kernels_at(k);
        print_message("%s\n", with->name);
        check_covariances(with, &s);
        check_spread(with, &s);
        check_products(with, &s);
        for (size_t n = 0; n <= MOST; n++)
            check_solutions(with, &s, n);
    }
}

// Fills a factor in groups of up to `most` rows.
static void factorise(const trp_gp_kernels *with, const setting *s, size_t most, double *l)
{
    double column[(MOST + LANES) * LANES] = {0};
    size_t row = 0;
    while (row < MOST) {
        size_t rows = MOST - row < most ? MOST - row : most;
        for (size_t i = 0; i < row + rows; i++) {
            for (size_t lane = 0; lane < rows; lane++) {
                double square = 0;
                for (size_t f = 0; f < FEATURES; f++)
                    square += pow(
                        s->points[i * FEATURES + f] - s->points[(row + lane) * FEATURES + f], 2);
                column[i * LANES + lane] = exp(-square) + (i == row + lane ? 0.1 : 0);
            }
        }
        assert_true(trp_gp_factor(with, l, WIDTH, row, rows, column));
        row += rows;
    }
}

static void test_all_come_to_the_same_bits(void **state)
{
    (void)state;
    setting s;
    make(&s);
    static double first[MOST * WIDTH], l[MOST * WIDTH];
    factorise(trp_gp_kernels_best(), &s, LANES, first);
    for (size_t i = 0; i < MOST; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = 0, square = 0;
            for (size_t k = 0; k <= j; k++)
                sum += first[i * WIDTH + k] * first[j * WIDTH + k];
            for (size_t f = 0; f < FEATURES; f++)
                square += pow(s.points[i * FEATURES + f] - s.points[j * FEATURES + f], 2);
            assert_float_equal(sum, exp(-square) + (i == j ? 0.1 : 0), 1e-13);
        }
    }
    double values[2][MOST * LANES], slopes[2][MOST * LANES], sums[2][FEATURES * LANES];
    double solved[2][MOST * LANES];
    for (size_t k = 0; trp_gp_kernels_at(k) != NULL; k++) {
        const trp_gp_kernels *with = trp_gp_kernels_at(k);
        size_t to = k > 0;
        for (size_t most = 1; most <= LANES; most++) {
            memset(l, 0, sizeof l);
            factorise(with, &s, most, l);
            assert_memory_equal(l, first, sizeof l);
        }
        with->covary(&s.of, MOST, s.at, values[to], slopes[to]);
        memset(sums[to], 0, sizeof sums[to]);
        with->spread(&s.of, MOST, s.at, slopes[to], true, sums[to]);
        memcpy(solved[to], s.column, sizeof s.column);
        with->solve(s.l, MOST - 2, WIDTH, solved[to]);
        with->solve_transposed(s.l, MOST - 2, WIDTH, solved[to]);
        assert_memory_equal(values[0], values[to], sizeof values[0]);
        assert_memory_equal(slopes[0], slopes[to], sizeof slopes[0]);
        assert_memory_equal(sums[0], sums[to], sizeof sums[0]);
        assert_memory_equal(solved[0], solved[to], sizeof solved[0]);
    }
}

// Covariances of points that are far apart go to 0, and not beyond what numbers there are.
static void test_points_that_are_far_apart(void **state)
{
    (void)state;
    static const trp_gp_feature one = {.length = 0};
    const double scale = 1e10, nought = 0;
    trp_gp_points of = {.features = &one, .feature_count = 1, .inverse = &scale, .scale = 2};
    of.points = &nought;
    double values[LANES], slopes[LANES];
    const double at[LANES] = {0, 1e-12, 1e-6, 1e-5, 1e-3, 0.0031, 1, 1e9};
    for (size_t k = 0; trp_gp_kernels_at(k) != NULL; k++) {
        trp_gp_kernels_at(k)->covary(&of, 1, at, values, slopes);
        for (size_t lane = 0; lane < LANES; lane++) {
            double r = sqrt(5) * 1e5 * at[lane], expected = 2 * (1 + r + r * r / 3) * exp(-r);
            assert_true(values[lane] >= 0);
            assert_true(fabs(values[lane] - expected) <= 1e-13 * expected + 1e-200);
            assert_true(isfinite(slopes[lane]) && slopes[lane] <= 0);
        }
        assert_true(values[0] == 2);
    }
}

static void test_what_has_no_factor(void **state)
{
    (void)state;
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
    for (size_t k = 0; trp_gp_kernels_at(k) != NULL; k++) {
        for (size_t i = 0; i < 4; i++) {
            double l[4] = {0}, column[(2 + LANES) * LANES] = {0};
            column[0] = 1;
            column[LANES + 1] = bad[i];
            assert_false(trp_gp_factor(trp_gp_kernels_at(k), l, 2, 0, 2, column));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_plain_sums),
        cmocka_unit_test(test_all_come_to_the_same_bits),
        cmocka_unit_test(test_points_that_are_far_apart),
        cmocka_unit_test(test_what_has_no_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
