// test_trial.c: the states of a trial, and how it ends for each way that its job may end.
#include <math.h>
#include <runtime/base/memory.h>
#include <support.h>
#include <tune/sweep/trial.h>

static char job_memory;
static troupe_job *const job = (troupe_job *)&job_memory;

static trp_trial fresh(void)
{
    return (trp_trial){.view = {.best_metric = (double)NAN, .error = ""}};
}

static bool report(trp_trial *trial, int number, const char *name, double value, troupe_goal goal)
{
    const troupe_metric metrics[] = {{"epoch", number}, {name, value}};
    const troupe_report_event event = {
        .number = number, .metrics = metrics, .count = 2, .elapsed_s = number * 2.0};
    double seen = -1;
    bool usable = trp_trial_report(trial, &event, "loss", goal, &seen);
    if (usable && !isnan(value))
        assert_true(seen == value);
    return usable;
}

static void gone(trp_trial *trial)
{
    trial->job = NULL;
    trp_trial_free(trial);
}

static void test_a_trial_runs_and_keeps_its_best(void **state)
{
    (void)state;
    static const double values[] = {3, (double)NAN, 1, 2};
    for (int goal = TROUPE_MINIMIZE; goal <= TROUPE_MAXIMIZE; goal++) {
        trp_trial trial = fresh();
        assert_int_equal(trial.view.state, TROUPE_TRIAL_PENDING);
        trp_trial_submitted(&trial, job);
        assert_int_equal(trial.view.state, TROUPE_TRIAL_PENDING);
        trp_trial_running(&trial);
        assert_int_equal(trial.view.state, TROUPE_TRIAL_RUNNING);
        for (int i = 0; i < 4; i++)
            assert_true(report(&trial, i + 1, "loss", values[i], (troupe_goal)goal));
        assert_int_equal(trial.view.reports, 4);
        assert_true(trial.view.elapsed_s == 8);
        assert_true(trial.view.best_metric == (goal == TROUPE_MINIMIZE ? 1 : 3));
        // After a restart numbers come again; the count does not fall.
        assert_true(report(&trial, 2, "loss", 2.5, (troupe_goal)goal));
        assert_int_equal(trial.view.reports, 4);
        trp_trial_ended(&trial, TROUPE_OK, "", false);
        assert_int_equal(trial.view.state, TROUPE_TRIAL_TERMINATED);
        gone(&trial);
    }
}

static void test_the_end_follows_from_what_was_decided(void **state)
{
    (void)state;
    static const struct {
        troupe_act decision;
        bool broken;
        troupe_status status;
        bool stopped;
        troupe_trial_state state;
        const char *error;
    } cases[] = {
        {TROUPE_ACT_GO_ON, false, TROUPE_OK, false, TROUPE_TRIAL_TERMINATED, ""},
        {TROUPE_ACT_STOP, false, TROUPE_OK, true, TROUPE_TRIAL_STOPPED, ""},
        // It reached its own end before the request reached it.
        {TROUPE_ACT_STOP, false, TROUPE_OK, false, TROUPE_TRIAL_TERMINATED, ""},
        {TROUPE_ACT_END, false, TROUPE_OK, true, TROUPE_TRIAL_TERMINATED, ""},
        {TROUPE_ACT_GO_ON, false, TROUPE_FAILED, false, TROUPE_TRIAL_ERROR, "it burst"},
        {TROUPE_ACT_STOP, false, TROUPE_FAILED, false, TROUPE_TRIAL_ERROR, "it burst"},
        {TROUPE_ACT_GO_ON, true, TROUPE_OK, true, TROUPE_TRIAL_ERROR, "no metric"},
        {TROUPE_ACT_GO_ON, true, TROUPE_FAILED, false, TROUPE_TRIAL_ERROR, "no metric"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trp_trial trial = fresh();
        trp_trial_submitted(&trial, job);
        trp_trial_running(&trial);
        assert_false(trp_trial_is_stopping(&trial));
        if (cases[i].decision != TROUPE_ACT_GO_ON)
            trp_trial_decided(&trial, cases[i].decision);
        if (cases[i].broken)
            trp_trial_broken(&trial, "no metric");
        assert_int_equal(trp_trial_is_stopping(&trial),
                         cases[i].broken || cases[i].decision != TROUPE_ACT_GO_ON);
        trp_trial_ended(&trial, cases[i].status, cases[i].status == TROUPE_OK ? "" : "it burst",
                        cases[i].stopped);
        assert_int_equal(trial.view.state, cases[i].state);
        assert_string_equal(trial.view.error, cases[i].error);
        assert_int_equal(trial.phase, TRP_TRIAL_ENDED);
        gone(&trial);
    }
}

static void test_a_trial_can_end_without_having_run(void **state)
{
    (void)state;
    trp_trial trial = fresh();
    trp_trial_submitted(&trial, job);
    trp_trial_ended(&trial, TROUPE_PEER_LOST, "", false);
    assert_int_equal(trial.view.state, TROUPE_TRIAL_ERROR);
    assert_string_equal(trial.view.error, troupe_strerror(TROUPE_PEER_LOST));
    gone(&trial);

    trial = fresh();
    trp_trial_refused(&trial, "no room");
    assert_int_equal(trial.view.state, TROUPE_TRIAL_ERROR);
    assert_string_equal(trial.view.error, "no room");
    gone(&trial);

    trial = fresh();
    trp_memory_fail_after(0);
    trp_trial_refused(&trial, "no room");
    trp_memory_fail_after(-1);
    assert_string_not_equal(trial.view.error, "");
    gone(&trial);
}

static void test_a_report_shows_whether_it_has_the_metric(void **state)
{
    (void)state;
    trp_trial trial = fresh();
    trp_trial_submitted(&trial, job);
    assert_false(report(&trial, 1, "los", 1, TROUPE_MINIMIZE));
    assert_false(report(&trial, 2, "losses", 1, TROUPE_MINIMIZE));
    assert_int_equal(trial.view.state, TROUPE_TRIAL_RUNNING);
    assert_true(isnan(trial.view.best_metric));
    assert_int_equal(trial.view.reports, 2);
    trp_trial_ended(&trial, TROUPE_OK, "", false);
    gone(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trial_runs_and_keeps_its_best),
        cmocka_unit_test(test_the_end_follows_from_what_was_decided),
        cmocka_unit_test(test_a_trial_can_end_without_having_run),
        cmocka_unit_test(test_a_report_shows_whether_it_has_the_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
