// test_cmaes.c: CMA-ES as a searcher: points, generations, trials that end badly, late, or were
// given by others, and that it finds minima.
#include <points.h>
#include <runtime/base/memory.h>
#include <string.h>

enum { DIMS_MAX = 8, TRIALS = 200 };

static const troupe_dim box[] = {REAL(-5, 10), REAL(-5, 10), LOGGED(1e-4, 1), REAL(0, 1)};
static const troupe_problem plain = PROBLEM(box);

// A choice with a dimension that depends on it, an ordered choice, whole and stepped numbers.
static const troupe_dim mixed_dims[] = {
    CHOICE(3),
    REAL(-1, 1),
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .parent = 0, .when = 2},
    WHOLE(1, 64),
    {.kind = TROUPE_DIM_CHOICE, .high = 3, .choices = 4, .ordered = true, .parent = -1},
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .parent = 4, .when = 9},
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .step = 0.25, .parent = -1},
};
static const troupe_problem mixed = PROBLEM(mixed_dims);

static troupe_searcher *begun(const troupe_problem *problem)
{
    return points_begun(troupe_search_cmaes_with(NULL), problem);
}

static double score_of(const troupe_problem *problem, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < problem->dim_count; i++) {
        double z = isnan(x[i]) ? 0 : trp_dim_unit(&problem->dims[i], x[i]) - 0.3;
        sum += (double)(i + 1) * z * z;
    }
    return sum;
}

static void test_suggestions_are_points_of_the_space(void **state)
{
    (void)state;
    const troupe_problem *problems[] = {&plain, &mixed};
    for (size_t k = 0; k < 2; k++) {
        troupe_searcher *searcher = begun(problems[k]);
        double x[DIMS_MAX];
        int seen[3] = {0};
        for (int i = 0; i < TRIALS; i++) {
            points_trial(searcher, problems[k], i, x, score_of);
            points_assert_valid(problems[k], x);
            if (k == 1)
                seen[(int)x[0]]++;
        }
        for (int c = 0; k == 1 && c < 3; c++) // Choices are drawn at random to the end.
            assert_true(seen[c] > TRIALS / 5);
        troupe_searcher_free(&searcher);
    }
}

static void test_a_suggestion_changes_nothing(void **state)
{
    (void)state;
    troupe_searcher *asked = begun(&mixed), *plainly = begun(&mixed);
    double x[DIMS_MAX], y[DIMS_MAX];
    for (int i = 0; i < TRIALS; i++) {
        for (int k = 5; k >= 0; k--)
            points_suggested(asked, i + k, x);
        points_suggested(plainly, i, y);
        assert_true(points_same(x, y, mixed.dim_count));
        points_trial(asked, &mixed, i, x, score_of);
        points_trial(plainly, &mixed, i, y, score_of);
    }
    troupe_searcher_free(&asked);
    troupe_searcher_free(&plainly);
}

// Calls of a study with several trials at a time, which end in some order.
typedef struct running {
    int numbers[4];
    double x[4][DIMS_MAX];
} running;

static void end_one(troupe_searcher *searcher, const running *run, int at)
{
    double score = run->numbers[at] % 7 == 3 ? (double)NAN : score_of(&mixed, run->x[at]);
    points_observe(searcher, run->numbers[at], run->x[at], score);
}

static void test_a_replay_goes_on_alike(void **state)
{
    (void)state;
    troupe_searcher *first = begun(&mixed), *again = begun(&mixed);
    running run = {.numbers = {0}};
    double x[DIMS_MAX];
    for (int number = 0; number < TRIALS; number++) {
        int at = number % 4 == 0 ? 0 : number * 7 % 4;
        if (number >= 4) {
            end_one(first, &run, at);
            end_one(again, &run, at);
        } else {
            at = number;
        }
        points_suggested(first, number, run.x[at]);
        run.numbers[at] = number;
        points_given(first, number, run.x[at]);
        points_given(again, number, run.x[at]); // The replay is asked nothing.
    }
    for (int number = TRIALS; number < TRIALS + 10; number++) {
        points_suggested(first, number, run.x[0]);
        points_suggested(again, number, x);
        assert_true(points_same(run.x[0], x, mixed.dim_count));
    }
    troupe_searcher_free(&first);
    troupe_searcher_free(&again);
}

// Only the order of scores counts.
static void test_any_increasing_function_of_the_scores_gives_the_same_path(void **state)
{
    (void)state;
    troupe_searcher *raw = begun(&plain), *changed = begun(&plain);
    double x[DIMS_MAX], y[DIMS_MAX];
    for (int i = 0; i < TRIALS; i++) {
        points_suggested(changed, i, y);
        points_given(changed, i, y);
        double score = points_trial(raw, &plain, i, x, score_of);
        assert_true(points_same(x, y, plain.dim_count));
        points_observe(changed, i, y, -1e6 * exp(-score) + 7);
    }
    troupe_searcher_free(&raw);
    troupe_searcher_free(&changed);
}

