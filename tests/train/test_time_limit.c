// test_time_limit.c: jobs with a time limit: how they end, and who may start before whom.
// timeout: 120
#include "line.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { CPUS = 4 };

static char *storage;

// A loop that runs until a file is there, without a report.
TROUPE_STRUCT(wait_settings, (troupe_text, file));

static troupe_status waits(troupe_rank *me, const wait_settings *config)
{
    TROUPE_TRY(troupe_barrier(me));
    while (!support_exists(config->file))
        usleep(1000);
    return TROUPE_OK;
}
TROUPE_TRAINER(waits, wait_settings);

static troupe_job_state state_of(troupe_job *job)
{
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    return status.state;
}

static bool job_runs(void *context)
{
    return state_of((troupe_job *)context) == TROUPE_JOB_RUNNING;
}

static void assert_all_free(void)
{
    troupe_resources all;
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    do
        troupe_must(troupe_resources_get(&all));
    while (all.cpus.free != CPUS && support_now_ms() < until);
    assert_true(all.cpus.free == CPUS);
}

// When it was heard, so not before it was so.
static void note_running(void *user, troupe_job *job, troupe_job_state now)
{
    (void)job;
    if (now == TROUPE_JOB_RUNNING)
        atomic_store((_Atomic int64_t *)user, support_now_ms());
}

static void test_a_run_stops_at_the_report_after_its_limit(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    troupe_job *job;
    troupe_result *result;
    _Atomic int64_t running_ms = 0;
    const troupe_follower follower = {
        .size = sizeof follower, .state = note_running, .user = (void *)&running_ms};
    config.pause_ms = 10;
    int64_t before = support_now_ms();
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .ranks = 2, .storage = storage,
                              .keep = 1, .time_limit_s = 0.3));
    troupe_must(troupe_job_wait(job, TROUPE_FOREVER, &result));
    troupe_job_close(&job);
    assert_true(support_now_ms() - before >= 300);
    assert_true(troupe_result_stopped(result));
    assert_true(running_ms > 0); // Before that its processes were started.
    assert_true(troupe_result_elapsed_s(result) * 1000 >= (double)(before + 299 - running_ms));
    int reports = troupe_result_reports(result);
    assert_in_range(reports, 1, LINE_EPOCHS_MAX - 1);
    for (int rank = 0; rank < 2; rank++) // What was saved for the last report is kept.
        assert_int_equal(line_load(result, rank).epoch, reports);
    troupe_arena_reset();
    troupe_result_free(&result);
    assert_all_free();
}

// F11.
static void test_a_run_that_does_not_report_is_ended_after_the_grace(void **state)
{
    (void)state;
    char *file = support_path(storage, "never there");
    wait_settings config = {file};
    troupe_job *job;
    troupe_result *result;
    int64_t before = support_now_ms();
    troupe_must(troupe_submit(waits, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .restarts = 3, .time_limit_s = 0.2, .time_limit_grace_s = 0.3));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_true(support_now_ms() - before >= 500);
    assert_int_equal(troupe_result_status(result), TROUPE_DEADLINE_EXCEEDED);
    assert_non_null(strstr(troupe_result_error(result), ".time_limit_grace_s = 0.3"));
    assert_non_null(strstr(troupe_result_error(result), ".time_limit_s = 0.2"));
    assert_int_equal(troupe_result_restarts(result), 0);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_all_free();
    free(file);
}

// A run goes on where its time was over, with the limit that it was made with, and ends with the
// numbers of one that was not interrupted.
static void test_a_run_may_be_done_in_slices(void **state)
{
    (void)state;
    enum { EPOCHS = 30 };
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = storage,
                             .name = "whole", .keep = 1));
    line_model whole = line_load(result, 1);
    troupe_result_free(&result);
    config.pause_ms = 20; // All of it takes four limits at least.
    int slices = 0;
    for (bool stopped = true; stopped; slices++) {
        assert_true(slices <= EPOCHS); // Each makes a report.
        troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = storage,
                                 .name = "sliced", .open = TROUPE_OPEN_RESUME_OR_NEW, .keep = 1,
                                 .time_limit_s = slices == 0 ? 0.15 : 0));
        stopped = troupe_result_stopped(result);
        if (!stopped) {
            line_model sliced = line_load(result, 1);
            line_assert_same(&sliced, &whole);
        }
        troupe_result_free(&result);
    }
    assert_true(slices >= 2);
    troupe_arena_reset();
}

