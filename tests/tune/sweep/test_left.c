// test_left.c: sweeps of a program's own trials that go on, over a Train that a thread plays:
// killed behind each line of their records, with all that their runs may have left by then.
// timeout: 180
// cost: 8
#include "follow.h"

#include <decisions.h>
#include <runtime/base/buffer.h>

enum { TRIALS = 3, RUNS = 2, EVERY = 9 };

// How a sweep is disturbed.
typedef enum leaving {
    AS_SAID,  // The runs have reported what the record says,
    ONE_MORE, // one report more, where it was made,
    UNSAVED,  // whose checkpoint was not whole, where it has one,
    ENDED,    // and have told their ends where these come next.
    NOTHING,  // They are gone.
    LEAVINGS,
} leaving;

typedef struct kind {
    const char *name;
    troupe_scheduler *(*make)(void);
} kind;

// Of the undisturbed sweep, by trial and run.
typedef struct known {
    fake_settings config;
    int reports;
    bool stopped;
} known;

static known whole[TRIALS][RUNS];

static troupe_scheduler *make_stopping(void)
{
    static const step steps[] = {{.trial = 0, .report = 4, .act = TROUPE_ACT_STOP},
                                 {.trial = 1, .report = 2, .act = TROUPE_ACT_END}};
    return follow(steps, 2, NULL, 0);
}

static troupe_scheduler *make_pausing(void)
{
    static const step steps[] = {{.trial = 0, .report = 3, .act = TROUPE_ACT_PAUSE},
                                 {.trial = 1, .report = 5, .act = TROUPE_ACT_PAUSE}};
    static const going_on goings[] = {
        {.trial = 0, .after_trial = 1, .after_report = 5},
        {.trial = 1, .over = true, .after_trial = 2, .after_report = EVERY}};
    return FOLLOW(steps, goings);
}

static troupe_scheduler *make_cloning(void)
{
    static const step steps[] = {
        {.trial = 1, .report = 5, .act = TROUPE_ACT_CLONE, .source = 0, .rate = 0.25},
        {.trial = 2, .report = 2, .act = TROUPE_ACT_RESIZE, .ranks = 2}};
    return follow(steps, 2, NULL, 0);
}

static const kind kinds[] = {
    {"stopping", make_stopping}, {"pausing", make_pausing}, {"cloning", make_cloning}};

static char *record_of(const char *folder, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", folder, name);
    char *text = support_read_file(path);
    assert_non_null(text);
    return text;
}

static troupe_status run_sweep(const kind *of, const char *folder, troupe_open open,
                               troupe_sweep **sweep)
{
    return SWEEP(sweep, .trials = TRIALS, .concurrent = 1, .name = of->name, .open = open,
                 .scheduler = of->make(),
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder));
}

// ---- what its lines say

typedef struct place {
    int run, base, reports, seen; // The two: of the run, and of the trial.
    bool begun, submitted;
} place;

static int trial_of(const char *line)
{
    const char *at = strstr(line, "\"trial\": ") + strlen("\"trial\": ");
    return *at == '"' ? atoi(strchr(at, '_') + sizeof "_3d3d1") : atoi(at);
}

static bool is(const char *line, const char *event)
{
    char what[40];
    snprintf(what, sizeof what, "{\"event\": \"%s\",", event);
    return strncmp(line, what, strlen(what)) == 0;
}

static void take_line(place *places, const char *line)
{
    if (strstr(line, "\"trial\": ") == NULL || is(line, "sweep") || is(line, "study"))
        return;
    place *of = &places[trial_of(line)];
    const char *number = strstr(line, "\"number\": ");
    of->begun = true;
    if (is(line, "submitted")) {
        of->submitted = true;
    } else if (is(line, "run")) {
        of->run++;
        of->base = atoi(number + 10);
        of->reports = 0;
        of->submitted = false;
    } else if (is(line, "report") || is(line, "reported")) {
        of->seen = atoi(number + 10);
        of->reports = of->seen - of->base;
    }
}

