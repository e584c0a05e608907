// test_run.c: whole sweeps, with worker processes, over a trainer whose loss is known beforehand.
// timeout: 120
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <time.h>
#include <troupe.h>
#include <tune/sweep/sweep.h>
#include <unistd.h>

TROUPE_STRUCT(settings, (double, rate), (int, hidden), (int, epochs),
              (int, fail_at),         // Epoch at which the loop fails; 0: none.
              (int, crash_at),        // Epoch at which rank 0 is killed.
              (int, epoch_ms),        // What an epoch takes.
              (int, meet),            // Trials that must have begun before one goes on.
              (troupe_text, folder)); // Where they leave word that they have.

static double loss_of(const settings *config, int epoch)
{
    return (config->rate - 0.3) * (config->rate - 0.3) + 0.01 / epoch;
}

static void work(int milliseconds)
{
    struct timespec time = {.tv_nsec = milliseconds * 1000000L};
    nanosleep(&time, NULL);
}

static int count_files(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return count;
}

// Leaves word in the folder and waits until `meet` trials have.
static troupe_status meet_others(const settings *config)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%d", config->folder, (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return troupe_fail(TROUPE_IO, "%s cannot be made", path);
    fclose(file);
    for (int waited = 0; count_files(config->folder) < config->meet; waited++) {
        if (waited == SUPPORT_SOON_MS)
            return troupe_fail(TROUPE_DEADLINE_EXCEEDED, "no other trial runs beside this one");
        work(1);
    }
    return TROUPE_OK;
}

