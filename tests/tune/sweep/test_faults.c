// test_faults.c: jobs that fail, end or are lost between what was decided of their trial and what
// follows from it, in this life of the sweep and in a later one; and what is known of their trials.
#include "follow.h"

#include <tune/sweep/control.h>
#include <unistd.h>

// At that report the first job of that trial waits until it has been told to pause or to stop, and
// it comes to that report, so that nothing depends on how fast or slow the controller is.
static void wait_at(int trial, int report)
{
    pthread_mutex_lock(&fake.lock);
    fake.heeds_job = trial;
    fake.heeds_from = report;
    pthread_mutex_unlock(&fake.lock);
}

static double told(const fake_settings *config, int report)
{
    bool waits = true;
    for (int i = 0; i < SUPPORT_SOON_MS && waits; i++) {
        pthread_mutex_lock(&fake.lock);
        const struct troupe_job *job = fake.jobs[fake.heeds_job];
        waits = report == fake.heeds_from && job != NULL && config == &job->config && !job->stop &&
                fake.seen[fake.heeds_job].pauses == 0;
        pthread_mutex_unlock(&fake.lock);
        if (waits)
            usleep(1000);
    }
    return fake_quadratic(config, report);
}

// ---- a job of a trial that is paused

static bool by_hand; // It is stopped, rather than lost.
static bool has_come;

// The first trial's job comes to its end as it is paused and the second one reports.
static double curve_ends_paused(const fake_settings *config, int report)
{
    pthread_mutex_lock(&fake.lock);
    struct troupe_job *paused = fake.jobs[0];
    bool is_second = fake.jobs[1] != NULL && config == &fake.jobs[1]->config;
    if (!has_come && report >= 5 && is_second && paused != NULL &&
        paused->state == TROUPE_JOB_PAUSED) {
        has_come = true;
        if (by_hand)
            paused->stop = true;
        else
            fake_finish(paused, TROUPE_FAILED, "its runner was killed");
    }
    pthread_mutex_unlock(&fake.lock);
    return told(config, report);
}

static void test_a_paused_trial_whose_job_is_lost_is_tried_again_when_it_goes_on(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    for (int retries = 0; retries < 2; retries++) {
        troupe_sweep *sweep;
        fake_open(1);
        by_hand = has_come = false;
        fake.curve = curve_ends_paused;
        wait_at(0, 4);
        if (retries == 0)
            ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = follow(steps, 1, NULL, 0)));
        else
            ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .retries = retries,
                     .scheduler = FOLLOW(steps, goings)));
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        assert_true(has_come);
        assert_int_equal(fake.submitted, 2 + retries);
        assert_int_equal(trial->state, retries > 0 ? TROUPE_TRIAL_TERMINATED : TROUPE_TRIAL_ERROR);
        assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
        if (retries > 0)
            assert_non_null(strstr(fake.seen[2].from, "checkpoint_00000"));
        else
            assert_string_equal(trial->error, "its runner was killed");
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// What it had reported on its way to the pause is decided on once it goes on, without a job.
static void test_a_paused_trial_goes_on_without_its_job(void **state)
{
    (void)state;
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    static const struct {
        step then;
        troupe_trial_state state;
        int submitted;
    } cases[] = {
        {{.act = TROUPE_ACT_STOP}, TROUPE_TRIAL_STOPPED, 2},
        {{.act = TROUPE_ACT_END}, TROUPE_TRIAL_TERMINATED, 2},
        {{.act = TROUPE_ACT_PAUSE}, TROUPE_TRIAL_PAUSED, 2},
        {{.act = TROUPE_ACT_CLONE, .source = 1, .rate = 0.25}, TROUPE_TRIAL_TERMINATED, 3},
        {{.act = TROUPE_ACT_RESIZE, .ranks = 2}, TROUPE_TRIAL_TERMINATED, 3},
        {{.act = TROUPE_ACT_GO_ON}, TROUPE_TRIAL_TERMINATED, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}, cases[i].then};
        steps[1].trial = 0;
        steps[1].report = 4;
        troupe_sweep *sweep;
        fake_open(1);
        has_come = false;
        by_hand = true;
        fake.curve = curve_ends_paused;
        wait_at(0, 4);
        ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .scheduler = FOLLOW(steps, goings)));
        assert_true(has_come);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, cases[i].state);
        assert_int_equal(fake.submitted, cases[i].submitted);
        if (cases[i].then.act == TROUPE_ACT_CLONE)
            assert_true(fake.seen[2].config.rate == 0.25);
        if (cases[i].then.act == TROUPE_ACT_RESIZE)
            assert_int_equal(fake.seen[2].ranks, 2);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// It comes to its end before it comes to the pause: what it has reported counts.
