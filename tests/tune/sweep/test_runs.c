// test_runs.c: trials with several runs, over real jobs: they are paused and go on, clone each
// other's checkpoints, get other ranks, and are tried again.
// timeout: 120
// cost: 5
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <troupe/tune.h>
#include <tune/why/trials.h>
#include <unistd.h>

enum { EPOCHS = 8 };

TROUPE_STRUCT(settings, (double, rate), (int, fails_at));
// Rates by which the state was trained, one an epoch.
TROUPE_STRUCT(state, (int, epoch), (double, rates, 64));

static char *storage;

// A loss that the rates so far decide: each epoch takes away what its rate does.
static troupe_status train(troupe_rank *me, const settings *config)
{
    state at = {0};
    TROUPE_TRY(troupe_restore(state, me, &at));
    while (at.epoch < EPOCHS) {
        at.rates[at.epoch++] = config->rate;
        double loss = 10;
        for (int i = 0; i < at.epoch; i++)
            loss -= at.rates[i];
        if (config->fails_at == at.epoch)
            _exit(3);
        TROUPE_TRY(troupe_save(state, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", loss}, {"epoch", at.epoch}, {"world", me->world}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(train, settings, .reshards = true);

static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};

static int count_in(const char *text, const char *part)
{
    int count = 0;
    for (; text != NULL && (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static char *record_of(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/trials.jsonl", storage, name);
    return support_read_file(path);
}

static state newest_state(const troupe_trial *trial)
{
    state at = {0};
    assert_non_null(trial->result);
    assert_non_null(troupe_result_checkpoint(trial->result));
    troupe_must(troupe_checkpoint_load(state, troupe_result_checkpoint(trial->result), 0, &at));
    return at;
}

// Those that wait at a rung hold nothing, and what is promoted goes on where it was.
static void test_trials_that_are_promoted_go_on(void **unused)
{
    (void)unused;
    troupe_sweep *sweep;
    size_t ended = 0, paused = 0;
    troupe_must(troupe_tune(
        train, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 9,
        .concurrent = 2, .name = "promoted", .search = TROUPE_SEARCH_RANDOM,
        .scheduler = troupe_asha(.grace = 2, .reduction = 3, .limit = EPOCHS, .promote = true),
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.5)));
    assert_int_equal(troupe_sweep_count(sweep), 9);
    for (size_t i = 0; i < 9; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_string_equal(trial->error, "");
        ended += trial->state == TROUPE_TRIAL_TERMINATED;
        paused += trial->state == TROUPE_TRIAL_PAUSED || trial->state == TROUPE_TRIAL_STOPPED;
        state at = newest_state(trial);
        for (int k = 0; k < at.epoch; k++) // Nobody else's.
            assert_true(at.rates[k] == ((const settings *)trial->config)->rate);
        if (trial->state == TROUPE_TRIAL_TERMINATED)
            assert_int_equal(trial->reports, EPOCHS);
    }
    assert_true(ended >= 1 && paused >= 5);
    assert_true(troupe_best(train, sweep)->rate > 0.5);
    troupe_sweep_free(&sweep);
}

// Who reads the record finds a clone's options with its config, not those that it began with.
static void expect_params_of_configs(const char *name)
{
    char path[600];
    trp_trials seen;
    snprintf(path, sizeof path, "%s/%s", storage, name);
    troupe_must(trp_trials_read(path, &seen));
    for (size_t i = 0; i < seen.count; i++) {
        trp_json drawn, runs, cpus;
        assert_true(trp_json_member(seen.trials[i]->params, "rate", &drawn));
        assert_true(trp_json_member(seen.trials[i]->config, "rate", &runs));
        assert_true(trp_json_member(seen.trials[i]->params, "cpus_per_rank", &cpus));
        if (drawn.size != runs.size || memcmp(drawn.at, runs.at, runs.size) != 0)
            fail_msg("trial %zu: %.*s of %.*s", i, (int)seen.trials[i]->params.size,
                     seen.trials[i]->params.at, (int)seen.trials[i]->config.size,
                     seen.trials[i]->config.at);
    }
    trp_trials_free(&seen);
}

static void test_a_population_clones_its_best(void **unused)
{
    (void)unused;
    troupe_sweep *sweep;
    size_t cloned = 0;
    const troupe_param rows[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                 TROUPE_CHOICE(troupe_train_options, cpus_per_rank, 0.125, 0.25)};
    troupe_must(troupe_tune(
        train, rows, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 4,
        .concurrent = 4, .name = "population", .search = TROUPE_SEARCH_RANDOM,
        .scheduler = troupe_pbt(.interval = 2, .limit = 24, .synchronous = true),
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.25)));
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_string_equal(trial->error, "");
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        if (troupe_result_reports(trial->result) == 0) // It cloned one that was at its end.
            continue;
        state at = newest_state(trial);
        double last = at.rates[at.epoch - 1];
        assert_int_equal(at.epoch, EPOCHS);
        assert_true(last == ((const settings *)trial->config)->rate);
        bool others = false;
        for (int k = 0; k < at.epoch; k++)
            others = others || at.rates[k] != last;
        cloned += others;
    }
    char *text = record_of("population");
    int clones = count_in(text, "\"act\": \"clone\""), runs = count_in(text, "\"event\": \"run\"");
    assert_true(clones > 0);
    assert_in_range(runs, 1, clones);
    assert_true(cloned > 0);
    free(text);
    expect_params_of_configs("population");
    troupe_sweep_free(&sweep);
}

// B18, B19.
static void test_ranks_may_be_searched_and_change(void **unused)
{
    (void)unused;
    static const troupe_param rows[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                        TROUPE_GRID(troupe_train_options, ranks, 1, 2)};
    troupe_sweep *sweep;
    troupe_must(troupe_tune(
        train, rows, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .name = "ranks",
        .concurrent = 1, .columns = "world",
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.25)));
    assert_int_equal(troupe_sweep_count(sweep), 2);
    for (size_t i = 0; i < 2; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_true(troupe_result_metric(trial->result, "world") == (double)(i + 1));
    }
    troupe_sweep_free(&sweep);

    troupe_must(troupe_tune(
        train, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .name = "resized",
        .trials = 1, .scheduler = troupe_resizing(NULL, .cpus = 3),
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.25)));
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
    assert_true(troupe_result_metric(trial->result, "world") == 3);
    assert_int_equal(trial->reports, EPOCHS);
    troupe_sweep_free(&sweep);

    static const troupe_param wrong[] = {TROUPE_FIXED_TEXT(troupe_train_options, storage, "x")};
    assert_int_equal(troupe_tune(train, wrong, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE),
                     TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "storage"));
}

