// test_sweep.c: the controller of a sweep, over a Train that a thread plays.
#include "fake_train.h"

#include <dirent.h>
#include <math.h>
#include <runtime/base/memory.h>
#include <unistd.h>

// ---- a sweep that goes well

static void test_every_trial_runs_to_its_end(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 7, .seed = 11));
    assert_int_equal(troupe_sweep_count(sweep), 7);
    assert_int_equal(troupe_sweep_stopped(sweep), 0);
    assert_true(troupe_sweep_elapsed_s(sweep) > 0);
    assert_null(troupe_sweep_trial(sweep, 7));

    troupe_space *drawn;
    ok(troupe_space_open_as(&troupe_type_fake_settings, space, ROWS, NULL, &drawn));
    troupe_searcher *search = troupe_search_random();
    troupe_problem problem = {.size = sizeof problem, .objectives = 1, .seed = 11, .trials = 7};
    problem.dims = troupe_space_dims(drawn, &problem.dim_count);
    if (search->begin != NULL)
        ok(search->begin(search, &problem));
    const troupe_trial *best = NULL;
    for (int i = 0; i < 7; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, (size_t)i);
        const fake_settings *config = trial->config;
        fake_settings expected;
        double x[2];
        ok(search->suggest(search, i, x));
        troupe_space_config(drawn, x, &expected);
        assert_true(config->rate == expected.rate && config->hidden == expected.hidden);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, 9);
        assert_true(trial->best_metric == fake_quadratic(config, 9));
        assert_true(trial->elapsed_s == 4.5);
        assert_non_null(trial->result);
        assert_string_equal(trial->error, "");
        char number[16];
        snprintf(number, sizeof number, "_%05d", i);
        assert_int_equal(strlen(trial->name), strlen("fit_3d3d1_00000"));
        assert_int_equal(strncmp(trial->name, "fit_", 4), 0);
        assert_string_equal(trial->name + 9, number);
        assert_int_equal(strspn(trial->name + 4, "0123456789abcdef"), 5);
        if (best == NULL || trial->best_metric < best->best_metric)
            best = trial;
    }
    assert_ptr_equal(troupe_sweep_best(sweep), best);
    assert_ptr_equal(troupe_sweep_best_config(sweep), best->config);
    troupe_searcher_free(&search);
    troupe_space_free(&drawn);
    troupe_sweep_free(&sweep);
    assert_null(sweep);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static double rises_then_falls(const fake_settings *config, int report)
{
    return report == 4 ? 10 + config->rate : (report == 5 ? (double)NAN : report * 0.1);
}

