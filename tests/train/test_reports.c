// test_reports.c: reports of all ranks are put together in order, and commits wait for files.
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <train/commits.h>
#include <train/reports.h>

enum { NOTHING, FILES };

static troupe_status take(trp_reports *all, int rank, int number, int pending, double value,
                          const trp_open_report **whole)
{
    const trp_metric metric = {"value", value};
    trp_report report = {
        .rank = rank, .number = number, .metrics = {&metric, 1}, .pending = pending == FILES};
    return trp_reports_take(all, &report, whole);
}

static void test_a_report_is_whole_when_all_ranks_have_made_it(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 3, 10, false), TROUPE_OK);
    assert_int_equal(take(&all, 1, 11, FILES, 1, &whole), TROUPE_OK);
    assert_null(whole);
    assert_int_equal(take(&all, 1, 12, NOTHING, 1, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 0, 11, NOTHING, 0.5, &whole), TROUPE_OK);
    assert_null(whole);
    assert_int_equal(take(&all, 2, 11, FILES, 2, &whole), TROUPE_OK);
    assert_non_null(whole);
    assert_int_equal(whole->number, 11);
    assert_int_equal(whole->metric_count, 1);
    assert_true(whole->metrics[0].value == 0.5); // Rank 0's.
    assert_int_equal(whole->pending, 2);
    int rank, other;
    assert_true(trp_reports_uneven(&all, &rank, &other));
    assert_int_equal(rank, 1);
    assert_int_equal(other, 0);
    assert_int_equal(take(&all, 0, 12, FILES, 0, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 2, 12, NOTHING, 0, &whole), TROUPE_OK);
    assert_true(whole && whole->pending == 1);
    assert_false(trp_reports_uneven(&all, &rank, &other));
    trp_reports_free(&all);
}

static void test_what_is_not_the_next_one_is_refused(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0, false), TROUPE_OK);
    assert_int_equal(take(&all, 0, 2, NOTHING, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 0, 0, NOTHING, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 2, 1, NOTHING, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, -1, 1, NOTHING, 0, &whole), TROUPE_INVALID);
    assert_int_equal(take(&all, 0, 1, NOTHING, 0, &whole), TROUPE_OK);
    assert_int_equal(take(&all, 0, 1, NOTHING, 0, &whole), TROUPE_INVALID);
    trp_reports_free(&all);
}

static troupe_status take_from(trp_reports *all, int rank, int number, const char *source,
                               const trp_open_report **whole)
{
    const trp_metric metric = {"rank", rank};
    trp_report report = {
        .rank = rank, .number = number, .metrics = {&metric, (size_t)rank}, .source = source};
    return trp_reports_take(all, &report, whole);
}

static void test_all_ranks_give_a_report_the_same_source(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0, true), TROUPE_OK);
    assert_int_equal(take_from(&all, 1, 1, "validate", &whole), TROUPE_OK);
    assert_int_equal(take_from(&all, 1, 2, NULL, &whole), TROUPE_OK);
    assert_int_equal(take_from(&all, 0, 1, NULL, &whole), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "rank 0 made report 1 from '' and rank 1 "
                                                      "from 'validate'"));
    assert_int_equal(take_from(&all, 0, 1, "validate", &whole), TROUPE_OK);
    assert_string_equal(whole->source, "validate");
    assert_int_equal(take_from(&all, 0, 2, "validate", &whole), TROUPE_INVALID);
    assert_int_equal(take_from(&all, 0, 2, NULL, &whole), TROUPE_OK);
    assert_true(whole && whole->source == NULL);
    trp_reports_free(&all);
}

// D05.
static void test_metrics_of_all_ranks_are_kept_where_they_are_wanted(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0, true), TROUPE_OK);
    assert_int_equal(take_from(&all, 1, 1, NULL, &whole), TROUPE_OK);
    assert_int_equal(take_from(&all, 0, 1, NULL, &whole), TROUPE_OK);
    assert_int_equal(whole->metric_count, 0);
    assert_int_equal(whole->by_rank[0].count, 0);
    assert_int_equal(whole->by_rank[1].count, 1);
    assert_true(whole->by_rank[1].items[0].value == 1);
    assert_int_equal(trp_reports_start(&all, 2, 0, false), TROUPE_OK);
    assert_int_equal(take_from(&all, 1, 1, NULL, &whole), TROUPE_OK);
    assert_int_equal(take_from(&all, 0, 1, NULL, &whole), TROUPE_OK);
    assert_null(whole->by_rank);
    trp_reports_free(&all);
}

