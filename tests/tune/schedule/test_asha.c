// test_asha.c: the stopping rule against vectors made by hand and against a reference that sorts.
#include <math.h>
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <tune/schedule/ranking.h>
#include <tune/schedule/scheduler.h>
#include <tune/space/random.h>

static troupe_act decide(troupe_scheduler *scheduler, int trial, int number, double score)
{
    troupe_progress progress = {
        .size = sizeof progress, .trial = trial, .report = number, .score = score, .ranks = 1};
    troupe_verdict verdict = {.size = sizeof verdict, .act = TROUPE_ACT_GO_ON};
    assert_int_equal(scheduler->decide(scheduler, &progress, &verdict), TROUPE_OK);
    return verdict.act;
}

static void test_one_rung_by_hand(void **state)
{
    (void)state;
    troupe_scheduler *asha = troupe_asha(.grace = 1, .reduction = 3, .limit = 81);
    assert_non_null(asha);
    static const struct {
        double score;
        troupe_act decision;
    } arrivals[] = {
        {5, TROUPE_ACT_GO_ON},   // 1 of 1: somebody goes on always.
        {6, TROUPE_ACT_STOP},    // 2 of 2
        {4, TROUPE_ACT_GO_ON},   // 1 of 3
        {4.5, TROUPE_ACT_STOP},  // 2 of 4: one place
        {3, TROUPE_ACT_GO_ON},   // 1 of 5
        {3.5, TROUPE_ACT_GO_ON}, // 2 of 6: two places
        {3.9, TROUPE_ACT_STOP},  // 3 of 7
        {3.5, TROUPE_ACT_GO_ON}, // shares rank 2 of 8
        {3.6, TROUPE_ACT_STOP},  // rank 4 of 9: three places
        {3.4, TROUPE_ACT_GO_ON}, // 2 of 10
    };
    for (size_t i = 0; i < sizeof arrivals / sizeof *arrivals; i++)
        assert_int_equal(decide(asha, (int)i, 1, arrivals[i].score), arrivals[i].decision);
    troupe_scheduler_free(&asha);
    assert_null(asha);
}

static void test_rungs_lie_at_powers_of_the_reduction(void **state)
{
    (void)state;
    troupe_scheduler *asha = troupe_asha(.grace = 2, .reduction = 2, .limit = 20);
    // A trial that is best everywhere fills the rungs, a worse one is stopped where there is one.
    for (int number = 1; number < 20; number++)
        assert_int_equal(decide(asha, 0, number, 0), TROUPE_ACT_GO_ON);
    for (int number = 1; number < 20; number++) {
        bool rung = number == 2 || number == 4 || number == 8 || number == 16;
        assert_int_equal(decide(asha, 1, number, 1), rung ? TROUPE_ACT_STOP : TROUPE_ACT_GO_ON);
    }
    assert_int_equal(decide(asha, 0, 20, 0), TROUPE_ACT_END);
    assert_int_equal(decide(asha, 0, 21, 0), TROUPE_ACT_END);
    troupe_scheduler_free(&asha);
}

static void test_nan_is_the_worst(void **state)
{
    (void)state;
    troupe_scheduler *asha = troupe_asha(.grace = 1, .reduction = 2, .limit = 9);
    double nan = (double)NAN, infinity = (double)INFINITY;
    assert_int_equal(decide(asha, 0, 1, 1e300), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(asha, 1, 1, nan), TROUPE_ACT_STOP);
    assert_int_equal(decide(asha, 2, 1, infinity), TROUPE_ACT_STOP); // 2 of 3: one place
    assert_int_equal(decide(asha, 3, 1, infinity),
                     TROUPE_ACT_GO_ON); // shares rank 2 of 4: two places
    assert_int_equal(decide(asha, 4, 1, nan), TROUPE_ACT_STOP);
    assert_int_equal(decide(asha, 5, 1, -infinity), TROUPE_ACT_GO_ON);
    troupe_scheduler_free(&asha);

    // Even where half of all are NaN, none of them is among the best half.
    asha = troupe_asha(.grace = 1, .reduction = 2, .limit = 9);
    assert_int_equal(decide(asha, 0, 1, 1), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(asha, 1, 1, nan), TROUPE_ACT_STOP);
    assert_int_equal(decide(asha, 2, 1, 2), TROUPE_ACT_STOP);
    assert_int_equal(decide(asha, 3, 1, nan), TROUPE_ACT_STOP);
    troupe_scheduler_free(&asha);
}

