// test_ranking.c: a ranking against an array that is sorted, and how many entries it looks at.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <support.h>
#include <tune/schedule/ranking.h>
#include <tune/space/random.h>

static int in_order(const void *a, const void *b)
{
    const trp_ranked *x = a, *y = b;
    if (isnan(x->score) || isnan(y->score)) {
        if (isnan(x->score) != isnan(y->score))
            return isnan(x->score) - isnan(y->score);
    } else if (x->score != y->score) {
        return x->score < y->score ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

static void assert_same(trp_ranking *ranking, trp_ranked *entries, size_t count)
{
    qsort(entries, count, sizeof *entries, in_order);
    assert_int_equal(ranking->count, count);
    for (size_t i = 0; i < count; i++) {
        trp_ranked at = trp_ranking_at(ranking, i);
        assert_int_equal(at.id, entries[i].id);
        assert_int_equal(trp_ranking_place(ranking, entries[i].score, entries[i].id), i);
        size_t better = i;
        while (better > 0 && (entries[better - 1].score == entries[i].score ||
                              (isnan(entries[better - 1].score) && isnan(entries[i].score))))
            better--;
        assert_int_equal(trp_ranking_better(ranking, entries[i].score), better);
    }
}

static void test_it_is_as_if_sorted(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 5, 0);
    for (int round = 0; round < 200; round++) {
        trp_ranking ranking = {0};
        trp_ranked entries[64];
        size_t count = 0;
        uint64_t values = 1 + trp_random_below(&random, 30);
        for (int step = 0; step < 150; step++) {
            double score = trp_random_below(&random, 12) == 0
                               ? (double)NAN
                               : (double)trp_random_below(&random, values) - 3;
            uint64_t what = trp_random_below(&random, 5);
            if (what < 3 && count < 64) {
                entries[count] = (trp_ranked){score, round * 1000 + step};
                assert_true(trp_ranking_add(&ranking, score, entries[count].id));
                count++;
            } else if (what == 3 && count > 0) {
                size_t at = trp_random_below(&random, count);
                trp_ranking_move(&ranking, entries[at].score, entries[at].id, score);
                entries[at].score = score;
            } else if (count > 0) {
                size_t at = trp_random_below(&random, count);
                assert_true(trp_ranking_remove(&ranking, entries[at].score, entries[at].id));
                assert_false(trp_ranking_remove(&ranking, entries[at].score, entries[at].id));
                entries[at] = entries[--count];
            }
            if (step % 10 == 0)
                assert_same(&ranking, entries, count);
        }
        assert_same(&ranking, entries, count);
        trp_ranking_free(&ranking);
        assert_int_equal(ranking.count, 0);
    }
}

static void test_infinities_have_their_places(void **state)
{
    (void)state;
    trp_ranking ranking = {0};
    trp_ranked entries[] = {{(double)INFINITY, 0}, {(double)NAN, 1}, {-(double)INFINITY, 2},
                            {(double)NAN, 0},      {0.0, 3},         {-0.0, 2}};
    for (size_t i = 0; i < 6; i++)
        assert_true(trp_ranking_add(&ranking, entries[i].score, entries[i].id));
    assert_same(&ranking, entries, 6);
    assert_int_equal(trp_ranking_better(&ranking, (double)NAN), 4);
    trp_ranking_free(&ranking);
}

// What one addition, question and removal look at, on average.
static double steps_of(int entries)
{
    trp_ranking ranking = {0};
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int i = 0; i < entries; i++)
        assert_true(trp_ranking_add(&ranking, trp_random_unit(&random), i));
    uint64_t before = trp_ranking_steps;
    enum { TIMES = 1000 };
    for (int i = 0; i < TIMES; i++) {
        double score = trp_random_unit(&random);
        assert_true(trp_ranking_add(&ranking, score, entries));
        trp_ranking_better(&ranking, score);
        trp_ranking_at(&ranking, trp_random_below(&random, (uint64_t)entries));
        assert_true(trp_ranking_remove(&ranking, score, entries));
    }
    double steps = (double)(trp_ranking_steps - before) / TIMES;
    trp_ranking_free(&ranking);
    return steps;
}

static void test_it_looks_at_few(void **state)
{
    (void)state;
    double hundred = steps_of(100), thousands = steps_of(100000);
    print_message("entries looked at: %.1f of 100, %.1f of 100,000\n", hundred, thousands);
    // Four walks. A list would take 100,000 steps, a skip list about 4 / 2 * log_4(n) each.
    assert_true(hundred > 4 && thousands < 160);
    assert_true(thousands < 4 * hundred);
}

static void test_without_memory_nothing_changes(void **state)
{
    (void)state;
    trp_ranking ranking = {0};
    assert_true(trp_ranking_add(&ranking, 1, 1));
    trp_memory_fail_after(0);
    assert_false(trp_ranking_add(&ranking, 2, 2));
    trp_ranking_move(&ranking, 1, 1, 3); // Needs none.
    trp_memory_fail_after(-1);
    assert_int_equal(ranking.count, 1);
    assert_true(trp_ranking_at(&ranking, 0).score == 3);
    trp_ranking_free(&ranking);
    assert_false(trp_ranking_remove(&ranking, 3, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_as_if_sorted),
        cmocka_unit_test(test_infinities_have_their_places),
        cmocka_unit_test(test_it_looks_at_few),
        cmocka_unit_test(test_without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
