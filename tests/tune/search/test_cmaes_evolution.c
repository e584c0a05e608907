// test_cmaes_evolution.c: the distribution that CMA-ES searches with: its constants, its draws, and
// that it learns a function's shape.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/search/cmaes_evolution.h>

enum { D = 5, MOST = 64 };

static void test_the_constants_are_those_of_the_tutorial(void **state)
{
    (void)state;
    assert_int_equal(trp_evolution_population(1), 4);
    assert_int_equal(trp_evolution_population(5), 8);
    assert_int_equal(trp_evolution_population(10), 10);
    assert_int_equal(trp_evolution_population(100), 17);
    const double mean[10] = {0};
    trp_evolution e;
    assert_int_equal(trp_evolution_open(&e, 10, 10, mean, 0.3), TROUPE_OK);
    // Table 1 worked out by another program, for d = 10 and a population of 10.
    assert_float_equal(e.effective, 3.1672992814107026, 1e-12);
    assert_float_equal(e.rate_one, 0.015283824524751714, 1e-12);
    assert_float_equal(e.rate_mu, 0.023551776650417484, 1e-12);
    assert_float_equal(e.rate_sigma, 0.2844285879463675, 1e-12);
    assert_float_equal(e.damping, 1.2844285879463675, 1e-12);
    assert_float_equal(e.rate_path, 0.29499038303562225, 1e-12);
    assert_float_equal(e.length, 3.0847265651690123, 1e-12);
    double positive = 0;
    for (size_t i = 0; i < 5; i++)
        positive += e.weights[i];
    assert_float_equal(positive, 1, 1e-14);
    assert_float_equal(e.weights[0], 0.45627264690340597, 1e-12);
    assert_float_equal(e.weights[9], -0.5497499176973852, 1e-12);
    trp_evolution_close(&e);
    assert_null(e.mean);
}

static void test_draws_have_the_covariance(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    const double mean[D] = {0};
    trp_evolution e;
    assert_int_equal(trp_evolution_open(&e, D, 8, mean, 1), TROUPE_OK);
    trp_random random;
    trp_random_seed(&random, 5, 0);
    double ys[8][D], sum[D][D] = {{0}}, y[D];
    const double *ranked[8];
    for (int generation = 0; generation < 6; generation++) { // It becomes something else than 1.
        for (size_t k = 0; k < 8; k++) {
            trp_evolution_draw(&e, &random, ys[k]);
            ranked[k] = ys[k];
        }
        trp_evolution_update(&e, ranked);
    }
    for (int i = 0; i < DRAWS; i++) {
        trp_evolution_draw(&e, &random, y);
        for (size_t j = 0; j < D; j++) {
            for (size_t k = 0; k < D; k++)
                sum[j][k] += y[j] * y[k] / DRAWS;
        }
    }
    bool round = true;
    for (size_t j = 0; j < D; j++) {
        for (size_t k = 0; k < D; k++) {
            double size = sqrt(e.covariance[j * D + j] * e.covariance[k * D + k]);
            assert_float_equal(sum[j][k] / size, e.covariance[j * D + k] / size, 0.03);
            round = round && fabs(e.covariance[j * D + k] - (j == k)) < 0.1;
        }
    }
    assert_false(round);
    trp_evolution_close(&e);
}

static void test_far_points_are_shortened(void **state)
{
    (void)state;
    const double mean[2] = {0};
    trp_evolution e;
    assert_int_equal(trp_evolution_open(&e, 2, 6, mean, 1), TROUPE_OK);
    double near[2] = {1, -1}, far[2] = {300, -400}, endless[2] = {INFINITY, 0};
    trp_evolution_shorten(&e, near);
    trp_evolution_shorten(&e, far);
    trp_evolution_shorten(&e, endless);
    assert_true(near[0] == 1 && near[1] == -1);
    double most = sqrt(2) + 1; // sqrt(d) + 2 d / (d + 2)
    assert_float_equal(far[0], 0.6 * most, 1e-12);
    assert_float_equal(far[1], -0.8 * most, 1e-12);
    assert_true(endless[0] == 0 && endless[1] == 0);
    trp_evolution_close(&e);
}

