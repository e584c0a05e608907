// test_last_checkpoint.c: a run that is stopped ends with a checkpoint where its trainer saves when
// it is due.
// timeout: 120
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { WORLD = 3, SELDOM = 1000000 }; // More reports than any run makes.

static char *storage;

TROUPE_STRUCT(settings, (int, meet), (int, pause_us));
TROUPE_STRUCT(progress, (int, steps), (int, rank));

// Ranks meet in each step, or run up to 32 reports apart.
static troupe_status walks(troupe_rank *me, const settings *config)
{
    progress all = {.rank = me->rank};
    for (;;) {
        if (config->meet)
            TROUPE_TRY(troupe_barrier(me));
        if (config->pause_us)
            usleep((useconds_t)(config->pause_us * (1 + me->rank)));
        all.steps++;
        if (troupe_checkpoint_due(me))
            TROUPE_TRY(troupe_save(progress, me, &all));
        TROUPE_TRY(troupe_report(me, {"steps", (double)all.steps}));
    }
}
TROUPE_TRAINER(walks, settings, .saves_when_due = true);

static bool has_reported(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.reports > 0;
}

// That the only checkpoint is of the last report, and has what all ranks saved then.
static void check_last(const troupe_result *result)
{
    assert_string_equal(troupe_result_error(result), "");
    assert_true(troupe_result_stopped(result));
    int reports = troupe_result_reports(result);
    assert_in_range(reports, 1, SELDOM - 1);
    const char *folder = troupe_result_checkpoint(result);
    assert_non_null(folder);
    assert_non_null(strstr(folder, "checkpoint_000000"));
    for (int rank = 0; rank < WORLD; rank++) {
        progress saved = {0};
        troupe_must(troupe_checkpoint_load(progress, folder, rank, &saved));
        assert_int_equal(saved.steps, reports);
        assert_int_equal(saved.rank, rank);
    }
}

// F11.
static void test_a_stop_is_followed_by_a_checkpoint_of_all_ranks(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        settings config = {.meet = round % 2, .pause_us = 300};
        troupe_job *job;
        troupe_result *result;
        troupe_must(troupe_submit(walks, &config, NULL, &job, .ranks = WORLD, .storage = storage,
                                  .checkpoint_every = SELDOM));
        if (round % 4 > 0) // Else it may be asked before the first report.
            assert_true(support_wait_until(has_reported, job, SUPPORT_SOON_MS));
        usleep((useconds_t)round * 431);
        troupe_job_stop(job);
        troupe_must(troupe_job_wait(job, 60000, &result));
        if (troupe_result_reports(result) > 0) // It may not have begun.
            check_last(result);
        troupe_result_free(&result);
        troupe_job_close(&job);
    }
}

static void test_so_is_a_time_limit(void **state)
{
    (void)state;
    settings config = {.pause_us = 2000};
    troupe_result *result;
    troupe_must(troupe_train(walks, &config, &result, .ranks = WORLD, .storage = storage,
                             .checkpoint_every = SELDOM, .time_limit_s = 0.5));
    check_last(result);
    troupe_result_free(&result);
}

static troupe_gate_answer stop_at_5(void *user, troupe_job *job, const troupe_report_event *event,
                                    int *ranks)
{
    (void)ranks;
    (void)user;
    (void)job;
    return event->number == 5 ? TROUPE_GATE_STOP : TROUPE_GATE_GO_ON;
}

// Its answer takes effect with the next report, which is no later for a checkpoint.
static void test_a_gate_stops_at_once(void **state)
{
    (void)state;
    settings config = {.meet = true};
    troupe_gate gate = {.size = sizeof gate, .decide = stop_at_5, .timeout_ms = 30000};
    troupe_result *result;
    troupe_must(troupe_train(walks, &config, &result, .ranks = WORLD, .storage = storage,
                             .checkpoint_every = SELDOM, .gate = &gate));
    assert_true(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 6);
    assert_null(troupe_result_checkpoint(result));
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = WORLD));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stop_is_followed_by_a_checkpoint_of_all_ranks),
        cmocka_unit_test(test_so_is_a_time_limit),
        cmocka_unit_test(test_a_gate_stops_at_once),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
