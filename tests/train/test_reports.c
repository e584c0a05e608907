// test_reports.c: reports of all ranks are put together in order, and written as lines of JSON.
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <train/reports.h>

static troupe_status take(trp_reports *all, int rank, int number, trp_staged staged, double value,
                          const trp_open_report **whole)
{
    const trp_metric metric = {"value", value};
    const trp_manifest_file file = {
        .path = "state", .size = 100 + (uint64_t)rank, .digest = (uint64_t)number};
    trp_report report = {.rank = rank,
                         .number = number,
                         .metrics = {&metric, 1},
                         .staged = (int)staged,
                         .files = {&file, staged == TRP_STAGED_WHOLE},
                         .why = "the disk is full"};
    return trp_reports_take(all, &report, whole);
}

static void test_a_report_is_whole_when_all_ranks_have_made_it(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 3, 10), TROUPE_OK);
    assert_int_equal(take(&all, 1, 11, TRP_STAGED_WHOLE, 1, &whole), TROUPE_OK);
    assert_null(whole);
    assert_int_equal(take(&all, 1, 12, TRP_STAGED_NONE, 1, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 0, 11, TRP_STAGED_NONE, 0.5, &whole), TROUPE_OK);
    assert_null(whole);
    assert_int_equal(take(&all, 2, 11, TRP_STAGED_WHOLE, 2, &whole), TROUPE_OK);
    assert_non_null(whole);
    assert_int_equal(whole->number, 11);
    assert_int_equal(whole->metric_count, 1);
    assert_true(whole->metrics[0].value == 0.5); // Rank 0's.
    assert_false(whole->torn);
    assert_int_equal(whole->file_count, 2);
    assert_int_equal(whole->files[0].rank, 1);
    assert_int_equal(whole->files[1].rank, 2);
    assert_int_equal(whole->files[1].size, 102);
    int rank, other;
    assert_true(trp_reports_uneven(&all, &rank, &other));
    assert_int_equal(rank, 1);
    assert_int_equal(other, 0);
    assert_int_equal(take(&all, 0, 12, TRP_STAGED_TORN, 0, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 2, 12, TRP_STAGED_NONE, 0, &whole), TROUPE_OK);
    assert_true(whole && whole->torn && whole->file_count == 0);
    assert_string_equal(whole->why, "the disk is full");
    assert_false(trp_reports_uneven(&all, &rank, &other));
    trp_reports_free(&all);
}

static void test_what_is_not_the_next_one_is_refused(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0), TROUPE_OK);
    assert_int_equal(take(&all, 0, 2, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 0, 0, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 2, 1, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, -1, 1, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 0, 1, TRP_STAGED_NONE, 0, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 0, 1, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
    trp_reports_free(&all);
}

// One rank as far ahead as it may be, again and again: no report is lost or mixed up with another.
static void test_many_reports_may_be_open(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0), TROUPE_OK);
    int ahead = 0;
    for (int number = 1; number <= 500; number++) {
        while (ahead < number + TRP_REPORTS_OPEN - 2) {
            ahead++;
            assert_int_equal(take(&all, 0, ahead, TRP_STAGED_WHOLE, ahead, &whole), TROUPE_OK);
        }
        assert_int_equal(take(&all, 0, ahead + 1, TRP_STAGED_NONE, 0, &whole), TROUPE_INVALID);
        assert_int_equal(take(&all, 1, number, TRP_STAGED_WHOLE, -1, &whole), TROUPE_OK);
        assert_non_null(whole);
        assert_int_equal(whole->number, number);
        assert_true(whole->metrics[0].value == number);
        assert_int_equal(whole->file_count, 2);
        assert_int_equal(whole->files[0].digest, number);
    }
    trp_reports_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_report_is_whole_when_all_ranks_have_made_it),
        cmocka_unit_test(test_what_is_not_the_next_one_is_refused),
        cmocka_unit_test(test_many_reports_may_be_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
