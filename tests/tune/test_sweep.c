// test_sweep.c: the controller of a sweep, over a Train that a thread plays.
#include "fake_train.h"

#include <dirent.h>
#include <math.h>
#include <runtime/memory.h>
#include <tune/search.h>

static troupe_status never_run(troupe_worker *me, const void *config)
{
    (void)me;
    (void)config;
    return TROUPE_FAILED;
}
static const troupe_trainer fit = {TROUPE_ABI, "fit", &troupe_type_fake_settings, never_run};

static const troupe_param space[] = {
    TROUPE_UNIFORM(fake_settings, rate, 0, 1),
    TROUPE_CHOICE(fake_settings, hidden, 32, 64, 128),
    TROUPE_FIXED(fake_settings, epochs, 9),
};
enum { ROWS = sizeof space / sizeof *space };

static char *storage;

static int make_storage(void **state)
{
    (void)state;
    storage = support_directory_make();
    return 0;
}

static int remove_storage(void **state)
{
    (void)state;
    support_directory_remove(storage);
    return 0;
}

// Runs a sweep of `fit`; what is not said is the metric loss and the test's storage.
static troupe_status run_fit(troupe_sweep **sweep, troupe_tune_options how)
{
    how.size = sizeof how;
    how.metric = how.metric == NULL ? "loss" : how.metric;
    how.train.storage = how.train.storage == NULL ? storage : how.train.storage;
    return trp_sweep_run(&fake_port, &fit, space, ROWS, sweep, &how);
}
#define SWEEP(sweep, ...) run_fit((sweep), (troupe_tune_options){__VA_ARGS__})

static void ok(troupe_status status)
{
    if (status != TROUPE_OK)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

// A scheduler that says what it is told to, and tells when it is freed.
typedef struct scripted {
    troupe_scheduler base;
    int trial, at;         // The trial that it ends, and at which report,
    trp_decision decision; // and how.
    bool *freed;
} scripted;

static troupe_status scripted_decide(troupe_scheduler *scheduler, int trial, int number,
                                     double score, trp_decision *decision)
{
    const scripted *self = (const scripted *)scheduler;
    (void)score;
    bool now = number >= self->at && (self->trial < 0 || self->trial == trial);
    *decision = now ? self->decision : TRP_GO_ON;
    return TROUPE_OK;
}

static void scripted_destroy(troupe_scheduler *scheduler)
{
    *((scripted *)scheduler)->freed = true;
    free(scheduler);
}

static troupe_scheduler *script(int trial, int at, trp_decision decision, bool *freed)
{
    scripted *self = calloc(1, sizeof *self);
    *freed = false;
    *self = (scripted){.trial = trial, .at = at, .decision = decision, .freed = freed};
    self->base.decide = scripted_decide;
    self->base.destroy = scripted_destroy;
    return &self->base;
}

static int count_files(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static int count_text(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

// ---- a sweep that goes well
// ----------------------------------------------------------------------

static void every_trial_runs_to_its_end(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 7, .seed = 11));
    assert_int_equal(troupe_sweep_count(sweep), 7);
    assert_int_equal(troupe_sweep_stopped(sweep), 0);
    assert_true(troupe_sweep_elapsed_s(sweep) > 0);
    assert_null(troupe_sweep_trial(sweep, 7));

    trp_space drawn;
    ok(trp_space_open(&drawn, &troupe_type_fake_settings, space, ROWS));
    trp_search *search = trp_search_random(&drawn, 11);
    const troupe_trial *best = NULL;
    for (int i = 0; i < 7; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, (size_t)i);
        const fake_settings *config = trial->config;
        fake_settings expected;
        search->suggest(search, i, &expected);
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
    trp_search_destroy(&search);
    trp_space_close(&drawn);
    troupe_sweep_free(&sweep);
    assert_null(sweep);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static double rises_then_falls(const fake_settings *config, int report)
{
    return report == 4 ? 10 + config->rate : (report == 5 ? (double)NAN : report * 0.1);
}

static void the_best_is_over_all_reports_towards_the_goal(void **state)
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

static void a_sweep_of_nan_has_no_best(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    fake.curve = always_nan;
    ok(SWEEP(&sweep, .trials = 3, .scheduler = troupe_asha(.reduction = 2)));
    assert_null(troupe_sweep_best(sweep));
    assert_null(troupe_sweep_best_config(sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void jobs_overlap_as_far_as_asked(void **state)
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
                 .train = {.workers = cases[i].workers, .cpus_per_worker = cases[i].each}));
        if (fake.open_max != cases[i].open)
            fail_msg("case %zu: %d jobs at once, not %d", i, fake.open_max, cases[i].open);
        troupe_sweep_free(&sweep);
        fake_shut();
    }
}

static void a_grid_is_run_whole_or_as_far_as_asked(void **state)
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
    fake_shut();
}

