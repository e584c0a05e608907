// test_random_search.c: random points: valid, the same whatever the order of asking, and allowed.
#include <points.h>
#include <runtime/base/memory.h>

enum { TRIALS = 200 };

static const troupe_dim dims[] = {
    LOGGED(1e-4, 1),
    CHOICE(3),
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .step = 0.25, .parent = 1, .when = 1u << 2},
    WHOLE(-3, 9),
};
enum { COUNT = 4 };

static void test_the_order_of_asking_is_no_matter(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims), other = PROBLEM(dims);
    other.seed = 2;
    troupe_searcher *forwards = points_begun(troupe_search_random(), &problem),
                    *backwards = points_begun(troupe_search_random(), &problem),
                    *third = points_begun(troupe_search_random(), &other);
    double a[TRIALS][COUNT], b[TRIALS][COUNT], c[TRIALS][COUNT];
    for (int i = 0; i < TRIALS; i++) {
        int j = TRIALS - 1 - i;
        assert_int_equal(forwards->suggest(forwards, i, a[i]), TROUPE_OK);
        assert_int_equal(backwards->suggest(backwards, j, b[j]), TROUPE_OK);
        assert_int_equal(third->suggest(third, i, c[i]), TROUPE_OK);
        points_assert_valid(&problem, a[i]);
        points_given(forwards, i, a[i]);
        points_observe(forwards, i, a[i], i);
    }
    int alike = 0, counts = 0;
    for (int i = 0; i < TRIALS; i++) {
        assert_true(points_same(a[i], b[i], COUNT));
        alike += a[i][0] == c[i][0];
        counts += !isnan(a[i][2]);
        for (int j = 0; j < i; j++)
            alike += a[i][0] == a[j][0];
    }
    assert_int_equal(alike, 0);
    assert_in_range(counts, TRIALS / 5, TRIALS / 2); // A third of them.
    troupe_searcher_free(&forwards);
    troupe_searcher_free(&backwards);
    troupe_searcher_free(&third);
    assert_null(forwards);
    troupe_searcher_free(&forwards);
    troupe_searcher_free(NULL);
}

static bool below_a_bound(const void *user, const double *x)
{
    return x[0] < *(const double *)user;
}

static bool never(const void *user, const double *x)
{
    (void)user;
    (void)x;
    return false;
}

static void test_points_that_may_not_be_tried_are_drawn_again(void **state)
{
    (void)state;
    const troupe_dim one[] = {REAL(0, 1)};
    troupe_problem problem = PROBLEM(one);
    double bound = 0.05, x;
    problem.allowed = below_a_bound;
    problem.allowed_user = &bound;
    troupe_searcher *searcher = points_begun(troupe_search_random(), &problem);
    for (int i = 0; i < TRIALS; i++) {
        assert_int_equal(searcher->suggest(searcher, i, &x), TROUPE_OK);
        assert_true(x < bound);
    }
    problem.allowed = never; // It ends all the same.
    assert_int_equal(searcher->suggest(searcher, 0, &x), TROUPE_OK);
    points_assert_valid(&problem, &x);
    troupe_searcher_free(&searcher);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    trp_memory_fail_after(0);
    troupe_searcher *made[] = {troupe_search_random(), troupe_search_sobol(),
                               troupe_search_grid(0)};
    trp_memory_fail_after(-1);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        assert_int_equal(made[i]->refusal, TROUPE_NO_MEMORY);
        troupe_searcher_free(&made[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_of_asking_is_no_matter),
        cmocka_unit_test(test_points_that_may_not_be_tried_are_drawn_again),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