static void test_the_best_is_over_all_reports_towards_the_goal(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.curve = rises_then_falls;
    ok(SWEEP(&sweep, .trials = 5, .goal = TROUPE_MAXIMIZE));
    double highest = 0;
    for (size_t i = 0; i < 5; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_true(trial->best_metric == 10 + ((const fake_settings *)trial->config)->rate);
        highest = fmax(highest, trial->best_metric);
    }
    assert_true(troupe_sweep_best(sweep)->best_metric == highest);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static double always_nan(const fake_settings *config, int report)
{
    (void)config;
    (void)report;
    return (double)NAN;
}

static void test_a_sweep_of_nan_has_no_best(void **state)
{
    (void)state;
    static const char error[] = "the sweep's metric loss was NaN in all of its 9 reports: expected "
                                "a number in one";
    troupe_sweep *sweep;
    fake_open(2);
    fake.curve = always_nan;
    assert_int_equal(SWEEP(&sweep, .trials = 3), TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text, "all trials failed (3); the first, fit_"));
    assert_non_null(strstr(troupe_last_error()->text, error));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_ERROR);
        assert_string_equal(troupe_sweep_trial(sweep, i)->error, error);
    }
    assert_null(troupe_sweep_best(sweep));
    assert_null(troupe_sweep_best_config(sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_jobs_overlap_as_far_as_asked(void **state)
{
    (void)state;
    static const struct {
        double cpus, each;
        int workers, concurrent, open;
    } cases[] = {{2, 0, 0, 0, 3}, {2, 0, 2, 0, 2},   {5, 0, 2, 0, 3}, {1, 0.25, 1, 0, 5},
                 {2, 0, 0, 1, 1}, {2, 0, 0, 50, 12}, {1, 0, 2, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep *sweep;
        fake_open(cases[i].cpus);
        ok(SWEEP(&sweep, .trials = 12, .concurrent = cases[i].concurrent,
                 .train = TROUPE_OPTIONS(troupe_train_options, .ranks = cases[i].workers,
                                         .cpus_per_rank = cases[i].each)));
        if (fake.jobs_max != cases[i].open)
            fail_msg("case %zu: %d jobs at once, not %d", i, fake.jobs_max, cases[i].open);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// A close may wait: that of a job that has ended does so once others have ended too, or when
// nothing happens, and at the latest as the sweep ends.
static void test_handles_are_closed_some_ends_later(void **state)
{
    (void)state;
    enum { TRIALS = 60, ENDED = 16, AT_ONCE = 2 };
    troupe_sweep *sweep;
    fake_open(AT_ONCE);
    ok(SWEEP(&sweep, .trials = TRIALS));
    assert_in_range(fake.handles_max, ENDED, ENDED + AT_ONCE + 1);
    assert_int_equal(fake.open, 0);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_grid_is_run_whole_or_as_far_as_asked(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .search = TROUPE_SEARCH_GRID, .grid_points = 2));
    assert_int_equal(troupe_sweep_count(sweep), 6);
    for (size_t i = 0; i < 6; i++) {
        const fake_settings *config = troupe_sweep_trial(sweep, i)->config;
        assert_true(config->rate == (i < 3 ? 0.25 : 0.75));
        assert_int_equal(config->hidden, 32 << i % 3);
    }
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .search = TROUPE_SEARCH_GRID, .grid_points = 2, .trials = 4));
    assert_int_equal(troupe_sweep_count(sweep), 4);
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .search = TROUPE_SEARCH_GRID, .grid_points = 2, .trials = 99));
    assert_int_equal(troupe_sweep_count(sweep), 6);
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .searcher = troupe_search_grid(5))); // 15, and not the 10 of other searchers.
    assert_int_equal(troupe_sweep_count(sweep), 15);
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .searcher = troupe_search_repeat(troupe_search_grid(2), 2)));
    assert_int_equal(troupe_sweep_count(sweep), 12);
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .searcher = troupe_search_grid(5), .trials = 7));
    assert_int_equal(troupe_sweep_count(sweep), 7);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- stopping

