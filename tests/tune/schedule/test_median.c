// test_median.c: the median stopping rule against all means, sorted at every report.
#include "simulate.h"

typedef struct rule {
    int grace, samples, limit;
    int stops;
} rule;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const simulated_trial *of, int reports)
{
    double sum = 0;
    int numbers = 0;
    for (int r = 1; r <= reports; r++) {
        if (!isnan(of->scores[r])) {
            sum += of->scores[r];
            numbers++;
        }
    }
    return numbers == 0 ? (double)INFINITY : sum / numbers;
}

static void compare(simulation *self, const simulated_call *call)
{
    rule *how = self->user;
    if (call->kind != CALL_DECIDE)
        return;
    int report = call->progress.report, count = 0;
    const simulated_trial *of = &self->all[call->trial];
    double means[SIMULATE_TRIALS], best = (double)INFINITY;
    for (int i = 0; i < self->count; i++) {
        if (i != call->trial && self->all[i].reports >= report)
            means[count++] = mean_of(&self->all[i], report);
    }
    for (int r = 1; r <= report; r++)
        best = fmin(best, of->scores[r]);
    qsort(means, (size_t)count, sizeof *means, by_value);
    troupe_act expected = TROUPE_ACT_GO_ON;
    if (report >= how->grace && count >= how->samples) {
        double median = (means[(count - 1) / 2] + means[count / 2]) / 2;
        if (best > median)
            expected = TROUPE_ACT_STOP;
    }
    if (how->limit > 0 && report >= how->limit)
        expected = TROUPE_ACT_END;
    assert_int_equal(call->verdict.act, expected);
    how->stops += expected == TROUPE_ACT_STOP;
}

static void test_it_is_the_median_of_all_means(void **state)
{
    (void)state;
    int stops = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        trp_random random;
        trp_random_seed(&random, seed, 3);
        rule how = {.grace = (int)trp_random_below(&random, 5),
                    .samples = (int)trp_random_below(&random, 5)};
        how.limit = seed % 2 == 0 ? 0 : 1 + (int)trp_random_below(&random, 20);
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)trp_random_below(&random, 9);
        self->trials = 1 + (int)trp_random_below(&random, 40);
        self->epochs = 12;
        self->fails = seed % 5 == 0 ? 0.05 : 0;
        self->nans = seed % 3 == 0 ? 0.3 : 0;
        self->ties = 0.5;
        self->starved = seed % 4 == 0;
        self->watch = compare;
        self->user = &how;
        self->scheduler =
            troupe_median(.grace = how.grace, .samples = how.samples, .limit = how.limit);
        how.grace = how.grace == 0 ? 1 : how.grace;
        how.samples = how.samples == 0 ? 3 : how.samples;
        simulate(self);
        troupe_scheduler_free(&self->scheduler);
        troupe_scheduler *other =
            troupe_median(.grace = how.grace, .samples = how.samples, .limit = how.limit);
        simulate_again(self, other);
        troupe_scheduler_free(&other);
        simulate_free(self);
        stops += how.stops;
    }
    assert_true(stops > 500);
}

static troupe_act decide(troupe_scheduler *median, int trial, int report, double score)
{
    troupe_progress progress = {
        .size = sizeof progress, .trial = trial, .report = report, .score = score};
    troupe_verdict verdict = {.size = sizeof verdict};
    assert_int_equal(median->decide(median, &progress, &verdict), TROUPE_OK);
    return verdict.act;
}

static void test_by_hand(void **state)
{
    (void)state;
    troupe_scheduler *median = troupe_median(.samples = 2);
    assert_string_equal(median->describe, "median (grace 1, samples 2)");
    assert_int_equal(decide(median, 0, 1, 4), TROUPE_ACT_GO_ON);   // Nobody to compare with.
    assert_int_equal(decide(median, 1, 1, 9), TROUPE_ACT_GO_ON);   // One.
    assert_int_equal(decide(median, 2, 1, 6.5), TROUPE_ACT_GO_ON); // As good as (4 + 9) / 2.
    assert_int_equal(decide(median, 3, 1, 7), TROUPE_ACT_STOP);    // Worse than 6.5.
    assert_int_equal(decide(median, 0, 2, 2), TROUPE_ACT_GO_ON);   // Mean 3.
    assert_int_equal(decide(median, 1, 2, 1), TROUPE_ACT_GO_ON);   // Mean 5.
    assert_int_equal(decide(median, 2, 2, 3.9), TROUPE_ACT_GO_ON); // Best 3.9, median 4.
    troupe_scheduler_free(&median);

    median = troupe_median(.grace = 2, .samples = 1, .limit = 3);
    assert_string_equal(median->describe, "median (grace 2, samples 1, limit 3)");
    assert_int_equal(median->decides_at(median, 0, 0), 2);
    assert_int_equal(median->decides_at(median, 0, 2), 3);
    double nan = (double)NAN;
    assert_int_equal(decide(median, 0, 1, 1), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(median, 0, 2, 1), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(median, 1, 1, nan), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(median, 1, 2, nan), TROUPE_ACT_STOP); // It has no best.
    assert_int_equal(decide(median, 0, 3, 1), TROUPE_ACT_END);
    troupe_scheduler_free(&median);
}

static void test_options_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_refused(troupe_median(.grace = -1), TROUPE_INVALID,
                   "median: grace is -1, must be at least 1");
    assert_refused(troupe_median(.samples = -1), TROUPE_INVALID,
                   "median: samples is -1, must be at least 1");
    assert_refused(troupe_median(.limit = -1), TROUPE_INVALID,
                   "median: limit is -1, must be at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_median_of_all_means),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
