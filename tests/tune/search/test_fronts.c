// test_fronts.c: fronts, crowding and volumes against what their definitions give, on random points
// with many equals, and against values that were worked out by hand.
#include <math.h>
#include <runtime/base/memory.h>
#include <support.h>
#include <tune/search/fronts.h>
#include <tune/space/random.h>

enum { MOST = 60, OBJECTIVES = 5 };

// Points whose coordinates are whole numbers below `values`: so that many are equal.
static void draw(trp_random *random, double *scores, size_t numbers, uint64_t values)
{
    for (size_t i = 0; i < numbers; i++)
        scores[i] = (double)trp_random_below(random, values);
}

static bool dominates(const double *scores, const double *violations, size_t objectives, size_t a,
                      size_t b)
{
    if (violations != NULL && (violations[a] > 0 || violations[b] > 0))
        return violations[a] < violations[b];
    bool no_worse = true, better = false;
    for (size_t k = 0; k < objectives; k++) {
        no_worse &= scores[a * objectives + k] <= scores[b * objectives + k];
        better |= scores[a * objectives + k] < scores[b * objectives + k];
    }
    return no_worse && better;
}

// By the definition: whom none of those that are left dominates is of the next front.
static void peel(const double *scores, const double *violations, size_t count, size_t objectives,
                 int *ranks)
{
    for (size_t i = 0; i < count; i++)
        ranks[i] = -1;
    for (int front = 0;; front++) {
        int left = 0, members[MOST], used = 0;
        for (size_t i = 0; i < count; i++) {
            bool dominated = ranks[i] >= 0;
            left += ranks[i] < 0;
            for (size_t j = 0; j < count && !dominated; j++)
                dominated = ranks[j] < 0 && dominates(scores, violations, objectives, j, i);
            if (!dominated)
                members[used++] = (int)i;
        }
        if (left == 0)
            return;
        for (int i = 0; i < used; i++)
            ranks[members[i]] = front;
    }
}

static void test_fronts_are_those_of_the_definition(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int round = 0; round < 600; round++) {
        size_t objectives = 1 + trp_random_below(&random, OBJECTIVES);
        size_t count = trp_random_below(&random, MOST + 1);
        double scores[MOST * OBJECTIVES], violations[MOST];
        draw(&random, scores, count * objectives, 2 + trp_random_below(&random, 20));
        draw(&random, violations, count, 4);
        const double *by = round % 3 == 0 ? violations : NULL;
        int ranks[MOST], expected[MOST];
        assert_int_equal(trp_fronts(scores, by, count, objectives, ranks), TROUPE_OK);
        peel(scores, by, count, objectives, expected);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(ranks[i], expected[i]);
    }
}

static void test_what_has_no_score_comes_last(void **state)
{
    (void)state;
    double scores[] = {NAN, NAN, 3, NAN, 1, 2, NAN, NAN, 3, 2};
    int ranks[5];
    assert_int_equal(trp_fronts(scores, NULL, 5, 2, ranks), TROUPE_OK);
    assert_int_equal(ranks[2], 0);
    assert_int_equal(ranks[4], 1);
    assert_int_equal(ranks[1], 2);
    assert_int_equal(ranks[0], 3);
    assert_int_equal(ranks[3], 3);
    double violations[] = {0, 0, NAN, 1, 2};
    assert_int_equal(trp_fronts(scores, violations, 5, 2, ranks), TROUPE_OK);
    assert_int_equal(ranks[1], 0);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[3], 2);
    assert_int_equal(ranks[4], 3);
    assert_int_equal(ranks[2], 4);
}

