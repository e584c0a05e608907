// test_left_runs.c: single runs of a program's own trials that an earlier life of their sweep has
// left, over a Train that a thread plays: what each has left by then is said here.
#include "follow.h"

#include <unistd.h>

enum { TRIALS = 2, EVERY = 9 };

// An undisturbed sweep of the scheduler's, one trial after the other: its record, and the configs.
static fake_settings configs[TRIALS];

static troupe_status run_sweep(const char *folder, troupe_sweep **sweep, troupe_tune_options how)
{
    how.trials = TRIALS;
    how.concurrent = 1;
    how.name = "left";
    how.open = TROUPE_OPEN_RESUME_OR_NEW;
    how.train = TROUPE_OPTIONS(troupe_train_options, .storage = folder);
    return run_fit(sweep, how);
}
#define RUN(folder, sweep, ...) run_sweep((folder), (sweep), (troupe_tune_options){__VA_ARGS__})

static void open_train(bool gates)
{
    fake_open(1);
    fake.gates = gates;
    fake.overrun = 1;
}

static char *record_of(const char *folder)
{
    char path[600];
    snprintf(path, sizeof path, "%s/left/trials.jsonl", folder);
    char *text = support_read_file(path);
    assert_non_null(text);
    return text;
}

static char *learn(troupe_scheduler *scheduler)
{
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    open_train(true);
    ok(RUN(folder, &sweep, .scheduler = scheduler));
    char *text = record_of(folder);
    for (int i = 0; i < TRIALS; i++)
        configs[i] = *(const fake_settings *)troupe_sweep_trial(sweep, (size_t)i)->config;
    troupe_sweep_free(&sweep);
    fake_shut();
    support_directory_remove(folder);
    return text;
}

// Makes a folder where the sweep was killed behind the line of that report, and has left no run.
static char *kill_behind(const char *text, int trial, int report, bool gates)
{
    char what[80];
    snprintf(what, sizeof what, "{\"event\": \"report\", \"trial\": %d, \"number\": %d,", trial,
             report);
    const char *line = strstr(text, what);
    assert_non_null(line);
    char *folder = leave_record("left", text, (size_t)(strchr(line, '\n') + 1 - text));
    open_train(gates);
    return folder;
}

static void shut(troupe_sweep **sweep, char *folder)
{
    troupe_sweep_free(sweep);
    fake_shut();
    support_directory_remove(folder);
}

// ---- how runs have ended

// As the tuner died before it had heard of that.
static void test_a_trial_that_was_killed_for_its_time_is_not_tried_again(void **state)
{
    (void)state;
    static const struct {
        const char *error;
        double elapsed_s;
        troupe_trial_state state;
        int runs;
    } cases[] = {
        {"it ran for longer than 5 s, which trial_timeout_s allows", 7.1, TROUPE_TRIAL_ERROR, 0},
        {"its own call was not answered in time", 4.9, TROUPE_TRIAL_TERMINATED, 1}};
    char *text = learn(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep *sweep;
        char *folder = kill_behind(text, 0, 3, true);
        fake.runs[0][0] = (fake_left){.there = true,
                                      .ended = true,
                                      .reports = 3,
                                      .config = configs[0],
                                      .status = TROUPE_DEADLINE_EXCEEDED,
                                      .error = cases[i].error,
                                      .elapsed_s = cases[i].elapsed_s};
        ok(RUN(folder, &sweep, .retries = 1, .trial_timeout_s = 5));
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        assert_string_equal(trial->error, cases[i].runs == 0 ? cases[i].error : "");
        assert_int_equal(trial->state, cases[i].state);
        assert_int_equal(fake.submitted, TRIALS - 1 + cases[i].runs);
        shut(&sweep, folder);
    }
    free(text);
}

static const troupe_stages stages = {.saves_when_due = true};
static const troupe_trainer fit_when_due = {.abi = TROUPE_ABI,
                                            .name = "fit",
                                            .config = &troupe_type_fake_settings,
                                            .run = never_run,
                                            .stages = &stages};

