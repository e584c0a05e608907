// test_nsga2.c: NSGA-II: which parents it keeps, what children are made of, that it is a fold over
// what it was told, and that it comes closer to a front than chance does.
#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <support.h>
#include <troupe/search.h>
#include <tune/search/fronts.h>
#include <tune/space/dims.h>

enum { DIMS_MAX = 12 };

static const troupe_dim units[DIMS_MAX] = {
    {.high = 1, .parent = -1}, {.high = 1, .parent = -1}, {.high = 1, .parent = -1},
    {.high = 1, .parent = -1}, {.high = 1, .parent = -1}, {.high = 1, .parent = -1},
    {.high = 1, .parent = -1}, {.high = 1, .parent = -1}, {.high = 1, .parent = -1},
    {.high = 1, .parent = -1}, {.high = 1, .parent = -1}, {.high = 1, .parent = -1},
};

static troupe_problem problem_of(const troupe_dim *dims, size_t count, size_t objectives)
{
    return (troupe_problem){.size = sizeof(troupe_problem),
                            .dims = dims,
                            .dim_count = count,
                            .objectives = objectives,
                            .seed = 7};
}

static troupe_searcher *begun(troupe_searcher *searcher, const troupe_problem *problem)
{
    assert_int_equal(searcher->refusal, TROUPE_OK);
    assert_int_equal(searcher->begin(searcher, problem), TROUPE_OK);
    return searcher;
}

static void see(troupe_searcher *searcher, int number, const double *x, const double *scores,
                double violation)
{
    assert_int_equal(searcher->given(searcher, number, x), TROUPE_OK);
    const troupe_observation seen = {.size = sizeof seen,
                                     .number = number,
                                     .ending = TROUPE_ENDING_COMPLETE,
                                     .x = x,
                                     .scores = scores,
                                     .violation = violation};
    assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
}

// How often each of eight trials gave a coordinate, in 400 children; trial i has coordinates i / 16
// and (8 + i) / 16.
static void descent(troupe_searcher *searcher, int counts[8])
{
    memset(counts, 0, 8 * sizeof *counts);
    for (int number = 8; number < 408; number++) {
        double x[2];
        assert_int_equal(searcher->suggest(searcher, number, x), TROUPE_OK);
        for (int i = 0; i < 2; i++) {
            double from = x[i] * 16 - 8 * i;
            assert_true(from == rint(from) && from >= 0 && from < 8); // Nothing has mutated.
            counts[(int)from]++;
        }
    }
}

// With a population of four and hardly any mutation, of eight trials only four have descendants.
static void test_the_best_by_front_and_crowding_are_parents(void **state)
{
    (void)state;
    // Front 0: 1, 3 and 5. Of front 1 (0, 2, 4 and 6) one more may stay: an end of it, the first.
    const double scores[8][2] = {{2, 8},     {1, 7}, {5, 5}, {3, 3},
                                 {5.5, 4.5}, {6, 1}, {8, 2}, {9, 9}};
    const double violations[8] = {0, 9, 0, 9, 0, 9, 9, 9};
    for (int constrained = 0; constrained < 2; constrained++) {
        troupe_problem problem = problem_of(units, 2, 2);
        troupe_searcher *searcher =
            begun(troupe_search_nsga2(.population = 4, .mutation = 1e-12), &problem);
        for (int i = 0; i < 8; i++) {
            double x[] = {i / 16.0, (8 + i) / 16.0};
            see(searcher, i, x, scores[i], constrained ? violations[i] : 0);
        }
        int counts[8];
        descent(searcher, counts);
        if (!constrained) {
            for (int i = 0; i < 8; i++)
                assert_int_equal(counts[i] > 0, i == 0 || i == 1 || i == 3 || i == 5);
            // Tournaments are lost by the front: trial 0 against each other, and by crowding.
            assert_true(counts[0] < counts[1] && counts[3] < counts[1] && counts[0] < counts[3]);
        } else // Those that hold, and of those that violate alike the first.
            for (int i = 0; i < 8; i++)
                assert_int_equal(counts[i] > 0, i == 0 || i == 1 || i == 2 || i == 4);
        troupe_searcher_free(&searcher);
    }
}

