// test_forest.c: trees know what they were grown on, split where a search by hand splits, and are
// the same for the same seed.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/status.h>
#include <tune/space/random.h>
#include <tune/why/forest.h>

enum { DIMS = 3, TRIALS = 60, TREES = 8, DEEP = 64 };

static const troupe_dim dims[DIMS] = {
    {.name = "x", .high = 1, .parent = -1},
    {.name = "k", .kind = TROUPE_DIM_CHOICE, .high = 4, .choices = 5, .parent = -1},
    {.name = "y", .high = 1, .parent = -1},
};
static double columns[DIMS * TRIALS], scores[TRIALS];
static const trp_sample sample = {dims, DIMS, columns, scores, TRIALS};

static void fill(uint64_t seed)
{
    trp_random random;
    trp_random_seed(&random, seed, 0);
    for (int i = 0; i < TRIALS; i++) {
        columns[i] = trp_random_unit(&random);
        columns[TRIALS + i] = (double)trp_random_below(&random, 5);
        columns[2 * TRIALS + i] = trp_random_unit(&random);
        scores[i] = sin(7 * columns[i]) + 0.3 * columns[TRIALS + i] + trp_random_unit(&random);
    }
}

static void point_of(int i, double x[DIMS])
{
    for (int dim = 0; dim < DIMS; dim++)
        x[dim] = columns[dim * TRIALS + i];
}

// How often the tree's bootstrap sample has each point: the draws are the first of its stream.
static void weights_of(uint64_t seed, int tree, double weights[TRIALS])
{
    trp_random random;
    trp_random_seed(&random, seed, (uint64_t)tree);
    memset(weights, 0, TRIALS * sizeof *weights);
    for (int i = 0; i < TRIALS; i++)
        weights[trp_random_below(&random, TRIALS)]++;
}

static void test_a_tree_knows_what_it_was_grown_on(void **state)
{
    (void)state;
    fill(1);
    trp_forest forest;
    assert_int_equal(trp_forest_grow(&sample, TREES, DEEP, 9, &forest), TROUPE_OK);
    assert_int_equal(forest.count, TREES);
    for (int tree = 0; tree < TREES; tree++) {
        double weights[TRIALS], x[DIMS];
        int left_out = 0;
        weights_of(9, tree, weights);
        for (int i = 0; i < TRIALS; i++) {
            point_of(i, x);
            double said = trp_tree_at(&forest.trees[tree], dims, x);
            if (weights[i] > 0)
                assert_true(fabs(said - scores[i]) < 1e-12);
            else
                left_out += fabs(said - scores[i]) > 1e-12;
        }
        assert_true(left_out > 0); // Else it is no bootstrap.
    }
    trp_forest_free(&forest);
}

// The squared error of a division into points that go left and others.
static double error_of(const double *weights, const bool *left)
{
    double error = 0;
    for (int side = 0; side < 2; side++) {
        double weight = 0, mean = 0;
        for (int i = 0; i < TRIALS; i++)
            if (left[i] == (side == 0)) {
                weight += weights[i];
                mean += weights[i] * scores[i];
            }
        if (weight == 0)
            return INFINITY;
        for (int i = 0; i < TRIALS; i++)
            if (left[i] == (side == 0))
                error += weights[i] * pow(scores[i] - mean / weight, 2);
    }
    return error;
}

static double least_error(const double *weights)
{
    double least = INFINITY;
    bool left[TRIALS];
    for (int dim = 0; dim < DIMS; dim += 2)
        for (int cut = 0; cut < TRIALS; cut++) {
            for (int i = 0; i < TRIALS; i++)
                left[i] = columns[dim * TRIALS + i] <= columns[dim * TRIALS + cut];
            least = fmin(least, error_of(weights, left));
        }
    for (uint32_t set = 1; set < 31; set++) {
        for (int i = 0; i < TRIALS; i++)
            left[i] = (set >> (int)columns[TRIALS + i] & 1) != 0;
        least = fmin(least, error_of(weights, left));
    }
    return least;
}

static void test_the_first_split_is_the_best_of_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill(seed);
        trp_forest forest;
        assert_int_equal(trp_forest_grow(&sample, 1, 1, seed, &forest), TROUPE_OK);
        const trp_tree *tree = &forest.trees[0];
        assert_int_equal(tree->count, 3);
        double weights[TRIALS];
        bool left[TRIALS];
        weights_of(seed, 0, weights);
        for (int i = 0; i < TRIALS; i++) {
            double x[DIMS];
            point_of(i, x);
            left[i] = trp_tree_at(tree, dims, x) == tree->nodes[tree->nodes[0].left].value;
        }
        assert_true(fabs(error_of(weights, left) - least_error(weights)) < 1e-9);
        trp_forest_free(&forest);
    }
}

// Two points that differ everywhere are divided by any dimension as well as by another.
static void test_no_dimension_is_preferred(void **state)
{
    (void)state;
    enum { ALIKE = 3, MANY = 3000 };
    const troupe_dim alike[ALIKE] = {
        {.name = "a", .high = 1}, {.name = "b", .high = 1}, {.name = "c", .high = 1}};
    const double x[ALIKE * 2] = {0.1, 0.9, 0.9, 0.1, 0.2, 0.8}, y[] = {1, 2};
    const trp_sample two = {alike, ALIKE, x, y, 2};
    int chosen[ALIKE] = {0}, split = 0;
    trp_forest forest;
    assert_int_equal(trp_forest_grow(&two, MANY, DEEP, 3, &forest), TROUPE_OK);
    for (int i = 0; i < MANY; i++)
        if (forest.trees[i].nodes[0].dim >= 0) {
            chosen[forest.trees[i].nodes[0].dim]++;
            split++;
        }
    for (int i = 0; i < ALIKE; i++) // Within 5 deviations.
        assert_true(abs(chosen[i] - split / ALIKE) < 5 * sqrt(split * 2.0 / 9));
    trp_forest_free(&forest);
}

static void test_the_seed_decides(void **state)
{
    (void)state;
    fill(4);
    trp_forest one, same, other;
    assert_int_equal(trp_forest_grow(&sample, 2, DEEP, 5, &one), TROUPE_OK);
    assert_int_equal(trp_forest_grow(&sample, 2, DEEP, 5, &same), TROUPE_OK);
    assert_int_equal(trp_forest_grow(&sample, 2, DEEP, 6, &other), TROUPE_OK);
    int differ = 0;
    for (int i = 0; i < 1000; i++) {
        const double x[DIMS] = {i / 1000.0, i % 5, (i * 7 % 1000) / 1000.0};
        assert_true(trp_tree_at(&one.trees[1], dims, x) == trp_tree_at(&same.trees[1], dims, x));
        differ += trp_tree_at(&one.trees[1], dims, x) != trp_tree_at(&other.trees[1], dims, x);
    }
    assert_true(differ > 0);
    trp_forest_free(&one);
    trp_forest_free(&same);
    trp_forest_free(&other);
}

static void test_short_memory_is_said(void **state)
{
    (void)state;
    fill(4);
    trp_forest forest;
    for (long allowed = 0;; allowed++) {
        trp_memory_fail_after(allowed);
        troupe_status status = trp_forest_grow(&sample, 3, DEEP, 5, &forest);
        trp_memory_fail_after(-1);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_int_equal(forest.count, 0);
    }
    trp_forest_free(&forest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_knows_what_it_was_grown_on),
        cmocka_unit_test(test_the_first_split_is_the_best_of_all),
        cmocka_unit_test(test_no_dimension_is_preferred),
        cmocka_unit_test(test_the_seed_decides),
        cmocka_unit_test(test_short_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