static double best_of(troupe_searcher *searcher, const troupe_problem *problem, int trials)
{
    double best = INFINITY, x[DIMS_MAX];
    for (int i = 0; i < trials; i++)
        best = fmin(best, points_trial(searcher, problem, i, x, score_of));
    troupe_searcher_free(&searcher);
    return best;
}

static void test_it_finds_minima(void **state)
{
    (void)state;
    static const troupe_dim numbers[] = {WHOLE(0, 9), REAL(0, 1), WHOLE(0, 1), REAL(0, 1)};
    troupe_problem whole = PROBLEM(numbers), random = plain;
    for (random.seed = whole.seed = 1; random.seed <= 5; random.seed = ++whole.seed) {
        assert_true(best_of(begun(&random), &random, 400) < 1e-5);
        // Of whole numbers the nearest to 0.3 are 0.25 of ten values, and of two.
        double least = 0.05 * 0.05 + 3 * 0.05 * 0.05;
        assert_float_equal(best_of(begun(&whole), &whole, 400), least, 1e-4);
    }
}

static void test_the_margin_leaves_wrong_whole_numbers_again(void **state)
{
    (void)state;
    // Whole numbers matter a thousand times as little as the rest: by the time that the rest is
    // right, the distribution without a margin would be too narrow to try another one.
    static const troupe_dim dims[] = {REAL(-1, 1), REAL(-1, 1), WHOLE(0, 20)};
    troupe_problem problem = PROBLEM(dims);
    for (problem.seed = 1; problem.seed <= 5; problem.seed++) {
        troupe_searcher *searcher = begun(&problem);
        double x[3], best = INFINITY;
        for (int i = 0; i < 800; i++) {
            points_suggested(searcher, i, x);
            points_given(searcher, i, x);
            double score = 1000 * (x[0] * x[0] + x[1] * x[1]) + fabs(x[2] - 17) * 1e-3;
            points_observe(searcher, i, x, score);
            best = fmin(best, score);
        }
        assert_true(best < 1e-3); // With 16 or 18 it is no less than that.
        troupe_searcher_free(&searcher);
    }
}

// A population of 4: one generation. Where its mean went tells which points it took for good.
static double mean_after(const troupe_observation *ends)
{
    static const troupe_dim dims[] = {REAL(0, 1)};
    static const troupe_problem problem = PROBLEM(dims);
    troupe_searcher *searcher = begun(&problem);
    const double points[4] = {0.40, 0.45, 0.55, 0.60};
    double sum = 0, x;
    for (int i = 0; i < 4; i++)
        points_given(searcher, i, &points[i]);
    for (int i = 0; i < 4; i++) {
        troupe_observation seen = ends[i];
        seen.size = sizeof seen;
        seen.number = i;
        seen.x = &points[i];
        assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
    }
    for (int i = 0; i < 2000; i++) {
        points_suggested(searcher, 100 + i, &x);
        sum += x / 2000;
    }
    troupe_searcher_free(&searcher);
    return sum;
}

static void test_bad_ends_rank_last(void **state)
{
    (void)state;
    const double one[] = {1}, two[] = {2}, three[] = {3}, four[] = {4}, none[] = {NAN};
    const troupe_observation up[] = {
        {.scores = four}, {.scores = three}, {.scores = two}, {.scores = one}};
    const troupe_observation down[] = {
        {.scores = one}, {.scores = two}, {.scores = three}, {.scores = four}};
    assert_true(mean_after(up) > 0.53 && mean_after(down) < 0.47);
    // Scores that would say down, but for their ends.
    const troupe_observation failed[] = {{.scores = one, .ending = TROUPE_ENDING_FAILED},
                                         {.scores = none},
                                         {.scores = four},
                                         {.scores = three}};
    const troupe_observation stopped[] = {{.scores = one, .ending = TROUPE_ENDING_STOPPED},
                                          {.scores = two, .ending = TROUPE_ENDING_STOPPED},
                                          {.scores = four},
                                          {.scores = three}};
    const troupe_observation by_reports[] = {
        {.scores = one, .ending = TROUPE_ENDING_STOPPED, .reports = 1},
        {.scores = one, .ending = TROUPE_ENDING_STOPPED, .reports = 2},
        {.scores = four, .ending = TROUPE_ENDING_STOPPED, .reports = 3},
        {.scores = four, .ending = TROUPE_ENDING_STOPPED, .reports = 4}};
    const troupe_observation violating[] = {{.scores = one, .violation = 2},
                                            {.scores = two, .violation = 1},
                                            {.scores = four},
                                            {.scores = three}};
    assert_true(mean_after(failed) > 0.53);
    assert_true(mean_after(stopped) > 0.53);
    assert_true(mean_after(by_reports) > 0.53);
    assert_true(mean_after(violating) > 0.53);
}