static troupe_status descend(troupe_rank *me, const settings *config)
{
    if (config->meet > 0)
        TROUPE_TRY(meet_others(config));
    for (int epoch = 1; epoch <= config->epochs; epoch++) {
        if (epoch == config->fail_at)
            return troupe_fail(TROUPE_FAILED, "rank %d lost its way in epoch %d", me->rank, epoch);
        if (epoch == config->crash_at && me->rank == 0)
            raise(SIGKILL);
        work(config->epoch_ms);
        TROUPE_TRY(troupe_report(me, {"loss", loss_of(config, epoch)}, {"epoch", epoch}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(descend, settings);

// What becomes better up to its third epoch, and worse from then on.
TROUPE_STRUCT(dive_settings, (double, least), (int, epochs));
TROUPE_STRUCT(dive_state, (int, epoch));

static troupe_status dive(troupe_rank *me, const dive_settings *config)
{
    for (dive_state at = {1}; at.epoch <= config->epochs; at.epoch++) {
        TROUPE_TRY(troupe_save(dive_state, me, &at));
        TROUPE_TRY(troupe_report(me, {"loss", config->least + abs(at.epoch - 3)}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(dive, dive_settings);

// What does not end by itself: reports without an end, a wait for nothing, a stopped process.
enum { LINGER_NOT, LINGER_REPORTS, LINGER_WAITS, LINGER_STOPPED, LINGERS };
TROUPE_STRUCT(linger_settings, (int, how));

static troupe_status linger(troupe_rank *me, const linger_settings *config)
{
    TROUPE_TRY(troupe_report(me, {"loss", config->how}));
    while (config->how != LINGER_NOT) {
        work(10);
        if (config->how == LINGER_REPORTS)
            TROUPE_TRY(troupe_report(me, {"loss", config->how}));
        if (config->how == LINGER_STOPPED)
            raise(SIGSTOP);
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(linger, linger_settings);

enum { THREADS = 2 }; // That run methods.

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

static void ok(troupe_status status)
{
    if (status != TROUPE_OK)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

static void test_trials_overlap(void **state)
{
    (void)state;
    char *folder = support_directory_make();
    const troupe_param space[] = {
        TROUPE_UNIFORM(settings, rate, 0, 1), TROUPE_FIXED(settings, epochs, 2),
        TROUPE_FIXED(settings, meet, 2), TROUPE_FIXED_TEXT(settings, folder, folder)};
    troupe_sweep *sweep;
    ok(troupe_tune(
        descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 4,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .keep = TROUPE_NONE)));
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        if (trial->state != TROUPE_TRIAL_TERMINATED)
            fail_msg("%s: %s", trial->name, trial->error);
    }
    troupe_sweep_free(&sweep);
    support_directory_remove(folder);
}

// G11.
static void test_asha_stops_the_weak_and_the_best_is_right(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, 60),
                                         TROUPE_FIXED(settings, epoch_ms, 5)};
    troupe_sweep *sweep;
    ok(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 12,
                   .scheduler = troupe_asha(.grace = 2, .reduction = 3, .limit = 81),
                   .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    size_t stopped = 0;
    double lowest = (double)INFINITY;
    for (size_t i = 0; i < 12; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        const settings *config = trial->config;
        assert_string_equal(trial->error, "");
        stopped += trial->state == TROUPE_TRIAL_STOPPED;
        if (trial->state == TROUPE_TRIAL_STOPPED) {
            assert_in_range(trial->reports, 2, 59);
            assert_true(troupe_result_stopped(trial->result));
        } else {
            assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
            assert_int_equal(trial->reports, 60);
        }
        assert_true(trial->best_metric == loss_of(config, trial->reports));
        assert_true(trial->elapsed_s > 0);
        lowest = fmin(lowest, trial->best_metric);
    }
    assert_in_range(stopped, 3, 11);
    assert_int_equal(troupe_sweep_stopped(sweep), stopped);
    assert_true(troupe_sweep_best(sweep)->best_metric == lowest);
    const settings *best = troupe_best(descend, sweep);
    assert_ptr_equal(best, troupe_sweep_best(sweep)->config);
    troupe_sweep_free(&sweep);
}

static void test_configs_follow_from_the_seed(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_LOG_UNIFORM(settings, rate, 1e-4, 1.0),
                                         TROUPE_CHOICE(settings, hidden, 32, 64, 128),
                                         TROUPE_FIXED(settings, epochs, 1)};
    troupe_sweep *one, *two, *other;
    ok(troupe_tune(descend, space, &one, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 5,
                   .seed = 7, .concurrent = 1,
                   .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    ok(troupe_tune(descend, space, &two, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 5,
                   .seed = 7, .concurrent = 4,
                   .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    ok(troupe_tune(descend, space, &other, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 5,
                   .seed = 8, .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    for (size_t i = 0; i < 5; i++) {
        const settings *a = troupe_sweep_trial(one, i)->config;
        const settings *b = troupe_sweep_trial(two, i)->config;
        const settings *c = troupe_sweep_trial(other, i)->config;
        assert_true(a->rate == b->rate && a->hidden == b->hidden);
        assert_true(a->rate != c->rate);
    }
    troupe_sweep_free(&one);
    troupe_sweep_free(&two);
    troupe_sweep_free(&other);
}

static void test_failures_stay_with_their_trials(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_FIXED(settings, epochs, 4),
                                         TROUPE_CHOICE(settings, fail_at, 0, 3),
                                         TROUPE_CHOICE(settings, crash_at, 0, 2)};
    troupe_sweep *sweep;
    ok(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                   .search = TROUPE_SEARCH_GRID,
                   .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage)));
    assert_int_equal(troupe_sweep_count(sweep), 4);
    for (size_t i = 0; i < 4; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        const settings *config = trial->config;
        if (config->crash_at != 0) {
            assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
            assert_int_equal(trial->reports, 1);
            assert_string_not_equal(trial->error, "");
        } else if (config->fail_at != 0) {
            assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
            assert_int_equal(trial->reports, 2);
            assert_non_null(strstr(trial->error, "rank 0 lost its way in epoch 3"));
            // What Train says behind it is for who has the run: a sweep has .retries.
            assert_string_equal(trial->error, troupe_result_cause(trial->result));
            assert_null(strstr(trial->error, ".restarts"));
            assert_null(strstr(trial->error, "troupe_train("));
        } else {
            assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
            assert_int_equal(trial->reports, 4);
        }
    }
    troupe_sweep_free(&sweep);
}

static void test_what_is_of_stored_programs_is_refused(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};
    troupe_sweep *sweep;
    const troupe_stored_options stored = {.size = sizeof stored};
    assert_int_equal(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                                 .stored = &stored),
                     TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "option .stored is set: it is troupe_tune_stored's");
    assert_null(sweep);
}

// Trials that would report for half an hour are stopped.
static void test_a_metric_that_is_not_reported_fails_the_sweep(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, MANY),
                                         TROUPE_FIXED(settings, epoch_ms, 2)};
    troupe_sweep *sweep;
    troupe_status status =
        troupe_tune(descend, space, &sweep, .metric = "accuracy", .goal = TROUPE_MINIMIZE,
                    .trials = 2, .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage));
    assert_int_equal(status, TROUPE_FAILED);
    assert_non_null(strstr(troupe_last_error()->text,
                           "report 1 lacks the sweep's metric accuracy; it has loss, epoch"));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(troupe_sweep_trial(sweep, i)->state, TROUPE_TRIAL_ERROR);
        assert_in_range(troupe_sweep_trial(sweep, i)->reports, 1, MANY - 1);
    }
    assert_null(troupe_sweep_best(sweep));
    troupe_sweep_free(&sweep);
}

static void test_trials_of_two_ranks_are_shown_with_their_place(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, 3)};
    troupe_sweep *sweep;
    FILE *printed = tmpfile();
    assert_non_null(printed);
    ok(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 3,
                   .name = "pairs",
                   .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .ranks = 2)));
    troupe_sweep_print(sweep, printed);
    char text[4096];
    rewind(printed);
    text[fread(text, 1, sizeof text - 1, printed)] = '\0';
    for (size_t i = 0; i < 3; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        // The best is named above the table as well.
        const char *row = strstr(strstr(text, "Trial name"), trial->name);
        int pid = 0, end = 0;
        char name[64];
        sscanf(row, "%63s | TERMINATED | 127.0.0.1:%d%n", name, &pid, &end);
        assert_true(end > 0 && pid > 0 && pid != getpid());
        char path[512];
        snprintf(path, sizeof path, "%s/pairs/%s", storage, trial->name);
        assert_string_equal(troupe_result_path(trial->result), path);
        assert_true(support_exists(path));
    }
    fclose(printed);
    troupe_sweep_free(&sweep);
}

