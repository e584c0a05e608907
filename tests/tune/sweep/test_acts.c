// test_acts.c: what a scheduler may have done with a trial beside ending it: to pause it and have
// it go on, to clone another one, to give it other ranks; and trials that are tried again.
#include "follow.h"

#include <math.h>

static int count_in(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static char *journal_of(const troupe_sweep *sweep)
{
    char *path = support_path(sweep->folder, "trials.jsonl"), *text = support_read_file(path);
    free(path);
    assert_non_null(text);
    return text;
}

static void test_a_paused_trial_gives_its_place_to_another(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    troupe_sweep *sweep;
    for (int overrun = 0; overrun < 3; overrun++) {
        fake_open(1);
        fake.lockstep = true;
        fake.overrun = overrun; // Reports that it makes on its way to the pause.
        ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = FOLLOW(steps, goings)));
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
            assert_int_equal(troupe_sweep_trial(sweep, i)->reports, 9);
        }
        assert_int_equal(fake.submitted, 2); // One run each.
        assert_int_equal(fake.seen[0].pauses, 1);
        assert_int_equal(fake.seen[0].goings_on, 1);
        assert_int_equal(fake.running_max, 1);
        char *text = journal_of(sweep), what[64];
        for (int report = 1; report <= 9; report++) { // Each was decided on, once.
            snprintf(what, sizeof what, "\"metrics\": {\"epoch\": %d,", report);
            assert_int_equal(count_in(text, what), 2);
        }
        free(text);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

static void test_a_paused_trial_may_be_over(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 3, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {
        {.trial = 0, .over = true, .after_trial = 1, .after_report = 3},
        {.trial = 1, .after_trial = 0, .after_report = 3}};
    troupe_sweep *sweep;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 2, .scheduler = FOLLOW(steps, goings)));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 3);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->reports, 9);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// Nobody has it go on: it stays paused, and its job ends.
static void test_a_trial_may_stay_paused(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 2, .act = TROUPE_ACT_PAUSE}};
    troupe_sweep *sweep;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = follow(steps, 1, NULL, 0)));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
    assert_non_null(troupe_sweep_trial(sweep, 0)->result);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_clone_goes_on_from_its_source(void **state)
{
    (void)state;
    static const step steps[] = {
        {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = 0.25}};
    troupe_sweep *sweep;
    char from[600];
    fake_open(1);
    fake.lockstep = true;
    fake.overrun = 1;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = follow(steps, 1, NULL, 0)));
    const troupe_trial *trial = troupe_sweep_trial(sweep, 1);
    assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
    assert_true(((const fake_settings *)trial->config)->rate == 0.25);
    // Five of the first run, and all of the second one.
    assert_int_equal(trial->reports, 5 + 9);
    assert_true(trial->elapsed_s == 6 * 0.5 + 9 * 0.5);
    assert_int_equal(fake.submitted, 3);
    assert_true(fake.seen[2].config.rate == 0.25);
    assert_int_equal(fake.seen[2].config.hidden, fake.seen[1].config.hidden);
    assert_int_equal(strncmp(fake.seen[2].name, trial->name, strlen(trial->name)), 0);
    assert_string_equal(fake.seen[2].name + strlen(trial->name), "_1");
    snprintf(from, sizeof from, "%s/%s/checkpoint_000008", sweep->folder,
             troupe_sweep_trial(sweep, 0)->name);
    assert_string_equal(fake.seen[2].from, from);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_paused_trial_goes_on_as_a_clone_or_larger(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 4, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {
        {.trial = 0,
         .after_trial = 1,
         .after_report = 4,
         .how = {.act = TROUPE_ACT_CLONE, .source = 1}},
        {.trial = 1, .after_trial = -1, .how = {.act = TROUPE_ACT_RESIZE, .ranks = 3}}};
    troupe_sweep *sweep;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 2, .scheduler = FOLLOW(steps, goings)));
    assert_int_equal(fake.submitted, 3);
    assert_true(fake.seen[2].config.rate == 0.75);
    assert_non_null(strstr(fake.seen[2].from, troupe_sweep_trial(sweep, 1)->name));
    assert_non_null(strstr(fake.seen[2].from, "checkpoint_000004"));
    assert_int_equal(fake.seen[1].resized, 3);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 3 + 9);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->reports, 9);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_trial_gets_other_ranks(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 2, .act = TROUPE_ACT_RESIZE, .ranks = 4}};
    troupe_sweep *sweep;
    fake_open(1);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 1, .scheduler = follow(steps, 1, NULL, 0)));
    assert_int_equal(fake.seen[0].ranks, 1);
    assert_int_equal(fake.seen[0].resized, 4);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 9);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static int decides_at_two(troupe_scheduler *scheduler, int trial, int after)
{
    (void)scheduler;
    (void)trial;
    return after < 2 ? 2 : 0;
}