static void test_trials_that_run_do_not_hold_it_up(void **state)
{
    (void)state;
    // Eight at a time, of which the oldest never ends: the others make generations, and what comes
    // late counts as well.
    troupe_searcher *searcher = begun(&plain);
    double x[8][DIMS_MAX], best = INFINITY;
    int numbers[8], next = 0;
    for (; next < 8; next++) {
        numbers[next] = next;
        points_suggested(searcher, next, x[next]);
        points_given(searcher, next, x[next]);
        for (int k = 0; k < next; k++) // No two are alike.
            assert_false(points_same(x[k], x[next], plain.dim_count));
    }
    for (int ended = 0; ended < 500; ended++, next++) {
        int at = 1 + ended * 5 % 7;
        double score = score_of(&plain, x[at]);
        best = fmin(best, score);
        points_observe(searcher, numbers[at], x[at], score);
        points_suggested(searcher, next, x[at]);
        points_given(searcher, next, x[at]);
        numbers[at] = next;
    }
    assert_true(best < 1e-4);
    points_observe(searcher, 0, x[0], 1);
    troupe_searcher_free(&searcher);
}

static void test_points_of_others_count(void **state)
{
    (void)state;
    troupe_searcher *searcher = begun(&plain), *warm = begun(&plain);
    double x[DIMS_MAX], good[] = {-0.5, -0.5, 1.6e-3, 0.3}, bad[] = {9, 9, 0.9, 0.9}, near = 0;
    points_given(warm, -1, bad); // Of an earlier study: it begins at the best of them.
    points_observe(warm, -1, bad, 3);
    points_given(warm, -2, good);
    points_observe(warm, -2, good, 1);
    points_given(warm, -3, bad);
    points_observe(warm, -3, bad, (double)NAN);
    for (int i = 0; i < 100; i++) {
        points_suggested(warm, i, x);
        near += (trp_dim_unit(&box[0], x[0]) - trp_dim_unit(&box[0], good[0])) / 100;
    }
    assert_float_equal(near, 0, 0.06);
    points_given(searcher, 0, good); // Given in place of what it suggested, far from its mean.
    points_observe(searcher, 0, good, 0);
    points_observe(searcher, 1, bad, 9); // Never given.
    for (int i = 2; i < 60; i++)
        points_trial(searcher, &plain, i, x, score_of);
    assert_true(points_trial(searcher, &plain, 60, x, score_of) < 1);
    troupe_searcher_free(&searcher);
    troupe_searcher_free(&warm);
}

static bool in_a_corner(const void *user, const double *x)
{
    (*(int *)(uintptr_t)user)++;
    return x[0] > 2.5 && x[1] > 2.5;
}

static bool nowhere(const void *user, const double *x)
{
    (void)user;
    (void)x;
    return false;
}

static void test_it_looks_for_points_that_may_be_tried(void **state)
{
    (void)state;
    int calls = 0;
    troupe_problem problem = plain;
    problem.allowed = in_a_corner;
    problem.allowed_user = &calls;
    troupe_searcher *searcher = begun(&problem);
    double x[DIMS_MAX];
    for (int i = 0; i < 60; i++) {
        points_trial(searcher, &problem, i, x, score_of);
        assert_true(x[0] > 2.5 && x[1] > 2.5);
    }
    assert_true(calls > 60);
    troupe_searcher_free(&searcher);
    problem.allowed = nowhere;
    searcher = begun(&problem);
    points_suggested(searcher, 0, x); // The study has the last word.
    points_assert_valid(&problem, x);
    troupe_searcher_free(&searcher);
}

// Two basins, of which the wider is the worse: with restarts it finds the other one as well.
static double two_basins(const double *x)
{
    double wide = 0, deep = 0;
    for (int i = 0; i < 2; i++) {
        wide += (x[i] - 0.7) * (x[i] - 0.7);
        deep += (x[i] - 0.1) * (x[i] - 0.1);
    }
    return fmin(wide + 0.5, 30 * deep);
}