static void test_generations_turn_as_trials_end(void **state)
{
    (void)state;
    troupe_problem problem = problem_of(units, 2, 2);
    troupe_searcher *searcher =
        begun(troupe_search_nsga2(.population = 4, .mutation = 1e-12), &problem);
    troupe_searcher *chance = begun(troupe_search_nsga2(), &problem);
    double x[2], y[2], scores[] = {1, 1}, none[] = {NAN, NAN};
    for (int i = 0; i < 10; i++) { // Of ten that run three end with a result, and four without.
        assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
        assert_int_equal(searcher->given(searcher, i, x), TROUPE_OK);
    }
    for (int i = 0; i < 7; i++) {
        const troupe_observation seen = {.size = sizeof seen,
                                         .number = i,
                                         .ending = i == 5   ? TROUPE_ENDING_FAILED
                                                   : i == 6 ? TROUPE_ENDING_STOPPED
                                                            : TROUPE_ENDING_COMPLETE,
                                         .x = (double[]){i / 16.0, i / 16.0},
                                         .scores = i == 3 || i == 4 ? none : scores};
        assert_int_equal(searcher->suggest(searcher, 20, x), TROUPE_OK); // Still by chance.
        assert_int_equal(chance->suggest(chance, 20, y), TROUPE_OK);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
    }
    for (int i = 20; i < 60; i++) { // 0, 1, 2 and 6, which was stopped with a score.
        assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
        for (int k = 0; k < 2; k++)
            assert_true(x[k] == 0 || x[k] == 1 / 16.0 || x[k] == 2 / 16.0 || x[k] == 6 / 16.0);
    }
    troupe_searcher_free(&searcher);
    troupe_searcher_free(&chance);
}

// Zitzler, Deb and Thiele (2000): both are 0 at best, and the front is 1 - sqrt(x).
static void zdt1(const double *x, size_t count, double *scores)
{
    double sum = 0;
    for (size_t i = 1; i < count; i++)
        sum += x[i];
    double g = 1 + 9 * sum / (double)(count - 1);
    scores[0] = x[0];
    scores[1] = g * (1 - sqrt(x[0] / g));
}

// The volume after 600 trials, of which eight run at a time.
static double searched(troupe_searcher *searcher)
{
    enum { TRIALS = 600, BESIDE = 8 };
    static double points[TRIALS][DIMS_MAX], scores[TRIALS][2];
    const troupe_problem problem = problem_of(units, DIMS_MAX, 2);
    begun(searcher, &problem);
    for (int i = 0; i < TRIALS + BESIDE; i++) {
        if (i < TRIALS) {
            assert_int_equal(searcher->suggest(searcher, i, points[i]), TROUPE_OK);
            for (size_t k = 0; k < DIMS_MAX; k++)
                assert_true(points[i][k] >= 0 && points[i][k] < 1);
            assert_int_equal(searcher->given(searcher, i, points[i]), TROUPE_OK);
        }
        int ends = i - BESIDE;
        if (ends < 0)
            continue;
        zdt1(points[ends], DIMS_MAX, scores[ends]);
        const troupe_observation seen = {
            .size = sizeof seen, .number = ends, .x = points[ends], .scores = scores[ends]};
        assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
    }
    double volume;
    assert_int_equal(trp_hypervolume(scores[0], TRIALS, 2, (double[]){11, 11}, &volume), TROUPE_OK);
    troupe_searcher_free(&searcher);
    return volume;
}

static void test_it_comes_closer_than_chance(void **state)
{
    (void)state;
    double found = searched(troupe_search_nsga2());
    double chance = searched(troupe_search_nsga2(.population = 10000)); // No generation ends.
    const double best = 121 - 1.0 / 3;
    assert_true(chance < best && found < best);
    assert_true(best - found < (best - chance) / 2);
}

static void test_it_is_a_fold(void **state)
{
    (void)state;
    troupe_problem problem = problem_of(units, 3, 1);
    troupe_searcher *one = begun(troupe_search_nsga2(.population = 5), &problem);
    troupe_searcher *two = begun(troupe_search_nsga2(.population = 5), &problem);
    for (int i = -7; i < 40; i++) { // The second is told, but not asked.
        double x[3], again[3], score;
        assert_int_equal(one->suggest(one, i, x), TROUPE_OK);
        for (int k = 0; k < 3; k++)
            assert_int_equal(one->suggest(one, i + k, again), TROUPE_OK);
        assert_int_equal(one->suggest(one, i, again), TROUPE_OK);
        assert_memory_equal(x, again, sizeof x);
        score = fabs(x[0] - 0.5) + x[1];
        see(one, i, x, &score, 0);
        see(two, i, x, &score, 0);
    }
    double x[3], y[3];
    assert_int_equal(one->suggest(one, 40, x), TROUPE_OK);
    assert_int_equal(two->suggest(two, 40, y), TROUPE_OK);
    assert_memory_equal(x, y, sizeof x);
    troupe_searcher_free(&one);
    troupe_searcher_free(&two);
}

static const troupe_dim mixed[] = {
    {.kind = TROUPE_DIM_CHOICE, .high = 2, .choices = 3, .parent = -1},
    {.kind = TROUPE_DIM_INTEGER, .low = 1, .high = 64, .log = true, .parent = -1},
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .step = 0.25, .parent = 0, .when = 1},
    {.kind = TROUPE_DIM_REAL, .low = 1e-3, .high = 1, .log = true, .parent = 0, .when = 6},
};
enum { MIXED = sizeof mixed / sizeof *mixed };

static bool is_even(const void *user, const double *x)
{
    (void)user;
    return fmod(x[1], 2) == 0;
}

