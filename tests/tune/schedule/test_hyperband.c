// test_hyperband.c: the paper's table, and simulated brackets against their rule by sorting.
#include "simulate.h"

#include <tune/schedule/hyperband.h>

// ---- the numbers

// Algorithm 1 with R = 81 and eta = 3: n_i trials that have r_i reports each, for s = 4 .. 0.
static void test_the_table_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        int trials[5], reports[5];
    } table[] = {
        {{81, 27, 9, 3, 1}, {1, 3, 9, 27, 81}},
        {{34, 11, 3, 1}, {3, 9, 27, 81}},
        {{15, 5, 1}, {9, 27, 81}},
        {{8, 2}, {27, 81}},
        {{5}, {81}},
    };
    assert_int_equal(trp_hyperband_brackets(81, 3, false), 5);
    for (int s = 4; s >= 0; s--) {
        trp_hyperband_plan plan;
        assert_true(trp_hyperband_plan_make(81, 3, false, s, &plan));
        assert_int_equal(plan.halvings, s);
        assert_memory_equal(plan.trials, table[4 - s].trials, (size_t)(s + 1) * sizeof(int));
        assert_memory_equal(plan.levels, table[4 - s].reports, (size_t)(s + 1) * sizeof(int));
    }
}

static void test_plans_of_other_limits(void **state)
{
    (void)state;
    for (int limit = 1; limit <= 2000; limit++) {
        for (int eta = 2; eta <= 5; eta++) {
            int kinds = trp_hyperband_brackets(limit, eta, false);
            assert_int_equal(kinds - 1, (int)floor(log(limit) / log(eta) + 1e-9));
            for (int s = 0; s < kinds; s++) {
                trp_hyperband_plan plan;
                assert_true(trp_hyperband_plan_make(limit, eta, false, s, &plan));
                assert_int_equal(plan.levels[s], limit);
                assert_int_equal(plan.trials[0], (int)ceil(kinds / (s + 1.0) * pow(eta, s)));
                assert_true(plan.trials[s] >= 1 && plan.levels[0] >= 1);
                for (int i = 0; i < s; i++)
                    assert_true(plan.levels[i + 1] >= eta * plan.levels[i]);
            }
        }
    }
    // The longest of ladders fits.
    troupe_scheduler *band = troupe_hyperband(.limit = 2147483647, .reduction = 2);
    assert_int_equal(band->refusal, TROUPE_OK);
    troupe_scheduler_free(&band);
}

// ---- brackets by sorting

typedef struct entry {
    int trial;
    double score;
} entry;

static int by_score(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (isnan(x->score) || isnan(y->score)) {
        if (isnan(x->score) != isnan(y->score))
            return isnan(x->score) - isnan(y->score);
        return x->trial - y->trial;
    }
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->trial - y->trial;
}

// Those that came to a rung, in order: of a bracket's trials, which are numbered one after the
// other, the ones that have made so many reports.
static int arrived(const simulation *self, int first, int end, int level, entry *into)
{
    int count = 0;
    for (int i = first; i < end; i++) {
        if (self->all[i].reports >= level)
            into[count++] = (entry){i, self->all[i].scores[level]};
    }
    qsort(into, (size_t)count, sizeof *into, by_score);
    return count;
}

// After the end: who has gone on from each rung, and who ended how. Where none fails.
static void assert_bracket(const simulation *self, const trp_hyperband_plan *plan, int first,
                           int end, int eta)
{
    entry here[SIMULATE_TRIALS];
    int entered = end - first;
    for (int i = 0; i < plan->halvings; i++) {
        int count = arrived(self, first, end, plan->levels[i], here);
        int keep = entered / eta < 1 ? 1 : entered / eta;
        assert_true(self->fails > 0 || self->nans > 0 || count == entered);
        for (int k = 0; k < count; k++) {
            const simulated_trial *of = &self->all[here[k].trial];
            if (k < keep && !isnan(here[k].score))
                assert_true(of->reports > plan->levels[i] || of->state == SIMULATED_FAILED);
            else
                assert_true(of->reports == plan->levels[i] &&
                            (of->state == SIMULATED_STOPPED || of->state == SIMULATED_FAILED));
        }
        entered = keep;
    }
    int count = arrived(self, first, end, plan->levels[plan->halvings], here);
    assert_true(count <= entered);
    for (int k = 0; k < count; k++)
        assert_int_equal(self->all[here[k].trial].state, SIMULATED_COMPLETE);
    if (self->fails == 0 && self->nans == 0)
        assert_int_equal(count, entered);
}

static void test_brackets_are_halved_as_the_paper(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        trp_random random;
        trp_random_seed(&random, seed, 9);
        int limit = 1 + (int)trp_random_below(&random, 30);
        int eta = 2 + (int)trp_random_below(&random, 3);
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)trp_random_below(&random, 12);
        self->trials = 1 + (int)trp_random_below(&random, 150);
        self->fails = seed % 3 == 0 ? 0.05 : 0;
        self->nans = seed % 4 == 0 ? 0.1 : 0;
        self->ties = 0.3;
        self->unknown = seed % 2 == 0;
        self->starved = seed % 7 == 0;
        self->scheduler = troupe_hyperband(.limit = limit, .reduction = eta);
        simulate(self);
        int kinds = trp_hyperband_brackets(limit, eta, false), s = kinds - 1;
        for (int first = 0; first < self->count; s = (s + kinds - 1) % kinds) {
            trp_hyperband_plan plan;
            trp_hyperband_plan_make(limit, eta, false, s, &plan);
            int end = first + plan.trials[0];
            assert_bracket(self, &plan, first, end > self->count ? self->count : end, eta);
            first = end;
        }
        troupe_scheduler_free(&self->scheduler);
        troupe_scheduler *other = troupe_hyperband(.limit = limit, .reduction = eta);
        simulate_again(self, other);
        troupe_scheduler_free(&other);
        simulate_free(self);
    }
}