// What a job waits for its resources does not count.
static void test_the_limit_begins_with_the_resources(void **state)
{
    (void)state;
    char *file = support_path(storage, "first goes");
    line_settings config = line_plain(3);
    troupe_job *first, *second;
    troupe_result *result;
    troupe_must(troupe_submit(waits, &(wait_settings){file}, NULL, &first, .ranks = CPUS,
                              .storage = storage));
    troupe_must(troupe_submit(line_fit, &config, NULL, &second, .storage = storage,
                              .time_limit_s = 20, .time_limit_grace_s = 0.001));
    assert_true(support_wait_until(job_runs, first, SUPPORT_SOON_MS));
    assert_int_equal(troupe_job_wait(second, 300, &result), TROUPE_TIMED_OUT);
    assert_int_equal(state_of(second), TROUPE_JOB_QUEUED);
    support_write_file(file, "", 0);
    troupe_must(troupe_job_wait(second, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 3);
    troupe_result_free(&result);
    troupe_job_close(&first);
    troupe_job_close(&second);
    assert_all_free();
    free(file);
}

// ---- back-filling

// Submits a loop that waits for its file.
static troupe_job *submit(const char *file, int ranks, double limit_s)
{
    troupe_job *job;
    troupe_must(troupe_submit(waits, &(wait_settings){file}, NULL, &job, .ranks = ranks,
                              .storage = storage, .time_limit_s = limit_s,
                              .time_limit_grace_s = 1));
    return job;
}

static void end(troupe_job **job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(*job, SUPPORT_SOON_MS, &result));
    assert_string_equal(troupe_result_error(result), "");
    troupe_result_free(&result);
    troupe_job_close(job);
}

static void test_a_short_job_starts_before_the_one_that_it_does_not_delay(void **state)
{
    (void)state;
    char *file = support_path(storage, "all may go"), *own = support_path(storage, "one may go");
    troupe_job *running = submit(file, 3, 1000);
    assert_true(support_wait_until(job_runs, running, SUPPORT_SOON_MS));
    troupe_job *head = submit(file, CPUS, 0);
    troupe_job *endless = submit(file, 1, 0), *longer = submit(file, 1, 2000);
    troupe_job *brief = submit(own, 1, 500);
    assert_true(support_wait_until(job_runs, brief, SUPPORT_SOON_MS));
    // The same decision left the others where they are.
    assert_int_equal(state_of(head), TROUPE_JOB_QUEUED);
    assert_int_equal(state_of(endless), TROUPE_JOB_QUEUED);
    assert_int_equal(state_of(longer), TROUPE_JOB_QUEUED);
    support_write_file(own, "", 0);
    end(&brief);
    troupe_job *next = submit(file, 1, 500); // The place is used again.
    assert_true(support_wait_until(job_runs, next, SUPPORT_SOON_MS));
    assert_int_equal(state_of(longer), TROUPE_JOB_QUEUED);
    support_write_file(file, "", 0);
    end(&running);
    end(&next);
    end(&head);
    end(&endless);
    end(&longer);
    assert_all_free();
    free(file);
    free(own);
}

static void test_nothing_passes_where_what_runs_has_no_limit(void **state)
{
    (void)state;
    char *file = support_path(storage, "these may go");
    troupe_job *limited = submit(file, 1, 1000), *endless = submit(file, 2, 0);
    assert_true(support_wait_until(job_runs, endless, SUPPORT_SOON_MS));
    troupe_job *head = submit(file, 2, 1000), *brief = submit(file, 1, 1);
    troupe_resources all;
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    do // Both have been decided on when both wait.
        troupe_must(troupe_resources_get(&all));
    while (all.waiting < 2 && support_now_ms() < until);
    assert_int_equal(all.waiting, 2);
    assert_true(all.cpus.free == 1);
    assert_int_equal(state_of(brief), TROUPE_JOB_QUEUED);
    support_write_file(file, "", 0);
    end(&limited);
    end(&endless);
    end(&head);
    end(&brief);
    assert_all_free();
    free(file);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = CPUS, .threads = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_stops_at_the_report_after_its_limit),
        cmocka_unit_test(test_a_run_that_does_not_report_is_ended_after_the_grace),
        cmocka_unit_test(test_a_run_may_be_done_in_slices),
        cmocka_unit_test(test_the_limit_begins_with_the_resources),
        cmocka_unit_test(test_a_short_job_starts_before_the_one_that_it_does_not_delay),
        cmocka_unit_test(test_nothing_passes_where_what_runs_has_no_limit),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
