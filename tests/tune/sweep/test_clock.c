// test_clock.c: budgets, time limits and times go by the sweep's clock, which here runs ahead.
#include <fake_train.h>

// Reports of a job at which the clock goes on, and to what.
enum { SOON = 20, LATE = 60 };
static int64_t soon_s, late_s;

static double curve_ahead(const fake_settings *config, int report)
{
    if (report == SOON)
        atomic_store(&fake.ahead_ns, soon_s * 1000000000);
    if (report == LATE)
        atomic_store(&fake.ahead_ns, late_s * 1000000000);
    return fake_quadratic(config, report);
}

// Jobs that would report for minutes. Each report waits for the controller, which so has heard that
// a job runs, and has begun all that it may, before the clock goes on.
static troupe_status run(int64_t soon, int64_t late, troupe_sweep **sweep, troupe_tune_options how)
{
    static const troupe_param rows[] = {TROUPE_UNIFORM(fake_settings, rate, 0, 1),
                                        TROUPE_FIXED(fake_settings, epochs, 1000000)};
    const troupe_train_options train = {.size = sizeof train, .storage = storage};
    how.size = sizeof how;
    how.metric = "loss";
    how.goal = TROUPE_MINIMIZE;
    how.search = TROUPE_SEARCH_RANDOM;
    how.train = &train;
    how.scheduler = fake_paced(NULL);
    soon_s = soon;
    late_s = late;
    fake_open(2);
    fake.lockstep = true;
    fake.curve = curve_ahead;
    return trp_sweep_run(&fake_port, &fit, rows, 2, sweep, &how);
}

static int most_reports(const troupe_sweep *sweep)
{
    int most = 0;
    for (size_t i = 0; i < troupe_sweep_count(sweep); i++) {
        int reports = troupe_sweep_trial(sweep, i)->reports;
        most = reports > most ? reports : most;
    }
    return most;
}

static void test_a_budget_is_used_up_by_the_clock(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    ok(run(3590, 3601, &sweep,
           (troupe_tune_options){.trials = 10, .concurrent = 2, .time_budget_s = 3600}));
    assert_int_equal((int)troupe_sweep_count(sweep), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_STOPPED);
    assert_true(most_reports(sweep) >= LATE);
    double elapsed_s = troupe_sweep_elapsed_s(sweep);
    assert_true(elapsed_s >= 3601 && elapsed_s < 3601 + SUPPORT_SOON_MS / 1000);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_trial_takes_too_long_by_the_clock(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    troupe_status status =
        run(590, 601, &sweep,
            (troupe_tune_options){.trials = 1, .concurrent = 1, .trial_timeout_s = 600});
    assert_int_equal(status, TROUPE_FAILED); // All trials have.
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
    assert_string_equal(trial->error, "it ran for longer than 600 s, which trial_timeout_s allows");
    assert_true(trial->reports >= LATE);
    troupe_sweep_free(&sweep);
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_budget_is_used_up_by_the_clock),
        cmocka_unit_test(test_a_trial_takes_too_long_by_the_clock),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
