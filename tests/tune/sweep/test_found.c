// test_found.c: jobs of a train server that an earlier life of the sweep has left: what they have
// been through is told from the beginning, and what they are now counts.
#include "follow.h"

#include <tune/sweep/control.h>

// What a trial's first job has been through: R it runs, P it is paused, Q it goes on, . it makes a
// report, c that has a checkpoint, E it has ended by itself, S it was stopped. NULL: the server
// knows none.
static const char *past[FAKE_JOBS_MAX];

static void tell_report(struct troupe_job *job)
{
    const troupe_metric metrics[] = {{"epoch", ++job->number},
                                     {"loss", fake_quadratic(&job->config, job->number)}};
    const troupe_report_event event = {
        .number = job->number, .metrics = metrics, .count = 2, .elapsed_s = job->number * 0.5};
    job->follower.report(job->follower.user, job, &event);
}

static void tell_checkpoint(struct troupe_job *job)
{
    char folder[32];
    snprintf(folder, sizeof folder, "checkpoint_%06d", job->number);
    const troupe_checkpoint_event event = {
        .number = job->number, .report = job->number, .folder = folder};
    job->follower.checkpoint(job->follower.user, job, &event);
}

static void tell_past(struct troupe_job *job, const char *what)
{
    for (; *what != '\0'; what++) {
        if (*what == '.')
            tell_report(job);
        else if (*what == 'c')
            tell_checkpoint(job);
        if (*what == '.' || *what == 'c')
            continue;
        job->state = *what == 'R'   ? TROUPE_JOB_RUNNING
                     : *what == 'P' ? TROUPE_JOB_PAUSED
                     : *what == 'Q' ? TROUPE_JOB_QUEUED
                                    : TROUPE_JOB_DONE;
        job->result.stopped = *what == 'S';
        job->follower.state(job->follower.user, job, job->state);
    }
}

static troupe_gate gate_of_found; // Of the last one.

// All of it is told before the sweep has its first turn.
static troupe_status find_with_past(const char *key, const troupe_follower *with,
                                    const troupe_gate *gate, troupe_job **job)
{
    int trial = 0, run = 0;
    if (sscanf(key, "sweep-%*[^-]-%d-%d", &trial, &run) != 1 || past[trial] == NULL)
        return troupe_fail(TROUPE_NOT_FOUND, "no job '%s'", key);
    if (gate != NULL)
        gate_of_found = *gate;
    struct troupe_job *made = calloc(1, sizeof *made);
    made->config = (fake_settings){.rate = 0.5, .hidden = 32, .epochs = 9};
    made->follower = *with;
    made->trial = trial;
    tell_past(made, past[trial]);
    pthread_mutex_lock(&fake.lock);
    made->answered = made->number;
    made->pause = made->state == TROUPE_JOB_PAUSED;
    fake.running += made->state == TROUPE_JOB_RUNNING;
    fake.jobs[fake.submitted++] = made;
    fake.open++;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    *job = made;
    return TROUPE_OK;
}

// ---- lives of a sweep, one trial at a time

static void (*goes_on)(troupe_job *job) = fake_go_on;
static bool gated;
static int overrun; // Reports on the way to a pause.

static void live(const char *folder, int trials, troupe_scheduler *scheduler, troupe_sweep **sweep)
{
    static trp_sweep_port port; // The sweep's as long as that is there.
    port = fake_port;
    port.find = find_with_past;
    port.go_on = goes_on;
    port.has_gates = gated;
    fake_open(1);
    fake.lockstep = true;
    fake.overrun = overrun;
    ok(trp_sweep_run(
        &port, &fit, space, ROWS, sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = trials,
                               .concurrent = 1,
                               .name = "lives",
                               .search = TROUPE_SEARCH_RANDOM,
                               .server = TROUPE_SERVER_AUTO,
                               .open = TROUPE_OPEN_RESUME_OR_NEW,
                               .scheduler = fake_paced(scheduler),
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder)}));
}

static void let_go(troupe_sweep **sweep)
{
    troupe_sweep_free(sweep);
    fake_shut();
    memset(past, 0, sizeof past);
    goes_on = fake_go_on;
    gated = false;
    overrun = 0;
}

// The sweep's record, the caller's to free.
static char *record_in(const char *folder)
{
    char path[600];
    snprintf(path, sizeof path, "%s/lives/trials.jsonl", folder);
    return support_read_file(path);
}

// Its record ends with the first line that has `text`, as of a tuner that was killed then. Returns
// how long it is.
static size_t cut_behind(const char *folder, const char *text)
{
    char path[600], *record = record_in(folder), *end = strstr(record, text);
    assert_non_null(end);
    size_t size = (size_t)(strchr(end, '\n') + 1 - record);
    snprintf(path, sizeof path, "%s/lives/trials.jsonl", folder);
    support_write_file(path, record, size);
    free(record);
    return size;
}

static void add_to_record(const char *folder, const char *line)
{
    char path[600];
    snprintf(path, sizeof path, "%s/lives/trials.jsonl", folder);
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    fputs(line, file);
    fclose(file);
}

