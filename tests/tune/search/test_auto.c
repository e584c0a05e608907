// test_auto.c: the searcher that chooses: which one for what, from TPE to CMA-ES with trials that
// run meanwhile, and the same suggestions after a replay.
#include <points.h>
#include <runtime/base/memory.h>
#include <string.h>

enum { DIMS = 3, TRIALS = 80, BESIDE = 3 };

static const troupe_dim numbers[DIMS] = {REAL(-5, 5), LOGGED(1e-3, 1), WHOLE(0, 20)};
static const troupe_dim seven[7] = {REAL(0, 1), REAL(0, 1), REAL(0, 1), REAL(0, 1),
                                    REAL(0, 1), REAL(0, 1), REAL(0, 1)};
static const troupe_dim mixed[DIMS] = {
    REAL(-5, 5),
    CHOICE(3),
    {.kind = TROUPE_DIM_INTEGER, .low = 0, .high = 20, .step = 1, .parent = 1, .when = 3}};
static const troupe_dim grids[2] = {
    {.kind = TROUPE_DIM_CHOICE, .high = 2, .choices = 3, .grid = true, .parent = -1},
    {.kind = TROUPE_DIM_CHOICE, .high = 1, .choices = 2, .grid = true, .parent = -1}};

static void expect(const troupe_dim *dims, size_t count, size_t objectives, int trials,
                   const char *name)
{
    const troupe_problem problem = {.size = sizeof problem,
                                    .dims = dims,
                                    .dim_count = count,
                                    .objectives = objectives,
                                    .seed = 1,
                                    .trials = trials};
    troupe_searcher *searcher = troupe_search_auto();
    assert_string_equal(searcher->name, "auto");
    points_begun(searcher, &problem);
    assert_string_equal(searcher->name, name);
    troupe_searcher_free(&searcher);
}

static void test_the_choice(void **state)
{
    (void)state;
    expect(grids, 2, 1, 100, "auto: random");
    expect(numbers, DIMS, 1, 200, "auto: TPE (startup 0), then CMA-ES");
    expect(numbers, DIMS, 1, 100, "auto: Gaussian process");
    expect(numbers, DIMS, 1, 0, "auto: Gaussian process, then CMA-ES");
    expect(numbers, 1, 1, 200, "auto: TPE (startup 0), then CMA-ES");
    expect(seven, 7, 1, 100, "auto: TPE (startup 0)"); // Too few to evolve.
    expect(mixed, DIMS, 1, 100, "auto: TPE (12 candidates)");
    expect(mixed, DIMS, 2, 100, "auto: TPE");
    expect(numbers, DIMS, 2, 100, "auto: TPE");
    expect(numbers, DIMS, 2, 1000, "auto: NSGA-II");
}

static double score_of(const double *x)
{
    double sum = pow(x[0] - 2, 2);
    if (!isnan(x[1]))
        sum += pow(x[1] < 1 ? log(x[1] / 0.1) : x[1] - 1, 2);
    return isnan(x[2]) ? sum : sum + pow(x[2] - 7, 2) / 10;
}

static void end_trial(troupe_searcher *searcher, int number, const double *x)
{
    points_observe(searcher, number, x, number % 9 == 4 ? (double)NAN : score_of(x));
}

// Trials end some trials later, so that others run when CMA-ES takes over.
static void check_replay(const troupe_dim *dims)
{
    troupe_problem problem = {.size = sizeof problem,
                              .dims = dims,
                              .dim_count = DIMS,
                              .objectives = 1,
                              .seed = 3,
                              .trials = 2 * TRIALS}; // Half of it.
    double known[TRIALS][DIMS], x[DIMS];
    troupe_searcher *first = points_begun(troupe_search_auto(), &problem);
    for (int i = 0; i < TRIALS; i++) {
        assert_int_equal(first->suggest(first, i, known[i]), TROUPE_OK);
        points_assert_valid(&problem, known[i]);
        points_given(first, i, known[i]);
        if (i >= BESIDE)
            end_trial(first, i - BESIDE, known[i - BESIDE]);
    }
    troupe_searcher_free(&first);
    troupe_searcher *second = points_begun(troupe_search_auto(), &problem);
    for (int i = 0; i < TRIALS; i++) {
        if (i % 7 == 0)
            assert_int_equal(second->suggest(second, 500 + i, x), TROUPE_OK);
        if (i % 4 == 0) {
            assert_int_equal(second->suggest(second, i, x), TROUPE_OK);
            assert_true(points_same(x, known[i], DIMS));
        }
        points_given(second, i, known[i]);
        if (i >= BESIDE)
            end_trial(second, i - BESIDE, known[i - BESIDE]);
    }
    troupe_searcher_free(&second);
}