// ---- stopping
// ------------------------------------------------------------------------------------

static void a_stopped_trial_is_stopped_and_a_finished_one_terminated(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    bool freed;
    fake_open(2);
    fake.lockstep = true;
    ok(SWEEP(&sweep, .trials = 4, .scheduler = script(2, 3, TRP_STOP, &freed)));
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

static void a_trial_at_the_limit_is_terminated(void **state)
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

static void asha_stops_the_weak(void **state)
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

// ---- failures
// ------------------------------------------------------------------------------------

static void a_failed_trial_leaves_the_others_alone(void **state)
{
    (void)state;
    // The grid has one trial that fails.
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_CHOICE(fake_settings, fail_at, 0, 3, 0, 0)};
    troupe_sweep *sweep;
    fake_open(2);
    ok(trp_sweep_run(&fake_port, &fit, rows, 2, &sweep,
                     &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                                            .metric = "loss",
                                            .search = TROUPE_SEARCH_GRID,
                                            .train = {.storage = storage}}));
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

static void a_sweep_of_failures_fails_with_the_first_sentence(void **state)
{
    (void)state;
    static const troupe_param rows[] = {TROUPE_FIXED(fake_settings, epochs, 5),
                                        TROUPE_FIXED(fake_settings, fail_at, 2)};
    troupe_sweep *sweep;
    fake_open(2);
    troupe_status status = trp_sweep_run(&fake_port, &fit, rows, 2, &sweep,
                                         &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                                                                .metric = "loss",
                                                                .trials = 3,
                                                                .train = {.storage = storage}});
    assert_int_equal(status, TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text, "all trials failed (3)"));
    assert_non_null(strstr(troupe_last_error()->text, "the loss is not finite"));
    assert_non_null(sweep);
    assert_int_equal(troupe_sweep_count(sweep), 3);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void a_report_without_the_metric_is_an_error(void **state)
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

static void a_refused_submission_is_an_error_of_its_trial(void **state)
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

static void options_that_train_refuses_end_the_sweep(void **state)
{
    (void)state;
    static const troupe_status refusals[] = {TROUPE_INVALID, TROUPE_TOO_LARGE, TROUPE_UNSUPPORTED};
    int before = count_files(storage);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        troupe_sweep *sweep = (troupe_sweep *)&sweep;
        bool freed;
        fake_open(2);
        fake.refuse_from = 0;
        fake.refuse_until = FAKE_JOBS_MAX;
        fake.refusal = refusals[i];
        troupe_scheduler *scheduler = script(0, 1, TRP_STOP, &freed);
        assert_int_equal(SWEEP(&sweep, .trials = 5, .scheduler = scheduler), refusals[i]);
        assert_string_equal(troupe_last_error()->text, "refused submission 0");
        assert_null(sweep);
        assert_true(freed);
        fake_shut();
    }
    assert_int_equal(count_files(storage), before); // No folder is left behind.
}

static void without_a_runtime_nothing_is_left(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    int before = count_files(storage);
    fake_open(0);
    assert_int_equal(SWEEP(&sweep, .trials = 5), TROUPE_NOT_STARTED);
    assert_null(sweep);
    assert_int_equal(count_files(storage), before);
    fake_shut();
}

static void invalid(const char *sentence, troupe_tune_options how)
{
    troupe_sweep *sweep;
    bool freed;
    how.size = sizeof how;
    how.train.storage = storage;
    how.scheduler = script(0, 1, TRP_STOP, &freed);
    assert_int_equal(trp_sweep_run(&fake_port, &fit, space, ROWS, &sweep, &how), TROUPE_INVALID);
    assert_null(sweep);
    assert_true(freed);
    assert_string_equal(troupe_last_error()->text, sentence);
}

#define HOW(...) ((troupe_tune_options){.metric = "loss", __VA_ARGS__})

