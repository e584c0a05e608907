// test_train.c: whole runs that go well: what comes out, and what is left on disk.
// again: memory train 60 memory
#include "line.h"
#include "where.h"
#include <places.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *storage;

static void test_runs_of_any_size_fit_the_line(void **state)
{
    (void)state;
    for (int world = 1; world <= 4; world *= 2) {
        line_settings config = line_plain(60);
        config.save_every = 20;
        troupe_result *result;
        troupe_must(troupe_train(line_fit, &config, &result, .ranks = world, .storage = storage,
                                 .cpus_per_rank = 0.5, .keep = 2));
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        assert_string_equal(troupe_result_error(result), "");
        assert_false(troupe_result_stopped(result));
        assert_int_equal(troupe_result_reports(result), 60);
        assert_int_equal(troupe_result_restarts(result), 0);
        assert_true(troupe_result_elapsed_s(result) > 0);
        assert_float_equal(troupe_result_metric(result, "slope"), 3, 0.5);
        assert_true(troupe_result_metric(result, "epoch") == 60);
        assert_true(isnan(troupe_result_metric(result, "no such metric")));
        size_t count;
        const troupe_metric *metrics = troupe_result_metrics(result, &count);
        assert_int_equal(count, 3);
        assert_string_equal(metrics[0].name, "loss");
        assert_non_null(strstr(troupe_result_checkpoint(result), "/checkpoints/checkpoint_000002"));
        assert_string_equal(troupe_result_checkpoint(result),
                            troupe_result_best_checkpoint(result));
        for (int rank = 0; rank < world; rank++) {
            line_model model = line_load(result, rank);
            assert_int_equal(model.epoch, 60);
            assert_int_equal(model.rank, rank);
            assert_string_equal(model.note, config.note);
            assert_int_equal(model.history.count, 60);
            assert_true(model.slope == troupe_result_metric(result, "slope"));
        }
        troupe_arena_reset();
        troupe_result_free(&result);
        assert_null(result);
        troupe_result_free(&result); // Harmless.
    }
}

// Two runs alike end with the same bits.
static void test_a_run_can_be_repeated_to_the_bit(void **state)
{
    (void)state;
    line_settings config = line_plain(12);
    troupe_result *first, *second;
    troupe_must(troupe_train(line_fit, &config, &first, .ranks = 3, .storage = storage));
    troupe_must(troupe_train(line_fit, &config, &second, .ranks = 3, .storage = storage));
    for (int rank = 0; rank < 3; rank++) {
        line_model a = line_load(first, rank), b = line_load(second, rank);
        line_assert_same(&a, &b);
    }
    troupe_arena_reset();
    troupe_result_free(&first);
    troupe_result_free(&second);
}

static void test_the_folder_has_reports_and_the_best_checkpoints(void **state)
{
    (void)state;
    line_settings config = line_plain(12);
    troupe_result *result;
    // By the least epoch, so the first two checkpoints are best.
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = storage,
                             .name = "best.run-1", .keep = 2, .keep_metric = "epoch",
                             .keep_goal = TROUPE_MINIMIZE));
    const char *run = troupe_result_path(result);
    assert_non_null(strstr(run, "/best.run-1"));
    assert_int_equal(where_count_checkpoints(run), 3); // The best two, and the latest.
    assert_non_null(strstr(troupe_result_best_checkpoint(result), "/checkpoint_000000"));
    assert_non_null(strstr(troupe_result_checkpoint(result), "/checkpoint_000011"));
    char *text = where_text(run, "journal.jsonl");
    assert_non_null(text);
    int lines = 0;
    for (char *line = text; (line = strstr(line, "{\"event\": \"report\"")) != NULL; line++) {
        char start[96];
        snprintf(
            start, sizeof start,
            "{\"event\": \"report\", \"report\": %d, \"attempt\": 0, \"elapsed_s\": ", ++lines);
        assert_int_equal(strncmp(line, start, strlen(start)), 0);
        assert_non_null(strchr(line, '\n'));
    }
    assert_int_equal(lines, 12);
    assert_non_null(strstr(text, "\"metrics\": {\"loss\": "));
    assert_non_null(strstr(text, "\"checkpoint\": \"checkpoint_000011\"}\n"));
    free(text);
    troupe_result_free(&result);
}

// C02, C10.
static void test_without_keep_nothing_is_removed_and_with_none_nothing_is_written(void **state)
{
    (void)state;
    line_settings config = line_plain(8);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "all"));
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 8);
    troupe_result_free(&result);

    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "none",
                             .keep = TROUPE_NONE));
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 0);
    assert_null(troupe_result_checkpoint(result));
    assert_null(troupe_result_best_checkpoint(result));
    assert_int_equal(troupe_result_reports(result), 8);
    troupe_result_free(&result);

    // The same name again: a number is appended.
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "none"));
    assert_string_equal(strrchr(troupe_result_path(result), '/'), "/none_1");
    troupe_result_free(&result);
}

