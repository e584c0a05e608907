// test_fanova.c: marginals of trees are those of a sum over all cells, shares of functions whose
// variances are known are these, and forests agree with Optuna's.
#include "cases.h"

#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/status.h>
#include <tune/space/random.h>
#include <tune/why/fanova.h>

static const trp_fanova_how usual = {64, 64, 1};

// ---- by brute force

enum { SMALL_DIMS = 3, SMALL = 14, CUTS_MAX = SMALL + 2 };
static const troupe_dim small_dims[SMALL_DIMS] = {CASE_REAL("x"), CASE_CHOICE("k", 4),
                                                  CASE_REAL("y")};

typedef struct cells {
    int count;
    double middle[CUTS_MAX], width[CUTS_MAX];
} cells;

static int by_value(const void *left, const void *right)
{
    double one = *(const double *)left, other = *(const double *)right;
    return (one > other) - (one < other);
}

static cells cells_of(const trp_tree *tree, int dim)
{
    cells it = {0};
    double cuts[64] = {0, 1};
    int used = 2;
    if (small_dims[dim].kind == TROUPE_DIM_CHOICE) {
        for (; it.count < small_dims[dim].choices; it.count++) {
            it.middle[it.count] = it.count;
            it.width[it.count] = 1.0 / small_dims[dim].choices;
        }
        return it;
    }
    for (size_t i = 0; i < tree->count; i++)
        if (tree->nodes[i].dim == dim)
            cuts[used++] = tree->nodes[i].at;
    qsort(cuts, (size_t)used, sizeof *cuts, by_value);
    for (int i = 0; i + 1 < used; i++)
        if (cuts[i] < cuts[i + 1]) {
            it.middle[it.count] = (cuts[i] + cuts[i + 1]) / 2;
            it.width[it.count++] = cuts[i + 1] - cuts[i];
        }
    return it;
}

// The variance of the marginal over `dim`; -1: of the tree itself.
static double variance_by_hand(const trp_tree *tree, int dim)
{
    cells of[SMALL_DIMS];
    double marginal[CUTS_MAX] = {0}, mean = 0, square = 0, whole = 0;
    for (int i = 0; i < SMALL_DIMS; i++)
        of[i] = cells_of(tree, i);
    for (int a = 0; a < of[0].count; a++)
        for (int b = 0; b < of[1].count; b++)
            for (int c = 0; c < of[2].count; c++) {
                const int at[] = {a, b, c};
                const double x[] = {of[0].middle[a], of[1].middle[b], of[2].middle[c]};
                double value = trp_tree_at(tree, small_dims, x);
                double volume = of[0].width[a] * of[1].width[b] * of[2].width[c];
                mean += value * volume;
                whole += value * value * volume;
                if (dim >= 0)
                    marginal[at[dim]] += value * volume / of[dim].width[at[dim]];
            }
    for (int i = 0; dim >= 0 && i < of[dim].count; i++)
        square += marginal[i] * marginal[i] * of[dim].width[i];
    return (dim >= 0 ? square : whole) - mean * mean;
}

static void test_marginals_are_those_of_all_cells(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        double columns[SMALL_DIMS * SMALL], scores[SMALL], found[SMALL_DIMS];
        trp_random random;
        trp_forest forest;
        bool varies;
        trp_random_seed(&random, seed, 0);
        for (int i = 0; i < SMALL; i++) {
            columns[i] = trp_random_unit(&random);
            columns[SMALL + i] = (double)trp_random_below(&random, 4);
            columns[2 * SMALL + i] = trp_random_unit(&random);
            scores[i] = trp_random_unit(&random);
        }
        const trp_sample sample = {small_dims, SMALL_DIMS, columns, scores, SMALL};
        assert_int_equal(trp_forest_grow(&sample, 1, 64, seed, &forest), TROUPE_OK);
        assert_int_equal(trp_fanova_tree(&forest.trees[0], small_dims, SMALL_DIMS, found, &varies),
                         TROUPE_OK);
        assert_true(varies);
        double whole = variance_by_hand(&forest.trees[0], -1);
        for (int dim = 0; dim < SMALL_DIMS; dim++) {
            double expected = variance_by_hand(&forest.trees[0], dim) / whole;
            assert_true(fabs(found[dim] - expected) < 1e-9);
        }
        trp_forest_free(&forest);
    }
}

