// test_tpe.c: TPE as a whole: points that are valid, the same after a replay and in any order of
// asking; what it takes for good and bad; groups; options; and that it finds minima.
#include <points.h>
#include <runtime/base/memory.h>
#include <string.h>

enum { DIMS = 6, TRIALS = 60 };

static const troupe_dim dims[DIMS] = {
    REAL(-5, 5),
    CHOICE(3),
    {.kind = TROUPE_DIM_REAL, .low = 1e-3, .high = 1, .log = true, .parent = 1, .when = 1u << 0},
    {.kind = TROUPE_DIM_INTEGER, .low = 1, .high = 9, .step = 1, .parent = 1, .when = 6},
    CHOICE(1),
    {.kind = TROUPE_DIM_CHOICE, .high = 4, .choices = 5, .ordered = true, .parent = -1},
};

static double score_of(const double *x)
{
    double sum = pow(x[0] - 2, 2) + pow(x[5] - 3, 2);
    sum += isnan(x[2]) ? 1 + pow(x[3] - 7, 2) : pow(log(x[2] / 0.1), 2);
    return sum;
}

// A trial's life: given, perhaps reports, and its end some trials later, so that others run beside.
typedef struct life {
    double x[TRIALS][DIMS];
    int count;
} life;

static void begin_trial(troupe_searcher *searcher, life *known, int number)
{
    points_given(searcher, number, known->x[number]);
    if (searcher->report != NULL && number % 2 == 0)
        assert_int_equal(searcher->report(searcher, number, 1, score_of(known->x[number]) + 1),
                         TROUPE_OK);
}

static void end_trial(troupe_searcher *searcher, life *known, int number)
{
    double score = number % 11 == 5 ? (double)NAN : score_of(known->x[number]);
    troupe_observation seen = {.size = sizeof seen,
                               .number = number,
                               .ending = number % 7 == 3 ? TROUPE_ENDING_STOPPED
                                         : isnan(score)  ? TROUPE_ENDING_FAILED
                                                         : TROUPE_ENDING_COMPLETE,
                               .x = known->x[number],
                               .scores = &score,
                               .reports = number % 3,
                               .violation = number % 5 == 4 ? 0.5 : 0};
    assert_int_equal(searcher->observe(searcher, &seen), TROUPE_OK);
}

enum { BESIDE = 4 };

static void run(troupe_searcher *searcher, const troupe_problem *problem, life *known)
{
    for (int i = 0; i < TRIALS; i++) {
        assert_int_equal(searcher->suggest(searcher, i, known->x[i]), TROUPE_OK);
        points_assert_valid(problem, known->x[i]);
        begin_trial(searcher, known, i);
        if (i >= BESIDE)
            end_trial(searcher, known, i - BESIDE);
    }
}

static troupe_searcher *of_kind(int kind)
{
    switch (kind) {
    case 0:
        return troupe_search_tpe(.startup = 0);
    case 1:
        return troupe_search_tpe(.univariate = true, .no_liar = true);
    case 2:
        return troupe_search_tpe(.budgets = true, .startup = 5);
    default:
        return troupe_search_tpe(.startup = TROUPE_NONE, .candidates = 3);
    }
}
enum { KINDS = 4 };

// The fold alone makes the state: suggestions between do nothing, in whatever order they come.
static void test_a_replay_suggests_the_same(void **state)
{
    (void)state;
    static life known;
    troupe_problem problem = PROBLEM(dims);
    for (int kind = 0; kind < KINDS; kind++) {
        troupe_searcher *first = points_begun(of_kind(kind), &problem);
        run(first, &problem, &known);
        for (int stop = 0; stop <= TRIALS - BESIDE; stop += 14) {
            troupe_searcher *second = points_begun(of_kind(kind), &problem);
            double x[DIMS], other[DIMS];
            for (int i = 0; i < stop; i++) { // Asked nothing, but for an odd one.
                begin_trial(second, &known, i);
                if (i >= BESIDE)
                    end_trial(second, &known, i - BESIDE);
                if (i % 9 == 0)
                    assert_int_equal(second->suggest(second, 1000 + i, other), TROUPE_OK);
            }
            assert_int_equal(second->suggest(second, stop + 1, other), TROUPE_OK);
            if (stop < TRIALS) {
                assert_int_equal(second->suggest(second, stop, x), TROUPE_OK);
                assert_true(points_same(x, known.x[stop], DIMS));
                assert_false(points_same(other, x, DIMS));
            }
            troupe_searcher_free(&second);
        }
        troupe_searcher_free(&first);
    }
}