// A12.
// A new run goes on from another's checkpoint; its reports begin at 1.
static void test_a_run_starts_from_a_checkpoint(void **state)
{
    (void)state;
    line_settings config = line_plain(10);
    troupe_result *whole, *half, *rest;
    troupe_must(troupe_train(line_fit, &config, &whole, .ranks = 2, .storage = storage));
    config.epochs = 4;
    troupe_must(troupe_train(line_fit, &config, &half, .ranks = 2, .storage = storage));
    config.epochs = 10;
    troupe_must(troupe_train(line_fit, &config, &rest, .ranks = 2, .storage = storage,
                             .from = troupe_result_checkpoint(half)));
    assert_int_equal(troupe_result_reports(rest), 6);
    for (int rank = 0; rank < 2; rank++) {
        line_model a = line_load(whole, rank), b = line_load(rest, rank);
        line_assert_same(&a, &b);
    }
    troupe_arena_reset();

    // A damaged one is refused when the run starts, with its files' names.
    char *file = where_text(troupe_result_checkpoint(half), "rank_00001.safetensors");
    file[200] = '\0';
    where_write(troupe_result_checkpoint(half), "rank_00001.safetensors", file);
    troupe_result *none;
    assert_int_equal(troupe_train(line_fit, &config, &none, .ranks = 2, .storage = storage,
                                  .from = troupe_result_checkpoint(half)),
                     TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, "rank_00001.safetensors is damaged"));
    troupe_result_free(&none);
    free(file);
    troupe_result_free(&whole);
    troupe_result_free(&half);
    troupe_result_free(&rest);
}

// ---- other loops

TROUPE_STRUCT(no_settings, (int, unused));