static void test_a_replay_suggests_the_same(void **state)
{
    (void)state;
    check_replay(numbers);
    check_replay(mixed);
}

// After a quarter of the trials it searches around the best one, of those that violate nothing.
static void test_cmaes_begins_at_the_best(void **state)
{
    (void)state;
    const troupe_dim square[] = {REAL(0, 1), REAL(0, 1)};
    troupe_problem problem = PROBLEM(square);
    problem.trials = 160;
    troupe_searcher *searcher = points_begun(troupe_search_auto(), &problem);
    for (int i = 0; i < 40; i++) {
        double x[2] = {i == 7 ? 0.9 : 0.02 * i, i == 7 ? 0.9 : 0.5}, score = i == 7 ? 1 : 2 + i;
        troupe_observation seen = {
            .size = sizeof seen, .number = i, .x = x, .scores = &score, .reports = 1};
        if (i == 12) { // It would be the best.
            score = -5;
            seen.violation = 1;
        }
        points_given(searcher, i, x);
        assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
    }
    double sum[2] = {0};
    for (int i = 0; i < 60; i++) {
        double x[2];
        assert_int_equal(searcher->suggest(searcher, 40 + i, x), TROUPE_OK);
        assert_true(fabs(x[0] - 0.9) < 0.4 && fabs(x[1] - 0.9) < 0.4);
        sum[0] += x[0] / 60;
        sum[1] += x[1] / 60;
    }
    assert_true(fabs(sum[0] - 0.89) < 0.05 && fabs(sum[1] - 0.89) < 0.05);
    troupe_searcher_free(&searcher);
}

static void test_earlier_studies_count(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(numbers);
    problem.trials = 160;
    troupe_searcher *searcher = points_begun(troupe_search_auto(), &problem);
    for (int i = -50; i < 0; i++) {
        const double x[DIMS] = {2 + 0.06 * (i + 50), 0.1, 7};
        points_given(searcher, i, x);
        points_observe(searcher, i, x, score_of(x));
    }
    double sum = 0;
    for (int i = 0; i < 20; i++) {
        double x[DIMS];
        assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
        points_assert_valid(&problem, x);
        sum += score_of(x) / 20;
    }
    assert_true(sum < 3); // At random it is 22.
    troupe_searcher_free(&searcher);
}

// Where it is not known how many there will be, a Gaussian process has the first 150.
static void test_trials_without_end(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(numbers);
    troupe_searcher *searcher = points_begun(troupe_search_auto(), &problem);
    for (int i = 0; i < 150; i++) {
        const double x[DIMS] = {2 + 0.02 * i, 0.1, 7};
        points_given(searcher, i, x);
        points_observe(searcher, i, x, score_of(x));
    }
    double x[DIMS], sum = 0;
    for (int i = 150; i < 2000; i++) { // A process of so many would take minutes.
        assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
        points_given(searcher, i, x);
        points_observe(searcher, i, x, score_of(x));
        sum += i < 160 ? score_of(x) / 10 : 0;
    }
    assert_true(sum < 5);
    troupe_searcher_free(&searcher);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(numbers);
    problem.trials = 160;
    for (int after = 0;; after++) {
        trp_memory_fail_after(after);
        troupe_searcher *searcher = troupe_search_auto();
        troupe_status status = searcher->refusal;
        if (status == TROUPE_OK)
            status = searcher->begin(searcher, &problem);
        double x[DIMS];
        for (int i = 0; i < 44 && status == TROUPE_OK; i++) {
            status = searcher->suggest(searcher, i, x);
            if (status == TROUPE_OK)
                status = searcher->given(searcher, i, x);
            double score = i;
            troupe_observation seen = {.size = sizeof seen, .number = i, .x = x, .scores = &score};
            if (status == TROUPE_OK)
                status = searcher->observe(searcher, &seen);
        }
        trp_memory_fail_after(-1);
        troupe_searcher_free(&searcher);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 800);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_choice),
        cmocka_unit_test(test_a_replay_suggests_the_same),
        cmocka_unit_test(test_cmaes_begins_at_the_best),
        cmocka_unit_test(test_earlier_studies_count),
        cmocka_unit_test(test_trials_without_end),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