static void test_crowding_is_the_side_of_the_box_of_neighbours(void **state)
{
    (void)state;
    // Another point stands before, which is of another front.
    double scores[] = {9, 9, 0, 10, 10, 0, 1, 6, 4, 2, 8, 1};
    int members[] = {1, 2, 3, 4, 5};
    double distances[5];
    assert_int_equal(trp_crowding(scores, 2, members, 5, distances), TROUPE_OK);
    assert_true(isinf(distances[0]) && isinf(distances[1]));
    assert_true(fabs(distances[2] - (0.4 + 0.8)) < 1e-12); // Between 0 and 4, and 2 and 10.
    assert_true(fabs(distances[3] - (0.7 + 0.5)) < 1e-12); // Between 1 and 8, and 1 and 6.
    assert_true(fabs(distances[4] - (0.6 + 0.2)) < 1e-12); // Between 4 and 10, and 0 and 2.
    // Where all are equal nothing tells them apart, and infinite scores make no NaN.
    double same[] = {1, 1, 1, 1, 1, 1, 1, INFINITY};
    int all[] = {0, 1, 2, 3};
    assert_int_equal(trp_crowding(same, 2, all, 3, distances), TROUPE_OK);
    assert_true(distances[1] == 0);
    assert_int_equal(trp_crowding(same, 2, all, 4, distances), TROUPE_OK);
    for (int i = 0; i < 4; i++)
        assert_false(isnan(distances[i]));
    assert_int_equal(trp_crowding(same, 2, all, 0, distances), TROUPE_OK);
}

// By inclusion and exclusion over all subsets.
static double volume(const double *scores, size_t count, size_t objectives, const double *reference)
{
    double sum = 0;
    for (unsigned subset = 1; subset < 1U << count; subset++) {
        double box = 1;
        for (size_t k = 0; k < objectives; k++) {
            double corner = -INFINITY;
            for (size_t i = 0; i < count; i++)
                if (subset >> i & 1)
                    corner = fmax(corner, scores[i * objectives + k]);
            box *= fmax(reference[k] - corner, 0);
        }
        sum += __builtin_popcount(subset) % 2 == 1 ? box : -box;
    }
    return sum;
}

static void test_volumes_are_those_of_the_definition(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 2, 0);
    for (int round = 0; round < 600; round++) {
        size_t objectives = 1 + trp_random_below(&random, OBJECTIVES);
        size_t count = trp_random_below(&random, 10);
        double scores[10 * OBJECTIVES], reference[OBJECTIVES], found;
        draw(&random, scores, count * objectives, 2 + trp_random_below(&random, 12));
        draw(&random, reference, objectives, 14);
        assert_int_equal(trp_hypervolume(scores, count, objectives, reference, &found), TROUPE_OK);
        assert_true(found == volume(scores, count, objectives, reference)); // Whole: exact.
    }
}

static void test_volumes_of_many_points(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    static double scores[COUNT * 3];
    // On the simplex x + y + z = 1, all points of a triangular grid: the volume is a sum of
    // columns.
    const int sides = 26;
    size_t count = 0;
    double expected = 0;
    for (int i = 0; i <= sides && count < COUNT; i++)
        for (int j = 0; i + j <= sides && count < COUNT; j++, count++) {
            scores[3 * count] = i;
            scores[3 * count + 1] = j;
            scores[3 * count + 2] = sides - i - j;
        }
    for (int i = 0; i <= sides; i++)
        for (int j = 0; j <= sides; j++)
            expected += i + j <= sides ? i + j + 1 : sides + 1;
    double found, reference[] = {sides + 1, sides + 1, sides + 1};
    assert_int_equal(trp_hypervolume(scores, count, 3, reference, &found), TROUPE_OK);
    assert_true(count > 350 && count < COUNT && found == expected);
    double nothing[] = {NAN, 1, INFINITY, 1, 3, 3}, two[] = {3, 3};
    assert_int_equal(trp_hypervolume(nothing, 3, 2, two, &found), TROUPE_OK);
    assert_true(found == 0);
}