// The rule written down once more, by sorting: the places are the first floor(n / reduction) of all
// scores so far, at least one; a score goes on if it is not worse than the last place.
static int by_score(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

static bool reference_goes_on(const double *recorded, size_t count, double score, int reduction)
{
    double sorted[512];
    memcpy(sorted, recorded, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_score);
    size_t places = count / (size_t)reduction;
    double last = sorted[places == 0 ? 0 : places - 1];
    return by_score(&score, &last) <= 0;
}

static void test_random_sequences_agree_with_the_reference(void **state)
{
    (void)state;
    trp_random random;
    trp_random_seed(&random, 1, 0);
    for (int round = 0; round < 300; round++) {
        int grace = 1 + (int)trp_random_below(&random, 3);
        int reduction = 2 + (int)trp_random_below(&random, 4);
        int limit = grace + (int)trp_random_below(&random, 100);
        int values = 1 + (int)trp_random_below(&random, 200); // Few of them make many ties.
        troupe_scheduler *asha =
            troupe_asha(.grace = grace, .reduction = reduction, .limit = limit);
        assert_non_null(asha);
        double recorded[8][512];
        size_t counts[8] = {0};
        int at[64] = {0}, trials = 1 + (int)trp_random_below(&random, 64);
        for (int step = 0; step < 400; step++) {
            int trial = (int)trp_random_below(&random, (uint64_t)trials);
            if (at[trial] < 0)
                continue; // Stopped.
            int number = ++at[trial];
            double score = (double)trp_random_below(&random, (uint64_t)values);
            if (trp_random_below(&random, 10) == 0)
                score = (double)NAN;
            troupe_act expected = number >= limit ? TROUPE_ACT_END : TROUPE_ACT_GO_ON;
            long long level = grace;
            for (int rung = 0; expected == TROUPE_ACT_GO_ON && level < limit;
                 rung++, level *= reduction) {
                if (level != number)
                    continue;
                recorded[rung][counts[rung]++] = score;
                if (!reference_goes_on(recorded[rung], counts[rung], score, reduction))
                    expected = TROUPE_ACT_STOP;
            }
            assert_int_equal(decide(asha, trial, number, score), expected);
            if (expected != TROUPE_ACT_GO_ON)
                at[trial] = -1;
        }
        troupe_scheduler_free(&asha);
    }
}

// A scheduler that could not be made says so at once, and keeps it for troupe_tune.
static void refused(troupe_scheduler *scheduler, const char *sentence)
{
    assert_non_null(scheduler);
    assert_int_equal(troupe_last_error()->status, TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, sentence);
    assert_int_equal(scheduler->refusal, TROUPE_INVALID);
    assert_string_equal(scheduler->describe, sentence);
    troupe_scheduler_free(&scheduler);
}

static void test_options_out_of_range_are_refused(void **state)
{
    (void)state;
    refused(troupe_asha(.grace = -1), "asha: grace is -1, must be at least 1");
    refused(troupe_asha(.reduction = 1), "asha: reduction is 1, must be at least 2");
    refused(troupe_asha(.grace = 10, .limit = 9),
            "asha: limit is 9, must be at least grace, which is 10");
    refused(troupe_asha(.limit = -5), "asha: limit is -5, must be at least grace, which is 1");

    troupe_scheduler *asha = troupe_asha(.grace = 0);
    assert_int_equal(asha->refusal, TROUPE_OK);
    assert_string_equal(asha->describe, "ASHA (grace 1, reduction 4, limit 100)");
    troupe_scheduler_free(&asha);
    asha = troupe_asha_with(NULL);
    assert_string_equal(asha->describe, "ASHA (grace 1, reduction 4, limit 100)");
    troupe_scheduler_free(&asha);
    // The longest of ladders fits.
    asha = troupe_asha(.grace = 1, .reduction = 2, .limit = 2147483647);
    assert_non_null(asha);
    troupe_scheduler_free(&asha);
    troupe_scheduler_free(&asha);
    troupe_scheduler_free(NULL);
}

static void test_short_memory_is_told(void **state)
{
    (void)state;
    trp_memory_fail_after(0);
    troupe_scheduler *asha = troupe_asha(.grace = 1);
    assert_int_equal(asha->refusal, TROUPE_NO_MEMORY);
    assert_int_equal(troupe_last_error()->status, TROUPE_NO_MEMORY);
    troupe_scheduler_free(&asha);
    asha = troupe_asha(.grace = -1); // Not even the sentence can be kept.
    assert_int_equal(asha->refusal, TROUPE_NO_MEMORY);
    troupe_scheduler_free(&asha);
    trp_memory_fail_after(-1);
    asha = troupe_asha(.grace = 1);
    troupe_progress progress = {.size = sizeof progress, .report = 1, .score = 1};
    troupe_verdict verdict = {.size = sizeof verdict};
    trp_memory_fail_after(0);
    assert_int_equal(asha->decide(asha, &progress, &verdict), TROUPE_NO_MEMORY);
    trp_memory_fail_after(-1);
    assert_int_equal(decide(asha, 0, 1, 1), TROUPE_ACT_GO_ON);
    troupe_scheduler_free(&asha);
}

static void test_fifo_stops_no_trial(void **state)
{
    (void)state;
    troupe_scheduler *fifo = trp_fifo();
    for (int number = 1; number < 1000; number++)
        assert_int_equal(decide(fifo, 0, number, number), TROUPE_ACT_GO_ON);
    troupe_scheduler_free(&fifo);
    assert_null(fifo);
    assert_int_equal(decide(trp_fifo(), 0, 1, 1), TROUPE_ACT_GO_ON);
}

// What a decision looks at grows with the logarithm of the trials that have come to the rung.
static double entries_a_decision(troupe_scheduler *asha, int trials)
{
    trp_random random;
    trp_random_seed(&random, 3, 0);
    uint64_t before = 0;
    for (int i = 0; i < trials; i++) {
        if (i == trials - 100)
            before = trp_ranking_steps;
        decide(asha, i, 1, trp_random_unit(&random));
    }
    troupe_scheduler_free(&asha);
    return (double)(trp_ranking_steps - before) / 100;
}

static void test_a_decision_looks_at_few_trials(void **state)
{
    (void)state;
    double few = entries_a_decision(troupe_asha(.reduction = 3), 200);
    double many = entries_a_decision(troupe_asha(.reduction = 3), 20000);
    double promoting = entries_a_decision(troupe_asha(.reduction = 3, .promote = true), 20000);
    double as_ray = entries_a_decision(troupe_asha(.reduction = 3, .as_ray = true), 20000);
    print_message("entries a decision: %.0f of 200, %.0f of 20,000; promoting %.0f, as Ray %.0f\n",
                  few, many, promoting, as_ray);
    assert_true(many > 2 && many < 4 * few && many < 200);
    assert_true(promoting < 300 && as_ray < 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rung_by_hand),
        cmocka_unit_test(test_rungs_lie_at_powers_of_the_reduction),
        cmocka_unit_test(test_nan_is_the_worst),
        cmocka_unit_test(test_random_sequences_agree_with_the_reference),
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_short_memory_is_told),
        cmocka_unit_test(test_fifo_stops_no_trial),
        cmocka_unit_test(test_a_decision_looks_at_few_trials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