static void test_a_trial_that_ends_on_its_way_to_a_pause_has_its_reports(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    troupe_sweep *sweep;
    fake_open(1);
    fake.overrun = 9;
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 1, .scheduler = follow(steps, 1, NULL, 0)));
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
    assert_int_equal(trial->reports, 9);
    assert_true(trial->best_metric == fake_quadratic(trial->config, 9));
    char *path = support_path(sweep->folder, "trials.jsonl"), *text = support_read_file(path);
    assert_non_null(strstr(text, "\"reported\""));
    assert_non_null(strstr(text, "\"epoch\": 9"));
    free(text);
    free(path);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void failing_stop(troupe_job *job)
{
    pthread_mutex_lock(&fake.lock);
    bool paused = job->state == TROUPE_JOB_PAUSED;
    if (paused)
        fake_finish(job, TROUPE_FAILED, "its node was lost");
    pthread_mutex_unlock(&fake.lock);
    if (!paused)
        fake_stop(job);
}

static troupe_status run_with(const trp_sweep_port *port, troupe_sweep **sweep,
                              troupe_tune_options how)
{
    how.size = sizeof how;
    how.metric = "loss";
    how.goal = TROUPE_MINIMIZE;
    how.trials = how.trials > 0 ? how.trials : 2;
    how.search = TROUPE_SEARCH_RANDOM;
    how.train = TROUPE_OPTIONS(troupe_train_options, .storage = storage);
    return trp_sweep_begin(port, &fit, space, ROWS, sweep, &how);
}
#define BEGIN(port, sweep, ...) run_with((port), (sweep), (troupe_tune_options){__VA_ARGS__})

static void test_a_sweep_ends_whose_last_paused_job_fails(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 2, .act = TROUPE_ACT_PAUSE}};
    troupe_sweep *sweep;
    trp_sweep_port port = fake_port;
    port.stop = failing_stop;
    fake_open(1);
    fake.curve = told;
    wait_at(0, 3);
    ok(BEGIN(&port, &sweep, .concurrent = 1, .retries = 1, .scheduler = follow(steps, 1, NULL, 0)));
    ok(troupe_sweep_wait(sweep, 10000));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- a job that fails on its way to an end that was decided

