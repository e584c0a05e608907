// test_tpe_split.c: which trials TPE takes for good ones: by scores, by how far they came, by what
// they violate, by fronts; and at which budget.
#include <points.h>
#include <runtime/base/memory.h>
#include <tune/search/fronts.h>
#include <tune/search/tpe_split.h>

enum { MOST = 400 };

static trp_tpe_trial *added(trp_tpe_trials *trials, int number, trp_tpe_state state, double score)
{
    assert_int_equal(trp_tpe_reserve(trials), TROUPE_OK);
    trp_tpe_add(trials, number);
    int row = trp_tpe_find(trials, number);
    trials->rows[row].state = state;
    for (size_t i = 0; i < trials->objectives; i++)
        trials->scores[(size_t)row * trials->objectives + i] = score;
    return &trials->rows[row];
}

static int good_ones(const trp_tpe_trials *trials, const uint8_t *roles)
{
    int good = 0;
    for (size_t i = 0; i < trials->count; i++)
        good += roles[i] == TRP_TPE_GOOD;
    return good;
}

static void test_a_tenth_is_good(void **state)
{
    (void)state;
    assert_int_equal(trp_tpe_good(0, 1), 0);
    assert_int_equal(trp_tpe_good(1, 1), 1);
    assert_int_equal(trp_tpe_good(10, 1), 1);
    assert_int_equal(trp_tpe_good(11, 1), 2);
    assert_int_equal(trp_tpe_good(249, 1), 25);
    assert_int_equal(trp_tpe_good(1000, 1), 25);
    assert_int_equal(trp_tpe_good(1000, 2), 100);
}

// The best tenth of random scores, of which many are equal: the older is before the younger.
static void test_the_best_are_good(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int n = 1; n < MOST; n += 13) {
        trp_tpe_trials trials = {.objectives = 1};
        uint8_t roles[MOST];
        for (int i = 0; i < n; i++)
            added(&trials, i, TRP_TPE_COMPLETE, (double)trp_random_below(&random, 40));
        assert_int_equal(trp_tpe_split(&trials, 0, true, roles), TROUPE_OK);
        for (int i = 0; i < n; i++) {
            size_t before = 0;
            for (int j = 0; j < n; j++)
                before += trials.scores[j] < trials.scores[i] ||
                          (trials.scores[j] == trials.scores[i] && j < i);
            assert_int_equal(roles[i],
                             before < trp_tpe_good((size_t)n, 1) ? TRP_TPE_GOOD : TRP_TPE_BAD);
        }
        trp_tpe_close(&trials);
    }
}

static void test_the_order_of_endings(void **state)
{
    (void)state;
    trp_tpe_trials trials = {.objectives = 1};
    uint8_t roles[64];
    // In the order in which they are good: complete, stopped late, stopped early, violating.
    added(&trials, 7, TRP_TPE_COMPLETE, 100);
    added(&trials, 6, TRP_TPE_STOPPED, 5)->reports = 9;
    added(&trials, 5, TRP_TPE_STOPPED, (double)NAN)->reports = 9;
    added(&trials, 4, TRP_TPE_STOPPED, 1)->reports = 3;
    added(&trials, 3, TRP_TPE_COMPLETE, 0)->violation = 0.5;
    added(&trials, 2, TRP_TPE_STOPPED, 0)->violation = 2;
    added(&trials, 1, TRP_TPE_RUNS, (double)NAN);
    added(&trials, 0, TRP_TPE_NOTHING, (double)NAN);
    for (int fill = 0; fill < 48; fill++) // So that up to five of them are good.
        added(&trials, 100 + fill, TRP_TPE_COMPLETE, 0)->violation = 10 + fill;
    for (int good = 1; good <= 5; good++) {
        trials.count = 8 + (size_t)(good - 1) * 10; // 6 + 10 (good - 1) that have ended.
        assert_int_equal(trp_tpe_split(&trials, 0, true, roles), TROUPE_OK);
        for (int i = 0; i < 6; i++)
            assert_int_equal(roles[i], i < good ? TRP_TPE_GOOD : TRP_TPE_BAD);
        assert_int_equal(roles[6], TRP_TPE_BAD); // The liar.
        assert_int_equal(roles[7], TRP_TPE_LEFT_OUT);
    }
    assert_int_equal(trp_tpe_split(&trials, 0, false, roles), TROUPE_OK);
    assert_int_equal(roles[6], TRP_TPE_LEFT_OUT);
    trials.count = 56;
    trp_tpe_close(&trials);
}