static troupe_status only_first_saves(troupe_rank *me, const no_settings *config)
{
    (void)config;
    line_model model = {.epoch = -1};
    TROUPE_TRY(troupe_restore(line_model, me, &model));
    if (me->attempt == 1 && model.epoch != 42)
        return troupe_fail(TROUPE_FAILED, "rank %d restored epoch %lld", me->rank,
                           (long long)model.epoch);
    model = (line_model){.epoch = 42, .rank = me->rank, .note = "of rank 0"};
    if (me->rank == 0)
        TROUPE_TRY(troupe_save(line_model, me, &model));
    TROUPE_TRY(troupe_report(me, {"x", 1}));
    TROUPE_TRY(troupe_barrier(me));
    if (me->rank == 1 && me->attempt == 0) {
        TROUPE_TRY(await_checkpoint(me, 0));
        raise(SIGKILL);
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(only_first_saves, no_settings);

TROUPE_STRUCT(forgetful_settings, (bool, fails));

// Saves, and ends without the report that the state would have been published with.
static troupe_status forgets_to_report(troupe_rank *me, const forgetful_settings *config)
{
    line_model model = {.note = "never seen"};
    TROUPE_TRY(troupe_save(line_model, me, &model));
    return config->fails ? troupe_fail(TROUPE_FAILED, "it was to fail") : TROUPE_OK;
}
TROUPE_TRAINER(forgets_to_report, forgetful_settings);

static void test_what_was_saved_and_not_reported_does_not_stay(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        forgetful_settings config = {fails};
        troupe_result *result;
        assert_int_equal(troupe_train(forgets_to_report, &config, &result, .storage = storage),
                         fails ? TROUPE_FAILED : TROUPE_OK);
        assert_null(troupe_result_checkpoint(result));
        assert_int_equal(where_count_checkpoints(troupe_result_path(result)), 0);
        troupe_result_free(&result);
    }
}

// C14.
static void test_ranks_without_a_state_get_that_of_rank_0(void **state)
{
    (void)state;
    if (where_far)
        skip(); // A rank waits for a file there.
    no_settings config = {0};
    troupe_result *result;
    troupe_must(troupe_train(only_first_saves, &config, &result, .ranks = 3, .storage = storage,
                             .restarts = 1));
    assert_int_equal(troupe_result_restarts(result), 1);
    troupe_result_free(&result);
}

static troupe_status wrong_calls(troupe_rank *me, const no_settings *config)
{
    (void)config;
    const char *text = troupe_last_error()->text;
    troupe_metric many[33];
    for (int i = 0; i < 33; i++)
        many[i] = (troupe_metric){"m", i};
    char long_name[80];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[79] = '\0';
    troupe_rank other = *me;
    double value = 0;
    struct {
        troupe_status got;
        const char *word;
    } calls[] = {
        {troupe_report_metrics(me, many, 33), "33 metrics"},
        {troupe_report_metrics(me, many, 2), "'m' is given twice"},
        {troupe_report(me, {long_name, 1}), "1 to 63 bytes"},
        {troupe_report(me, {"", 1}), "1 to 63 bytes"},
        {troupe_report(me, {NULL, 1}), "1 to 63 bytes"},
        {troupe_report(&other, {"x", 1}), "troupe_report was not called"},
        {troupe_allreduce(&other, &value, 1, TROUPE_SUM), "troupe_allreduce was not called"},
        {troupe_broadcast(me, &value, 8, 7), "no rank 7"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].got != TROUPE_INVALID)
            return troupe_fail(TROUPE_FAILED, "call %zu gave %s", i,
                               troupe_status_name(calls[i].got));
    if (troupe_report_metrics(me, many, 33) != TROUPE_INVALID || !strstr(text, calls[0].word))
        return troupe_fail(TROUPE_FAILED, "the sentence is: %s", text);
    if (troupe_report(&other, {"x", 1}) != TROUPE_INVALID || !strstr(text, calls[5].word))
        return troupe_fail(TROUPE_FAILED, "the sentence is: %s", text);
    // None of them counted.
    TROUPE_TRY(troupe_report(me, {"fine", NAN}, {"also", INFINITY}));
    return TROUPE_OK;
}
TROUPE_TRAINER(wrong_calls, no_settings);

static void test_wrong_calls_are_refused_and_do_not_count(void **state)
{
    (void)state;
    no_settings config = {0};
    troupe_result *result;
    troupe_must(troupe_train(wrong_calls, &config, &result, .storage = storage));
    assert_int_equal(troupe_result_reports(result), 1);
    assert_true(isnan(troupe_result_metric(result, "fine")));
    char *text = where_text(troupe_result_path(result), "journal.jsonl");
    assert_non_null(
        strstr(text, "{\"fine\": \"NaN\", \"also\": \"Infinity\"}, \"checkpoint\": null}"));
    free(text);
    troupe_result_free(&result);
}

// ---- a full disk

TROUPE_STRUCT(disk_settings, (int, size));
TROUPE_STRUCT(large_model, (int, epoch), (troupe_array_double, weights));

// In epoch 2 rank 1 has more to save than the disk has room for; it goes on without.
static troupe_status fills_disk(troupe_rank *me, const disk_settings *config)
{
    for (int epoch = 1; epoch <= 3; epoch++) {
        bool large = epoch == 2 && me->rank == 1;
        double *weights = troupe_arena_alloc((size_t)config->size * sizeof *weights);
        if (!weights)
            return TROUPE_NO_MEMORY;
        large_model model = {epoch, {weights, large ? (size_t)config->size : 10}};
        const char *folder; // It is given once the files of the last report are written.
        TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
        TROUPE_TRY(troupe_barrier(me));
        TROUPE_TRY(troupe_save(large_model, me, &model));
        TROUPE_TRY(troupe_report(me, {"epoch", epoch}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(fills_disk, disk_settings);

// The ranks close what they have open there a moment after the run's end.
static bool is_unmounted(void *disk)
{
    return umount(disk) == 0;
}

static void test_a_full_disk_does_not_end_the_run(void **state)
{
    (void)state;
    if (where_far)
        skip();
    char *disk = support_path(storage, "disk");
    assert_int_equal(mkdir(disk, 0755), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k")) {
        print_message("skipped: no file system can be mounted here (%s)\n", strerror(errno));
        free(disk);
        skip();
    }
    disk_settings config = {100000};
    troupe_result *result;
    troupe_must(troupe_train(fills_disk, &config, &result, .ranks = 2, .storage = disk));
    assert_int_equal(troupe_result_reports(result), 3);
    assert_int_equal(where_count_checkpoints(troupe_result_path(result)),
                     2); // Nothing is left of epoch 2.
    large_model model;
    troupe_must(troupe_checkpoint_load(large_model, troupe_result_checkpoint(result), 1, &model));
    assert_int_equal(model.epoch, 3);
    char *path = support_path(troupe_result_path(result), "journal.jsonl");
    char *text = support_read_file(path);
    assert_null(strstr(text, "\"commit\", \"report\": 2"));
    assert_non_null(strstr(text, "\"commit\", \"report\": 3"));
    assert_non_null(strstr(text, "{\"epoch\": 3}, \"checkpoint\": \"checkpoint_000001\"}"));
    free(text);
    free(path);
    troupe_result_free(&result);
    assert_true(support_wait_until(is_unmounted, disk, SUPPORT_SOON_MS));
    free(disk);
}

TROUPE_STRUCT(data_settings, (troupe_ref, data), (troupe_array_troupe_ref, more));

static troupe_status reads_objects(troupe_rank *me, const data_settings *config)
{
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(config->data, &view, -1));
    bool right = view.size == 100000 && ((const char *)view.data)[99999] == 'q';
    troupe_view_end(&view);
    if (!right || config->more.count != 2)
        return troupe_fail(TROUPE_FAILED, "rank %d does not see the data", me->rank);
    TROUPE_TRY(troupe_view_bytes(config->more.items[1], &view, -1));
    right = view.size == 3 && memcmp(view.data, "two", 3) == 0;
    troupe_view_end(&view);
    return right ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "references are in another order");
}
TROUPE_TRAINER(reads_objects, data_settings);

// A config may hold references: the objects are there for all ranks, once, and go when the job is
// closed.
static void test_a_config_can_hold_references(void **state)
{
    (void)state;
    assert_store_empty();
    char *bytes = malloc(100000);
    memset(bytes, 'q', 100000);
    troupe_ref more[2] = {troupe_put_bytes("one", 3), troupe_put_bytes("two", 3)};
    data_settings config = {troupe_put_bytes(bytes, 100000), {more, 2}};
    troupe_job *job;
    troupe_must(troupe_submit(reads_objects, &config, NULL, &job, .ranks = 2, .storage = storage));
    troupe_ref_drop(config.data); // The job has its own hold.
    troupe_ref_drop(more[0]);
    troupe_ref_drop(more[1]);
    troupe_result *result;
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_string_equal(troupe_result_error(result), "");
    troupe_result_free(&result);
    troupe_job_close(&job);
    free(bytes);
    assert_store_empty();
}

// ---- what a killed driver left

static troupe_status stage_and_wait(troupe_rank *me, const troupe_none *none)
{
    (void)none;
    int value = 1;
    TROUPE_TRY(troupe_save(int, me, &value));
    for (;;)
        pause(); // Until it is killed, or its driver.
}
TROUPE_TRAINER(stage_and_wait, troupe_none);

// Another driver, of this program: it begins a run and stages a checkpoint that it never reports.
static int run_until_killed(int argc, char **argv)
{
    troupe_result *result;
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    troupe_must(troupe_train(stage_and_wait, &(troupe_none){0}, &result, .storage = argv[2],
                             .name = "twin"));
    return 1;
}

static pid_t start_driver(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A test that fails leaves none.
        execl("/proc/self/exe", "test_train", "drive", storage, (char *)NULL);
        _exit(127);
    }
    return child;
}

static bool is_staged(void *run)
{
    char *staged = support_path(storage, run);
    bool there = support_exists(staged);
    free(staged);
    return there;
}

static void end_driver(pid_t driver)
{
    int status;
    assert_int_equal(kill(driver, SIGKILL), 0);
    assert_int_equal(waitpid(driver, &status, 0), driver);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// Three runs of one name: the first has lost its driver, the second is at work while a third, of
// this process, begins.
static void test_only_what_a_killed_driver_staged_is_cleared(void **state)
{
    (void)state;
    if (where_far)
        skip(); // That is done by who opens the run.
    static char dead_one[] = "twin/checkpoints/.staging_1_0_1";
    static char alive_one[] = "twin_1/checkpoints/.staging_1_0_1";
    line_settings config = line_plain(1);
    troupe_result *result;
    pid_t dead = start_driver();
    assert_true(support_wait_until(is_staged, dead_one, SUPPORT_SOON_MS));
    pid_t alive = start_driver();
    assert_true(support_wait_until(is_staged, alive_one, SUPPORT_SOON_MS));
    assert_true(is_staged(dead_one)); // The second has met it, too.
    end_driver(dead);
    assert_true(is_staged(dead_one)); // Nobody is left to remove it.
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "twin"));
    assert_string_equal(strrchr(troupe_result_path(result), '/'), "/twin_2");
    troupe_result_free(&result);
    assert_false(is_staged(dead_one));
    assert_true(is_staged(alive_one));
    end_driver(alive);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "twin"));
    troupe_result_free(&result);
    assert_false(is_staged(alive_one));
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return run_until_killed(argc, argv);
    support_allow_mounts();
    where_begin(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = where_storage;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_of_any_size_fit_the_line),
        cmocka_unit_test(test_a_run_can_be_repeated_to_the_bit),
        cmocka_unit_test(test_the_folder_has_reports_and_the_best_checkpoints),
        cmocka_unit_test(test_without_keep_nothing_is_removed_and_with_none_nothing_is_written),
        cmocka_unit_test(test_a_run_starts_from_a_checkpoint),
        cmocka_unit_test(test_what_was_saved_and_not_reported_does_not_stay),
        cmocka_unit_test(test_ranks_without_a_state_get_that_of_rank_0),
        cmocka_unit_test(test_wrong_calls_are_refused_and_do_not_count),
        cmocka_unit_test(test_a_full_disk_does_not_end_the_run),
        cmocka_unit_test(test_a_config_can_hold_references),
        cmocka_unit_test(test_only_what_a_killed_driver_staged_is_cleared),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed |= troupe_stop();
    where_end();
    return failed;
}