static void test_a_constant_tree_says_nothing(void **state)
{
    (void)state;
    trp_node leaf = {.dim = -1, .value = 3};
    const trp_tree tree = {&leaf, 1};
    double found[SMALL_DIMS];
    bool varies;
    assert_int_equal(trp_fanova_tree(&tree, small_dims, SMALL_DIMS, found, &varies), TROUPE_OK);
    assert_false(varies);
    for (int i = 0; i < SMALL_DIMS; i++)
        assert_true(found[i] == 0);
}

// ---- functions whose variances are known

enum { MANY = 2000 };
static double points[MANY * CASE_DIMS], scores[MANY], found[CASE_DIMS];

static void test_shares_of_a_sum_are_its_variances(void **state)
{
    (void)state;
    const troupe_dim dims[] = {
        CASE_REAL("a"),
        {.name = "b", .low = 1e-3, .high = 10, .log = true, .parent = -1},
        CASE_CHOICE("c", 3),
        {.name = "d", .kind = TROUPE_DIM_INTEGER, .low = -2, .high = 2, .parent = -1},
        {.name = "e", .low = -6, .high = 6, .deviation = 1, .parent = -1},
    };
    // Variances: 9/12, 16/12 on a unit scale of the logarithm, of {0, 1, 5}, 0.25 * 2, of 0.5 e.
    const double variances[] = {0.75, 16.0 / 12, 14.0 / 3, 0.5, 0.25};
    double all = 0, lost = 0;
    for (size_t i = 0; i < MANY; i++) {
        double *x = points + i * CASE_DIMS;
        static const double of_choice[] = {0, 1, 5};
        double unit = fraction(i, 1);
        x[0] = fraction(i, 0);
        x[1] = 1e-3 * pow(1e4, unit);
        x[2] = floor(3 * fraction(i, 2));
        x[3] = floor(5 * fraction(i, 3)) - 2;
        x[4] = sqrt(-2 * log(1 - fraction(i, 4))) * cos(2 * acos(-1.0) * fraction(i * 7, 2));
        scores[i] = 3 * x[0] + 4 * unit + of_choice[(int)x[2]] + 0.5 * x[3] + 0.5 * x[4];
    }
    for (int i = 0; i < CASE_DIMS; i++)
        all += variances[i];
    assert_int_equal(trp_fanova(dims, CASE_DIMS, points, scores, MANY, &usual, found), TROUPE_OK);
    for (int i = 0; i < CASE_DIMS; i++) {
        if (!(fabs(found[i] - variances[i] / all) < 0.03))
            fail_msg("%s: %g, expected %g", dims[i].name, found[i], variances[i] / all);
        lost += found[i];
    }
    assert_true(lost > 0.9 && lost < 1);
}

// Alone, neither of two says anything of their product about the middle.
static void test_what_two_do_together_is_neithers(void **state)
{
    (void)state;
    const troupe_dim dims[] = {CASE_REAL("a"), CASE_REAL("b")};
    for (size_t i = 0; i < MANY; i++) {
        double *x = points + i * 2;
        x[0] = fraction(i, 0);
        x[1] = fraction(i, 1);
        scores[i] = (x[0] - 0.5) * (x[1] - 0.5);
    }
    assert_int_equal(trp_fanova(dims, 2, points, scores, MANY, &usual, found), TROUPE_OK);
    assert_true(found[0] < 0.05 && found[1] < 0.05);
}