static void test_several_objectives_go_by_fronts(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 2, 0);
    for (int n = 5; n < 200; n += 27) {
        trp_tpe_trials trials = {.objectives = 2};
        uint8_t roles[200];
        int ranks[200], last = -1, chosen[200];
        double front[400], reference[2];
        for (int i = 0; i < n; i++) {
            added(&trials, i, TRP_TPE_COMPLETE, 0);
            trials.scores[2 * i] = trp_random_unit(&random);
            trials.scores[2 * i + 1] = trp_random_unit(&random);
        }
        assert_int_equal(trp_tpe_split(&trials, 0, true, roles), TROUPE_OK);
        assert_int_equal(trp_fronts(trials.scores, NULL, (size_t)n, 2, ranks), TROUPE_OK);
        int wanted = (int)trp_tpe_good((size_t)n, 2), before = 0, members = 0;
        assert_int_equal(good_ones(&trials, roles), wanted);
        for (int i = 0; i < n; i++)
            if (roles[i] == TRP_TPE_GOOD && ranks[i] > last)
                last = ranks[i];
        for (int i = 0; i < n; i++) { // Those of earlier fronts all; of the last some.
            assert_true(ranks[i] >= last || roles[i] == TRP_TPE_GOOD);
            before += ranks[i] < last;
            if (ranks[i] == last) {
                front[2 * members] = trials.scores[2 * i];
                front[2 * members++ + 1] = trials.scores[2 * i + 1];
            }
        }
        trp_hypervolume_reference(front, (size_t)members, 2, reference);
        assert_int_equal(trp_hypervolume_choose(front, (size_t)members, 2, reference,
                                                (size_t)(wanted - before), chosen),
                         TROUPE_OK);
        for (int k = 0; k < wanted - before; k++)
            for (int i = 0; i < n; i++)
                if (trials.scores[2 * i] == front[2 * chosen[k]])
                    assert_int_equal(roles[i], TRP_TPE_GOOD);
        trp_tpe_close(&trials);
    }
}

static void test_stopped_ones_follow_the_fronts(void **state)
{
    (void)state;
    trp_tpe_trials trials = {.objectives = 2};
    uint8_t roles[32];
    added(&trials, 0, TRP_TPE_COMPLETE, 3);
    for (int i = 1; i < 21; i++)
        added(&trials, i, TRP_TPE_STOPPED, 1)->reports = i;
    assert_int_equal(trp_tpe_split(&trials, 0, true, roles), TROUPE_OK);
    for (int i = 0; i < 21; i++)
        assert_int_equal(roles[i] == TRP_TPE_GOOD, i == 0 || i >= 19);
    trp_tpe_close(&trials);
}