// Where a gate does not tell the job, as it was not to be asked there, or was still busy with an
// earlier report.
static void test_what_no_gate_is_asked_about_is_done(void **state)
{
    (void)state;
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    for (int i = 0; i < 3; i++) {
        const step steps[] = {{.trial = 0,
                               .report = 3,
                               .act = i < 2 ? TROUPE_ACT_RESIZE : TROUPE_ACT_PAUSE,
                               .ranks = 4}};
        troupe_scheduler *scheduler = i < 2 ? follow(steps, 1, NULL, 0) : FOLLOW(steps, goings);
        troupe_sweep *sweep;
        fake_open(1);
        fake.gates = true;
        if (i == 0)
            scheduler->decides_at = decides_at_two;
        else
            fake.unasked = 3;
        ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = scheduler));
        assert_int_equal(fake.seen[0].resized, i < 2 ? 4 : 0);
        assert_int_equal(fake.seen[0].pauses, i == 2);
        for (size_t trial = 0; trial < 2; trial++)
            assert_int_equal(troupe_sweep_trial(sweep, trial)->reports, 9);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// ---- tried again

static void test_a_trial_that_fails_is_tried_again(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 6),
                                        TROUPE_FIXED(fake_settings, fail_at, 5)};
    for (int retries = 0; retries < 3; retries++) {
        troupe_sweep *sweep;
        fake_open(1);
        troupe_status status =
            trp_sweep_run(&fake_port, &fit, rows, 2, &sweep,
                          &(troupe_tune_options){
                              .size = sizeof(troupe_tune_options),
                              .metric = "loss",
                              .goal = TROUPE_MINIMIZE,
                              .trials = 1,
                              .retries = retries,
                              .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)});
        assert_int_equal(status, TROUPE_FAILED);
        assert_int_equal(fake.submitted, 1 + retries);
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        // Each goes on behind its checkpoint of report 4, 8, .. and fails five reports later.
        assert_int_equal(trial->reports, 5 + 4 * retries);
        for (int i = 1; i <= retries; i++)
            assert_non_null(strstr(fake.seen[i].from, "checkpoint_000004"));
        assert_string_equal(trial->error, "the loss is not finite");
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// ---- the reports that wait

static struct {
    bool gated;
    int first, every, reports[64];
    size_t count;
} named;

static troupe_status see_gate(const troupe_trainer *trainer, const void *config,
                              const troupe_follower *given, troupe_job **job,
                              const troupe_train_options *how)
{
    named.gated = how->gate != NULL;
    if (named.gated) {
        named.first = how->gate->first;
        named.every = how->gate->every;
        named.count = how->gate->report_count;
        assert_in_range(named.count, 0, 64);
        memcpy(named.reports, how->gate->reports, named.count * sizeof *named.reports);
    }
    return fake_submit(trainer, config, given, job, how);
}

static bool waits(int report)
{
    for (size_t i = 0; i < named.count; i++)
        if (named.reports[i] == report)
            return true;
    return named.first > 0 && report >= named.first && (report - named.first) % named.every == 0;
}

// A trial reaches its limit at most; what cannot be listed is all that comes behind the list.
static void test_the_reports_wait_at_which_something_is_decided(void **state)
{
    (void)state;
    enum { MANY = 200 };
    const struct {
        troupe_scheduler *scheduler;
        int every, limit; // 0: none.
        int all_from;     // What wait from there on; 0: none.
    } cases[] = {
        {troupe_pbt(.interval = 4, .limit = 30), 4, 30, 0},
        {troupe_pbt(.interval = 2, .limit = 190), 2, 190, 129},
        {troupe_pbt(.interval = 3), 3, 0, 193},
        {troupe_asha(.reduction = 3, .limit = 40), 0, 40, 0},
        {troupe_hyperband(.limit = 27), 0, 27, 0},
        {troupe_stopping(NULL, &(troupe_stop_when){.size = sizeof(troupe_stop_when), .reports = 6}),
         0, 6, 0},
        {NULL, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep *sweep;
        trp_sweep_port port = fake_port;
        port.has_gates = true;
        port.submit = see_gate;
        fake_open(1);
        memset(&named, 0, sizeof named);
        ok(trp_sweep_run(&port, &fit, space, ROWS, &sweep,
                         &(troupe_tune_options){
                             .size = sizeof(troupe_tune_options),
                             .metric = "loss",
                             .goal = TROUPE_MINIMIZE,
                             .trials = 1,
                             .search = TROUPE_SEARCH_RANDOM,
                             .scheduler = cases[i].scheduler,
                             .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
        int limit = cases[i].limit, all_from = cases[i].all_from, count = 0;
        for (int report = 1; report <= MANY; report++) {
            bool behind = all_from > 0 && report >= all_from;
            bool due = behind || report == limit ||
                       (cases[i].every > 0 && report % cases[i].every == 0 &&
                        (limit == 0 || report < limit));
            count += waits(report);
            if (cases[i].every > 0 || report >= limit)
                assert_int_equal(waits(report), due);
        }
        assert_int_equal(named.gated, count > 0);
        if (cases[i].every == 0)
            assert_in_range(count, limit > 0, 5); // Rungs, and the limit.
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_paused_trial_gives_its_place_to_another),
        cmocka_unit_test(test_a_paused_trial_may_be_over),
        cmocka_unit_test(test_a_trial_may_stay_paused),
        cmocka_unit_test(test_a_clone_goes_on_from_its_source),
        cmocka_unit_test(test_a_paused_trial_goes_on_as_a_clone_or_larger),
        cmocka_unit_test(test_a_trial_gets_other_ranks),
        cmocka_unit_test(test_what_no_gate_is_asked_about_is_done),
        cmocka_unit_test(test_a_trial_that_fails_is_tried_again),
        cmocka_unit_test(test_the_reports_wait_at_which_something_is_decided),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