static void read_places(const char *text, size_t size, place *places)
{
    memset(places, 0, TRIALS * sizeof *places);
    for (const char *at = text; at < text + size; at = strchr(at, '\n') + 1) {
        char *line = strndup(at, strcspn(at, "\n"));
        take_line(places, line);
        free(line);
    }
}

// ---- what runs have left

static void leave_runs(leaving how, const char *text, size_t size)
{
    place places[TRIALS];
    const char *next = text + size;
    read_places(text, size, places);
    for (int trial = 0; trial < TRIALS; trial++) {
        const place *of = &places[trial];
        for (int run = 0; run <= of->run && how != NOTHING; run++) {
            fake_left *left = &fake.runs[trial][run];
            bool last = run == of->run;
            *left = (fake_left){.there = !last || of->submitted || (of->begun && how == ONE_MORE),
                                .reports = last ? of->reports : whole[trial][run].reports,
                                .ended = !last,
                                .stopped = whole[trial][run].stopped,
                                .config = whole[trial][run].config};
            if (last && of->submitted && how != AS_SAID &&
                left->reports < whole[trial][run].reports) {
                left->reports++;
                left->saving = how == UNSAVED && left->reports % 2 == 0;
            }
            bool ends =
                *next != '\0' && trial_of(next) == trial && (is(next, "end") || is(next, "run"));
            left->ended = left->ended || (last && of->submitted && how == ENDED && ends &&
                                          left->reports == whole[trial][run].reports);
        }
        fake.known[trial] = of->seen - of->base;
    }
}

// With gates, the order follows from what they answer.
static void open_train(bool gates)
{
    fake_open(1);
    fake.gates = gates;
    fake.lockstep = !gates;
    fake.overrun = 1;
}

static void learn(const kind *of, bool gates, char **text)
{
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    place places[TRIALS];
    open_train(gates);
    ok(run_sweep(of, folder, TROUPE_OPEN_NEW, &sweep));
    *text = record_of(folder, of->name);
    memset(whole, 0, sizeof whole);
    for (int i = 0; i < fake.submitted; i++) {
        int trial = 0, run = 0;
        assert_in_range(sscanf(fake.seen[i].name, "fit_%*5[0-9a-f]_%d_%d", &trial, &run), 1, 2);
        whole[trial][run].config = fake.seen[i].config;
    }
    for (const char *at = *text; *at != '\0'; at = strchr(at, '\n') + 1) {
        read_places(*text, (size_t)(strchr(at, '\n') + 1 - *text), places);
        for (int trial = 0; trial < TRIALS; trial++)
            if (places[trial].begun)
                whole[trial][places[trial].run].reports = places[trial].reports;
        bool ends = is(at, "end") || is(at, "ended");
        if (is(at, "run"))
            whole[trial_of(at)][places[trial_of(at)].run - 1].stopped = true;
        if (ends && (strstr(at, "\"STOPPED\"") != NULL || strstr(at, "\"ending\": \"stopped\"")))
            whole[trial_of(at)][places[trial_of(at)].run].stopped =
                whole[trial_of(at)][places[trial_of(at)].run].reports < EVERY;
    }
    troupe_sweep_free(&sweep);
    fake_shut();
    support_directory_remove(folder);
}