static void wrong_options_are_named(void **state)
{
    (void)state;
    fake_open(2);
    invalid("metric is missing; it must name a metric that every report has",
            (troupe_tune_options){.trials = 1});
    invalid("goal is 2, must be TROUPE_MINIMIZE or TROUPE_MAXIMIZE", HOW(.goal = (troupe_goal)2));
    invalid("trials is -1, must be 1 to 100000", HOW(.trials = -1));
    invalid("concurrent is -2, must be at least 1", HOW(.concurrent = -2));
    invalid("search is 7, must be TROUPE_SEARCH_RANDOM or TROUPE_SEARCH_GRID",
            HOW(.search = (troupe_search)7));
    invalid("grid_points is -3, must be 1 to 100000", HOW(.grid_points = -3));
    invalid("name is \"a/b\", must be 1 to 128 letters, digits, '.', '_' or '-'",
            HOW(.name = "a/b"));
    invalid("name is \"..\", must be 1 to 128 letters, digits, '.', '_' or '-'", HOW(.name = ".."));
    invalid("train.name is \"x\", but trials are named by the sweep; its own folder is the option"
            " name",
            HOW(.train = {.name = "x"}));
    invalid("columns is \"a,,b\", must be 1 to 64 names of 1 to 63 bytes separated by commas",
            HOW(.columns = "a,,b"));
    invalid("trials is not set and the grid has 150000 combinations, more than 100000",
            HOW(.search = TROUPE_SEARCH_GRID, .grid_points = 50000));
    fake_shut();
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    troupe_tune_options how = HOW(.size = sizeof how);
    troupe_trainer old = fit;
    old.abi = TROUPE_ABI + 1;
    assert_int_equal(trp_sweep_run(&fake_port, NULL, space, ROWS, &sweep, &how), TROUPE_INVALID);
    assert_int_equal(trp_sweep_run(&fake_port, &old, space, ROWS, &sweep, &how), TROUPE_VERSION);
    assert_int_equal(trp_sweep_run(&fake_port, &fit, space, ROWS, NULL, &how), TROUPE_INVALID);
    assert_int_equal(trp_sweep_run(&fake_port, &fit, space, ROWS, &sweep, NULL), TROUPE_INVALID);
    assert_int_equal(trp_sweep_run(&fake_port, &fit, NULL, ROWS, &sweep, &how), TROUPE_INVALID);
    const troupe_param wrong[] = {space[0], TROUPE_LOG_UNIFORM(fake_settings, hidden, 1, 2)};
    assert_int_equal(trp_sweep_run(&fake_port, &fit, wrong, 2, &sweep, &how), TROUPE_INVALID);
    assert_int_equal(strncmp(troupe_last_error()->text, "space[1] (hidden): ", 19), 0);
}

static void every_failing_allocation_ends_cleanly(void **state)
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

// ---- what it leaves and shows
// --------------------------------------------------------------------

static void the_folder_tells_the_sweep(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 3, .name = "first.sweep"));
    char path[600];
    snprintf(path, sizeof path, "%s/first.sweep/trials.jsonl", storage);
    char *text = support_read_file(path);
    assert_non_null(text);
    assert_int_equal(count_text(text, "\n"), 1 + 3 + 3 * 9 + 3);
    assert_int_equal(count_text(text, "{\"event\": \"sweep\", \"trainer\": \"fit\", \"metric\": "
                                      "\"loss\", \"goal\": \"minimize\", \"trials\": 3, \"seed\": "
                                      "1, \"scheduler\": \"FIFO\"}\n"),
                     1);
    assert_int_equal(count_text(text, "{\"event\": \"submitted\""), 3);
    assert_int_equal(count_text(text, "\"number\": 9, \"elapsed_s\": 4.5, \"metrics\": {\"epoch\": "
                                      "9, \"loss\": "),
                     3);
    assert_int_equal(count_text(text, "checkpoint_000008\"}"), 3);
    assert_int_equal(count_text(text, "\"state\": \"TERMINATED\", \"reports\": 9"), 3);
    free(text);

    const troupe_trial *trial = troupe_sweep_trial(sweep, 1);
    const fake_settings *config = trial->config;
    snprintf(path, sizeof path, "%s/first.sweep/%s/params.json", storage, trial->name);
    text = support_read_file(path);
    assert_non_null(text);
    double rate;
    int hidden, epochs, fail_at;
    assert_int_equal(sscanf(text,
                            "{\"rate\": %lf, \"hidden\": %d, \"epochs\": %d, \"fail_at\": %d}\n",
                            &rate, &hidden, &epochs, &fail_at),
                     4);
    assert_true(rate == config->rate);
    assert_int_equal(hidden, config->hidden);
    free(text);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void a_taken_name_gets_a_number_and_names_are_deterministic(void **state)
{
    (void)state;
    char *other = support_directory_make(), names[3][64];
    const char *homes[] = {storage, storage, other};
    for (int i = 0; i < 3; i++) {
        troupe_sweep *sweep;
        fake_open(2);
        ok(SWEEP(&sweep, .trials = 1, .name = "again", .train = {.storage = homes[i]}));
        snprintf(names[i], sizeof names[i], "%s", troupe_sweep_trial(sweep, 0)->name);
        char path[600];
        snprintf(path, sizeof path, "%s/again%s/%s", homes[i], i == 1 ? "_2" : "", names[i]);
        assert_true(support_exists(path));
        troupe_sweep_free(&sweep);
        fake_shut();
    }
    assert_string_not_equal(names[0], names[1]); // Another folder is another sweep.
    assert_string_equal(names[0], names[2]);     // The same name elsewhere gives the same trials.
    support_directory_remove(other);
}

