// test_grid.c: the grid gives every combination once, whatever else is tried.
#include <points.h>
#include <runtime/base/memory.h>
#include <string.h>

static const troupe_dim dims[] = {
    CHOICE(3),
    {.kind = TROUPE_DIM_INTEGER, .low = 2, .high = 7, .step = 2, .parent = 0, .when = 1u << 1},
    REAL(0, 1),
    {.kind = TROUPE_DIM_REAL, .low = 0, .high = 0.3, .step = 0.1, .parent = -1},
};
enum { COUNT = 4, POINTS = 2, TOTAL = (1 + 3 + 1) * POINTS * 4 };

// Asks for all that are left, each given as soon as suggested; returns how many.
static int rest(troupe_searcher *grid, int number, double (*x)[COUNT])
{
    int count = 0;
    for (double next[COUNT]; grid->suggest(grid, number, next) == TROUPE_OK; count++) {
        assert_true(count < TOTAL);
        memcpy(x[count], next, sizeof next);
        points_given(grid, number++, next);
    }
    assert_int_equal(troupe_last_error()->status, TROUPE_END);
    return count;
}

static void test_every_combination_comes_once(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    troupe_searcher *grid = points_begun(troupe_search_grid(POINTS), &problem);
    double x[TOTAL][COUNT];
    assert_int_equal(rest(grid, 0, x), TOTAL);
    for (int i = 0; i < TOTAL; i++) {
        points_assert_valid(&problem, x[i]);
        assert_true(x[i][2] == 0.25 || x[i][2] == 0.75);
        for (int j = 0; j < i; j++)
            assert_false(points_same(x[i], x[j], COUNT));
    }
    const double first[] = {0, NAN, 0.25, 0}, last[] = {2, NAN, 0.75, 0.3};
    assert_true(points_same(x[0], first, COUNT)); // The last dimension runs fastest.
    assert_true(points_same(x[1], (double[]){0, NAN, 0.25, 0.1}, COUNT));
    assert_true(points_same(x[8], (double[]){1, 2, 0.25, 0}, COUNT));
    assert_true(points_same(x[TOTAL - 1], last, 3));
    assert_true(fabs(x[TOTAL - 1][3] - 0.3) < 1e-12);
    troupe_searcher_free(&grid);
}

static void test_points_given_by_others_are_not_tried_again(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    troupe_searcher *whole = points_begun(troupe_search_grid(POINTS), &problem),
                    *grid = points_begun(troupe_search_grid(POINTS), &problem);
    double all[TOTAL][COUNT], x[TOTAL][COUNT];
    rest(whole, 0, all);
    const int given[] = {7, 1, 30, 2, 1, TOTAL - 1};
    for (int i = 0; i < 6; i++)
        points_given(grid, i, all[given[i]]);
    points_given(grid, 6, (const double[]){0, NAN, 0.3, 0}); // Not on the grid.
    points_given(grid, 7, (const double[]){1, 3, 0.25, 0});
    assert_int_equal(rest(grid, 8, x), TOTAL - 5);
    for (int i = 0, k = 0; i < TOTAL; i++)
        if (i != 7 && i != 1 && i != 30 && i != 2 && i != TOTAL - 1)
            assert_true(points_same(x[k++], all[i], COUNT));
    points_given(grid, 99, all[0]); // After the end.
    troupe_searcher_free(&whole);
    troupe_searcher_free(&grid);
}

static bool second_is_less(const void *user, const double *x)
{
    (void)user;
    return x[1] < x[0];
}

static bool never(const void *user, const double *x)
{
    (void)user;
    (void)x;
    return false;
}

static void test_combinations_that_may_not_be_tried_are_left_out(void **state)
{
    (void)state;
    const troupe_dim two[] = {WHOLE(0, 9), WHOLE(0, 9)}, vast[] = {WHOLE(0, 1e9), WHOLE(0, 1e9)};
    troupe_problem problem = PROBLEM(two), endless = PROBLEM(vast);
    problem.allowed = second_is_less;
    troupe_searcher *grid = points_begun(troupe_search_grid(0), &problem);
    double x[2];
    int count = 0;
    for (; grid->suggest(grid, count, x) == TROUPE_OK; count++) {
        assert_true(x[1] < x[0]);
        points_given(grid, count, x);
    }
    assert_int_equal(count, 45);
    troupe_searcher_free(&grid);
    endless.allowed = never;
    grid = points_begun(troupe_search_grid(0), &endless);
    assert_int_equal(grid->suggest(grid, 0, x), TROUPE_INVALID);
    troupe_searcher_free(&grid);
}

static void test_a_space_without_dimensions_has_one_point(void **state)
{
    (void)state;
    troupe_problem problem = {.size = sizeof problem, .objectives = 1};
    troupe_searcher *grid = points_begun(troupe_search_grid(0), &problem);
    double none;
    assert_int_equal(grid->suggest(grid, 0, &none), TROUPE_OK);
    points_given(grid, 0, &none);
    assert_int_equal(grid->suggest(grid, 1, &none), TROUPE_END);
    troupe_searcher_free(&grid);
}

static void test_bad_counts_are_refused(void **state)
{
    (void)state;
    troupe_searcher *grid = troupe_search_grid(-1);
    assert_int_equal(grid->refusal, TROUPE_INVALID);
    assert_non_null(strstr(grid->name, "-1 points"));
    troupe_searcher_free(&grid);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    troupe_problem problem = PROBLEM(dims);
    troupe_searcher *whole = points_begun(troupe_search_grid(POINTS), &problem);
    double all[TOTAL][COUNT];
    rest(whole, 0, all);
    troupe_searcher_free(&whole);
    for (int after = 0;; after++) {
        troupe_searcher *grid = troupe_search_grid(POINTS);
        trp_memory_fail_after(after);
        troupe_status status = grid->begin(grid, &problem);
        if (status == TROUPE_OK)
            status = grid->given(grid, 0, all[3]);
        trp_memory_fail_after(-1);
        troupe_searcher_free(&grid);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_combination_comes_once),
        cmocka_unit_test(test_points_given_by_others_are_not_tried_again),
        cmocka_unit_test(test_combinations_that_may_not_be_tried_are_left_out),
        cmocka_unit_test(test_a_space_without_dimensions_has_one_point),
        cmocka_unit_test(test_bad_counts_are_refused),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