// The trial has made its last report, at which it was to be paused, and ends. It was paused before.
static void test_a_pause_of_before_gives_no_place_away(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 0, .report = 6, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    char *folder = support_directory_make();
    troupe_sweep *sweep;
    live(folder, 3, FOLLOW(steps, goings), &sweep);
    let_go(&sweep);
    size_t size = cut_behind(folder, "\"trial\": 0, \"number\": 6,");
    past[0] = "R...PQR...E";
    live(folder, 3, FOLLOW(steps, goings), &sweep);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
    let_go(&sweep);
    char *record = record_in(folder);
    const char *end = strstr(record + size, "\"event\": \"end\", \"trial\": 0,");
    const char *next = strstr(record + size, "\"event\": \"suggest\", \"trial\": 2,");
    assert_non_null(end);
    assert_non_null(next);
    assert_true(end < next);
    free(record);
    support_directory_remove(folder);
}

// Each is paused by now; the other one waits for the place that the source seems to have given away
// before.
static void test_a_clone_begins_with_all_that_its_source_has_saved(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 2, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 4, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 1, .after_trial = 1, .after_report = 2},
                                      {.trial = 0,
                                       .after_trial = 1,
                                       .after_report = 4,
                                       .how = {.act = TROUPE_ACT_CLONE, .source = 1}},
                                      {.trial = 1, .after_trial = 0, .after_report = 9}};
    char *folder = support_directory_make();
    troupe_sweep *sweep;
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    let_go(&sweep);
    (void)cut_behind(folder, "\"trial\": 1, \"number\": 4,");
    past[0] = "R...P";
    past[1] = "R..PQR...cP";
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    assert_int_equal(fake.submitted, 3);
    assert_string_equal(fake.seen[2].from, "checkpoint_000005");
    let_go(&sweep);
    support_directory_remove(folder);
}

// What it clones is decided, with a checkpoint whose report was kept, and has no line.
static void test_a_clone_begins_with_what_was_decided(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 2, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 3, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0,
                                       .after_trial = 1,
                                       .after_report = 3,
                                       .how = {.act = TROUPE_ACT_CLONE, .source = 1}}};
    char *folder = support_directory_make();
    troupe_sweep *sweep;
    overrun = 1;
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    assert_non_null(strstr(fake.seen[2].from, "_00001/checkpoint_000004"));
    let_go(&sweep);
    (void)cut_behind(folder, "\"event\": \"again\"");
    past[0] = "R...P";
    past[1] = "R....P";
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    assert_non_null(strstr(fake.seen[2].from, "_00001/checkpoint_000004"));
    let_go(&sweep);
    support_directory_remove(folder);
}

// Its job has ended, as nothing but what is paused was left, or does so as it is to go on; and the
// line that it goes on is there, or not.
static void test_a_trial_that_was_put_by_goes_on_as_another_run(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 4, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    static const char again[] = "{\"event\": \"again\", \"trial\": 0, \"fresh\": false}\n";
    for (int i = 0; i < 4; i++) {
        char *folder = support_directory_make();
        troupe_sweep *sweep;
        live(folder, 2, follow(steps, 1, NULL, 0), &sweep);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_PAUSED);
        let_go(&sweep);
        if (i >= 2)
            add_to_record(folder, again);
        past[0] = i % 2 == 0 ? "R....PS" : "R....P";
        goes_on = fake_stop; // As an earlier life has asked it to.
        live(folder, 2, FOLLOW(steps, goings), &sweep);
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
        let_go(&sweep);
        char *record = record_in(folder);
        assert_non_null(strstr(record, "\"event\": \"run\""));
        free(record);
        support_directory_remove(folder);
    }
}

static troupe_gate_answer answer;

// The gate of the report where the trial was to pause was open, and is asked by now.
static void answer_late(troupe_job *job)
{
    const troupe_report_event event = {.number = 4};
    int ranks = 1;
    answer = gate_of_found.decide(gate_of_found.user, job, &event, &ranks);
    fake_go_on(job);
}

static void test_a_gate_pauses_no_trial_that_has_gone_on(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 4, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = 9}};
    char *folder = support_directory_make();
    troupe_sweep *sweep;
    live(folder, 2, follow(steps, 1, NULL, 0), &sweep);
    let_go(&sweep);
    past[0] = "R....P";
    goes_on = answer_late;
    gated = true;
    answer = TROUPE_GATE_STOP;
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    assert_int_equal(answer, TROUPE_GATE_GO_ON);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_TERMINATED);
    let_go(&sweep);
    support_directory_remove(folder);
}

static void test_a_trial_that_is_over_as_it_was_paused_is_stopped(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 4, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {
        {.trial = 0, .over = true, .after_trial = 1, .after_report = 9}};
    char *folder = support_directory_make();
    troupe_sweep *sweep;
    live(folder, 2, follow(steps, 1, NULL, 0), &sweep);
    let_go(&sweep);
    past[0] = "R....P";
    live(folder, 2, FOLLOW(steps, goings), &sweep);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
    let_go(&sweep);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pause_of_before_gives_no_place_away),
        cmocka_unit_test(test_a_clone_begins_with_all_that_its_source_has_saved),
        cmocka_unit_test(test_a_clone_begins_with_what_was_decided),
        cmocka_unit_test(test_a_trial_that_was_put_by_goes_on_as_another_run),
        cmocka_unit_test(test_a_gate_pauses_no_trial_that_has_gone_on),
        cmocka_unit_test(test_a_trial_that_is_over_as_it_was_paused_is_stopped),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