static void test_impossible_options_are_refused(void **state)
{
    (void)state;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1)};
    troupe_sweep *sweep;
    int before = count_files(storage);
    assert_int_equal(troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                                 .scheduler = troupe_asha(.limit = 3),
                                 .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                                         .ranks = 1000)),
                     TROUPE_TOO_LARGE);
    assert_null(sweep);
    assert_int_equal(
        troupe_tune(descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                    .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .ranks = -1)),
        TROUPE_INVALID);
    assert_null(sweep);
    assert_int_equal(count_files(storage), before);
}

static int best_epoch(const troupe_tune_options *how)
{
    static const troupe_param space[] = {TROUPE_FIXED(dive_settings, least, 1),
                                         TROUPE_FIXED(dive_settings, epochs, 6)};
    troupe_sweep *sweep;
    dive_state at;
    ok(troupe_tune_as(&troupe_trainer_dive, space, 2, &sweep, how));
    const troupe_result *result = troupe_sweep_best(sweep)->result;
    ok(troupe_checkpoint_load(dive_state, troupe_result_best_checkpoint(result), 0, &at));
    troupe_sweep_free(&sweep);
    return at.epoch;
}

// What made a trial the best makes its checkpoint the best, and keeps it; unless it is said what
// does.
static void test_the_best_checkpoint_is_by_the_metric_of_the_sweep(void **state)
{
    (void)state;
    troupe_train_options train = {.size = sizeof train};
    troupe_tune_options how = {.size = sizeof how,
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .trials = 1,
                               .train = &train};
    train.storage = storage;
    assert_int_equal(best_epoch(&how), 3);
    train.keep = 1;
    assert_int_equal(best_epoch(&how), 3);
    how.goal = TROUPE_MAXIMIZE;
    assert_int_equal(best_epoch(&how), 6);
    train.keep_metric = "loss";
    train.keep_goal = TROUPE_MINIMIZE;
    assert_int_equal(best_epoch(&how), 3);
}

// The sweep's clock, which stands until it is set on.
static _Atomic int64_t clock_s;

static int64_t clock_ns(void)
{
    return atomic_load(&clock_s) * 1000000000;
}

static troupe_status begin_lingering(troupe_sweep **sweep)
{
    static const troupe_param space[] = {TROUPE_INTEGER(linger_settings, how, 0, LINGERS - 1)};
    static trp_sweep_port port; // The sweep's as long as that is there.
    port = trp_sweep_train;
    port.now_ns = clock_ns;
    atomic_store(&clock_s, 1);
    return trp_sweep_begin(
        &port, &troupe_trainer_linger, space, 1, sweep,
        &(troupe_tune_options){.size = sizeof(troupe_tune_options),
                               .metric = "loss",
                               .goal = TROUPE_MINIMIZE,
                               .search = TROUPE_SEARCH_GRID,
                               .trial_timeout_s = 1,
                               .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage,
                                                       .cpus_per_rank = 0.5)});
}

static int how_of(const troupe_trial *trial)
{
    return ((const linger_settings *)trial->config)->how;
}

static bool are_lingering(void *sweep)
{
    for (size_t i = 0; i < LINGERS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        if (trial == NULL || trial->reports == 0 ||
            (how_of(trial) == LINGER_NOT && trial->state != TROUPE_TRIAL_TERMINATED))
            return false;
    }
    return true;
}