// Goes on with the record's beginning.
static void go_on(const kind *of, bool gates, leaving how, const char *text, size_t size)
{
    troupe_sweep *sweep;
    char *folder = support_directory_make(), *own = support_path(folder, of->name);
    char *path = support_path(own, "trials.jsonl"), where[96];
    assert_int_equal(mkdir(own, 0700), 0);
    support_write_file(path, text, size);
    open_train(gates);
    leave_runs(how, text, size);
    ok(run_sweep(of, folder, TROUPE_OPEN_RESUME, &sweep));
    snprintf(where, sizeof where, "%s, left %d, %s, %zu bytes", of->name, (int)how,
             gates ? "gated" : "in lockstep", size);
    char *now = record_of(folder, of->name);
    assert_int_equal(strncmp(now, text, size), 0); // Lines are added alone.
    decisions_assert_same(text, now, how != NOTHING, where);
    if (fake.unanswered > 0)
        fail_msg("%s: a gate was asked in vain", where);
    for (size_t i = 0; i < troupe_sweep_count(sweep); i++)
        assert_string_equal(troupe_sweep_trial(sweep, i)->error, "");
    free(now);
    troupe_sweep_free(&sweep);
    fake_shut();
    free(path);
    free(own);
    support_directory_remove(folder);
}

static void kill_behind_any_line(const kind *of, bool gates)
{
    char *text;
    learn(of, gates, &text);
    const char *second = strchr(strchr(text, '\n') + 1, '\n') + 1;
    for (const char *at = second; at != NULL; at = *at != '\0' ? strchr(at, '\n') + 1 : NULL)
        for (int how = 0; how < LEAVINGS; how++)
            go_on(of, gates, (leaving)how, text, (size_t)(at - text));
    free(text);
}

// G13.
static void test_killed_behind_any_line_a_sweep_decides_the_same(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        kill_behind_any_line(&kinds[k], false);
}

// G13. Runs that are opened again make reports once more, of which their gates alone hear.
static void test_killed_behind_any_line_a_sweep_with_gates_decides_the_same(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        kill_behind_any_line(&kinds[k], true);
}

// ---- what is counted over all lives

static troupe_status run_counted(const char *folder, int patience, double budget_s,
                                 troupe_sweep **sweep)
{
    fake_open(1);
    fake.lockstep = true;
    return SWEEP(sweep, .trials = 12, .concurrent = 1, .name = "counted", .patience = patience,
                 .time_budget_s = budget_s, .open = TROUPE_OPEN_RESUME_OR_NEW,
                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder));
}

static void test_patience_counts_over_all_lives(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    ok(run_counted(folder, 3, 0, &sweep));
    size_t count = troupe_sweep_count(sweep), ends = 0;
    assert_in_range(count, 4, 11);
    troupe_sweep_free(&sweep);
    fake_shut();
    char *text = record_of(folder, "counted");
    support_directory_remove(folder);
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        if (!is(at, "end"))
            continue;
        ends++;
        folder = leave_record("counted", text, (size_t)(strchr(at, '\n') + 1 - text));
        ok(run_counted(folder, 3, 0, &sweep));
        assert_int_equal(troupe_sweep_count(sweep), count);
        troupe_sweep_free(&sweep);
        fake_shut();
        support_directory_remove(folder);
    }
    assert_true(ends > 3);
    free(text);
}

// The trial with 0 fails, and is the best until then.
static double by_hidden(const fake_settings *config, int report)
{
    (void)report;
    pthread_mutex_lock(&fake.lock);
    if (config->hidden == 0)
        fake.jobs[fake.submitted - 1]->config.fail_at = 1;
    pthread_mutex_unlock(&fake.lock);
    return config->hidden;
}

static troupe_status run_failing(const char *folder, troupe_sweep **sweep)
{
    static const troupe_param rows[] = {
        TROUPE_FIXED(fake_settings, epochs, 2),
        TROUPE_CHOICE(fake_settings, hidden, 5, 0, 6, 4, 7, 8, 9, 3)};
    fake_open(1);
    fake.curve = by_hidden;
    return trp_sweep_run(
        &fake_port, &fit, rows, 2, sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .name = "failing",
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .search = TROUPE_SEARCH_GRID,
                               .concurrent = 1,
                               .patience = 3,
                               .open = TROUPE_OPEN_RESUME_OR_NEW,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = folder)});
}