static void test_a_stopped_trial_is_stopped_and_a_finished_one_terminated(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    bool freed;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 4, .scheduler = script(2, 3, TROUPE_ACT_STOP, &freed)));
    assert_true(freed);
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, i == 2 ? TROUPE_TRIAL_STOPPED : TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, i == 2 ? 3 : 9);
    }
    assert_int_equal(troupe_sweep_stopped(sweep), 1);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_reports_on_the_way_to_the_stop_count(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    bool freed;
    fake_open(2);
    fake.lockstep = true;
    fake.overrun = 2;
    ok(SWEEP(&sweep, .trials = 2, .scheduler = script(1, 3, TROUPE_ACT_STOP, &freed)));
    const troupe_trial *trial = troupe_sweep_trial(sweep, 1);
    assert_int_equal(trial->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(trial->reports, 5);
    assert_true(trial->best_metric == fake_quadratic(trial->config, 5));
    troupe_sweep_free(&sweep);
    fake_shut();
}

// Where one was stopped before it could fail, the sweep has no result all the same.
static void test_a_sweep_without_a_value_fails(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    bool freed;
    fake_open(2);
    fake.lockstep = true;
    fake.curve = always_nan;
    assert_int_equal(SWEEP(&sweep, .trials = 3, .scheduler = script(1, 3, TROUPE_ACT_STOP, &freed)),
                     TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text,
                           "no trial has a value of loss, and 2 of 3 failed; the first of these, "
                           "fit_"));
    assert_int_equal(troupe_sweep_stopped(sweep), 1);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_scheduler_sees_the_goal(void **state)
{
    (void)state;
    // One at a time: a trial of which an earlier one was higher is stopped at its first report.
    troupe_sweep *sweep;
    double highest = -1;
    fake_open(1);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 9, .concurrent = 1, .goal = TROUPE_MAXIMIZE,
             .scheduler = troupe_asha(.grace = 1, .reduction = 20, .limit = 9)));
    for (size_t i = 0; i < 9; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        double first = fake_quadratic(trial->config, 1);
        assert_int_equal(trial->state,
                         first > highest ? TROUPE_TRIAL_TERMINATED : TROUPE_TRIAL_STOPPED);
        highest = fmax(highest, first);
    }
    assert_in_range(troupe_sweep_stopped(sweep), 1, 8);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_trial_at_the_limit_is_terminated(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 1, .scheduler = troupe_asha(.limit = 5)));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 5);
    assert_int_equal(troupe_sweep_stopped(sweep), 0);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_asha_stops_the_weak(void **state)
{
    (void)state;
    enum { TRIALS = 27 };
    troupe_sweep *sweep;
    fake_open(1);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = TRIALS, .concurrent = 1,
             .scheduler = troupe_asha(.grace = 1, .reduction = 3, .limit = 9)));
    // One at a time, the rule can be followed by hand: rungs 1 and 3, filled in the trials' order.
    double rungs[2][TRIALS];
    size_t counts[2] = {0}, stopped = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        int reports = 9;
        for (int rung = 0; rung < 2 && reports == 9; rung++) {
            int level = rung == 0 ? 1 : 3;
            double score = fake_quadratic(trial->config, level);
            size_t ahead = 0, places;
            rungs[rung][counts[rung]++] = score;
            for (size_t j = 0; j < counts[rung]; j++)
                ahead += rungs[rung][j] < score;
            places = counts[rung] / 3;
            if (ahead >= (places == 0 ? 1 : places))
                reports = level;
        }
        assert_int_equal(trial->reports, reports);
        assert_int_equal(trial->state,
                         reports == 9 ? TROUPE_TRIAL_TERMINATED : TROUPE_TRIAL_STOPPED);
        stopped += reports != 9;
    }
    assert_int_equal(troupe_sweep_stopped(sweep), stopped);
    assert_in_range(stopped, 10, 25);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// B18: Options of the run are laid over those of the sweep, trial by trial.
static void test_options_of_the_run_are_drawn(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_CHOICE(troupe_train_options, ranks, 1, 4, 2)};
    static const int ranks[] = {1, 4, 2};
    troupe_sweep *sweep;
    fake_open(2);
    ok(trp_sweep_run(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){
            .size = sizeof(troupe_tune_options),
            .metric = "loss",
            .goal = TROUPE_MINIMIZE,
            .search = TROUPE_SEARCH_GRID,
            .concurrent = 1,
            .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .ranks = 3)}));
    assert_int_equal(troupe_sweep_count(sweep), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fake.seen[i].ranks, ranks[i]);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- failures

// One that is to fail is the best, until it does.
static double failing_best(const fake_settings *config, int report)
{
    return config->fail_at > 0 ? 0 : 1.0 / report;
}