static void test_starts_at_random(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    troupe_searcher *tpe = points_begun(troupe_search_tpe(.startup = 6), &problem),
                    *random = points_begun(troupe_search_random(), &problem);
    for (int i = 0; i < 20; i++) {
        double x[DIMS], y[DIMS];
        assert_int_equal(tpe->suggest(tpe, i, x), TROUPE_OK);
        assert_int_equal(random->suggest(random, i, y), TROUPE_OK);
        if (i < 7) // One of the first six failed.
            assert_true(points_same(x, y, DIMS));
        else
            assert_false(points_same(x, y, DIMS));
        points_given(tpe, i, x);
        points_observe(tpe, i, x, i == 3 ? (double)NAN : score_of(x));
    }
    troupe_searcher_free(&tpe);
    troupe_searcher_free(&random);
}

// What ends well draws suggestions near; what runs, or ended badly, drives them away.
static void test_running_trials_drive_away(void **state)
{
    (void)state;
    const troupe_dim unit[] = {REAL(0, 1)};
    troupe_problem problem = PROBLEM(unit);
    int near[2];
    for (int no_liar = 0; no_liar < 2; no_liar++) {
        troupe_searcher *tpe = points_begun(troupe_search_tpe(.no_liar = no_liar == 1), &problem);
        for (int i = 0; i < 20; i++) {
            double x = (i + 0.5) / 20;
            points_given(tpe, i, &x);
            points_observe(tpe, i, &x, fabs(x - 0.31));
        }
        for (int i = 0; i < 30; i++) {
            double x = 0.3 + 0.0005 * i;
            points_given(tpe, 20 + i, &x);
        }
        near[no_liar] = 0;
        for (int i = 0; i < 200; i++) {
            double x;
            assert_int_equal(tpe->suggest(tpe, 100 + i, &x), TROUPE_OK);
            near[no_liar] += fabs(x - 0.31) < 0.02;
        }
        troupe_searcher_free(&tpe);
    }
    assert_true(near[1] > 100);
    assert_true(near[0] < near[1] / 2);
}

// A dimension is learned from those trials alone at which it counts.
static void test_groups_learn_by_themselves(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    troupe_searcher *tpe = points_begun(troupe_search_tpe(.startup = 0), &problem);
    double x[DIMS];
    for (int i = 0; i < 300; i++) {
        assert_int_equal(tpe->suggest(tpe, i, x), TROUPE_OK);
        points_given(tpe, i, x);
        points_observe(tpe, i, x, score_of(x));
    }
    int chosen = 0, near = 0;
    for (int i = 300; i < 400; i++) {
        assert_int_equal(tpe->suggest(tpe, i, x), TROUPE_OK);
        chosen += x[1] == 0;
        near += x[1] == 0 && fabs(log(x[2] / 0.1)) < 0.7;
    }
    assert_true(chosen > 60);
    assert_true(near > chosen * 2 / 3);
    troupe_searcher_free(&tpe);
}