static bool has_left_as_asked(void *sweep)
{
    bool has = false;
    for (size_t i = 0; i < LINGERS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        has = has || (how_of(trial) == LINGER_REPORTS && trial->state == TROUPE_TRIAL_ERROR);
    }
    return has;
}

// Each in its own way; the others are not held up.
static void test_trials_that_do_not_end_are_ended(void **state)
{
    (void)state;
    troupe_sweep *sweep;
    ok(begin_lingering(&sweep));
    assert_true(support_wait_until(are_lingering, sweep, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    sleep(1); // By Train's clock it is over a second, too.
    atomic_store(&clock_s, 2);
    assert_true(support_wait_until(has_left_as_asked, sweep, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    atomic_store(&clock_s, 4); // The others do not, and are made to.
    ok(troupe_sweep_wait(sweep, TROUPE_FOREVER));
    assert_int_equal(troupe_sweep_count(sweep), LINGERS);
    for (size_t i = 0; i < LINGERS; i++) {
        const troupe_trial *trial = troupe_sweep_trial(sweep, i);
        int how = how_of(trial);
        troupe_status status = troupe_result_status(trial->result);
        assert_true(trial->best_metric == how);
        if (how == LINGER_NOT) {
            assert_int_equal(trial->state, TROUPE_TRIAL_TERMINATED);
            continue;
        }
        assert_int_equal(trial->state, TROUPE_TRIAL_ERROR);
        assert_string_equal(trial->error,
                            "it ran for longer than 1 s, which trial_timeout_s allows");
        assert_true(trial->elapsed_s >= 0.9 && trial->elapsed_s < 30);
        assert_int_equal(status, how == LINGER_REPORTS ? TROUPE_OK : TROUPE_DEADLINE_EXCEEDED);
        // So a later life of the sweep knows which deadline it was.
        assert_true(how == LINGER_REPORTS || troupe_result_elapsed_s(trial->result) >= 1);
        assert_int_equal(strncmp(troupe_result_error(trial->result), trial->error,
                                 how == LINGER_REPORTS ? 0 : strlen(trial->error)),
                         0);
        assert_null(strstr(troupe_result_error(trial->result), ".restarts"));
    }
    troupe_sweep_free(&sweep);
}

// ---- from inside a method

typedef struct boss {
    char unused;
} boss;

static troupe_status boss_tune(boss *self, const troupe_none *none, int *trials)
{
    (void)self;
    (void)none;
    static const troupe_param space[] = {TROUPE_UNIFORM(settings, rate, 0, 1),
                                         TROUPE_FIXED(settings, epochs, 2)};
    troupe_sweep *sweep;
    TROUPE_TRY(troupe_tune(
        descend, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE, .trials = 2,
        .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage, .keep = TROUPE_NONE)));
    *trials = (int)troupe_sweep_count(sweep);
    troupe_sweep_free(&sweep);
    return TROUPE_OK;
}
TROUPE_ACTOR(boss, (boss_tune, troupe_none, int));

// As many sweeps at once as there are threads for methods: the jobs' actors need one too.
static void test_methods_may_tune(void **state)
{
    (void)state;
    troupe_ref refs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        boss_actor one = troupe_spawn(boss, .place = TROUPE_PLACE_HERE);
        refs[i] = troupe_call(one, boss_tune);
    }
    for (int i = 0; i < THREADS; i++) {
        int trials = 0;
        ok(troupe_get(int, refs[i], &trials, 2 * SUPPORT_SOON_MS));
        assert_int_equal(trials, 2);
    }
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2, .threads = THREADS));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_overlap),
        cmocka_unit_test(test_asha_stops_the_weak_and_the_best_is_right),
        cmocka_unit_test(test_configs_follow_from_the_seed),
        cmocka_unit_test(test_failures_stay_with_their_trials),
        cmocka_unit_test(test_what_is_of_stored_programs_is_refused),
        cmocka_unit_test(test_a_metric_that_is_not_reported_fails_the_sweep),
        cmocka_unit_test(test_trials_of_two_ranks_are_shown_with_their_place),
        cmocka_unit_test(test_impossible_options_are_refused),
        cmocka_unit_test(test_the_best_checkpoint_is_by_the_metric_of_the_sweep),
        cmocka_unit_test(test_trials_that_do_not_end_are_ended),
        cmocka_unit_test(test_methods_may_tune),
    };
    int failed = cmocka_run_group_tests(tests, make_storage, remove_storage);
    troupe_stop();
    return failed;
}
