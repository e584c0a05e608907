// test_explore.c: how a point is changed: how often, by how much, and within what.
#include "simulate.h"

#include <tune/schedule/explore.h>
#include <tune/space/dims.h>

enum { TIMES = 20000 };

static const troupe_dim dims[] = {
    {.name = "rate", .kind = TROUPE_DIM_REAL, .low = 1e-4, .high = 1, .log = true, .parent = -1},
    {.name = "width", .kind = TROUPE_DIM_INTEGER, .low = 1, .high = 100, .step = 1, .parent = -1},
    {.name = "size",
     .kind = TROUPE_DIM_CHOICE,
     .high = 6,
     .choices = 7,
     .ordered = true,
     .parent = -1},
    {.name = "kind", .kind = TROUPE_DIM_CHOICE, .high = 3, .choices = 4, .parent = -1},
    {.name = "depth", .kind = TROUPE_DIM_REAL, .low = 0, .high = 10, .step = 0.5, .parent = -1},
    {.name = "momentum", .kind = TROUPE_DIM_REAL, .low = 0, .high = 1, .parent = 3, .when = 1},
};
enum { DIMS = sizeof dims / sizeof *dims };

static const troupe_problem problem = {
    .size = sizeof problem, .dims = dims, .dim_count = DIMS, .objectives = 1};

static bool about(int count, double share)
{
    return fabs(count - TIMES * share) <= 5 * sqrt(TIMES * share * (1 - share));
}

static void test_the_shares_of_each_change(void **state)
{
    (void)state;
    const trp_explore how = {.resample = 0.25, .up = 1.2, .down = 0.8};
    const double from[DIMS] = {0.01, 50, 3, 2, 5, (double)NAN};
    double room[DIMS];
    int up[DIMS] = {0}, down[DIMS] = {0}, same[DIMS] = {0};
    trp_random random;
    trp_random_seed(&random, 1, 1);
    for (int i = 0; i < TIMES; i++) {
        double x[DIMS];
        memcpy(x, from, sizeof x);
        trp_explore_point(&how, &problem, &random, x, room);
        up[0] += x[0] == 0.01 * 1.2;
        down[0] += x[0] == 0.01 * 0.8;
        up[1] += x[1] == 60;
        down[1] += x[1] == 40;
        up[2] += x[2] == 4;
        down[2] += x[2] == 2;
        same[3] += x[3] == 2;
        up[4] += x[4] == 6;
        down[4] += x[4] == 4;
        for (int d = 0; d < DIMS; d++) {
            if (!trp_dim_counts(dims, (size_t)d, x))
                assert_true(isnan(x[d]));
            else
                assert_true(trp_dim_snap(&dims[d], x[d]) == x[d]);
        }
        assert_true(isnan(x[5]) == (x[3] != 0)); // Drawn, where it has come to count.
    }
    assert_true(about(up[0], 0.375) && about(down[0], 0.375));
    assert_true(about(up[1], 0.375 + 0.25 / 100) && about(down[1], 0.375 + 0.25 / 100));
    assert_true(about(up[2], 0.375 + 0.25 / 7) && about(down[2], 0.375 + 0.25 / 7));
    assert_true(about(same[3], 0.75 + 0.25 / 4)); // One that has no order stays.
    assert_true(about(up[4], 0.375 + 0.25 / 21) && about(down[4], 0.375 + 0.25 / 21));
}

static void test_bounds_and_small_numbers(void **state)
{
    (void)state;
    const trp_explore how = {.resample = 1e-12, .up = 1.2, .down = 0.8};
    const double low[DIMS] = {1e-4, 1, 0, 1, 0, (double)NAN};
    const double high[DIMS] = {0.99, 100, 6, 1, 10, (double)NAN};
    const double small[DIMS] = {0.5, 2, 1, 1, 1, (double)NAN};
    double room[DIMS];
    trp_random random;
    trp_random_seed(&random, 2, 2);
    for (int i = 0; i < 200; i++) {
        double x[DIMS];
        memcpy(x, low, sizeof x);
        trp_explore_point(&how, &problem, &random, x, room);
        assert_true(x[0] == 1e-4 || x[0] == 1e-4 * 1.2);
        assert_true((x[1] == 1 || x[1] == 2) && (x[2] == 0 || x[2] == 1));
        assert_true(x[4] == 0 || x[4] == 0.5);
        memcpy(x, high, sizeof x);
        trp_explore_point(&how, &problem, &random, x, room);
        assert_true(x[0] < 1 && (x[0] == nextafter(1, 0) || x[0] == 0.99 * 0.8));
        assert_true((x[1] == 100 || x[1] == 80) && (x[2] == 6 || x[2] == 5));
        assert_true(x[4] == 10 || x[4] == 8);
        memcpy(x, small, sizeof x); // 2 * 1.2 would be 2 again.
        trp_explore_point(&how, &problem, &random, x, room);
        assert_true((x[1] == 3 || x[1] == 1) && (x[4] == 1.5 || x[4] == 0.5));
    }
}

static void test_only_what_is_named_changes(void **state)
{
    (void)state;
    const bool mutates[DIMS] = {false, true};
    const trp_explore how = {.resample = 0.5, .up = 1.2, .down = 0.8, .mutates = mutates};
    const double from[DIMS] = {0.01, 50, 3, 0, 5, 0.5};
    double room[DIMS], x[DIMS];
    int moved = 0;
    trp_random random;
    trp_random_seed(&random, 3, 3);
    for (int i = 0; i < 200; i++) {
        memcpy(x, from, sizeof x);
        trp_explore_point(&how, &problem, &random, x, room);
        moved += x[1] != 50;
        x[1] = 50;
        assert_memory_equal(x, from, sizeof x);
    }
    assert_true(moved > 150);
}

static bool narrow(const void *user, const double *x)
{
    return x[1] <= *(const double *)user;
}

static void test_what_is_forbidden_is_left(void **state)
{
    (void)state;
    const trp_explore how = {.resample = 0.25, .up = 1.2, .down = 0.8};
    double widest = 50, room[DIMS];
    const double from[DIMS] = {0.01, 50, 3, 1, 5, (double)NAN};
    troupe_problem limited = problem;
    limited.allowed = narrow;
    limited.allowed_user = &widest;
    trp_random random;
    trp_random_seed(&random, 4, 4);
    for (int i = 0; i < 200; i++) {
        double x[DIMS];
        memcpy(x, from, sizeof x);
        trp_explore_point(&how, &limited, &random, x, room);
        assert_true(x[1] < 50);
    }
    widest = -1; // Nothing is allowed: it stays as it is.
    double x[DIMS];
    memcpy(x, from, sizeof x);
    trp_explore_point(&how, &limited, &random, x, room);
    assert_memory_equal(x, from, sizeof x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shares_of_each_change),
        cmocka_unit_test(test_bounds_and_small_numbers),
        cmocka_unit_test(test_only_what_is_named_changes),
        cmocka_unit_test(test_what_is_forbidden_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