// One that saves when it is due makes a report more after its stop, for its last checkpoint. One
// that has a checkpoint behind the stop needs none.
static void test_a_stopped_run_makes_no_report_that_it_has_made(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_STOP}};
    static const struct {
        int reports;
        bool saving;
        int reopened;
    } cases[] = {{3, false, 1}, {4, false, 0}, {4, true, 1}, {5, false, 0}};
    char *text = learn(follow(steps, 1, NULL, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        troupe_sweep *sweep;
        char *folder = kill_behind(text, 0, 3, true);
        fake.runs[0][0] = (fake_left){.there = true,
                                      .reports = cases[i].reports,
                                      .saving = cases[i].saving,
                                      .config = configs[0]};
        ok(trp_sweep_run(&fake_gated_port, &fit_when_due, space, ROWS, &sweep,
                         &(troupe_tune_options){
                             .size = sizeof(troupe_tune_options),
                             .metric = "loss",
                             .goal = TROUPE_MINIMIZE,
                             .trials = TRIALS,
                             .concurrent = 1,
                             .name = "left",
                             .search = TROUPE_SEARCH_RANDOM,
                             .open = TROUPE_OPEN_RESUME,
                             .scheduler = follow(steps, 1, NULL, 0),
                             .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder)}));
        assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
        assert_int_equal(fake.submitted, TRIALS - 1 + cases[i].reopened);
        shut(&sweep, folder);
    }
    free(text);
}

// What it has reported on its way to the pause is decided on when it goes on, as in one life.
static void test_a_trial_that_fails_on_its_way_to_a_pause_has_its_reports_decided_on(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 0, .report = 4, .act = TROUPE_ACT_STOP}};
    static const going_on goings[] = {{.trial = 0, .after_trial = 1, .after_report = EVERY}};
    char *text = learn(FOLLOW(steps, goings));
    for (int retries = 0; retries < 2; retries++) {
        troupe_sweep *sweep;
        char *folder = kill_behind(text, 0, 3, true);
        fake.runs[0][0] = (fake_left){.there = true,
                                      .ended = true,
                                      .reports = 4,
                                      .config = configs[0],
                                      .status = TROUPE_FAILED,
                                      .error = "it fell"};
        ok(RUN(folder, &sweep, .retries = retries,
               .scheduler = follow(steps, 2, goings, (size_t)retries)));
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        assert_int_equal(trial->state, retries > 0 ? TROUPE_TRIAL_STOPPED : TROUPE_TRIAL_ERROR);
        assert_int_equal(trial->reports, 4);
        assert_int_equal(fake.submitted, 1);
        shut(&sweep, folder);
    }
    free(text);
}

// ---- what is known of them

static void test_a_trial_that_was_refused_has_its_config(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    for (int life = 0; life < 2; life++) {
        open_train(true);
        fake.refuse_from = life == 0 ? 1 : -1;
        fake.refuse_until = 2;
        fake.refusal = TROUPE_NO_SPACE;
        ok(RUN(folder, &sweep, .retries = 0));
        const troupe_trial *trial = troupe_sweep_trial(sweep, 1);
        const fake_settings *config = trial->config;
        assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
        assert_non_null(config);
        if (life == 0)
            configs[1] = *config;
        assert_memory_equal(config, &configs[1], sizeof *config);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
    support_directory_remove(folder);
}

// ---- folders that are in the way

// The line that begins so, and has that: one behind the other in `to`.
static void add_line(char *to, const char *text, const char *event, const char *part)
{
    char what[40];
    snprintf(what, sizeof what, "{\"event\": \"%s\",", event);
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        char *line = strndup(at, strcspn(at, "\n") + 1);
        bool is = strncmp(line, what, strlen(what)) == 0 && strstr(line, part) != NULL;
        if (is)
            strcat(to, line);
        free(line);
        if (is)
            return;
    }
    fail_msg("no line of %s with %s", event, part);
}

// The first trial was to begin, and there is the folder of another run; the second one has another
// config than it would have now, where that is refused.
static char *leave_in_the_way(const char *text, bool refused, char *way, size_t size)
{
    char *lines = calloc(1, strlen(text) + 2);
    add_line(lines, text, "sweep", "");
    add_line(lines, text, "study", "");
    add_line(lines, text, "suggest", "\"trial\": 0");
    add_line(lines, text, "suggest", "\"trial\": 1");
    add_line(lines, text, "submitted", "_00001");
    char *rate = strstr(strstr(lines, "\"submitted\""), "\"rate\": 0");
    if (refused)
        rate[strlen("\"rate\": ")] = '1';
    char *folder = leave_record("left", lines, strlen(lines));
    const char *name = strstr(text, "_00000\"");
    snprintf(way, size, "%s/left/fit%.*s_00000", folder, 6, name - 6);
    assert_int_equal(mkdir(way, 0700), 0);
    char *file = support_path(way, "run.json");
    support_write_file(file, "{}", 2);
    free(file);
    free(lines);
    return folder;
}