// The fourth betters the first, which is the best once the second has failed.
static void check_failing(troupe_sweep *sweep)
{
    assert_int_equal(troupe_sweep_count(sweep), 7);
    assert_int_equal(troupe_sweep_trial(sweep, 1)->state, TROUPE_TRIAL_ERROR);
    assert_ptr_equal(troupe_sweep_best(sweep), troupe_sweep_trial(sweep, 3));
    troupe_sweep_free(&sweep);
    fake_shut();
}

static void test_a_trial_that_failed_is_not_the_best_in_any_life(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    ok(run_failing(folder, &sweep));
    check_failing(sweep);
    char *text = record_of(folder, "failing");
    support_directory_remove(folder);
    int ends = 0;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        if (!is(at, "end"))
            continue;
        ends++;
        folder = leave_record("failing", text, (size_t)(strchr(at, '\n') + 1 - text));
        ok(run_failing(folder, &sweep));
        check_failing(sweep);
        support_directory_remove(folder);
    }
    assert_int_equal(ends, 7);
    free(text);
}

// The same record, of a life that took 100 s up to the end of its first trial.
static void test_time_counts_over_all_lives(void **state)
{
    (void)state;
    static const struct {
        double budget_s;
        size_t least, most;
    } cases[] = {{99, 1, 1}, {200, 12, 12}};
    troupe_sweep *sweep;
    char *folder = support_directory_make();
    ok(run_counted(folder, 0, 0, &sweep));
    troupe_sweep_free(&sweep);
    fake_shut();
    char *text = record_of(folder, "counted"), *end = strstr(text, "{\"event\": \"end\"");
    support_directory_remove(folder);
    size_t size = (size_t)(strchr(end, '\n') + 1 - text);
    char *time = strstr(end, "\"at_s\": ") + strlen("\"at_s\": ");
    memcpy(time, "100.0", strlen("100.0")); // In place of 0.012.
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder = leave_record("counted", text, size);
        ok(run_counted(folder, 0, cases[i].budget_s, &sweep));
        assert_in_range(troupe_sweep_count(sweep), cases[i].least, cases[i].most);
        assert_true(troupe_sweep_elapsed_s(sweep) >= 100 && troupe_sweep_elapsed_s(sweep) < 200);
        troupe_sweep_free(&sweep);
        fake_shut();
        support_directory_remove(folder);
    }
    free(text);
}

// ---- what comes behind a stop

// It counts, and no more: whether it has the metric or not.
static void test_a_stopping_trial_need_not_report_the_metric(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    char *text;
    learn(&kinds[0], false, &text);
    char *line = strstr(text, "{\"event\": \"reported\"");
    assert_int_equal(trial_of(line), 0);
    memcpy(strstr(line, "\"loss\""), "\"lass\"", strlen("\"loss\""));
    size_t size = (size_t)(strchr(line, '\n') + 1 - text);
    char *folder = leave_record(kinds[0].name, text, size);
    fake_open(1);
    fake.lockstep = true;
    fake.overrun = 1;
    leave_runs(AS_SAID, text, size);
    ok(run_sweep(&kinds[0], folder, TROUPE_OPEN_RESUME, &sweep));
    assert_int_equal(troupe_sweep_trial(sweep, 0)->state, TROUPE_TRIAL_STOPPED);
    assert_string_equal(troupe_sweep_trial(sweep, 0)->error, "");
    troupe_sweep_free(&sweep);
    fake_shut();
    support_directory_remove(folder);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_behind_any_line_a_sweep_decides_the_same),
        cmocka_unit_test(test_killed_behind_any_line_a_sweep_with_gates_decides_the_same),
        cmocka_unit_test(test_patience_counts_over_all_lives),
        cmocka_unit_test(test_a_trial_that_failed_is_not_the_best_in_any_life),
        cmocka_unit_test(test_time_counts_over_all_lives),
        cmocka_unit_test(test_a_stopping_trial_need_not_report_the_metric),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