// Of a condition: choice 0 adds 2 m^2, choice 1 adds 1.2. Over the whole space the variance is that
// of x, 1/12; of the choice, (1.2 - 2/3)^2 / 4; of m, that of m^2 (half of 2 m^2 counts), 4/45; and
// of both together, 4/45.
static void test_a_condition_is_a_function_of_the_whole_space(void **state)
{
    (void)state;
    const known_case *of = &known_cases[2];
    const double variances[] = {pow(1.2 - 2.0 / 3, 2) / 4, 1.0 / 12, 4.0 / 45}, together = 4.0 / 45;
    double all = together;
    for (size_t i = 0; i < MANY; i++)
        of->fill(i, points + i * 3, &scores[i]);
    for (int i = 0; i < 3; i++)
        all += variances[i];
    assert_int_equal(trp_fanova(of->dims, 3, points, scores, MANY, &usual, found), TROUPE_OK);
    for (int i = 0; i < 3; i++)
        if (!(fabs(found[i] - variances[i] / all) < 0.04))
            fail_msg("%s: %g, expected %g", of->dims[i].name, found[i], variances[i] / all);
}

// ---- beside others

// Its trees see a choice as a cube with a corner for each, so its figures of these are others.
static void test_the_figures_are_near_those_of_others(void **state)
{
    (void)state;
    for (int k = 0; k < KNOWN_CASES; k++) {
        const known_case *of = &known_cases[k];
        fill_case(of, points, scores);
        assert_int_equal(
            trp_fanova(of->dims, of->dim_count, points, scores, of->count, &usual, found),
            TROUPE_OK);
        for (size_t i = 0; i < of->dim_count; i++)
            if (!isnan(of->fanova[i]) && !(fabs(found[i] - of->fanova[i]) < 0.05))
                fail_msg("%s, %s: %g, expected %g", of->name, of->dims[i].name, found[i],
                         of->fanova[i]);
        for (size_t i = 0; i < of->dim_count; i++) // In the same order, where they are apart.
            for (size_t j = 0; j < of->dim_count; j++)
                if (of->fanova[i] > 1.5 * of->fanova[j])
                    assert_true(found[i] > found[j]);
    }
}

static void test_what_cannot_matter_is_nothing(void **state)
{
    (void)state;
    const troupe_dim dims[] = {
        CASE_REAL("x"),
        {.name = "one", .kind = TROUPE_DIM_INTEGER, .low = 3, .high = 3, .parent = -1},
        CASE_REAL("same"),
    };
    enum { DIMS = 3, TRIALS = 40 };
    for (size_t i = 0; i < TRIALS; i++) {
        double *x = points + i * DIMS;
        x[0] = fraction(i, 0);
        x[1] = 3;
        x[2] = 0.25;
        scores[i] = i % 4 == 1 ? (double)NAN : i % 4 == 2 ? -(double)INFINITY : 1e300 * x[0];
    }
    assert_int_equal(trp_fanova(dims, DIMS, points, scores, TRIALS, &usual, found), TROUPE_OK);
    assert_true(found[0] > 0.999 && found[1] == 0 && found[2] == 0);
    for (size_t count = 0; count < 3; count++) {
        assert_int_equal(trp_fanova(dims, DIMS, points, scores, count, &usual, found), TROUPE_OK);
        assert_true(found[0] == 0);
    }
    for (size_t i = 0; i < TRIALS; i++)
        scores[i] = 5;
    assert_int_equal(trp_fanova(dims, DIMS, points, scores, TRIALS, &usual, found), TROUPE_OK);
    assert_true(found[0] == 0);
}

static void test_short_memory_is_said(void **state)
{
    (void)state;
    const trp_fanova_how few = {2, 64, 1};
    const known_case *of = &known_cases[3];
    fill_case(of, points, scores);
    for (long allowed = 0;; allowed++) {
        trp_memory_fail_after(allowed);
        troupe_status status =
            trp_fanova(of->dims, of->dim_count, points, scores, of->count, &few, found);
        trp_memory_fail_after(-1);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marginals_are_those_of_all_cells),
        cmocka_unit_test(test_a_constant_tree_says_nothing),
        cmocka_unit_test(test_shares_of_a_sum_are_its_variances),
        cmocka_unit_test(test_what_two_do_together_is_neithers),
        cmocka_unit_test(test_a_condition_is_a_function_of_the_whole_space),
        cmocka_unit_test(test_the_figures_are_near_those_of_others),
        cmocka_unit_test(test_what_cannot_matter_is_nothing),
        cmocka_unit_test(test_short_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