static void test_a_folder_in_the_way_is_moved_once_nothing_refuses_the_opening(void **state)
{
    (void)state;
    char *text = learn(NULL), way[600], aside[640];
    for (int i = 0; i < 4; i++) {
        bool refused = i % 2 == 0, damaged = i >= 2;
        troupe_sweep *sweep;
        char *folder = leave_in_the_way(text, refused, way, sizeof way);
        snprintf(aside, sizeof aside, "%s.lost_0", way);
        open_train(true);
        fake.runs[0][0] = (fake_left){.there = true, .reports = 2, .damaged = damaged};
        fake.runs[1][0] = (fake_left){.there = true, .reports = 1, .config = configs[1]};
        assert_int_equal(RUN(folder, &sweep, .retries = 0), refused ? TROUPE_EXISTS : TROUPE_OK);
        assert_int_equal(access(aside, F_OK), refused ? -1 : 0);
        assert_int_equal(access(way, F_OK), 0); // Its own, by now.
        assert_int_equal(fake.submitted, refused ? 0 : 2);
        shut(&sweep, folder);
    }
    free(text);
}

// ---- a folder that was moved

// What an earlier life has learned of checkpoints holds there.
static void test_a_sweep_goes_on_where_its_folder_was_moved_to(void **state)
{
    (void)state;
    static const step steps[] = {
        {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = 0.25}};
    char *text = learn(follow(steps, 1, NULL, 0)), own[600];
    troupe_sweep *sweep;
    char *folder = kill_behind(text, 1, 5, true); // Another one.
    fake.runs[1][0] = (fake_left){.there = true, .reports = 5, .config = configs[1]};
    ok(RUN(folder, &sweep, .scheduler = follow(steps, 1, NULL, 0)));
    assert_int_equal(fake.submitted, 1);
    snprintf(own, sizeof own, "%s/left/%s/checkpoint_000008", folder,
             troupe_sweep_trial(sweep, 0)->name);
    assert_string_equal(fake.seen[0].from, own);
    shut(&sweep, folder);
    free(text);
}

// ---- ranks that are given

static void test_a_reopened_trial_is_resized_once_more(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_RESIZE, .ranks = 2},
                                 {.trial = 0, .report = 5, .act = TROUPE_ACT_RESIZE, .ranks = 3}};
    char *text = learn(follow(steps, 2, NULL, 0));
    for (int gates = 0; gates < 2; gates++) {
        troupe_sweep *sweep;
        char *folder = kill_behind(text, 0, 3, gates);
        fake.runs[0][0] = (fake_left){.there = true, .reports = 3, .config = configs[0]};
        ok(RUN(folder, &sweep, .scheduler = follow(steps, 2, NULL, 0)));
        assert_int_equal(fake.seen[0].ranks, 2);
        assert_int_equal(fake.seen[0].resized, 3);
        shut(&sweep, folder);
    }
    free(text);
}

// ---- gates that are others in each life

// The next of its rungs that the trial has not come to: as it is asked, and not as the run began.
static int rung_ahead(troupe_scheduler *scheduler, int trial, int after)
{
    const follower *self = (const follower *)scheduler;
    int from = self->reports[trial] > after ? self->reports[trial] : after;
    return from < EVERY ? from / 3 * 3 + 3 : 0;
}

static troupe_scheduler *follow_rungs(const step *it)
{
    troupe_scheduler *made = follow(it, 1, NULL, 0);
    made->decides_at = rung_ahead;
    return made;
}

static void test_what_was_decided_is_done_where_no_gate_is_asked_for_it_now(void **state)
{
    (void)state;
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_STOP},
                                 {.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE}};
    for (int i = 0; i < 2; i++) {
        troupe_sweep *sweep;
        char *text = learn(follow_rungs(&steps[i]));
        char *folder = kill_behind(text, 0, 3, true);
        fake.runs[0][0] = (fake_left){.there = true, .reports = 3, .config = configs[0]};
        ok(RUN(folder, &sweep, .scheduler = follow_rungs(&steps[i])));
        const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
        assert_int_equal(trial->state, i == 0 ? TROUPE_TRIAL_STOPPED : TROUPE_TRIAL_PAUSED);
        assert_in_range(trial->reports, 3, 4);
        shut(&sweep, folder);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trial_that_was_killed_for_its_time_is_not_tried_again),
        cmocka_unit_test(test_a_stopped_run_makes_no_report_that_it_has_made),
        cmocka_unit_test(test_a_trial_that_fails_on_its_way_to_a_pause_has_its_reports_decided_on),
        cmocka_unit_test(test_a_trial_that_was_refused_has_its_config),
        cmocka_unit_test(test_a_folder_in_the_way_is_moved_once_nothing_refuses_the_opening),
        cmocka_unit_test(test_a_sweep_goes_on_where_its_folder_was_moved_to),
        cmocka_unit_test(test_a_reopened_trial_is_resized_once_more),
        cmocka_unit_test(test_what_was_decided_is_done_where_no_gate_is_asked_for_it_now),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