static void test_it_starts_again_where_it_has_converged(void **state)
{
    (void)state;
    static const troupe_dim dims[] = {REAL(0, 1), REAL(0, 1)};
    troupe_problem problem = PROBLEM(dims);
    int found[2] = {0};
    for (problem.seed = 1; problem.seed <= 10; problem.seed++) {
        for (int restarts = 0; restarts < 2; restarts++) {
            troupe_searcher *searcher =
                points_begun(troupe_search_cmaes_with(&(troupe_cmaes_options){
                                 .size = sizeof(troupe_cmaes_options), .restarts = restarts == 1}),
                             &problem);
            double x[2], best = INFINITY;
            for (int i = 0; i < 3000; i++) {
                points_suggested(searcher, i, x);
                points_given(searcher, i, x);
                double score = two_basins(x);
                points_observe(searcher, i, x, score);
                best = fmin(best, score);
            }
            found[restarts] += best < 0.4;
            troupe_searcher_free(&searcher);
        }
    }
    assert_true(found[1] >= found[0] + 4);
}

static void refused(troupe_cmaes_options how, const char *text)
{
    how.size = sizeof how;
    troupe_searcher *searcher = troupe_search_cmaes_with(&how);
    assert_int_equal(searcher->refusal, TROUPE_INVALID);
    assert_non_null(strstr(searcher->name, text));
    troupe_searcher_free(&searcher);
}

static void test_what_it_refuses(void **state)
{
    (void)state;
    refused((troupe_cmaes_options){.population = 1}, "population");
    refused((troupe_cmaes_options){.population = -4}, "population");
    refused((troupe_cmaes_options){.population = 10001}, "population");
    refused((troupe_cmaes_options){.sigma = -0.1}, "sigma");
    refused((troupe_cmaes_options){.sigma = 1.5}, "sigma");
    refused((troupe_cmaes_options){.sigma = NAN}, "sigma");
    static const troupe_dim choices[] = {CHOICE(3)};
    troupe_problem several = plain, without = PROBLEM(choices);
    several.objectives = 2;
    troupe_searcher *searcher = troupe_search_cmaes_with(NULL);
    assert_int_equal(searcher->begin(searcher, &several), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "nsga2"));
    troupe_searcher_free(&searcher);
    searcher = troupe_search_cmaes_with(NULL);
    assert_int_equal(searcher->begin(searcher, &without), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "tpe"));
    troupe_searcher_free(&searcher);
}

static void test_its_name_has_its_options(void **state)
{
    (void)state;
    troupe_searcher *searcher = troupe_search_cmaes_with(NULL);
    assert_string_equal(searcher->name, "CMA-ES");
    troupe_searcher_free(&searcher);
    searcher = troupe_search_cmaes_with(&(troupe_cmaes_options){
        .size = sizeof(troupe_cmaes_options), .population = 12, .sigma = 0.25, .restarts = true});
    assert_string_equal(searcher->name, "CMA-ES, population 12, sigma 0.25, restarts");
    troupe_searcher_free(&searcher);
}

// Each allocation fails once: a status, and no harm to what is there.
static void test_memory_may_be_short(void **state)
{
    (void)state;
    int failures = 0;
    for (long allowed = 0; allowed < 40; allowed++) {
        double x[DIMS_MAX] = {0, 0, 0.1, 0.5};
        trp_memory_fail_after(allowed);
        troupe_searcher *searcher = troupe_search_cmaes_with(NULL);
        troupe_status got = searcher->refusal;
        if (got == TROUPE_OK)
            got = searcher->begin(searcher, &plain);
        for (int i = 0; i < 40 && got == TROUPE_OK; i++) {
            got = searcher->given(searcher, i, x);
            const double score = i;
            troupe_observation seen = {.size = sizeof seen, .number = i, .x = x, .scores = &score};
            if (got == TROUPE_OK && i % 2 == 1)
                got = searcher->observe(searcher, &seen);
        }
        trp_memory_fail_after(-1);
        assert_true(got == TROUPE_OK || got == TROUPE_NO_MEMORY);
        failures += got != TROUPE_OK;
        troupe_searcher_free(&searcher);
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suggestions_are_points_of_the_space),
        cmocka_unit_test(test_a_suggestion_changes_nothing),
        cmocka_unit_test(test_a_replay_goes_on_alike),
        cmocka_unit_test(test_any_increasing_function_of_the_scores_gives_the_same_path),
        cmocka_unit_test(test_it_finds_minima),
        cmocka_unit_test(test_the_margin_leaves_wrong_whole_numbers_again),
        cmocka_unit_test(test_bad_ends_rank_last),
        cmocka_unit_test(test_trials_that_run_do_not_hold_it_up),
        cmocka_unit_test(test_points_of_others_count),
        cmocka_unit_test(test_it_looks_for_points_that_may_be_tried),
        cmocka_unit_test(test_it_starts_again_where_it_has_converged),
        cmocka_unit_test(test_what_it_refuses),
        cmocka_unit_test(test_its_name_has_its_options),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
