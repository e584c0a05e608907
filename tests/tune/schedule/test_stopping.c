// test_stopping.c: each condition by hand, and beside other schedulers.
#include "simulate.h"

static troupe_act decide(troupe_scheduler *scheduler, int trial, int report, double score)
{
    troupe_progress progress = {.size = sizeof progress,
                                .trial = trial,
                                .report = report,
                                .score = score,
                                .elapsed_s = report * 2.0};
    troupe_verdict verdict = {.size = sizeof verdict};
    assert_int_equal(scheduler->decide(scheduler, &progress, &verdict), TROUPE_OK);
    return verdict.act;
}

// How many reports of these scores a trial makes until it ends; 0: it does not.
static int ends_after(const troupe_stop_when *when, const double *scores, int count)
{
    troupe_scheduler *stopping = troupe_stopping(NULL, when);
    assert_int_equal(stopping->refusal, TROUPE_OK);
    int report = 1;
    while (report <= count && decide(stopping, 5, report, scores[report - 1]) == TROUPE_ACT_GO_ON)
        report++;
    troupe_scheduler_free(&stopping);
    return report <= count ? report : 0;
}

#define WHEN(...)                                                                                  \
    &(troupe_stop_when)                                                                            \
    {                                                                                              \
        .size = sizeof(troupe_stop_when), __VA_ARGS__                                              \
    }

static bool below_three(void *user, const troupe_progress *progress)
{
    ++*(int *)user;
    return progress->score < 3;
}

static void test_each_condition_by_hand(void **state)
{
    (void)state;
    double nan = (double)NAN;
    const double falling[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    assert_int_equal(ends_after(WHEN(.reports = 4), falling, 10), 4);
    assert_int_equal(ends_after(WHEN(.elapsed_s = 9), falling, 10), 5);
    assert_int_equal(ends_after(WHEN(.patience = 1), falling, 10), 0);
    assert_int_equal(ends_after(WHEN(.patience = 2, .margin = 2), falling, 10), 3);
    assert_int_equal(ends_after(WHEN(.patience = 2, .margin = 1), falling, 10), 0);
    assert_int_equal(ends_after(WHEN(.patience = 2, .margin = 0.5), falling, 10), 0);
    int asked = 0;
    assert_int_equal(ends_after(WHEN(.predicate = below_three, .user = &asked), falling, 10), 8);
    assert_int_equal(asked, 8);

    const double flat[] = {5, 4, 4.5, 4.25, 4.125, 4.125, 4.125};
    assert_int_equal(ends_after(WHEN(.patience = 3), flat, 7), 5);
    assert_int_equal(ends_after(WHEN(.patience = 3, .grace = 7), flat, 7), 7);
    // Deviations of three: .408, .204, .156, .059, 0.
    assert_int_equal(ends_after(WHEN(.plateau = 3, .deviation = 0.16), flat, 7), 5);
    assert_int_equal(ends_after(WHEN(.plateau = 3, .deviation = 0.05), flat, 7), 7);
    assert_int_equal(ends_after(WHEN(.plateau = 7, .deviation = 9), flat, 7), 7);
    assert_int_equal(ends_after(WHEN(.plateau = 3, .deviation = 9), flat, 7), 3);

    const double odd[] = {nan, nan, 3, nan, 2, nan, nan};
    assert_int_equal(ends_after(WHEN(.patience = 2), odd, 7), 7);
    assert_int_equal(ends_after(WHEN(.plateau = 2, .deviation = 9), odd, 7), 0);
}

static void test_it_says_where_it_decides(void **state)
{
    (void)state;
    troupe_scheduler *stopping =
        troupe_stopping(troupe_asha(.reduction = 3, .limit = 27), WHEN(.reports = 5));
    assert_int_equal(stopping->limit, 5);
    assert_string_equal(stopping->describe,
                        "ASHA (grace 1, reduction 3, limit 27), ending after (5 reports)");
    const int expected[] = {1, 3, 3, 5, 5, 6, 7};
    for (int after = 0; after < 7; after++)
        assert_int_equal(stopping->decides_at(stopping, 0, after), expected[after]);
    troupe_scheduler_free(&stopping);

    stopping = troupe_stopping(
        NULL, WHEN(.patience = 2, .grace = 4, .margin = 0.5, .plateau = 3, .deviation = 0.1));
    assert_string_equal(stopping->describe, "FIFO, ending after (patience 2 by 0.5, plateau 3 "
                                            "below 0.1, grace 4)");
    assert_int_equal(stopping->decides_at(stopping, 0, 0), 4);
    assert_int_equal(stopping->decides_at(stopping, 0, 4), 5);
    troupe_scheduler_free(&stopping);
}

// A trial that the inner one would pause ends, and is waited for by nobody.
static void test_beside_others(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        simulation *self = simulation_new(seed);
        self->workers = 1 + (int)(seed % 5);
        self->trials = 1 + (int)(seed % 40);
        self->fails = seed % 2 == 0 ? 0.05 : 0;
        self->starved = seed % 3 == 0;
        troupe_scheduler *made[2];
        for (int i = 0; i < 2; i++) {
            troupe_scheduler *inner =
                seed % 4 < 2 ? troupe_hyperband(.limit = 27)
                             : troupe_asha(.reduction = 3, .limit = 27, .promote = true);
            made[i] =
                troupe_stopping(inner, seed % 4 % 2 == 0 ? WHEN(.reports = 9)
                                                         : WHEN(.patience = 3, .plateau = 4,
                                                                .deviation = 0.1, .grace = 4));
        }
        self->scheduler = made[0];
        simulate(self);
        for (int i = 0; seed % 2 == 0 && i < self->count; i++)
            assert_true(self->all[i].reports <= 27);
        simulate_again(self, made[1]);
        troupe_scheduler_free(&made[0]);
        troupe_scheduler_free(&made[1]);
        simulate_free(self);
    }
}

