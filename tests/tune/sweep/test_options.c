// test_options.c: options and arguments that are refused: with which error text, and that nothing
// is left.
#include "fake_train.h"

#include <dirent.h>
#include <math.h>
#include <runtime/base/memory.h>

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

static void test_options_that_train_refuses_end_the_sweep(void **state)
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
        troupe_scheduler *scheduler = script(0, 1, TROUPE_ACT_STOP, &freed);
        assert_int_equal(SWEEP(&sweep, .trials = 5, .scheduler = scheduler), refusals[i]);
        assert_string_equal(troupe_last_error()->text, "refused submission 0");
        assert_null(sweep);
        assert_true(freed);
        fake_shut();
    }
    assert_int_equal(count_files(storage), before); // No folder is left behind.
}

static void test_without_a_runtime_nothing_is_left(void **state)
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
    troupe_train_options train = {.size = sizeof train};
    if (how.train != NULL)
        train = *how.train;
    train.storage = storage;
    how.train = &train;
    how.scheduler = script(0, 1, TROUPE_ACT_STOP, &freed);
    assert_int_equal(trp_sweep_run(&fake_port, &fit, space, ROWS, &sweep, &how), TROUPE_INVALID);
    assert_null(sweep);
    assert_true(freed);
    assert_string_equal(troupe_last_error()->text, sentence);
}

// With a goal, where none is given.
static troupe_tune_options with_goal(troupe_tune_options how)
{
    how.goal = how.goal == TROUPE_GOAL_NONE ? TROUPE_MINIMIZE : how.goal;
    return how;
}

#define HOW(...) with_goal((troupe_tune_options){.metric = "loss", __VA_ARGS__})

static void test_wrong_options_are_named(void **state)
{
    (void)state;
    fake_open(2);
    invalid("metric is missing; it must name a metric that every report has",
            (troupe_tune_options){.trials = 1});
    invalid("goal is 0, must be TROUPE_MINIMIZE or TROUPE_MAXIMIZE",
            (troupe_tune_options){.metric = "loss"});
    invalid("goal is 3, must be TROUPE_MINIMIZE or TROUPE_MAXIMIZE", HOW(.goal = (troupe_goal)3));
    invalid("trials is -1, must be 1 to 100000", HOW(.trials = -1));
    invalid("concurrent is -2, must be at least 1", HOW(.concurrent = -2));
    invalid("search is 7, must be one of TROUPE_SEARCH_...", HOW(.search = (troupe_search)7));
    invalid("trial_timeout_s is -1, must be 0 (no limit) to 1000000000 seconds",
            HOW(.trial_timeout_s = -1));
    invalid("trial_timeout_s is nan, must be 0 (no limit) to 1000000000 seconds",
            HOW(.trial_timeout_s = (double)NAN));
    invalid("grid_points is -3, must be 1 to 100000", HOW(.grid_points = -3));
    invalid("grid_points is 5, and search is not TROUPE_SEARCH_GRID, which it is for",
            HOW(.grid_points = 5));
    invalid("objectives is set, and objective_count is 0: expected how many there are",
            (troupe_tune_options){.objectives = &(troupe_objective){"loss", TROUPE_MINIMIZE}});
    invalid("name is \"a/b\", must be 1 to 128 letters, digits, '.', '_' or '-', "
            "not beginning with a dot",
            HOW(.name = "a/b"));
    invalid("name is \"..\", must be 1 to 128 letters, digits, '.', '_' or '-', "
            "not beginning with a dot",
            HOW(.name = ".."));
    invalid("name is \".hidden\", must be 1 to 128 letters, digits, '.', '_' or '-', "
            "not beginning with a dot",
            HOW(.name = ".hidden"));
    invalid("train.name is \"x\", but trials are named by the sweep; its own folder is the option"
            " name",
            HOW(.train = TROUPE_OPTIONS(troupe_train_options, .name = "x")));
    invalid("train.key is \"k\": expected none, as each trial is a job of its own",
            HOW(.train = TROUPE_OPTIONS(troupe_train_options, .key = "k")));
    invalid("columns is \"a,,b\", must be 1 to 64 names of 1 to 63 bytes separated by commas",
            HOW(.columns = "a,,b"));
    invalid("trials is not set and the grid has 150000 combinations, more than 100000",
            HOW(.search = TROUPE_SEARCH_GRID, .grid_points = 50000));
    invalid("trials is not set and the grid has 150000 combinations, more than 100000",
            HOW(.searcher = troupe_search_grid(50000)));
    fake_shut();
}

// More than a record may have.
static void test_grids_of_too_many_combinations_are_refused(void **state)
{
    (void)state;
    static const double rates[1024];
    static const int hidden[1024];
    troupe_sweep *sweep;
    troupe_param rows[] = {TROUPE_CHOICE_LIST(fake_settings, rate, rates),
                           TROUPE_CHOICE_LIST(fake_settings, hidden, hidden)};
    rows[0].draw = rows[1].draw = TROUPE_DRAW_GRID;
    fake_open(2);
    const troupe_train_options train = {.size = sizeof train, .storage = storage};
    const troupe_tune_options how = {
        .size = sizeof how, .metric = "loss", .goal = TROUPE_MINIMIZE, .train = &train};
    assert_int_equal(trp_sweep_run(&fake_port, &fit, rows, 2, &sweep, &how), TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text,
                        "1 trials for each of the 1048576 combinations of the space's grids, and 0 "
                        "points to try first: expected at most 100000 in all");
    fake_shut();
}

// A scheduler whose own options are wrong must not become a sweep that stops nobody.
static void test_a_refused_scheduler_refuses_the_sweep(void **state)
{
    (void)state;
    troupe_sweep *sweep = (troupe_sweep *)&sweep;
    fake_open(2);
    assert_int_equal(SWEEP(&sweep, .trials = 1, .scheduler = troupe_asha(.reduction = 1)),
                     TROUPE_INVALID);
    assert_string_equal(troupe_last_error()->text, "asha: reduction is 1, must be at least 2");
    assert_null(sweep);
    trp_memory_fail_after(0);
    troupe_scheduler *asha = troupe_asha(.reduction = 2);
    trp_memory_fail_after(-1);
    assert_int_equal(SWEEP(&sweep, .trials = 1, .scheduler = asha), TROUPE_NO_MEMORY);
    assert_null(sweep);
    assert_int_equal(fake.submitted, 0);
    fake_shut();
}

static void test_wrong_arguments_are_named(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_that_train_refuses_end_the_sweep),
        cmocka_unit_test(test_without_a_runtime_nothing_is_left),
        cmocka_unit_test(test_wrong_options_are_named),
        cmocka_unit_test(test_grids_of_too_many_combinations_are_refused),
        cmocka_unit_test(test_a_refused_scheduler_refuses_the_sweep),
        cmocka_unit_test(test_wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, make_storage, remove_storage);
}