static void test_points_keep_what_the_space_says(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        troupe_problem problem = problem_of(mixed, MIXED, 2);
        problem.allowed = limited ? is_even : NULL;
        troupe_searcher *searcher = begun(troupe_search_nsga2(.population = 10), &problem);
        int alone[2] = {0};
        for (int i = 0; i < 300; i++) {
            double x[MIXED], snapped[MIXED];
            assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
            assert_true(!limited || is_even(NULL, x));
            memcpy(snapped, x, sizeof x);
            trp_dims_snap(mixed, MIXED, snapped);
            for (size_t k = 0; k < MIXED; k++) {
                assert_int_equal(isnan(x[k]), !trp_dim_counts(mixed, k, x));
                assert_true(isnan(x[k]) || x[k] == snapped[k]);
            }
            alone[0] += !isnan(x[2]);
            alone[1] += !isnan(x[3]);
            double scores[] = {x[1], -x[1] + (isnan(x[2]) ? x[3] : x[2])};
            see(searcher, i, x, scores, 0);
        }
        assert_true(alone[0] > 0 && alone[1] > 0);
        troupe_searcher_free(&searcher);
    }
}

static void test_nothing_is_tried_twice_while_there_is_else(void **state)
{
    (void)state;
    const troupe_dim few[] = {{.kind = TROUPE_DIM_INTEGER, .high = 9, .parent = -1},
                              {.kind = TROUPE_DIM_INTEGER, .high = 9, .parent = -1}};
    troupe_problem problem = problem_of(few, 2, 1);
    troupe_searcher *searcher = begun(troupe_search_nsga2(.population = 10), &problem);
    int tried[10][10] = {0};
    for (int i = 0; i < 150; i++) { // More than there are: then again.
        double x[2];
        assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
        int times = tried[(int)x[0]][(int)x[1]]++;
        assert_true(times == 0 || i >= 60);
        see(searcher, i, x, &x[0], 0);
    }
    troupe_searcher_free(&searcher);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    const struct {
        troupe_nsga2_options how;
        const char *named;
    } rows[] = {
        {{.size = sizeof rows->how, .population = 1}, "population"},
        {{.size = sizeof rows->how, .population = -5}, "population"},
        {{.size = sizeof rows->how, .crossover = 1.5}, "crossover"},
        {{.size = sizeof rows->how, .swap = -0.1}, "swap"},
        {{.size = sizeof rows->how, .mutation = NAN}, "mutation"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        troupe_searcher *searcher = troupe_search_nsga2_with(&rows[i].how);
        assert_int_equal(searcher->refusal, TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, rows[i].named));
        troupe_searcher_free(&searcher);
    }
    troupe_searcher *plain = troupe_search_nsga2_with(NULL);
    assert_string_equal(plain->name, "NSGA-II");
    troupe_searcher_free(&plain);
    plain = troupe_search_nsga2(.population = 20, .mutation = 0.25);
    assert_string_equal(plain->name, "NSGA-II (population 20, mutation 0.25)");
    troupe_searcher_free(&plain);
}

// Each allocation fails once; what failed is done again, and all is as if nothing had.
static void test_short_memory_changes_nothing(void **state)
{
    (void)state;
    troupe_problem problem = problem_of(units, 2, 2);
    double expected[2], x[2];
    for (long fails = -1; fails < 40; fails++) {
        trp_memory_fail_after(fails);
        troupe_searcher *searcher = troupe_search_nsga2(.population = 4);
        if (searcher->refusal == TROUPE_NO_MEMORY) {
            trp_memory_fail_after(-1);
            troupe_searcher_free(&searcher);
            continue;
        }
        if (searcher->begin(searcher, &problem) != TROUPE_OK) {
            trp_memory_fail_after(-1);
            assert_int_equal(searcher->begin(searcher, &problem), TROUPE_OK);
        }
        for (int i = 0; i < 12; i++) {
            double point[] = {i / 16.0, (12 - i) / 16.0};
            const troupe_observation seen = {
                .size = sizeof seen, .number = i, .x = point, .scores = point};
            if (searcher->given(searcher, i, point) != TROUPE_OK) {
                trp_memory_fail_after(-1);
                assert_int_equal(searcher->given(searcher, i, point), TROUPE_OK);
            }
            if (searcher->observe(searcher, &seen) != TROUPE_OK) {
                trp_memory_fail_after(-1);
                assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
            }
        }
        trp_memory_fail_after(-1);
        assert_int_equal(searcher->suggest(searcher, 12, fails < 0 ? expected : x), TROUPE_OK);
        if (fails >= 0)
            assert_memory_equal(x, expected, sizeof x);
        troupe_searcher_free(&searcher);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_by_front_and_crowding_are_parents),
        cmocka_unit_test(test_generations_turn_as_trials_end),
        cmocka_unit_test(test_it_comes_closer_than_chance),
        cmocka_unit_test(test_it_is_a_fold),
        cmocka_unit_test(test_points_keep_what_the_space_says),
        cmocka_unit_test(test_nothing_is_tried_twice_while_there_is_else),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_short_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
