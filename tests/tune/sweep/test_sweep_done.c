// test_sweep_done.c: sweeps that have ended by their patience, target or time, and are opened
// again, over a Train that a thread plays: nothing new begins, and what was decided is done.
#include "follow.h"

static double target = 0.2;

typedef struct limit {
    const char *name;
    int patience;
    bool has_target;
    double budget_s;
} limit;

static const limit limits[] = {{.name = "patient", .patience = 3},
                               {.name = "aimed", .has_target = true}};
static const limit timed = {.name = "timed", .budget_s = 99};

static char *record_of(const char *folder, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", folder, name);
    char *text = support_read_file(path);
    assert_non_null(text);
    return text;
}

// Behind a line that has `what`.
static size_t behind(const char *text, const char *what)
{
    const char *line = strstr(text, what);
    assert_non_null(line);
    return (size_t)(strchr(line, '\n') + 1 - text);
}

static void open_fake(void)
{
    fake_open(2);
    fake.lockstep = true;
    fake.overrun = 1;
}

static troupe_status run_limited(const limit *of, const char *folder, troupe_sweep **sweep)
{
    return SWEEP(sweep, .trials = 40, .concurrent = 2, .name = of->name, .patience = of->patience,
                 .target = of->has_target ? &target : NULL, .time_budget_s = of->budget_s,
                 .open = TROUPE_OPEN_RESUME_OR_NEW,
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder));
}

static void assert_is_done(const limit *of, const char *folder)
{
    troupe_sweep *sweep;
    char *text = record_of(folder, of->name);
    for (int life = 0; life < 2; life++) {
        open_fake();
        ok(run_limited(of, folder, &sweep));
        assert_int_equal(fake.submitted, 0);
        troupe_sweep_free(&sweep);
        fake_shut();
        char *now = record_of(folder, of->name);
        assert_string_equal(now, text);
        free(now);
    }
    free(text);
}

static void test_a_sweep_that_is_done_begins_nothing_when_it_is_opened_again(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char *folder = support_directory_make();
        open_fake();
        ok(run_limited(&limits[i], folder, &sweep));
        assert_in_range(troupe_sweep_count(sweep), 1, 39);
        troupe_sweep_free(&sweep);
        fake_shut();
        assert_is_done(&limits[i], folder);
        support_directory_remove(folder);
    }
}

// Of a life that took 100 s up to the end of its first trial.
static void test_a_sweep_whose_time_is_over_begins_nothing_when_it_is_opened_again(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    open_fake();
    const limit endless = {.name = "timed"};
    ok(run_limited(&endless, folder, &sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
    char *text = record_of(folder, "timed"), *end = strstr(text, "{\"event\": \"end\"");
    support_directory_remove(folder);
    memcpy(strstr(end, "\"at_s\": ") + strlen("\"at_s\": "), "100.0", strlen("100.0"));
    folder = leave_record("timed", text, behind(text, "{\"event\": \"end\""));
    open_fake();
    ok(run_limited(&timed, folder, &sweep));
    assert_int_equal(fake.submitted, 0);
    troupe_sweep_free(&sweep);
    fake_shut();
    assert_is_done(&timed, folder);
    support_directory_remove(folder);
    free(text);
}

// ---- what was decided before

static troupe_scheduler *make_deciding(void)
{
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 4, .act = TROUPE_ACT_END},
                                 {.trial = 2, .report = 5, .act = TROUPE_ACT_STOP}};
    return follow(steps, 3, NULL, 0);
}

static troupe_status run_decided(const char *folder, double budget_s, troupe_sweep **sweep)
{
    return SWEEP(sweep, .trials = 3, .concurrent = 1, .name = "decided", .time_budget_s = budget_s,
                 .open = TROUPE_OPEN_RESUME_OR_NEW, .scheduler = make_deciding(),
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder));
}

// Opens it again where a trial's act has been decided, its run has made that report and no more,
// and the sweep's time is over. *sweep is the caller's to free.
static char *halt_behind(const char *text, int trial, int report, troupe_sweep **sweep)
{
    char line[96];
    snprintf(line, sizeof line, "{\"event\": \"report\", \"trial\": %d, \"number\": %d,", trial,
             report);
    char *folder = leave_record("decided", text, behind(text, line));
    open_fake();
    for (int i = 0; i <= trial; i++)
        fake.runs[i][0] = (fake_left){.there = true, .reports = i == trial ? report : 4};
    for (int i = 0; i <= trial; i++)
        fake.runs[i][0].config = (fake_settings){.epochs = 9};
    ok(run_decided(folder, 1e-9, sweep));
    return folder;
}

static void shut(troupe_sweep **sweep, char *folder)
{
    troupe_sweep_free(sweep);
    fake_shut();
    support_directory_remove(folder);
}

static void test_what_was_to_pause_or_end_does_so_though_the_sweep_is_done(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    open_fake();
    ok(run_decided(folder, 0, &sweep));
    char *text = record_of(folder, "decided");
    shut(&sweep, folder);

    folder = halt_behind(text, 0, 3, &sweep);
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
    char *now = record_of(folder, "decided");
    assert_int_equal(strlen(now), behind(text, "\"trial\": 0, \"number\": 3,"));
    free(now);
    shut(&sweep, folder);

    folder = halt_behind(text, 1, 4, &sweep);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->reports, 5);
    shut(&sweep, folder);

    folder = halt_behind(text, 2, 5, &sweep);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(troupe_sweep_trial(sweep, 2)->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(troupe_sweep_trial(sweep, 2)->reports, 6);
    shut(&sweep, folder);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sweep_that_is_done_begins_nothing_when_it_is_opened_again),
        cmocka_unit_test(test_a_sweep_whose_time_is_over_begins_nothing_when_it_is_opened_again),
        cmocka_unit_test(test_what_was_to_pause_or_end_does_so_though_the_sweep_is_done),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