// One coordinate's best value depends on the other's: together finds it, alone less well.
static void test_together_sees_what_alone_does_not(void **state)
{
    (void)state;
    const troupe_dim square[] = {REAL(0, 1), REAL(0, 1)};
    double sums[3] = {0};
    for (uint64_t seed = 1; seed <= 15; seed++)
        for (int kind = 0; kind < 3; kind++) {
            troupe_problem problem = PROBLEM(square);
            problem.seed = seed;
            troupe_searcher *searcher =
                points_begun(kind == 0   ? troupe_search_tpe(.startup = 0)
                             : kind == 1 ? troupe_search_tpe(.univariate = true)
                                         : troupe_search_random(),
                             &problem);
            double best = INFINITY, x[2];
            for (int i = 0; i < 100; i++) {
                assert_int_equal(searcher->suggest(searcher, i, x), TROUPE_OK);
                double score = 100 * pow(x[0] - x[1], 2) + pow(x[0] + x[1] - 0.4, 2);
                best = fmin(best, score);
                points_given(searcher, i, x);
                points_observe(searcher, i, x, score);
            }
            sums[kind] += log(best);
            troupe_searcher_free(&searcher);
        }
    assert_true(sums[0] < sums[1]);
    assert_true(sums[1] < sums[2]);
}

static bool sum_is_small(const void *user, const double *x)
{
    (void)user;
    return x[0] + x[1] < 0.5;
}

static void test_points_that_may_not_be_tried(void **state)
{
    (void)state;
    const troupe_dim square[] = {REAL(0, 1), REAL(0, 1)};
    troupe_problem problem = PROBLEM(square);
    problem.allowed = sum_is_small;
    for (int univariate = 0; univariate < 2; univariate++) {
        troupe_searcher *tpe =
            points_begun(troupe_search_tpe(.univariate = univariate == 1), &problem);
        for (int i = 0; i < 80; i++) {
            double x[2];
            assert_int_equal(tpe->suggest(tpe, i, x), TROUPE_OK);
            assert_true(x[0] + x[1] < 0.5);
            points_given(tpe, i, x);
            points_observe(tpe, i, x, -x[0] - x[1]);
        }
        troupe_searcher_free(&tpe);
    }
}

// Of several objectives both ends of the front are tried, each dimension by itself by default.
static void test_several_objectives(void **state)
{
    (void)state;
    const troupe_dim unit[] = {REAL(0, 1), REAL(0, 1)};
    troupe_problem problem = PROBLEM(unit);
    problem.objectives = 2;
    for (int multivariate = 0; multivariate < 2; multivariate++) {
        troupe_searcher *tpe =
            points_begun(troupe_search_tpe(.multivariate = multivariate == 1), &problem);
        int front = 0;
        for (int i = 0; i < 150; i++) {
            double x[2], scores[2];
            assert_int_equal(tpe->suggest(tpe, i, x), TROUPE_OK);
            points_assert_valid(&problem, x);
            scores[0] = x[0] + x[1]; // The front: x[1] = 0.
            scores[1] = 1 - x[0] + x[1];
            troupe_observation seen = {
                .size = sizeof seen, .number = i, .x = x, .scores = scores, .reports = 1};
            points_given(tpe, i, x);
            assert_int_equal(tpe->observe(tpe, &seen), TROUPE_OK);
            front += i >= 100 && x[1] < 0.1;
        }
        assert_true(front > 20); // Five at random.
        troupe_searcher_free(&tpe);
    }
}

// A trial that cloned another is learned from where it ended.
static void test_points_may_change_until_they_are_observed(void **state)
{
    (void)state;
    const troupe_dim unit[] = {REAL(0, 1)};
    troupe_problem problem = PROBLEM(unit);
    troupe_searcher *moved = points_begun(troupe_search_tpe(.startup = 0), &problem),
                    *plain = points_begun(troupe_search_tpe(.startup = 0), &problem);
    for (int i = 0; i < 20; i++) {
        double x = (i + 0.5) / 20, before = i == 3 ? 0.9 : x, a, b;
        points_given(moved, i, &before);
        points_given(plain, i, &x);
        points_observe(moved, i, &x, fabs(x - 0.2));
        points_observe(plain, i, &x, fabs(x - 0.2));
        assert_int_equal(moved->suggest(moved, 100 + i, &a), TROUPE_OK);
        assert_int_equal(plain->suggest(plain, 100 + i, &b), TROUPE_OK);
        assert_true(a == b);
    }
    troupe_searcher_free(&moved);
    troupe_searcher_free(&plain);
}

