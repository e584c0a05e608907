// test_pedanova.c: PED-ANOVA gives the figures that Optuna gives, 0 to what cannot matter, and
// depends on the order of scores alone.
#include "cases.h"

#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <troupe/status.h>
#include <tune/why/pedanova.h>

static const trp_pedanova_how usual = {0.1, 1};
static double points[CASE_TRIALS * CASE_DIMS], scores[CASE_TRIALS], found[CASE_DIMS];

static void measured(const known_case *of)
{
    assert_int_equal(
        trp_pedanova(of->dims, of->dim_count, points, scores, of->count, &usual, found), TROUPE_OK);
}

static void test_the_figures_are_those_of_others(void **state)
{
    (void)state;
    for (int k = 0; k < KNOWN_CASES; k++) {
        const known_case *of = &known_cases[k];
        fill_case(of, points, scores);
        measured(of);
        for (size_t i = 0; i < of->dim_count; i++)
            if (!(fabs(found[i] - of->pedanova[i]) <= 1e-9 * of->pedanova[i]))
                fail_msg("%s, %s: %.17g, expected %.17g", of->name, of->dims[i].name, found[i],
                         of->pedanova[i]);
    }
}

static void test_only_the_order_of_scores_counts(void **state)
{
    (void)state;
    const known_case *of = &known_cases[0];
    double before[CASE_DIMS];
    fill_case(of, points, scores);
    measured(of);
    for (size_t i = 0; i < of->dim_count; i++)
        before[i] = found[i];
    for (size_t i = 0; i < of->count; i++)
        scores[i] = exp(50 * scores[i]) - 7;
    measured(of);
    for (size_t i = 0; i < of->dim_count; i++)
        assert_true(found[i] == before[i]);
}

static void test_what_cannot_matter_is_nothing(void **state)
{
    (void)state;
    const troupe_dim dims[] = {
        CASE_REAL("x"),
        {.name = "one", .kind = TROUPE_DIM_INTEGER, .low = 3, .high = 3, .parent = -1},
        CASE_CHOICE("only", 1),
        {.name = "never", .high = 1, .parent = 2, .when = 2},
    };
    enum { DIMS = 4, TRIALS = 40 };
    double x[TRIALS * DIMS], y[TRIALS], importance[DIMS];
    for (size_t i = 0; i < TRIALS; i++) {
        x[i * DIMS] = fraction(i, 0);
        x[i * DIMS + 1] = 3;
        x[i * DIMS + 2] = 0;
        x[i * DIMS + 3] = (double)NAN;
        y[i] = i % 4 == 1 ? (double)NAN : i % 4 == 2 ? (double)INFINITY : x[i * DIMS];
    }
    assert_int_equal(trp_pedanova(dims, DIMS, x, y, TRIALS, &usual, importance), TROUPE_OK);
    assert_true(importance[0] > 0);
    for (int i = 1; i < DIMS; i++)
        assert_true(importance[i] == 0);
    // The same without the points that have no score.
    double fewer[TRIALS * DIMS], of_fewer[TRIALS], again[DIMS];
    size_t used = 0;
    for (size_t i = 0; i < TRIALS; i++)
        if (isfinite(y[i])) {
            memcpy(fewer + used * DIMS, x + i * DIMS, DIMS * sizeof *x);
            of_fewer[used++] = y[i];
        }
    assert_int_equal(trp_pedanova(dims, DIMS, fewer, of_fewer, used, &usual, again), TROUPE_OK);
    assert_true(again[0] == importance[0]);
    for (size_t count = 0; count < 2; count++) {
        assert_int_equal(trp_pedanova(dims, DIMS, fewer, of_fewer, count, &usual, again),
                         TROUPE_OK);
        assert_true(again[0] == 0);
    }
    for (size_t i = 0; i < TRIALS; i++) // All are the best.
        y[i] = 5;
    assert_int_equal(trp_pedanova(dims, DIMS, x, y, TRIALS, &usual, importance), TROUPE_OK);
    assert_true(importance[0] == 0);
}

static void test_a_region_leaves_out_what_made_trials_bad(void **state)
{
    (void)state;
    const troupe_dim dims[] = {CASE_CHOICE("broken", 2), CASE_REAL("fine")};
    double importance[2];
    for (size_t i = 0; i < CASE_TRIALS; i++) {
        points[2 * i] = fraction(i, 0) < 0.5;
        points[2 * i + 1] = fraction(i, 1);
        scores[i] = 10 * points[2 * i] + points[2 * i + 1];
    }
    assert_int_equal(trp_pedanova(dims, 2, points, scores, CASE_TRIALS, &usual, importance),
                     TROUPE_OK);
    assert_true(importance[0] > 0.05 * importance[1]);
    const trp_pedanova_how among_good = {0.1, 0.5};
    assert_int_equal(trp_pedanova(dims, 2, points, scores, CASE_TRIALS, &among_good, importance),
                     TROUPE_OK);
    assert_true(importance[0] < 0.01 * importance[1]);
}

static void test_misuse_and_short_memory_are_said(void **state)
{
    (void)state;
    static const trp_pedanova_how wrong[] = {
        {0, 1}, {0.5, 0.5}, {0.1, 1.5}, {-1, 1}, {(double)NAN, 1}};
    const known_case *of = &known_cases[0];
    fill_case(of, points, scores);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            trp_pedanova(of->dims, of->dim_count, points, scores, of->count, &wrong[i], found),
            TROUPE_INVALID);
    trp_memory_fail_after(0);
    troupe_status status =
        trp_pedanova(of->dims, of->dim_count, points, scores, of->count, &usual, found);
    trp_memory_fail_after(-1);
    assert_int_equal(status, TROUPE_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_figures_are_those_of_others),
        cmocka_unit_test(test_only_the_order_of_scores_counts),
        cmocka_unit_test(test_what_cannot_matter_is_nothing),
        cmocka_unit_test(test_a_region_leaves_out_what_made_trials_bad),
        cmocka_unit_test(test_misuse_and_short_memory_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