static void test_a_failed_trial_leaves_the_others_alone(void **state)
{
    (void)state;
    // The grid has one trial that fails.
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_CHOICE(fake_settings, fail_at, 0, 3, 0, 0)};
    troupe_sweep *sweep;
    fake_open(2);
    fake.curve = failing_best;
    ok(trp_sweep_run(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .search = TROUPE_SEARCH_GRID,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    size_t count;
    const troupe_trial *const *front = troupe_sweep_front(sweep, &count);
    assert_ptr_equal(troupe_sweep_best(sweep), troupe_sweep_trial(sweep, 0));
    assert_int_equal(count, 3);
    assert_ptr_equal(front[0], troupe_sweep_best(sweep));
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, i == 1 ? TROUPE_TRIAL_ERROR : TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->reports, i == 1 ? 3 : 5);
        assert_string_equal(trial->error, i == 1 ? "the loss is not finite" : "");
        assert_non_null(trial->result);
    }
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_sweep_of_failures_fails_with_the_first_sentence(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_FIXED(fake_settings, fail_at, 2)};
    troupe_sweep *sweep;
    fake_open(2);
    troupe_status status = trp_sweep_run(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = 3,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)});
    assert_int_equal(status, TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text, "all trials failed (3)"));
    assert_non_null(strstr(troupe_last_error()->text, ": the loss is not finite"));
    assert_non_null(sweep);
    // What Train says besides is for who has made the run.
    assert_string_equal(troupe_sweep_trial(sweep, 0)->error, "the loss is not finite");
    assert_int_equal(troupe_sweep_count(sweep), 3);
    assert_null(troupe_sweep_best(sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_sweep_that_loses_the_runtime_keeps_what_it_has(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_FIXED(fake_settings, fail_at, 2)};
    char *folder = support_path(storage, "lost"), *journal = support_path(folder, "trials.jsonl");
    troupe_sweep *sweep;
    fake_open(2);
    fake.failure = TROUPE_RUNTIME_LOST;
    assert_int_equal(
        trp_sweep_run(&fake_port, &fit, rows, 2, &sweep,
                      &(troupe_tune_options){
                          .size = sizeof(troupe_tune_options),
                          .metric = "loss",
                          .goal = TROUPE_MINIMIZE,
                          .name = "lost",
                          .trials = 3,
                          .concurrent = 1,
                          .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}),
        TROUPE_RUNTIME_LOST);
    assert_non_null(strstr(troupe_last_error()->text, folder));
    assert_true(support_exists(journal));
    free(journal);
    free(folder);
    fake_shut();
}

static char *make_folder(const char *parent, const char *name)
{
    char *path = support_path(parent, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static void test_what_a_killed_sweep_left_is_removed(void **state)
{
    (void)state;
    char *killed = make_folder(storage, "again"), *trial = make_folder(killed, "fit_00000_00000");
    char *kept = make_folder(trial, "checkpoints"), *staged = make_folder(kept, ".staging_2_0");
    char *file = support_path(staged, "rank_00000.safetensors"),
         *alive = support_path(trial, "alive");
    support_write_file(file, "half", 4);
    support_write_file(alive, "", 0); // Which nobody has locked.
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .name = "again", .trials = 1));
    assert_string_equal(sweep->folder + strlen(sweep->folder) - strlen("again_1"), "again_1");
    assert_false(support_exists(staged));
    assert_true(support_exists(kept));
    troupe_sweep_free(&sweep);
    fake_shut();
    free(alive), free(file), free(staged), free(kept), free(trial), free(killed);
}

static void test_a_report_without_the_metric_is_an_error(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.metric = "accuracy";
    assert_int_equal(SWEEP(&sweep, .trials = 3), TROUPE_FAILED);
    for (size_t i = 0; i < 3; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
        assert_string_equal(trial->error,
                            "report 1 lacks the sweep's metric loss; it has epoch, accuracy");
        assert_true(isnan(trial->best_metric));
    }
    assert_null(troupe_sweep_best(sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_job_that_ends_without_a_word_is_found(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.silent = true;
    ok(SWEEP(&sweep, .trials = 3));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
        assert_int_equal(troupe_sweep_trial(sweep, i)->reports, 9);
    }
    troupe_sweep_free(&sweep);
    fake_shut();
}

static bool is_last, is_seen; // The last report is made, and its job was seen to have ended.

// The follower is slow: the job has ended by the time that it tells of the last report.
static double curve_told_late(const fake_settings *config, int report)
{
    pthread_mutex_lock(&fake.lock);
    is_last = report == 9;
    for (int i = 0; i < SUPPORT_SOON_MS && is_last && !is_seen; i++) {
        pthread_mutex_unlock(&fake.lock);
        usleep(1000);
        pthread_mutex_lock(&fake.lock);
    }
    pthread_mutex_unlock(&fake.lock);
    return fake_quadratic(config, report);
}

// Of a later look it is as it is: the follower may not have come to tell of it yet.
static void status_of_last(troupe_job *job, troupe_job_status *status)
{
    fake_status(job, status);
    pthread_mutex_lock(&fake.lock);
    if (is_last && !is_seen)
        status->state = TROUPE_JOB_DONE;
    is_seen = is_last;
    pthread_mutex_unlock(&fake.lock);
}

static void test_what_is_told_late_of_a_job_that_has_ended_counts(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    trp_sweep_port port = fake_port;
    port.status = status_of_last;
    fake_open(1);
    fake.curve = curve_told_late;
    ok(trp_sweep_run(
        &port, &fit, space, ROWS, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = 1,
                               .search = TROUPE_SEARCH_RANDOM,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    assert_true(is_seen);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 9);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_refused_submission_is_an_error_of_its_trial(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.refuse_from = 1;
    fake.refuse_until = 3;
    fake.refusal = TROUPE_IO;
    ok(SWEEP(&sweep, .trials = 5));
    for (size_t i = 0; i < 5; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        bool refused = i == 1 || i == 2;
        assert_int_equal(trial->state, refused ? TROUPE_TRIAL_ERROR : TROUPE_TRIAL_TERMINATED);
        assert_int_equal(trial->result == NULL, refused);
        assert_non_null(trial->config);
        if (i == 1)
            assert_string_equal(trial->error, "refused submission 1");
    }
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_every_failing_allocation_ends_cleanly(void **state)
{
    (void)state;
    int failures = 0;
    troupe_status status;
    do {
        troupe_sweep *sweep = NULL;
        fake_open(2);
        troupe_scheduler *scheduler = troupe_asha(.reduction = 2, .limit = 6);
        trp_memory_fail_after(failures);
        status = SWEEP(&sweep, .trials = 2, .scheduler = scheduler);
        trp_memory_fail_after(-1);
        if (status != TROUPE_OK) {
            assert_int_equal(status, TROUPE_NO_MEMORY);
            assert_null(sweep);
        }
        troupe_sweep_free(&sweep);
        fake_shut();
    } while (status != TROUPE_OK && ++failures < 1000);
    assert_in_range(failures, 20, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_trial_runs_to_its_end),
        cmocka_unit_test(test_the_best_is_over_all_reports_towards_the_goal),
        cmocka_unit_test(test_a_sweep_of_nan_has_no_best),
        cmocka_unit_test(test_a_sweep_without_a_value_fails),
        cmocka_unit_test(test_jobs_overlap_as_far_as_asked),
        cmocka_unit_test(test_handles_are_closed_some_ends_later),
        cmocka_unit_test(test_a_grid_is_run_whole_or_as_far_as_asked),
        cmocka_unit_test(test_a_stopped_trial_is_stopped_and_a_finished_one_terminated),
        cmocka_unit_test(test_reports_on_the_way_to_the_stop_count),
        cmocka_unit_test(test_a_scheduler_sees_the_goal),
        cmocka_unit_test(test_a_trial_at_the_limit_is_terminated),
        cmocka_unit_test(test_asha_stops_the_weak),
        cmocka_unit_test(test_options_of_the_run_are_drawn),
        cmocka_unit_test(test_a_failed_trial_leaves_the_others_alone),
        cmocka_unit_test(test_a_sweep_of_failures_fails_with_the_first_sentence),
        cmocka_unit_test(test_a_sweep_that_loses_the_runtime_keeps_what_it_has),
        cmocka_unit_test(test_what_a_killed_sweep_left_is_removed),
        cmocka_unit_test(test_a_report_without_the_metric_is_an_error),
        cmocka_unit_test(test_a_job_that_ends_without_a_word_is_found),
        cmocka_unit_test(test_what_is_told_late_of_a_job_that_has_ended_counts),
        cmocka_unit_test(test_a_refused_submission_is_an_error_of_its_trial),
        cmocka_unit_test(test_every_failing_allocation_ends_cleanly),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