static void test_options_out_of_range_are_refused(void **state)
{
    (void)state;
    troupe_searcher *refused[] = {
        troupe_search_tpe(.startup = -1),
        troupe_search_tpe(.candidates = -1),
        troupe_search_tpe(.candidates = 100001),
        troupe_search_tpe(.univariate = true, .multivariate = true),
    };
    const char *const words[] = {".startup is -1", ".candidates is -1", ".candidates is 100001",
                                 "each excludes the other"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(refused[i]->refusal, TROUPE_INVALID);
        assert_non_null(strstr(refused[i]->name, words[i]));
        troupe_searcher_free(&refused[i]);
    }
    const troupe_dim unit[] = {REAL(0, 1)};
    troupe_problem problem = PROBLEM(unit);
    problem.objectives = 2;
    troupe_searcher *budgets = troupe_search_tpe(.budgets = true);
    assert_string_equal(budgets->name, "TPE (budgets)");
    assert_int_equal(budgets->begin(budgets, &problem), TROUPE_UNSUPPORTED);
    troupe_searcher_free(&budgets);
    troupe_searcher *plain = troupe_search_tpe_with(NULL);
    assert_string_equal(plain->name, "TPE");
    troupe_searcher_free(&plain);
    plain = troupe_search_tpe(.startup = 3, .candidates = 9, .no_liar = true);
    assert_string_equal(plain->name, "TPE (startup 3, 9 candidates, no liar)");
    troupe_searcher_free(&plain);
}

static void test_a_space_without_dimensions(void **state)
{
    (void)state;
    troupe_problem problem = {.size = sizeof problem, .objectives = 1, .seed = 1};
    troupe_searcher *tpe = points_begun(troupe_search_tpe(.startup = 0), &problem);
    double none = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tpe->suggest(tpe, i, &none), TROUPE_OK);
        points_given(tpe, i, &none);
        points_observe(tpe, i, &none, i);
    }
    troupe_searcher_free(&tpe);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    static life known;
    troupe_searcher *whole = points_begun(of_kind(0), &problem);
    run(whole, &problem, &known);
    troupe_searcher_free(&whole);
    for (int after = 0;; after++) {
        trp_memory_fail_after(after);
        troupe_searcher *tpe = of_kind(2);
        troupe_status status = tpe->refusal;
        double x[DIMS];
        if (status == TROUPE_OK)
            status = tpe->begin(tpe, &problem);
        for (int i = 0; i < 20 && status == TROUPE_OK; i++) {
            double score = i;
            troupe_observation seen = {
                .size = sizeof seen, .number = i, .x = known.x[i], .scores = &score};
            status = tpe->given(tpe, i, known.x[i]);
            if (status == TROUPE_OK)
                status = tpe->report(tpe, i, 1, i);
            if (status == TROUPE_OK)
                status = tpe->observe(tpe, &seen);
        }
        if (status == TROUPE_OK)
            status = tpe->suggest(tpe, 20, x);
        trp_memory_fail_after(-1);
        troupe_searcher_free(&tpe);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_replay_suggests_the_same),
        cmocka_unit_test(test_starts_at_random),
        cmocka_unit_test(test_running_trials_drive_away),
        cmocka_unit_test(test_groups_learn_by_themselves),
        cmocka_unit_test(test_together_sees_what_alone_does_not),
        cmocka_unit_test(test_points_that_may_not_be_tried),
        cmocka_unit_test(test_several_objectives),
        cmocka_unit_test(test_points_may_change_until_they_are_observed),
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_a_space_without_dimensions),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