static void test_one_band_has_the_budgets_of_the_table(void **state)
{
    (void)state;
    simulation *self = simulation_new(3);
    self->workers = 4;
    self->trials = 81 + 34 + 15 + 8 + 5;
    self->scheduler = troupe_hyperband(.limit = 81);
    assert_string_equal(self->scheduler->describe, "HyperBand (limit 81, reduction 3)");
    simulate(self);
    int reports = 0, complete = 0;
    for (int i = 0; i < self->count; i++) {
        reports += self->all[i].reports;
        complete += self->all[i].state == SIMULATED_COMPLETE;
    }
    // A trial goes on from its rung: a stage costs the difference of two levels.
    int expected = 81 * 1 + 27 * 2 + 9 * 6 + 3 * 18 + 1 * 54;
    expected += 34 * 3 + 11 * 6 + 3 * 18 + 1 * 54;
    expected += 15 * 9 + 5 * 18 + 1 * 54;
    expected += 8 * 27 + 2 * 54 + 5 * 81;
    assert_int_equal(reports, expected);
    assert_int_equal(complete, 1 + 1 + 1 + 2 + 5);
    troupe_scheduler_free(&self->scheduler);
    simulate_free(self);
}

static void test_failures_and_early_ends_hold_up_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)(seed % 9);
        self->trials = 1 + (int)(seed % 60);
        self->fails = (double)(seed % 4) * 0.15;
        self->epochs = seed % 3 == 0 ? 1 + (int)(seed % 8) : 0;
        self->scheduler = troupe_hyperband(.limit = 9, .reduction = seed % 2 == 0 ? 3 : 2);
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        simulate_free(self);
    }
}

// What is paused may end by other hands, whatever it waits for.
static void test_paused_ones_may_end(void **state)
{
    (void)state;
    troupe_scheduler *band = troupe_hyperband(.limit = 4, .reduction = 2); // 4 trials, 1 report.
    const double x[1] = {0};
    troupe_verdict verdict = {.size = sizeof verdict};
    for (int i = 0; i < 4; i++)
        assert_int_equal(band->added(band, i, x), TROUPE_OK);
    for (int i = 0; i < 3; i++) {
        troupe_progress progress = {.size = sizeof progress, .trial = i, .report = 1, .score = i};
        verdict.act = TROUPE_ACT_GO_ON;
        assert_int_equal(band->decide(band, &progress, &verdict), TROUPE_OK);
        assert_int_equal(verdict.act, TROUPE_ACT_PAUSE);
    }
    int trial;
    assert_int_equal(band->next(band, false, &trial, &verdict), TROUPE_BUSY);
    assert_int_equal(band->ended(band, 0, TROUPE_ENDING_FAILED), TROUPE_OK); // It waits.
    assert_int_equal(band->ended(band, 3, TROUPE_ENDING_FAILED), TROUPE_OK); // It runs.
    assert_int_equal(band->ended(band, 2, TROUPE_ENDING_FAILED), TROUPE_OK); // It goes on.
    assert_int_equal(band->next(band, false, &trial, &verdict), TROUPE_OK);
    assert_int_equal(trial, 1);
    assert_int_equal(band->next(band, false, &trial, &verdict), TROUPE_BUSY);
    assert_int_equal(band->ended(band, 1, TROUPE_ENDING_COMPLETE), TROUPE_OK);
    assert_int_equal(band->next(band, false, &trial, &verdict), TROUPE_END);
    assert_int_equal(band->next(band, true, &trial, &verdict), TROUPE_OK);
    assert_int_equal(trial, -1);
    troupe_scheduler_free(&band);
}

static void test_options_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_refused(troupe_hyperband(.reduction = 1), TROUPE_INVALID,
                   "hyperband: reduction is 1, must be at least 2");
    assert_refused(troupe_hyperband(.limit = -3), TROUPE_INVALID,
                   "hyperband: limit is -3, must be at least 1");
    trp_memory_fail_after(0);
    troupe_scheduler *none = troupe_hyperband(.limit = 9);
    trp_memory_fail_after(-1);
    assert_int_equal(none->refusal, TROUPE_NO_MEMORY);
    troupe_scheduler_free(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_table_of_the_paper),
        cmocka_unit_test(test_plans_of_other_limits),
        cmocka_unit_test(test_brackets_are_halved_as_the_paper),
        cmocka_unit_test(test_one_band_has_the_budgets_of_the_table),
        cmocka_unit_test(test_failures_and_early_ends_hold_up_nothing),
        cmocka_unit_test(test_paused_ones_may_end),
        cmocka_unit_test(test_options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
