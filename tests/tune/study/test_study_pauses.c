// test_study_pauses.c: studies whose schedulers pause trials, over many lives.
#include "study_tests.h"

static troupe_scheduler *halves(void)
{
    return troupe_hyperband(.limit = 9, .reduction = 3);
}

static troupe_scheduler *promotes(void)
{
    return troupe_asha(.grace = 1, .reduction = 3, .limit = 9, .promote = true);
}

static troupe_scheduler *has_brackets(void)
{
    return troupe_asha(.grace = 1, .reduction = 2, .limit = 8, .brackets = 3);
}

static troupe_scheduler *stops_below_the_median(void)
{
    return troupe_median(.grace = 2, .samples = 2, .limit = 9);
}

static troupe_scheduler *loses_patience(void)
{
    return troupe_stopping(troupe_asha(.grace = 2, .reduction = 2, .limit = 9),
                           &(troupe_stop_when){.size = sizeof(troupe_stop_when), .patience = 3});
}

enum { TRIALS = 30, REPORTS_MOST = 12 };

static troupe_study *opened(troupe_scheduler *(*scheduler)(void), const char *file)
{
    troupe_study *study = NULL;
    ok(troupe_study_open(space, &study, .trials = TRIALS, .scheduler = scheduler(), .file = file,
                         .searcher = troupe_search_random(), .seed = 5,
                         .open = file != NULL ? TROUPE_OPEN_RESUME_OR_NEW : TROUPE_OPEN_NEW));
    return study;
}

// Asks up to `asks` times, and does what it is told. False: there are no more.
static bool run(troupe_study *study, int asks)
{
    troupe_asked asked;
    for (int i = 0; i < asks; i++) {
        troupe_status status = troupe_study_ask(study, &asked);
        if (status == TROUPE_END)
            return false;
        ok(status);
        assert_int_equal(asked.again, asked.reports > 0);
        troupe_act act = TROUPE_ACT_GO_ON;
        double loss = loss_of(asked.config);
        int k = asked.reports;
        while (act == TROUPE_ACT_GO_ON && k < REPORTS_MOST) {
            k++;
            ok(troupe_study_report(study, asked.number, loss + 20.0 * cos(asked.number + k) / k,
                                   &act));
        }
        if (act == TROUPE_ACT_GO_ON)
            ok(troupe_study_tell(study, asked.number, loss));
    }
    return true;
}

static void lives(troupe_scheduler *(*scheduler)(void), int asks, bool pauses)
{
    int counts[5] = {0};
    unlink(path);
    troupe_study *whole = opened(scheduler, NULL), *parts = NULL;
    while (run(whole, 1))
        ;
    for (bool more = true; more;) {
        parts = opened(scheduler, path);
        more = run(parts, asks);
        if (more)
            troupe_study_free(&parts);
    }
    assert_same_trials(whole, parts);
    for (size_t i = 0; i < troupe_study_count(whole); i++)
        counts[troupe_study_trial_at(whole, i)->state]++;
    assert_int_equal(counts[TROUPE_STUDY_RUNNING], 0);
    assert_true(counts[TROUPE_STUDY_COMPLETE] > 0);
    assert_true(counts[TROUPE_STUDY_STOPPED] + counts[TROUPE_STUDY_PAUSED] > 5);
    assert_true(pauses || counts[TROUPE_STUDY_PAUSED] == 0);
    char *text = support_read_file(path);
    assert_true((strstr(text, "\"act\": \"pause\"") != NULL) == pauses);
    assert_true((strstr(text, "{\"event\": \"again\"") != NULL) == pauses);
    free(text);
    troupe_study_free(&whole);
    troupe_study_free(&parts);
}

static void test_hyperband(void **state)
{
    (void)state;
    lives(halves, 1, true);
    lives(halves, 7, true);
}

static void test_promotions(void **state)
{
    (void)state;
    lives(promotes, 1, true);
    lives(promotes, 7, true);
}

static void test_brackets(void **state)
{
    (void)state;
    lives(has_brackets, 1, false);
}

static void test_medians(void **state)
{
    (void)state;
    lives(stops_below_the_median, 1, false);
}

static void test_patience(void **state)
{
    (void)state;
    lives(loses_patience, 1, false);
}

// A population needs trials that clone others, which a program that asks and tells does not.
static void test_populations_are_for_sweeps(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    troupe_status status = TROUPE_OK;
    ok(troupe_study_open(space, &study, .trials = 8, .scheduler = troupe_pbt(.interval = 1)));
    for (int i = 0; i < 8; i++)
        ok(troupe_study_ask(study, &asked));
    for (int k = 0; k < 4 && status == TROUPE_OK; k++) {
        for (int i = 0; i < 8 && status == TROUPE_OK; i++)
            status = troupe_study_report(study, i, i, &act);
    }
    refused(status, TROUPE_UNSUPPORTED, "which only a sweep can do");
    troupe_study_free(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hyperband), cmocka_unit_test(test_promotions),
        cmocka_unit_test(test_brackets),  cmocka_unit_test(test_medians),
        cmocka_unit_test(test_patience),  cmocka_unit_test(test_populations_are_for_sweeps),
    };
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