static void test_budgets(void **state)
{
    (void)state;
    trp_tpe_trials trials = {.objectives = 1};
    uint8_t roles[16];
    assert_int_equal(trp_tpe_budget(&trials, 3), 0);
    for (int i = 0; i < 12; i++) {
        added(&trials, i, i < 6 ? TRP_TPE_STOPPED : TRP_TPE_RUNS, (double)NAN);
        for (int report = 1; report <= 12 - i; report++) // Later ones are better, but shorter.
            assert_int_equal(trp_tpe_report_add(&trials.rows[i], report, 100 - 10 * i - report),
                             TROUPE_OK);
    }
    assert_int_equal(trp_tpe_budget(&trials, 1), 12);
    assert_int_equal(trp_tpe_budget(&trials, 5), 8);
    assert_int_equal(trp_tpe_budget(&trials, 12), 1);
    assert_int_equal(trp_tpe_budget(&trials, 13), 0);
    assert_int_equal(trp_tpe_split(&trials, 8, false, roles), TROUPE_OK);
    for (int i = 0; i < 12; i++) // Five have come to 8 reports, of which the last is the best.
        assert_int_equal(roles[i], i == 4 ? TRP_TPE_GOOD : i < 5 ? TRP_TPE_BAD : TRP_TPE_LEFT_OUT);
    assert_int_equal(trp_tpe_split(&trials, 8, true, roles), TROUPE_OK);
    assert_int_equal(roles[5], TRP_TPE_LEFT_OUT); // It was stopped before.
    assert_int_equal(roles[8], TRP_TPE_BAD);      // It runs.
    assert_int_equal(trp_tpe_split(&trials, 1, true, roles), TROUPE_OK);
    assert_int_equal(roles[11], TRP_TPE_GOOD);
    assert_int_equal(roles[10], TRP_TPE_GOOD);
    assert_int_equal(good_ones(&trials, roles), 2);
    // A report that does not rise is none; one that is left out counts as what was known then.
    trp_tpe_trial *odd = added(&trials, 50, TRP_TPE_RUNS, (double)NAN);
    assert_int_equal(trp_tpe_report_add(odd, 5, -1000), TROUPE_OK);
    assert_int_equal(trp_tpe_report_add(odd, 5, 1), TROUPE_OK);
    assert_int_equal(trp_tpe_report_add(odd, 20, 1), TROUPE_OK);
    assert_int_equal(trp_tpe_split(&trials, 8, true, roles), TROUPE_OK);
    assert_int_equal(roles[12], TRP_TPE_GOOD);
    trp_tpe_close(&trials);
}

static void test_numbers_are_found(void **state)
{
    (void)state;
    trp_tpe_trials trials = {.objectives = 1};
    const int numbers[] = {-3, 7, 2, 9, -5, 0};
    for (int i = 0; i < 6; i++)
        added(&trials, numbers[i], TRP_TPE_RUNS, 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(trp_tpe_find(&trials, numbers[i]), i);
    assert_int_equal(trp_tpe_find(&trials, 1), -1);
    assert_int_equal(trp_tpe_find(&trials, 10), -1);
    added(&trials, 7, TRP_TPE_RUNS, 0); // Given another point.
    assert_int_equal(trp_tpe_find(&trials, 7), 6);
    assert_int_equal(trials.rows[1].state, TRP_TPE_NOTHING);
    trp_tpe_close(&trials);
}

static void test_memory_may_be_short(void **state)
{
    (void)state;
    trp_tpe_trials trials = {.objectives = 2};
    uint8_t roles[64];
    for (int i = 0; i < 64; i++) {
        added(&trials, i, i < 50 ? TRP_TPE_COMPLETE : TRP_TPE_STOPPED, i % 7);
        trials.scores[2 * i + 1] = i % 11;
    }
    trp_memory_fail_after(0);
    assert_int_equal(trp_tpe_reserve(&trials), TROUPE_NO_MEMORY);
    assert_int_equal(trp_tpe_report_add(&trials.rows[0], 1, 1), TROUPE_NO_MEMORY);
    for (int after = 0;; after++) {
        trp_memory_fail_after(after);
        troupe_status status = trp_tpe_split(&trials, 0, true, roles);
        trp_memory_fail_after(-1);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(after < 60);
    }
    trp_tpe_close(&trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tenth_is_good),
        cmocka_unit_test(test_the_best_are_good),
        cmocka_unit_test(test_the_order_of_endings),
        cmocka_unit_test(test_several_objectives_go_by_fronts),
        cmocka_unit_test(test_stopped_ones_follow_the_fronts),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_numbers_are_found),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