static void progress_is_a_line_and_the_table_is_whole(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    FILE *progress = tmpfile(), *printed = tmpfile();
    assert_true(progress != NULL && printed != NULL);
    fake_open(2);
    fake.restart_at = 4;
    ok(SWEEP(&sweep, .trials = 3, .progress = progress));
    char line[512], last[512] = "";
    rewind(progress);
    while (fgets(line, sizeof line, progress) != NULL) {
        assert_true(line[0] == '[' && strstr(line, " s] ") != NULL);
        assert_null(strchr(line, '\033'));
        memcpy(last, line, sizeof last);
    }
    assert_non_null(strstr(last, " s] 3 terminated; best loss "));

    troupe_sweep_print(sweep, printed);
    char text[8192];
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = '\0';
    assert_int_equal(count_text(text, " | TERMINATED | 127.0.0.1:4001 | "), 3);
    assert_int_equal(count_text(text, "Logical resource usage: 0.0/2 CPUs\n"), 1);
    assert_int_equal(count_text(text, "Using FIFO scheduling."), 1);
    if (strstr(text, "| loc            |     rate | hidden | iter | total time (s) | epoch | ") ==
        NULL)
        print_message("%s", text);
    assert_int_equal(count_text(text, "hidden | iter | total time (s) | epoch |"), 1);
    fclose(progress);
    fclose(printed);
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void columns_are_those_asked_for(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    FILE *printed = tmpfile();
    assert_non_null(printed);
    fake_open(2);
    ok(SWEEP(&sweep, .trials = 1, .columns = "loss , absent"));
    troupe_sweep_print(sweep, printed);
    char text[8192];
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = '\0';
    assert_null(strstr(text, "epoch"));
    assert_non_null(strstr(text, " loss | absent\n"));
    fclose(printed);
    troupe_sweep_free(&sweep);
    fake_shut();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_trial_runs_to_its_end),
        cmocka_unit_test(the_best_is_over_all_reports_towards_the_goal),
        cmocka_unit_test(a_sweep_of_nan_has_no_best),
        cmocka_unit_test(jobs_overlap_as_far_as_asked),
        cmocka_unit_test(a_grid_is_run_whole_or_as_far_as_asked),
        cmocka_unit_test(a_stopped_trial_is_stopped_and_a_finished_one_terminated),
        cmocka_unit_test(a_trial_at_the_limit_is_terminated),
        cmocka_unit_test(asha_stops_the_weak),
        cmocka_unit_test(a_failed_trial_leaves_the_others_alone),
        cmocka_unit_test(a_sweep_of_failures_fails_with_the_first_sentence),
        cmocka_unit_test(a_report_without_the_metric_is_an_error),
        cmocka_unit_test(a_refused_submission_is_an_error_of_its_trial),
        cmocka_unit_test(options_that_train_refuses_end_the_sweep),
        cmocka_unit_test(without_a_runtime_nothing_is_left),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(every_failing_allocation_ends_cleanly),
        cmocka_unit_test(the_folder_tells_the_sweep),
        cmocka_unit_test(a_taken_name_gets_a_number_and_names_are_deterministic),
        cmocka_unit_test(progress_is_a_line_and_the_table_is_whole),
        cmocka_unit_test(columns_are_those_asked_for),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