static void test_a_reference_is_worse_than_all(void **state)
{
    (void)state;
    double scores[] = {1, -4, 0, 2, -2, 0, NAN, INFINITY, 0}, reference[3];
    trp_hypervolume_reference(scores, 3, 3, reference);
    assert_true(fabs(reference[0] - 2.2) < 1e-12 && fabs(reference[1] + 1.8) < 1e-12);
    assert_true(reference[2] > 0);
    trp_hypervolume_reference(scores, 0, 3, reference);
    assert_true(isfinite(reference[0]));
}

// Greedily, by the definition.
static void pick(const double *scores, size_t count, size_t objectives, const double *reference,
                 size_t wanted, int *chosen)
{
    double taken[MOST * OBJECTIVES], before = 0;
    bool is_taken[MOST] = {false};
    for (size_t k = 0; k < wanted; k++) {
        chosen[k] = 0;
        double most = -1, with;
        for (size_t i = 0; i < count; i++) {
            if (is_taken[i])
                continue;
            for (size_t m = 0; m < objectives; m++)
                taken[k * objectives + m] = scores[i * objectives + m];
            assert_int_equal(trp_hypervolume(taken, k + 1, objectives, reference, &with),
                             TROUPE_OK);
            if (with - before > most) {
                most = with - before;
                chosen[k] = (int)i;
            }
        }
        is_taken[chosen[k]] = true;
        for (size_t m = 0; m < objectives; m++)
            taken[k * objectives + m] = scores[(size_t)chosen[k] * objectives + m];
        before += most;
    }
}

static void test_those_chosen_add_most(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 3, 0);
    for (int round = 0; round < 120; round++) {
        size_t objectives = 1 + trp_random_below(&random, 4);
        size_t count = 1 + trp_random_below(&random, 30);
        size_t wanted = trp_random_below(&random, count + 1);
        double scores[30 * 4], reference[4];
        draw(&random, scores, count * objectives, 2 + trp_random_below(&random, 100));
        for (size_t k = 0; k < objectives; k++)
            reference[k] = round % 4 == 0 ? 20 : 100;
        int chosen[30], expected[30];
        assert_int_equal(
            trp_hypervolume_choose(scores, count, objectives, reference, wanted, chosen),
            TROUPE_OK);
        pick(scores, count, objectives, reference, wanted, expected);
        for (size_t k = 0; k < wanted; k++)
            assert_int_equal(chosen[k], expected[k]);
    }
}

static void test_memory_that_is_short_is_told_of(void **state)
{
    (void)state;
    double scores[] = {1, 2, 2, 1}, reference[] = {3, 3}, number[2];
    int ranks[2], members[] = {0, 1};
    trp_memory_fail_after(0);
    troupe_status a = trp_fronts(scores, NULL, 2, 2, ranks);
    troupe_status b = trp_crowding(scores, 2, members, 2, number);
    troupe_status c = trp_hypervolume(scores, 2, 2, reference, number);
    troupe_status d = trp_hypervolume_choose(scores, 2, 2, reference, 1, ranks);
    trp_memory_fail_after(1);
    troupe_status e = trp_hypervolume_choose(scores, 2, 2, reference, 1, ranks);
    trp_memory_fail_after(-1);
    assert_int_equal(a, TROUPE_NO_MEMORY);
    assert_int_equal(b, TROUPE_NO_MEMORY);
    assert_int_equal(c, TROUPE_NO_MEMORY);
    assert_int_equal(d, TROUPE_NO_MEMORY);
    assert_int_equal(e, TROUPE_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fronts_are_those_of_the_definition),
        cmocka_unit_test(test_what_has_no_score_comes_last),
        cmocka_unit_test(test_crowding_is_the_side_of_the_box_of_neighbours),
        cmocka_unit_test(test_volumes_are_those_of_the_definition),
        cmocka_unit_test(test_volumes_of_many_points),
        cmocka_unit_test(test_a_reference_is_worse_than_all),
        cmocka_unit_test(test_those_chosen_add_most),
        cmocka_unit_test(test_memory_that_is_short_is_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
