// test_gp_propose.c: the point of the largest expected improvement: its gradient, and that it is
// found among numbers, whole numbers and choices.
#include <points.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/search/gp_likelihood.h>
#include <tune/search/gp_propose.h>

enum { N = 30, MOST = 8 };

static const troupe_dim dims[] = {
    REAL(-1, 1),   CHOICE(3),
    WHOLE(0, 100), {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .parent = 1, .when = 2},
    WHOLE(1, 5),
};
static const troupe_problem problem = PROBLEM(dims);

// Lowest at -0.4 with choice 1, 70, 0.8 and 4.
static double function(const double *x)
{
    double sum = (x[0] + 0.4) * (x[0] + 0.4) + fabs(x[2] - 70) / 50 + 0.3 * fabs(x[4] - 4);
    return sum + (x[1] == 1 ? (x[3] - 0.8) * (x[3] - 0.8) : 1);
}

typedef struct setting {
    trp_gp_features features;
    trp_gp_process process;
    double x[N][MOST], targets[N], least;
    size_t best;
} setting;

static void make(setting *s, const troupe_problem *of, double (*f)(const double *))
{
    trp_random random;
    trp_random_seed(&random, 11, 0);
    double features[2 * MOST], mean = 0;
    assert_int_equal(trp_gp_features_open(&s->features, of), TROUPE_OK);
    assert_int_equal(
        trp_gp_process_open(&s->process, s->features.features, s->features.count, of->dim_count),
        TROUPE_OK);
    s->best = 0;
    for (size_t i = 0; i < N; i++) {
        trp_dims_draw(of->dims, of->dim_count, &random, s->x[i]);
        trp_gp_features_of(&s->features, s->x[i], features);
        assert_int_equal(trp_gp_process_add(&s->process, features), TROUPE_OK);
        s->targets[i] = f(s->x[i]);
        mean += s->targets[i] / N;
    }
    for (size_t i = 0; i < N; i++) {
        s->targets[i] -= mean;
        s->best = s->targets[i] < s->targets[s->best] ? i : s->best;
    }
    s->least = s->targets[s->best];
    assert_int_equal(trp_gp_fit(&s->process, N, s->targets), TROUPE_OK);
    assert_int_equal(trp_gp_process_condition(&s->process, N, s->targets), TROUPE_OK);
}

static void finish(setting *s)
{
    trp_gp_process_close(&s->process);
    trp_gp_features_close(&s->features);
}

// The logarithm of what one point improves; `slope` may be NULL.
static double worth_at(setting *s, const double *features, double *slope)
{
    enum { LANES = TRP_GP_LANES };
    static double scratch[TRP_GP_SCRATCH(N + 40) + 2 * MOST * LANES];
    double at[2 * MOST * LANES], slopes[2 * MOST * LANES], worths[LANES];
    for (size_t i = 0; i < s->features.count * LANES; i++)
        at[i] = features[i / LANES];
    trp_gp_log_improvements(&s->process, s->least, at, worths, slope == NULL ? NULL : slopes,
                            scratch);
    for (size_t f = 0; slope != NULL && f < s->features.count; f++)
        slope[f] = slopes[f * LANES + 5];
    return worths[5];
}

static double worth_of(setting *s, const double *x)
{
    double features[2 * MOST];
    trp_gp_features_of(&s->features, x, features);
    return worth_at(s, features, NULL);
}

static void test_the_gradient_is_the_difference(void **state)
{
    (void)state;
    setting s;
    make(&s, &problem, function);
    double slope[2 * MOST];
    double at[6] = {0.3, 0.5, 0.41, 0.77, 1, 0.5}, moved[6];
    worth_at(&s, at, slope);
    int steep = 0;
    for (size_t f = 0; f < 6; f++) {
        if (s.features.features[f].name) {
            assert_true(slope[f] == 0);
            continue;
        }
        memcpy(moved, at, sizeof at);
        moved[f] = at[f] + 1e-6;
        double up = worth_at(&s, moved, NULL);
        moved[f] = at[f] - 1e-6;
        double down = worth_at(&s, moved, NULL);
        assert_float_equal(slope[f], (up - down) / 2e-6, 1e-4 * (1 + fabs(slope[f])));
        steep += fabs(slope[f]) > 0.1;
    }
    assert_true(steep >= 2);
    finish(&s);
}

static void test_no_random_point_is_better(void **state)
{
    (void)state;
    setting s;
    make(&s, &problem, function);
    trp_random random, other;
    double x[MOST], candidate[MOST];
    trp_random_seed(&other, 99, 0);
    for (uint64_t seed = 0; seed < 5; seed++) {
        trp_random_seed(&random, 5, seed);
        assert_int_equal(trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x),
                         TROUPE_OK);
        points_assert_valid(&problem, x);
        double worth = worth_of(&s, x);
        for (int i = 0; i < 4000; i++) {
            trp_dims_draw(dims, problem.dim_count, &other, candidate);
            assert_true(worth_of(&s, candidate) <= worth + 1e-9);
        }
    }
    assert_true(x[1] == 1 && fabs(x[2] - 70) < 25); // It has understood what counts.
    finish(&s);
}

static const troupe_dim few[] = {CHOICE(4), WHOLE(0, 9)}; // 40 points.
static const troupe_problem countable = PROBLEM(few);

static double countable_function(const double *x)
{
    return x[0] + fabs(x[1] - 3);
}

static bool is_even(const void *user, const double *x)
{
    (void)user;
    return fmod(x[1], 2) == 0;
}

static bool never(const void *user, const double *x)
{
    (void)user;
    (void)x;
    return false;
}

static void test_what_was_tried_or_may_not_be_is_left_out(void **state)
{
    (void)state;
    setting s;
    troupe_problem even = countable, none = countable;
    even.allowed = is_even;
    none.allowed = never;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    double x[2], features[4];
    make(&s, &countable, countable_function);
    for (size_t i = 0; i < 40; i++) { // Until all have been tried.
        troupe_status got =
            trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x);
        if (got == TROUPE_END)
            break;
        assert_int_equal(got, TROUPE_OK);
        points_assert_valid(&countable, x);
        trp_gp_features_of(&s.features, x, features);
        for (size_t k = 0; k < s.process.count; k++)
            assert_false(points_same(features, s.process.points + k * 2, 2));
        assert_int_equal(trp_gp_process_add(&s.process, features), TROUPE_OK);
        assert_int_equal(trp_gp_process_suppose(&s.process), TROUPE_OK);
    }
    assert_int_equal(trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x),
                     TROUPE_END);
    finish(&s);
    make(&s, &even, countable_function);
    assert_int_equal(trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x),
                     TROUPE_OK);
    assert_true(fmod(x[1], 2) == 0);
    finish(&s);
    make(&s, &none, countable_function);
    assert_int_equal(trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x),
                     TROUPE_END);
    finish(&s);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    setting s;
    make(&s, &problem, function);
    double x[MOST];
    int failures = 0;
    for (long allowed = 0;; allowed++) {
        trp_random random;
        trp_random_seed(&random, 1, 0);
        trp_memory_fail_after(allowed);
        troupe_status got =
            trp_gp_propose(&s.process, &s.features, s.least, s.x[s.best], &random, x);
        trp_memory_fail_after(-1);
        if (got == TROUPE_OK)
            break;
        assert_int_equal(got, TROUPE_NO_MEMORY);
        failures++;
    }
    assert_true(failures >= 2);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_is_the_difference),
        cmocka_unit_test(test_no_random_point_is_better),
        cmocka_unit_test(test_what_was_tried_or_may_not_be_is_left_out),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