// At the same report the inner one's word holds: stopped is not ended as if by itself.
static void test_the_inner_one_is_heard_first(void **state)
{
    (void)state;
    troupe_scheduler *stopping =
        troupe_stopping(troupe_asha(.reduction = 2, .limit = 8), WHEN(.reports = 2));
    assert_int_equal(decide(stopping, 0, 1, 1), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(stopping, 0, 2, 1), TROUPE_ACT_END);
    assert_int_equal(decide(stopping, 1, 1, 0), TROUPE_ACT_GO_ON);
    assert_int_equal(decide(stopping, 1, 2, 3), TROUPE_ACT_STOP);
    troupe_scheduler_free(&stopping);
}

static void test_what_is_wrong_is_refused(void **state)
{
    (void)state;
    const char *none = "stopping: set one of reports, elapsed_s, patience, plateau and predicate";
    assert_refused(troupe_stopping(NULL, NULL), TROUPE_INVALID, none);
    assert_refused(troupe_stopping(troupe_asha(.grace = 1), WHEN(.grace = 1)), TROUPE_INVALID,
                   none);
    assert_refused(troupe_stopping(NULL, WHEN(.reports = -1)), TROUPE_INVALID,
                   "stopping: reports is -1, must be at least 0");
    assert_refused(troupe_stopping(NULL, WHEN(.patience = -1)), TROUPE_INVALID,
                   "stopping: patience is -1, must be at least 0");
    assert_refused(troupe_stopping(NULL, WHEN(.elapsed_s = -1)), TROUPE_INVALID,
                   "stopping: elapsed_s is -1, must be at least 0");
    assert_refused(troupe_stopping(NULL, WHEN(.patience = 1, .margin = -0.5)), TROUPE_INVALID,
                   "stopping: margin is -0.5, must be at least 0");
    assert_refused(troupe_stopping(NULL, WHEN(.plateau = 3)), TROUPE_INVALID,
                   "stopping: a plateau is of 2 scores or more with a deviation below one that is "
                   "above 0, not of 3 below 0");
    // What is wrong with the inner one is said as its own.
    assert_refused(troupe_stopping(troupe_asha(.grace = -1), WHEN(.reports = 1)), TROUPE_INVALID,
                   "asha: grace is -1, must be at least 1");
    troupe_scheduler other = {.abi = TROUPE_ABI + 1};
    troupe_scheduler *refused = troupe_stopping(&other, WHEN(.reports = 1));
    assert_int_equal(refused->refusal, TROUPE_VERSION);
    troupe_scheduler_free(&refused);
    other = (troupe_scheduler){.abi = TROUPE_ABI};
    assert_refused(troupe_stopping(&other, WHEN(.reports = 1)), TROUPE_INVALID,
                   "stopping: the scheduler beside it has no decide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_condition_by_hand),
        cmocka_unit_test(test_it_says_where_it_decides),
        cmocka_unit_test(test_beside_others),
        cmocka_unit_test(test_the_inner_one_is_heard_first),
        cmocka_unit_test(test_what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