TROUPE_STRUCT(table, (double, rows, 4096));
TROUPE_STRUCT(reading, (double, rate), (troupe_ref, data));

static troupe_status read_table(troupe_rank *me, const reading *config)
{
    static table data;
    TROUPE_TRY(troupe_get(table, config->data, &data));
    return troupe_report(me, {"loss", config->rate + data.rows[4095]});
}
TROUPE_TRAINER(read_table, reading);

// What all trials have is in the store once, and each is given the reference.
// B16.
static void test_trials_share_what_a_row_refers_to(void **unused)
{
    (void)unused;
    static table data = {.rows[4095] = 5};
    troupe_ref shared = troupe_put(table, &data);
    const troupe_param rows[] = {TROUPE_UNIFORM(reading, rate, 0, 1),
                                 TROUPE_FIXED_OF(reading, data, shared)};
    troupe_sweep *sweep;
    troupe_must(troupe_tune(
        read_table, rows, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 6,
        .name = "shared",
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.5)));
    for (size_t i = 0; i < 6; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
        assert_true(trial->best_metric == ((const reading *)trial->config)->rate + 5);
    }
    troupe_sweep_free(&sweep);
    troupe_ref_drop(shared);
}

static void test_a_trial_whose_rank_dies_is_tried_again(void **unused)
{
    (void)unused;
    static const troupe_param rows[] = {TROUPE_FIXED(settings, rate, 0.5),
                                        TROUPE_FIXED(settings, fails_at, 5)};
    troupe_sweep *sweep;
    assert_int_equal(troupe_tune(train, rows, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                                 .trials = 1, .name = "again", .retries = 2,
                                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)),
                     TROUPE_FAILED);
    const troupe_trial *trial = troupe_sweep_trial(sweep, 0);
    assert_int_equal(trial->reports, 4);
    char *text = record_of("again");
    assert_int_equal(count_in(text, "\"event\": \"run\""), 2);
    assert_int_equal(count_in(text, "\"event\": \"report\""), 4); // None twice.
    free(text);
    troupe_sweep_free(&sweep);
}

static void test_a_sweep_is_paused_and_stopped(void **unused)
{
    (void)unused;
    static const troupe_param rows[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};
    troupe_sweep *sweep;
    troupe_must(troupe_sweep_start(
        train, rows, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 200,
        .concurrent = 2, .name = "held",
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .cpus_per_rank = 0.5)));
    while (troupe_sweep_count(sweep) < 3)
        usleep(1000);
    troupe_sweep_pause(sweep);
    usleep(300000);
    size_t count = troupe_sweep_count(sweep);
    usleep(200000);
    assert_int_equal(troupe_sweep_count(sweep), count);
    assert_int_equal(troupe_sweep_wait(sweep, 0), TROUPE_TIMED_OUT);
    troupe_sweep_go_on(sweep);
    while (troupe_sweep_count(sweep) < count + 3)
        usleep(1000);
    troupe_sweep_stop(sweep);
    troupe_must(troupe_sweep_wait(sweep, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    count = troupe_sweep_count(sweep);
    assert_true(count < 200);
    for (size_t i = 0; i < count; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        assert_string_equal(trial->error, "");
        assert_true(trial->state == TROUPE_TRIAL_TERMINATED ||
                    trial->state == TROUPE_TRIAL_STOPPED);
        assert_true(trial->state == TROUPE_TRIAL_STOPPED || trial->reports == EPOCHS);
    }
    troupe_sweep_free(&sweep);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2)); // Does not return in a worker.
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_that_are_promoted_go_on),
        cmocka_unit_test(test_a_population_clones_its_best),
        cmocka_unit_test(test_ranks_may_be_searched_and_change),
        cmocka_unit_test(test_trials_share_what_a_row_refers_to),
        cmocka_unit_test(test_a_trial_whose_rank_dies_is_tried_again),
        cmocka_unit_test(test_a_sweep_is_paused_and_stopped),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    troupe_must(troupe_stop());
    support_directory_remove(storage);
    return failed;
}