// One rank as far ahead as it may be, again and again: no report is lost or mixed up with another.
static void test_many_reports_may_be_open(void **state)
{
    (void)state;
    trp_reports all = {0};
    const trp_open_report *whole = NULL;
    assert_int_equal(trp_reports_start(&all, 2, 0, false), TROUPE_OK);
    int ahead = 0;
    for (int number = 1; number <= 500; number++) {
        while (ahead < number + TRP_REPORTS_OPEN - 2) {
            ahead++;
            assert_int_equal(take(&all, 0, ahead, FILES, ahead, &whole), TROUPE_OK);
        }
        assert_int_equal(take(&all, 0, ahead + 1, NOTHING, 0, &whole), TROUPE_INVALID);
        assert_int_equal(take(&all, 1, number, FILES, -1, &whole), TROUPE_OK);
        assert_non_null(whole);
        assert_int_equal(whole->number, number);
        assert_true(whole->metrics[0].value == number);
        assert_int_equal(whole->pending, 2);
    }
    trp_reports_free(&all);
}

// ---- the checkpoints of reports

static void written(trp_commits *commits, int rank, int number, const char *why)
{
    const trp_manifest_file file = {.path = "state", .size = 100 + (uint64_t)rank};
    trp_written word = {.rank = rank, .number = number, .torn = why != NULL, .why = why};
    if (!why)
        word.files = (troupe_array_trp_manifest_file){&file, 1};
    assert_int_equal(trp_commits_written(commits, &word), TROUPE_OK);
}

static void whole(trp_commits *commits, int number, int pending)
{
    const trp_metric metric = {"value", number};
    const trp_open_report report = {
        .number = number, .pending = pending, .metrics = &metric, .metric_count = 1};
    assert_int_equal(trp_commits_whole(commits, &report, &(trp_buffer){0}), TROUPE_OK);
}

static void test_commits_wait_for_all_files_and_keep_their_order(void **state)
{
    (void)state;
    trp_commits commits = {0};
    written(&commits, 1, 3, NULL); // Before the report is whole.
    assert_null(trp_commits_next(&commits));
    whole(&commits, 2, 0); // Without files: no commit.
    assert_null(trp_commits_next(&commits));
    whole(&commits, 3, 2);
    assert_null(trp_commits_next(&commits)); // A rank still writes.
    whole(&commits, 5, 2);
    written(&commits, 0, 5, NULL);
    written(&commits, 1, 5, "the disk is full");
    assert_null(trp_commits_next(&commits)); // 5 could be, but 3 comes first.
    written(&commits, 0, 3, NULL);
    trp_commit *first = trp_commits_next(&commits), *second = trp_commits_next(&commits);
    assert_non_null(first);
    assert_int_equal(first->number, 3);
    assert_false(first->torn);
    assert_int_equal(first->file_count, 2);
    assert_int_equal(first->files[0].rank, 1);
    assert_int_equal(first->files[1].rank, 0);
    assert_int_equal(first->files[1].size, 100);
    assert_true(first->metrics.count == 1 && first->metrics.items[0].value == 3);
    assert_non_null(second);
    assert_int_equal(second->number, 5);
    assert_true(second->torn);
    assert_string_equal(second->why, "the disk is full");
    assert_null(trp_commits_next(&commits));
    trp_commit_free(first);
    trp_commit_free(second);
    written(&commits, 0, 6, NULL);
    trp_commits_clear(&commits);
    assert_null(trp_commits_next(&commits));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_report_is_whole_when_all_ranks_have_made_it),
        cmocka_unit_test(test_what_is_not_the_next_one_is_refused),
        cmocka_unit_test(test_all_ranks_give_a_report_the_same_source),
        cmocka_unit_test(test_metrics_of_all_ranks_are_kept_where_they_are_wanted),
        cmocka_unit_test(test_many_reports_may_be_open),
        cmocka_unit_test(test_commits_wait_for_all_files_and_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