// ---- whole runs

static double ellipsoid(const double *x, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += pow(1e6, (double)i / (double)(d - 1)) * x[i] * x[i];
    return sum;
}

static double turned_ellipsoid(const double *x, size_t d)
{
    double turned[MOST];
    for (size_t i = 0; i < d; i++) { // A product of rotations by 1 in neighbouring planes.
        turned[i] = x[i];
        if (i > 0) {
            double before = turned[i - 1];
            turned[i - 1] = cos(1) * before - sin(1) * turned[i];
            turned[i] = sin(1) * before + cos(1) * turned[i];
        }
    }
    return ellipsoid(turned, d);
}

static double sphere(const double *x, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += x[i] * x[i];
    return sum;
}

// The function's value at the mean after so many evaluations.
static double run(trp_evolution *e, double (*function)(const double *, size_t), size_t d,
                  int evaluations)
{
    double mean[MOST], ys[MOST][MOST], scores[MOST], x[MOST];
    const double *ranked[MOST];
    size_t population = trp_evolution_population(d);
    for (size_t i = 0; i < d; i++)
        mean[i] = 1;
    assert_int_equal(trp_evolution_open(e, d, population, mean, 0.5), TROUPE_OK);
    trp_random random;
    trp_random_seed(&random, 1, 0);
    while (evaluations > 0) {
        for (size_t k = 0; k < population; k++, evaluations--) {
            trp_evolution_draw(e, &random, ys[k]);
            for (size_t i = 0; i < d; i++)
                x[i] = e->mean[i] + e->sigma * ys[k][i];
            double score = function(x, d);
            size_t at = k; // Inserted among those before it.
            for (; at > 0 && scores[at - 1] > score; at--) {
                scores[at] = scores[at - 1];
                ranked[at] = ranked[at - 1];
            }
            scores[at] = score;
            ranked[at] = ys[k];
        }
        trp_evolution_update(e, ranked);
    }
    return function(e->mean, d);
}

static void test_it_converges(void **state)
{
    (void)state;
    trp_evolution e;
    // The tutorial's author gives about 10^3 evaluations for 10 dimensions of the sphere to 1e-9,
    // and 5 * 10^3 for the ellipsoid.
    assert_true(run(&e, sphere, 10, 2200) < 1e-9);
    assert_false(trp_evolution_converged(&e));
    trp_evolution_close(&e);
    assert_true(run(&e, ellipsoid, 10, 7000) < 1e-9);
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < 10; i++) {
        least = fmin(least, e.lengths[i]);
        most = fmax(most, e.lengths[i]);
    }
    assert_true(most / least > 200 && most / least < 5000); // It has learned 1 : 1000.
    trp_evolution_close(&e);
    assert_true(run(&e, turned_ellipsoid, 10, 7000) < 1e-9); // Axes make no difference.
    trp_evolution_close(&e);
    assert_true(run(&e, sphere, 1, 400) < 1e-9);
    trp_evolution_close(&e);
    assert_true(run(&e, sphere, 20, 6000) < 1e-9);
    trp_evolution_close(&e);
}

static void test_its_end_is_seen(void **state)
{
    (void)state;
    trp_evolution e;
    run(&e, sphere, 3, 4000);
    assert_true(trp_evolution_converged(&e));
    assert_true(e.sigma > 0 && isfinite(e.mean[0]));
    trp_evolution_close(&e);
    run(&e, sphere, 3, 40000); // And goes on without harm.
    assert_true(isfinite(e.mean[0]) && isfinite(e.lengths[0]));
    trp_evolution_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_constants_are_those_of_the_tutorial),
        cmocka_unit_test(test_draws_have_the_covariance),
        cmocka_unit_test(test_far_points_are_shortened),
        cmocka_unit_test(test_it_converges),
        cmocka_unit_test(test_its_end_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
