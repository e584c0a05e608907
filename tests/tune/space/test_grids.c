// test_grids.c: combinations of a grid by number, against a list of all that is made by brute
// force.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <support.h>
#include <tune/space/dims.h>
#include <tune/space/space.h>

enum { DIMS_MAX = 16, COMBINATIONS_MAX = 4096 };

static troupe_space *parsed(const char *json)
{
    troupe_space *space = NULL;
    if (troupe_space_parse(json, &space) != TROUPE_OK)
        fail_msg("%s: %s", json, troupe_last_error()->text);
    return space;
}

static void test_the_last_row_varies_fastest(void **state)
{
    (void)state;
    troupe_space *space = parsed("{\"a\": {\"grid\": [1, 2]}, \"b\": {\"choice\": [1, 2]},"
                                 " \"c\": {\"grid\": [1, 2, 3]}, \"d\": {\"uniform\": [0, 1]}}");
    assert_int_equal(trp_space_combinations(space), 6);
    for (uint64_t i = 0; i < 6; i++) {
        double x[] = {9, 1, 9, 0.5};
        trp_space_combination(space, i, x);
        assert_int_equal(trp_space_combination_of(space, x), i);
        assert_true((uint64_t)x[0] == i / 3 && x[1] == 1 && (uint64_t)x[2] == i % 3 && x[3] == 0.5);
    }
    troupe_space_free(&space);
    space = parsed("{\"b\": {\"choice\": [1, 2]}}");
    assert_int_equal(trp_space_combinations(space), 1);
    double x = 1;
    trp_space_combination(space, 0, &x);
    assert_true(x == 1);
    troupe_space_free(&space);
}

static bool same(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static size_t find(double points[][DIMS_MAX], size_t count, const double *x, size_t dims)
{
    size_t at = 0;
    while (at < count && !same(points[at], x, dims))
        at++;
    return at;
}

// All points that differ, one by one.
static size_t list_all(const troupe_space *space, double points[][DIMS_MAX])
{
    size_t count = 0, dims = space->dim_count;
    uint64_t all = 1;
    for (size_t i = 0; i < dims; i++)
        all *= (uint64_t)space->dims[i].choices;
    for (uint64_t number = 0; number < all; number++) {
        double *x = points[count];
        uint64_t left = number;
        for (size_t i = 0; i < dims; i++) {
            uint64_t choices = (uint64_t)space->dims[i].choices;
            x[i] = (double)(left % choices);
            left /= choices;
            if (!trp_dim_counts(space->dims, i, x))
                x[i] = (double)NAN;
        }
        count += find(points, count, x, dims) == count;
        assert_true(count < COMBINATIONS_MAX);
    }
    return count;
}

// A grid of few rows, of which some hang on earlier ones.
static troupe_space *draw_space(trp_random *random)
{
    char json[2048] = "{", row[256];
    int rows = 1 + (int)trp_random_below(random, 6), choices[8];
    for (int i = 0; i < rows; i++) {
        choices[i] = 2 + (int)trp_random_below(random, 2);
        snprintf(row, sizeof row, "%s\"r%d\": {\"grid\": [0, 1%s]", i > 0 ? ", " : "", i,
                 choices[i] > 2 ? ", 2" : "");
        strcat(json, row);
        if (i > 0 && trp_random_below(random, 2) == 0) {
            int parent = (int)trp_random_below(random, (uint64_t)i);
            int first = (int)trp_random_below(random, (uint64_t)choices[parent]);
            snprintf(row, sizeof row, ", \"when\": {\"r%d\": [%d%s]}", parent, first,
                     first == 0 && trp_random_below(random, 2) == 0 ? ", 1" : "");
            strcat(json, row);
        }
        strcat(json, "}");
    }
    strcat(json, "}");
    return parsed(json);
}

static void test_each_combination_is_there_once(void **state)
{
    (void)state;
    static double points[COMBINATIONS_MAX][DIMS_MAX];
    static bool seen[COMBINATIONS_MAX];
    trp_random random;
    int trees = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        trp_random_seed(&random, seed, 0);
        troupe_space *space = draw_space(&random);
        size_t count = list_all(space, points);
        if (trp_space_combinations(space) != count)
            fail_msg("seed %d: %d combinations, not %d", (int)seed,
                     (int)trp_space_combinations(space), (int)count);
        memset(seen, 0, sizeof seen);
        for (size_t i = 0; i < count; i++) {
            double x[DIMS_MAX];
            trp_space_combination(space, i, x);
            assert_int_equal(trp_space_combination_of(space, x), i);
            size_t at = find(points, count, x, space->dim_count);
            if (at == count || seen[at])
                fail_msg("seed %d: combination %d is %s", (int)seed, (int)i,
                         at == count ? "none" : "there twice");
            seen[at] = true;
        }
        for (size_t i = 0; i < space->dim_count; i++)
            trees += space->dims[i].parent >= 0;
        troupe_space_free(&space);
    }
    assert_true(trees > 50);
}

// Where a row hangs on one that is drawn otherwise, it has its part in each combination.
static void test_a_parent_outside_the_grid_is_left_alone(void **state)
{
    (void)state;
    troupe_space *space = parsed("{\"a\": {\"choice\": [1, 2]},"
                                 " \"b\": {\"grid\": [1, 2, 3], \"when\": {\"a\": 2}}}");
    assert_int_equal(trp_space_combinations(space), 3);
    double x[2] = {0, 0};
    trp_space_combination(space, 2, x);
    assert_true(x[0] == 0 && x[1] == 2);
    troupe_space_free(&space);
}

static void test_a_grid_beyond_counting_saturates(void **state)
{
    (void)state;
    char json[4096] = "{", row[64];
    for (int i = 0; i < 70; i++) {
        snprintf(row, sizeof row, "%s\"r%d\": {\"grid\": [0, 1]}", i > 0 ? ", " : "", i);
        strcat(json, row);
    }
    strcat(json, "}");
    troupe_space *space = parsed(json);
    double x[70];
    assert_true(trp_space_combinations(space) == UINT64_MAX);
    trp_space_combination(space, 5, x);
    assert_true(x[69] == 1 && x[68] == 0 && x[67] == 1 && x[0] == 0);
    troupe_space_free(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_row_varies_fastest),
        cmocka_unit_test(test_each_combination_is_there_once),
        cmocka_unit_test(test_a_parent_outside_the_grid_is_left_alone),
        cmocka_unit_test(test_a_grid_beyond_counting_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
