// test_study_clock.c: how long a trial has run goes by the study's clock.
#include "study_tests.h"

#include <tune/study/study_parts.h>

static double now_s;

static double clock_s(void)
{
    return now_s;
}

static void test_a_trial_ends_by_the_clock(void **state)
{
    (void)state;
    troupe_study *study;
    troupe_asked asked;
    troupe_act act;
    const troupe_stop_when late = {.size = sizeof late, .elapsed_s = 3600};
    ok(troupe_study_open(space, &study, .trials = 1, .searcher = troupe_search_random(),
                         .scheduler = troupe_stopping(NULL, &late), .file = path));
    study->now_s = clock_s;
    now_s = 5000;
    ok(troupe_study_ask(study, &asked));
    now_s += 3599;
    ok(troupe_study_report(study, asked.number, 1, &act));
    assert_int_equal(act, TROUPE_ACT_GO_ON);
    now_s += 1;
    ok(troupe_study_report(study, asked.number, 1, &act));
    assert_int_equal(act, TROUPE_ACT_END);
    troupe_study_free(&study);
    char *record = support_read_file(path);
    assert_non_null(strstr(record, "\"elapsed_s\": 3599"));
    assert_non_null(strstr(record, "\"elapsed_s\": 3600"));
    free(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_trial_ends_by_the_clock)};
    return cmocka_run_group_tests(tests, open_study_tests, close_study_tests);
}
