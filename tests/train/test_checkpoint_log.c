// test_checkpoint_log.c: what the log says of a run's checkpoints. Each case is a driver process
// whose log is read here.
// timeout: 120
#include "line.h"

#include <sys/stat.h>
#include <sys/wait.h>

enum { EPOCHS = 5 };

static char *folder, *log_text;
static const char *metric = "accuracy";
static troupe_goal towards = TROUPE_MAXIMIZE;

TROUPE_STRUCT(partly_settings, (int, from)); // The first report that has the metric.

static troupe_status measures_later(troupe_rank *me, const partly_settings *config)
{
    line_model model = {.note = ""};
    for (int i = 1; i <= EPOCHS; i++) {
        model.epoch = i;
        TROUPE_TRY(troupe_save(line_model, me, &model));
        if (i < config->from)
            TROUPE_TRY(troupe_report(me, {"loss", i}));
        else
            TROUPE_TRY(troupe_report(me, {"accuracy", i / 10.0}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(measures_later, partly_settings);

static int drive(int keep, int from)
{
    troupe_result *result;
    partly_settings config = {from};
    troupe_must(troupe_start(0, NULL, .cpus = 2));
    troupe_must(troupe_train(measures_later, &config, &result, .storage = folder, .name = "run",
                             .keep = keep, .keep_metric = metric, .keep_goal = towards));
    bool whole =
        troupe_result_reports(result) == EPOCHS && troupe_result_checkpoint(result) != NULL;
    troupe_result_free(&result);
    return troupe_stop() || !whole;
}

// Runs it in a process of its own, whose log becomes log_text.
static void run_in_driver(int (*what)(int, int), int keep, int from)
{
    char *path = support_path(folder, "log");
    pid_t driver = fork();
    assert_true(driver >= 0);
    if (driver == 0) {
        setenv("TROUPE_LOG", "debug", 1);
        setenv("TROUPE_LOG_FOLD", "0", 1);
        if (freopen(path, "w", stderr) == NULL)
            _exit(3);
        exit(what(keep, from));
    }
    int status;
    assert_int_equal(waitpid(driver, &status, 0), driver);
    log_text = support_read_file(path);
    assert_non_null(log_text);
    free(path);
    if (status != 0)
        support_fail_output(log_text, "the driver ended with %x", (unsigned)status);
}

static void run_driver(int keep, int from)
{
    folder = support_directory_make();
    run_in_driver(drive, keep, from);
}

static void forget(void)
{
    free(log_text);
    support_directory_remove(folder);
}

static int count(const char *wanted)
{
    int found = 0;
    for (const char *at = log_text; (at = strstr(at, wanted)) != NULL; at += strlen(wanted))
        found++;
    return found;
}

// C19.
static void test_each_checkpoint_is_logged_once_with_its_path(void **state)
{
    (void)state;
    run_driver(0, 1);
    char *real = realpath(folder, NULL);
    assert_int_equal(count("Checkpoint successfully created at: Checkpoint("), EPOCHS);
    for (int i = 0; i < EPOCHS; i++) {
        char wanted[4096];
        snprintf(wanted, sizeof wanted,
                 "Checkpoint successfully created at: Checkpoint(filesystem=local, "
                 "path=%s/run/checkpoints/checkpoint_%06d)",
                 real, i);
        assert_int_equal(count(wanted), 1);
    }
    assert_int_equal(count("Removed worst checkpoint"), 0);
    free(real);
    forget();
}

// C04: a checkpoint without the metric is kept as the worst, and the log names the metric; the run
// goes on.
static void test_a_missing_metric_is_named_and_counts_as_the_worst(void **state)
{
    (void)state;
    run_driver(2, 3);
    assert_int_equal(count("report 1 has no metric 'accuracy', which .keep_metric names; it has "
                           "loss: checkpoint_000000 counts as the worst"),
                     1);
    assert_int_equal(count("has no metric"), 1); // Told once a run.
    char *checkpoints = support_path(folder, "run/checkpoints");
    for (int i = 0; i < EPOCHS; i++) {
        char name[32];
        snprintf(name, sizeof name, "checkpoint_%06d", i);
        char *path = support_path(checkpoints, name);
        assert_int_equal(support_exists(path), i >= 3); // The best two of those that have it.
        free(path);
    }
    free(checkpoints);
    forget();
}

// C22: what was written, skipped and removed, with path and score.
static void test_each_step_of_retention_is_logged_with_path_and_score(void **state)
{
    (void)state;
    // Accuracies 0.1 to 0.5; then, towards the least loss, 1 to 5.
    run_driver(2, 1);
    char *real = realpath(folder, NULL), wanted[4096];
    for (int i = 0; i < EPOCHS; i++) {
        snprintf(wanted, sizeof wanted,
                 "Checkpoint successfully written to: %s/run/checkpoints/checkpoint_%06d (score "
                 "%.1f)",
                 real, i, (i + 1) / 10.0);
        assert_int_equal(count(wanted), 1);
        snprintf(wanted, sizeof wanted,
                 "Removed worst checkpoint from: %s/run/checkpoints/checkpoint_%06d (score %.1f)",
                 real, i, (i + 1) / 10.0);
        assert_int_equal(count(wanted), i < 3);
    }
    assert_int_equal(count("Skipping checkpoint"), 0);
    free(real);
    forget();

    towards = TROUPE_MINIMIZE;
    metric = "loss";
    run_driver(1, EPOCHS + 1);
    towards = TROUPE_MAXIMIZE;
    metric = "accuracy";
    real = realpath(folder, NULL);
    for (int i = 0; i < EPOCHS; i++) {
        snprintf(wanted, sizeof wanted,
                 "Skipping checkpoint due to low score: %s/run/checkpoints/checkpoint_%06d (score "
                 "%d) is kept until the next one",
                 real, i, i + 1);
        assert_int_equal(count(wanted), i > 0);
        snprintf(wanted, sizeof wanted, "checkpoints/checkpoint_%06d (score %d)", i, i + 1);
        // Written; of all but the first also skipped, and of those all but the newest removed.
        assert_int_equal(count(wanted), i == 0 ? 1 : i < EPOCHS - 1 ? 3 : 2);
    }
    free(real);
    forget();
}

// ---- what cannot be written or read

TROUPE_STRUCT(lost_settings, (troupe_text, folder), (int, lost_at));

// From a report on something lies where the checkpoints would go.
static troupe_status is_in_the_way(troupe_rank *me, const lost_settings *config)
{
    line_model model = {.note = ""};
    TROUPE_TRY(troupe_restore(line_model, me, &model));
    while (model.epoch < EPOCHS) {
        model.epoch++;
        TROUPE_TRY(troupe_save(line_model, me, &model));
        TROUPE_TRY(troupe_report(me, {"epoch", (double)model.epoch}));
        if (model.epoch != config->lost_at)
            continue;
        TROUPE_TRY(await_checkpoint(me, config->lost_at - 1));
        for (int i = config->lost_at; i < EPOCHS; i++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/run/checkpoints/checkpoint_%06d", config->folder, i);
            if (mkdir(path, 0700))
                return troupe_fail(TROUPE_FAILED, "%s cannot be made", path);
            strcat(path, "/stone");
            support_write_file(path, "", 0);
        }
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(is_in_the_way, lost_settings);

static int drive_lost(int lost_at, int resumes)
{
    troupe_result *result;
    lost_settings config = {folder, lost_at};
    troupe_must(troupe_start(0, NULL, .cpus = 2));
    troupe_must(troupe_train(is_in_the_way, &config, &result, .storage = folder, .name = "run",
                             .open = resumes ? TROUPE_OPEN_RESUME : TROUPE_OPEN_NEW));
    bool whole = troupe_result_reports(result) == EPOCHS;
    troupe_result_free(&result);
    return troupe_stop() || !whole;
}

static void test_why_checkpoints_are_missing_is_told_once(void **state)
{
    (void)state;
    folder = support_directory_make();
    run_in_driver(drive_lost, 2, 0);
    assert_int_equal(count("has no checkpoint: "), 1);
    assert_int_equal(count("report 3 of "), 1);
    assert_int_equal(count("2 more reports of "), 1);
    assert_int_equal(count(" had no checkpoint for that reason"), 1);
    forget();
}

static void test_a_checkpoint_that_cannot_be_used_is_told_of_once(void **state)
{
    (void)state;
    folder = support_directory_make();
    run_in_driver(drive_lost, 0, 0);
    for (int damaged = EPOCHS - 1; damaged >= EPOCHS - 2; damaged--) {
        char name[80];
        snprintf(name, sizeof name, "run/checkpoints/checkpoint_%06d/manifest.json", damaged);
        char *manifest = support_path(folder, name), *end = support_path(folder, "run/end");
        support_write_file(manifest, "{", 1);
        (void)unlink(end); // As if its driver had been killed.
        free(manifest);
        free(end);
        free(log_text);
        run_in_driver(drive_lost, 0, 1);
        // The second time there is a newer one, which the first has made.
        assert_int_equal(count("checkpoint_000004/manifest.json is damaged"), 1);
        assert_int_equal(count("checkpoint_000003/manifest.json is damaged"),
                         damaged == EPOCHS - 2);
        assert_int_equal(count("cannot be used"), EPOCHS - damaged);
    }
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_checkpoint_is_logged_once_with_its_path),
        cmocka_unit_test(test_each_step_of_retention_is_logged_with_path_and_score),
        cmocka_unit_test(test_why_checkpoints_are_missing_is_told_once),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_used_is_told_of_once),
        cmocka_unit_test(test_a_missing_metric_is_named_and_counts_as_the_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