static void test_a_trial_that_fails_as_it_stops_has_ended_as_decided(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_UNIFORM(fake_settings, rate, 0, 1),
                                        TROUPE_FIXED(fake_settings, epochs, 9),
                                        TROUPE_FIXED(fake_settings, fail_at, 4)};
    static const troupe_act acts[] = {TROUPE_ACT_STOP, TROUPE_ACT_END};
    for (int i = 0; i < 4; i++) {
        const step steps[] = {{.trial = 0, .report = 3, .act = acts[i % 2]}};
        troupe_sweep *sweep;
        fake_open(1);
        fake.overrun = 1;
        ok(trp_sweep_run(&fake_port, &fit, rows, 3, &sweep,
                         &(troupe_tune_options){
                             .size = sizeof(troupe_tune_options),
                             .metric = "loss",
                             .goal = TROUPE_MINIMIZE,
                             .trials = 1,
                             .retries = i / 2,
                             .search = TROUPE_SEARCH_RANDOM,
                             .scheduler = follow(steps, 1, NULL, 0),
                             .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state,
                         i % 2 == 0 ? TROUPE_TRIAL_STOPPED : TROUPE_TRIAL_TERMINATED);
        assert_int_equal(fake.submitted, 1);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

static double curve_fails_second(const fake_settings *config, int report)
{
    pthread_mutex_lock(&fake.lock);
    if (report == 6 && fake.jobs[1] != NULL && config == &fake.jobs[1]->config)
        fake.jobs[1]->config.fail_at = 6;
    pthread_mutex_unlock(&fake.lock);
    return fake_quadratic(config, report);
}

static void test_a_trial_that_fails_as_it_is_to_clone_clones(void **state)
{
    (void)state;
    static const step steps[] = {
        {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = 0.25}};
    troupe_sweep *sweep;
    fake_open(1);
    fake.overrun = 1;
    fake.curve = curve_fails_second;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 1, .retries = 1,
             .scheduler = follow(steps, 1, NULL, 0)));
    assert_int_equal(fake.submitted, 3);
    assert_true(fake.seen[2].config.rate == 0.25);
    assert_non_null(strstr(fake.seen[2].from, troupe_sweep_trial(sweep, 0)->name));
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- gates that are asked late

static troupe_gate gate_of_first;

static troupe_status gated_submit(const troupe_trainer *trainer, const void *config,
                                  const troupe_follower *given, troupe_job **job,
                                  const troupe_train_options *how)
{
    if (fake.submitted == 0)
        gate_of_first = *how->gate;
    return fake_submit(trainer, config, given, job, how);
}

static troupe_gate_answer answer;
static int answered_ranks;

// As Train's thread of a gate.
static void *ask_gate(void *unused)
{
    const troupe_report_event event = {.number = 3};
    (void)unused;
    answered_ranks = 1;
    answer = gate_of_first.decide(gate_of_first.user, NULL, &event, &answered_ranks);
    if (answer == TROUPE_GATE_PAUSE)
        fake_pause(fake.jobs[0]);
    return NULL;
}

// The gate's thread comes to report 3 when the controller has dealt with the one behind it.
static double curve_asks_late(const fake_settings *config, int report)
{
    pthread_t thread;
    if (report == 5 && fake.jobs[0] != NULL && config == &fake.jobs[0]->config) {
        usleep(100000);
        pthread_create(&thread, NULL, ask_gate, NULL);
        pthread_join(thread, NULL);
    }
    return fake_quadratic(config, report);
}

static void test_a_gate_that_is_asked_late_pauses_and_resizes(void **state)
{
    (void)state;
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    for (int i = 0; i < 2; i++) {
        const step steps[] = {{.trial = 0,
                               .report = 3,
                               .act = i == 0 ? TROUPE_ACT_PAUSE : TROUPE_ACT_RESIZE,
                               .ranks = 4}};
        troupe_sweep *sweep;
        trp_sweep_port port = fake_port;
        port.has_gates = true;
        port.submit = gated_submit;
        fake_open(1);
        fake.curve = curve_asks_late;
        ok(BEGIN(&port, &sweep, .concurrent = 1,
                 .scheduler = i == 0 ? FOLLOW(steps, goings) : follow(steps, 1, NULL, 0)));
        ok(troupe_sweep_wait(sweep, 10000));
        assert_int_equal(answer, i == 0 ? TROUPE_GATE_PAUSE : TROUPE_GATE_RESIZE);
        assert_int_equal(answered_ranks, i == 0 ? 1 : 4);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 9);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// ---- killed behind a line

static enum { PAUSED, STOPPED, RUNNING, GONE } found; // How it is with the first trial's job.

static troupe_status find_as(const char *key, const troupe_follower *with, const troupe_gate *gate,
                             troupe_job **job)
{
    int trial = key[strlen(key) - 1] - '0';
    (void)gate;
    if (trial == 0 && found == GONE)
        return troupe_fail(TROUPE_NOT_FOUND, "no job '%s'", key);
    struct troupe_job *made = calloc(1, sizeof *made);
    made->config = (fake_settings){.rate = 0.5, .hidden = 32, .epochs = 9};
    made->follower = *with;
    made->trial = trial;
    made->number = made->answered = 3;
    snprintf(made->path, sizeof made->path, "%s", storage);
    made->pause = trial == 0 && found != RUNNING;
    made->stop = trial == 0 && found == STOPPED;
    pthread_mutex_lock(&fake.lock);
    fake.jobs[fake.submitted++] = made;
    fake.open++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    *job = made;
    return TROUPE_OK;
}

// A life of a sweep of two trials, of which the first has that decided at report 3.
static void run_life(const trp_sweep_port *port, troupe_sweep **sweep, troupe_act act,
                     const going_on *goings)
{
    const step steps[] = {{.trial = 0, .report = 3, .act = act, .ranks = 4}};
    ok(BEGIN(port, sweep, .concurrent = 2, .name = "lives", .server = TROUPE_SERVER_AUTO,
             .open = TROUPE_OPEN_RESUME_OR_NEW,
             .scheduler = fake_paced(follow(steps, 1, goings, goings != NULL))));
    ok(troupe_sweep_wait(*sweep, 20000));
}

// What it left is cut off behind the line that has `text`.
static void cut_behind(const char *path, const char *text)
{
    char *all = support_read_file(path), *end = strstr(all, text);
    assert_non_null(end);
    strchr(end, '\n')[1] = '\0';
    support_write_file(path, all, strlen(all));
    free(all);
}

// Two lives, the first of which is killed behind that line. The second one is left in *sweep.
static void live_twice(const char *line, troupe_act act, const going_on *goings, bool gated,
                       troupe_sweep **sweep)
{
    char *folder = support_path(storage, "lives"), *path = support_path(folder, "trials.jsonl");
    remove(path);
    fake_open(2);
    fake.lockstep = true;
    run_life(&fake_port, sweep, act, goings);
    troupe_sweep_free(sweep);
    fake_shut();
    cut_behind(path, line);
    static trp_sweep_port port; // The sweep's as long as that is there.
    port = fake_port;
    port.find = find_as;
    port.has_gates = gated;
    fake_open(2);
    fake.curve = told;
    wait_at(0, act == TROUPE_ACT_PAUSE && found == RUNNING ? 4 : 0);
    run_life(&port, sweep, act, goings);
    free(folder);
    free(path);
}

static void test_a_trial_that_was_over_is_so_after_a_kill(void **state)
{
    (void)state;
    static const going_on goings[] = {
        {.trial = 0, .over = true, .after_trial = 1, .after_report = 3}};
    static const int cases[] = {PAUSED, STOPPED, GONE};
    for (size_t i = 0; i < 6; i++) {
        troupe_sweep *sweep;
        found = cases[i % 3];
        live_twice("\"over\"", TROUPE_ACT_PAUSE, goings, i >= 3, &sweep);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 3);
        assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// The gate has put its answer down, so that it is not asked again; the server never heard of it.
static void test_what_a_gate_answered_is_done_after_a_kill(void **state)
{
    (void)state;
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    troupe_sweep *sweep;
    found = RUNNING;
    live_twice("\"pause\"", TROUPE_ACT_PAUSE, goings, true, &sweep);
    assert_int_equal(fake.seen[0].pauses, 1);
    assert_int_equal(fake.seen[0].goings_on, 1);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 9);
    troupe_sweep_free(&sweep);
    fake_shut();
    live_twice("\"resize\"", TROUPE_ACT_RESIZE, NULL, true, &sweep);
    assert_int_equal(fake.seen[0].resized, 4);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->reports, 9);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- what is known of a trial

// Of a clone they are those of its point, though its first run had others.
static void test_a_clone_has_the_ranks_of_its_point(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_CHOICE(troupe_train_options, ranks, 1, 2),
                                        TROUPE_UNIFORM(fake_settings, rate, 0, 1),
                                        TROUPE_FIXED(fake_settings, epochs, 9)};
    for (int place = 0; place < 2; place++) {
        const step steps[] = {
            {.trial = 1, .report = 3, .act = TROUPE_ACT_RESIZE, .ranks = 5},
            {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = place}};
        troupe_sweep *sweep;
        fake_open(2);
        fake.curve = told;
        wait_at(1, 6);
        ok(trp_sweep_run(&fake_port, &fit, rows, 3, &sweep,
                         &(troupe_tune_options){
                             .size = sizeof(troupe_tune_options),
                             .metric = "loss",
                             .goal = TROUPE_MINIMIZE,
                             .trials = 2,
                             .concurrent = 1,
                             .search = TROUPE_SEARCH_RANDOM,
                             .scheduler = follow(steps, 2, NULL, 0),
                             .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
        assert_int_equal(fake.submitted, 3);
        assert_int_equal(fake.seen[2].ranks, place + 1);
        assert_int_equal(follow_ranks[1], place + 1);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

static void test_ranks_are_known_after_a_kill(void **state)
{
    (void)state;
    static const going_on over[] = {
        {.trial = 0, .over = true, .after_trial = 1, .after_report = 3}};
    troupe_sweep *sweep;
    found = RUNNING;
    live_twice("\"pause\"", TROUPE_ACT_PAUSE, over, false, &sweep);
    assert_int_equal(follow_ranks[1], 1);
    troupe_sweep_free(&sweep);
    fake_shut();
    // A report later the line of what it was given is not the last one.
    live_twice("\"number\": 4", TROUPE_ACT_RESIZE, NULL, false, &sweep);
    assert_int_equal(fake.seen[0].resized, 0);
    assert_int_equal(follow_ranks[0], 4);
    assert_int_equal(follow_ranks[1], 1);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static troupe_sweep *looked_at;
static double elapsed_s, elapsed_before_s;
static const troupe_result *shown;
static bool shown_beside; // As another run had begun.

// Of a thread of the fake's.
static troupe_sweep *the_sweep(void)
{
    troupe_sweep *sweep = NULL;
    while (sweep == NULL) {
        pthread_mutex_lock(&fake.lock);
        sweep = looked_at;
        pthread_mutex_unlock(&fake.lock);
        usleep(1000);
    }
    return sweep;
}

static void look_at(troupe_sweep *sweep)
{
    pthread_mutex_lock(&fake.lock);
    looked_at = sweep;
    pthread_mutex_unlock(&fake.lock);
}

// Looks at the trial of the third job as it has made some reports.
static double curve_looks(const fake_settings *config, int report)
{
    (void)told(config, report);
    pthread_mutex_lock(&fake.lock);
    const struct troupe_job *job = fake.jobs[2];
    pthread_mutex_unlock(&fake.lock);
    if (job != NULL && config == &job->config && report == 5) {
        elapsed_s = troupe_sweep_trial(the_sweep(), (size_t)job->trial)->elapsed_s;
    }
    return fake_quadratic(config, report);
}

static void test_seconds_of_a_second_run_are_counted_once(void **state)
{
    (void)state;
    static const step steps[] = {
        {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = 0.25}};
    fake_open(1);
    fake.curve = curve_looks;
    troupe_sweep *sweep;
    looked_at = NULL;
    wait_at(1, 6);
    ok(BEGIN(&fake_port, &sweep, .concurrent = 1, .scheduler = follow(steps, 1, NULL, 0)));
    look_at(sweep);
    ok(troupe_sweep_wait(sweep, -1));
    assert_true(elapsed_s >= 3 && elapsed_s <= 5); // Three, and up to two.
    troupe_sweep_free(&sweep);
    fake_shut();
}

// The second trial of two looks at what is known of the first, whose job is stopped by hand.
static double curve_takes_result(const fake_settings *config, int report)
{
    double value = curve_ends_paused(config, report);
    pthread_mutex_lock(&fake.lock);
    bool is_second = fake.jobs[1] != NULL && config == &fake.jobs[1]->config;
    bool is_third = fake.jobs[2] != NULL && config == &fake.jobs[2]->config;
    pthread_mutex_unlock(&fake.lock);
    for (int i = 0; is_second && report == 9 && shown == NULL && i < SUPPORT_SOON_MS; i++) {
        usleep(1000);
        shown = troupe_sweep_trial(the_sweep(), 0)->result;
        elapsed_before_s = troupe_sweep_trial(the_sweep(), 0)->elapsed_s;
    }
    if (is_third && troupe_sweep_trial(the_sweep(), 0)->result != NULL)
        shown_beside = true;
    return value;
}

static void test_a_result_that_was_shown_lasts_as_long_as_the_sweep(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    fake_open(1);
    by_hand = true;
    has_come = false;
    fake.curve = curve_takes_result;
    troupe_sweep *sweep;
    looked_at = NULL;
    shown = NULL;
    shown_beside = false;
    wait_at(0, 4);
    ok(BEGIN(&fake_port, &sweep, .concurrent = 1, .scheduler = FOLLOW(steps, goings)));
    look_at(sweep);
    ok(troupe_sweep_wait(sweep, -1));
    assert_non_null(shown);
    assert_false(shown_beside);
    assert_true(shown->elapsed_s == elapsed_before_s); // It is there still.
    assert_ptr_not_equal(troupe_sweep_trial(sweep, 0)->result, shown);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// One that somebody stops was not trained to its end.
static double curve_is_stopped(const fake_settings *config, int report)
{
    pthread_mutex_lock(&fake.lock);
    if (report == 4 && fake.jobs[0] != NULL && config == &fake.jobs[0]->config)
        fake.jobs[0]->stop = true;
    pthread_mutex_unlock(&fake.lock);
    return fake_quadratic(config, report);
}

static void test_a_trial_that_is_stopped_by_hand_is_stopped(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(1);
    fake.curve = curve_is_stopped;
    ok(SWEEP(&sweep, .trials = 2, .concurrent = 1));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_TERMINATED);
    char *path = support_path(sweep->folder, "trials.jsonl"), *text = support_read_file(path);
    assert_non_null(strstr(text, "STOPPED"));
    free(text);
    free(path);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// ---- trials that are added

static bool lets_on;

static double curve_waits(const fake_settings *config, int report)
{
    for (bool on = false; !on; usleep(1000)) {
        pthread_mutex_lock(&fake.lock);
        on = lets_on;
        pthread_mutex_unlock(&fake.lock);
    }
    return fake_quadratic(config, report);
}

static void let_on(bool on)
{
    pthread_mutex_lock(&fake.lock);
    lets_on = on;
    pthread_mutex_unlock(&fake.lock);
}

static bool has_begun(void *sweep)
{
    return troupe_sweep_count(sweep) > 0;
}

static void test_what_is_added_comes_besides(void **state)
{
    (void)state;
    static const struct {
        troupe_search search;
        int trials, added, count;
    } cases[] = {{TROUPE_SEARCH_GRID, 0, 1, 9}, {TROUPE_SEARCH_RANDOM, 3, 2, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep *sweep;
        fake_open(1);
        let_on(false);
        fake.curve = curve_waits;
        ok(trp_sweep_begin(&fake_port, &fit, space, ROWS, &sweep,
                           &(troupe_tune_options){
                               .size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = cases[i].trials,
                               .search = cases[i].search,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
        assert_true(support_wait_until(has_begun, sweep, SUPPORT_SOON_MS));
        ok(troupe_sweep_add(sweep, cases[i].added));
        let_on(true);
        ok(troupe_sweep_wait(sweep, -1));
        assert_int_equal(troupe_sweep_count(sweep), cases[i].count);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// Each combination of grids counts: a record has up to 100,000 trials.
static void test_no_more_is_added_than_a_record_may_have(void **state)
{
    (void)state;
    static const double rates[1024];
    troupe_param rows[] = {TROUPE_CHOICE_LIST(fake_settings, rate, rates),
                           TROUPE_FIXED(fake_settings, epochs, 9)};
    rows[0].draw = TROUPE_DRAW_GRID;
    troupe_sweep *sweep;
    fake_open(1);
    let_on(false);
    fake.curve = curve_waits;
    ok(trp_sweep_begin(
        &fake_port, &fit, rows, 2, &sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)}));
    assert_true(support_wait_until(has_begun, sweep, SUPPORT_SOON_MS));
    assert_int_equal(troupe_sweep_add(sweep, 97), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "97 more trials than 1024: expected 1 to 96, of each of 1024 combinations");
    ok(troupe_sweep_add(sweep, 96));
    troupe_sweep_stop(sweep);
    let_on(true);
    ok(troupe_sweep_wait(sweep, 20000));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_what_was_added_is_there_after_a_kill(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    for (int i = 0; i < 3; i++) { // As many as at first, twice, and then more than with the others.
        fake_open(1);
        let_on(i > 0);
        fake.curve = curve_waits;
        ok(BEGIN(&fake_port, &sweep, .concurrent = 1, .name = "added", .trials = i < 2 ? 2 : 6,
                 .server = TROUPE_SERVER_AUTO, .open = TROUPE_OPEN_RESUME_OR_NEW));
        if (i == 0)
            ok(troupe_sweep_add(sweep, 2));
        let_on(true);
        ok(troupe_sweep_wait(sweep, 20000));
        assert_int_equal(troupe_sweep_count(sweep), i < 2 ? 4 : 6);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

// ---- what lasts

static trp_tune_record *record; // With the lock of fake.
static int lasted;

// Of a power failure, which a train server's jobs outlive.
static troupe_status submit_what_lasts(const troupe_trainer *trainer, const void *config,
                                       const troupe_follower *given, troupe_job **job,
                                       const troupe_train_options *how)
{
    pthread_mutex_lock(&fake.lock);
    if (record != NULL && trp_tune_record_lasts(record) == trp_tune_record_added(record))
        lasted++;
    pthread_mutex_unlock(&fake.lock);
    return fake_submit(trainer, config, given, job, how);
}

static bool has_submitted(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    bool has = fake.submitted > 0;
    pthread_mutex_unlock(&fake.lock);
    return has;
}

static void test_the_record_lasts_before_a_job_does(void **state)
{
    (void)state;
    static trp_sweep_port port;
    port = fake_port;
    port.submit = submit_what_lasts;
    troupe_sweep *sweep;
    fake_open(1);
    let_on(false);
    record = NULL;
    lasted = 0;
    fake.curve = curve_waits;
    ok(BEGIN(&port, &sweep, .concurrent = 1, .name = "lasts", .trials = 3,
             .server = TROUPE_SERVER_AUTO));
    assert_true(support_wait_until(has_submitted, NULL, SUPPORT_SOON_MS));
    trp_fair_lock_take(&sweep->lock);
    pthread_mutex_lock(&fake.lock);
    record = sweep->control->record;
    pthread_mutex_unlock(&fake.lock);
    trp_fair_lock_give(&sweep->lock);
    let_on(true);
    ok(troupe_sweep_wait(sweep, 20000));
    assert_int_equal(lasted, 2);
    troupe_sweep_free(&sweep);
    fake_shut();
}

// Of the program's own trials, whose runs sync nothing of their ends: the record does soon.
static bool some_lasts(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    bool lasts = record != NULL && trp_tune_record_lasts(record) > 0;
    pthread_mutex_unlock(&fake.lock);
    return lasts;
}

static double second_waits_for_record(const fake_settings *config, int report)
{
    pthread_mutex_lock(&fake.lock);
    bool waits = report == 1 && fake.jobs[1] != NULL && config == &fake.jobs[1]->config;
    pthread_mutex_unlock(&fake.lock);
    if (waits)
        lasted += support_wait_until(some_lasts, NULL, SUPPORT_SOON_MS);
    return curve_waits(config, report);
}

static void test_the_record_has_the_ends_of_own_trials_last(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(1);
    let_on(false);
    record = NULL;
    lasted = 0;
    fake.curve = second_waits_for_record;
    ok(BEGIN(&fake_port, &sweep, .concurrent = 1, .name = "ends", .trials = 2));
    assert_true(support_wait_until(has_submitted, NULL, SUPPORT_SOON_MS));
    trp_fair_lock_take(&sweep->lock);
    pthread_mutex_lock(&fake.lock);
    record = sweep->control->record;
    pthread_mutex_unlock(&fake.lock);
    trp_fair_lock_give(&sweep->lock);
    let_on(true);
    ok(troupe_sweep_wait(sweep, 20000));
    assert_int_equal(lasted, 1);
    assert_int_equal(fake.seen[0].sync, TROUPE_SYNC_CHECKPOINTS);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_what_a_run_syncs_can_be_said(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(1);
    ok(SWEEP(&sweep, .trials = 1, .name = "said",
             .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                     .sync = TROUPE_SYNC_ALL)));
    assert_int_equal(fake.seen[0].sync, TROUPE_SYNC_ALL);
    troupe_sweep_free(&sweep);
    ok(SWEEP(&sweep, .trials = 1, .name = "saves", .server = TROUPE_SERVER_AUTO));
    assert_int_equal(fake.seen[1].sync, TROUPE_SYNC_AUTO);
    troupe_sweep_free(&sweep);
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_paused_trial_whose_job_is_lost_is_tried_again_when_it_goes_on),
        cmocka_unit_test(test_a_paused_trial_goes_on_without_its_job),
        cmocka_unit_test(test_a_trial_that_ends_on_its_way_to_a_pause_has_its_reports),
        cmocka_unit_test(test_a_sweep_ends_whose_last_paused_job_fails),
        cmocka_unit_test(test_a_trial_that_fails_as_it_stops_has_ended_as_decided),
        cmocka_unit_test(test_a_trial_that_fails_as_it_is_to_clone_clones),
        cmocka_unit_test(test_a_gate_that_is_asked_late_pauses_and_resizes),
        cmocka_unit_test(test_a_trial_that_was_over_is_so_after_a_kill),
        cmocka_unit_test(test_what_a_gate_answered_is_done_after_a_kill),
        cmocka_unit_test(test_a_clone_has_the_ranks_of_its_point),
        cmocka_unit_test(test_ranks_are_known_after_a_kill),
        cmocka_unit_test(test_seconds_of_a_second_run_are_counted_once),
        cmocka_unit_test(test_a_result_that_was_shown_lasts_as_long_as_the_sweep),
        cmocka_unit_test(test_a_trial_that_is_stopped_by_hand_is_stopped),
        cmocka_unit_test(test_what_is_added_comes_besides),
        cmocka_unit_test(test_no_more_is_added_than_a_record_may_have),
        cmocka_unit_test(test_what_was_added_is_there_after_a_kill),
        cmocka_unit_test(test_the_record_lasts_before_a_job_does),
        cmocka_unit_test(test_the_record_has_the_ends_of_own_trials_last),
        cmocka_unit_test(test_what_a_run_syncs_can_be_said),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
