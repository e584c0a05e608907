// test_run_info.c: what a run was is read from its folder, and what a killed one left is removed.
#include "line.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EPOCHS = 4 };

static char *storage;

static char *run_of(const char *name)
{
    return support_path(storage, name);
}

static void test_a_run_that_has_ended(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_run_info info;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "done",
                             .metadata = "{\"b\": 1, \"a\": [2]}"));
    troupe_must(troupe_run_info_get(troupe_result_path(result), &info));
    assert_string_equal(info.trainer, "line_fit");
    assert_string_equal(info.program, "test_run_info");
    assert_non_null(strstr(info.config, "\"epochs\": 4"));
    assert_string_equal(info.metadata, "{\"a\":[2],\"b\":1}");
    assert_null(info.modified);
    assert_int_equal(strlen(info.created), strlen("2026-01-31T12:00:00.000Z"));
    assert_true(info.ended);
    assert_false(info.stopped);
    assert_int_equal(info.status, TROUPE_OK);
    assert_string_equal(info.error, "");
    assert_int_equal(info.reports, EPOCHS);
    assert_int_equal(info.restarts, 0);
    assert_true(strcmp(info.at, info.created) >= 0);
    assert_true(fabs(info.elapsed_s - troupe_result_elapsed_s(result)) < 1);
    assert_string_equal(info.checkpoint, troupe_result_checkpoint(result));
    assert_string_equal(info.best, troupe_result_best_checkpoint(result));
    troupe_result_free(&result);
}

static void test_a_run_that_failed(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_run_info info;
    config.trouble = RETURNS;
    config.at = 2;
    config.attempts = 1;
    assert_int_not_equal(
        troupe_train(line_fit, &config, &result, .storage = storage, .name = "failed"), TROUPE_OK);
    troupe_must(troupe_run_info_get(troupe_result_path(result), &info));
    assert_true(info.ended);
    assert_int_equal(info.status, troupe_result_status(result));
    assert_string_equal(info.error, troupe_result_error(result));
    troupe_result_free(&result);
}

// A program of other headers has a shorter struct.
static void test_as_much_as_there_is_room_for(void **state)
{
    (void)state;
    troupe_run_info info;
    char *run = run_of("done");
    memset(&info, 'x', sizeof info);
    troupe_must((troupe_run_info_get)(run, &info, offsetof(troupe_run_info, program)));
    assert_string_equal(info.trainer, "line_fit");
    for (size_t i = 0; i < sizeof info.program; i++)
        assert_int_equal(((const char *)&info.program)[i], 'x');
    free(run);
}

static void test_what_is_no_run(void **state)
{
    (void)state;
    troupe_run_info info;
    char *run = run_of("broken"), *file = support_path(run, "run.json");
    assert_int_equal(troupe_run_info_get(run, &info), TROUPE_NOT_FOUND);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(troupe_run_info_get(run, &info), TROUPE_NOT_FOUND);
    assert_null(info.trainer);
    support_write_file(file, "{\"version\": 1", 13);
    assert_int_equal(troupe_run_info_get(run, &info), TROUPE_CORRUPT);
    assert_non_null(strstr(troupe_last_error()->text, file));
    support_write_file(file, "{\"version\": 99}", 15);
    assert_int_equal(troupe_run_info_get(run, &info), TROUPE_VERSION);
    assert_int_equal(troupe_run_clean(run), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_run_clean("memory:run"), TROUPE_UNSUPPORTED);
    free(file);
    free(run);
}

// ---- what was left

static char *staging_of(const char *run)
{
    char *checkpoints = support_path(run, "checkpoints");
    char *staging = support_path(checkpoints, ".staging_000009");
    free(checkpoints);
    return staging;
}

static void test_what_a_killed_run_left(void **state)
{
    (void)state;
    troupe_run_info info;
    char *run = run_of("killed");
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_run_info", "drive", storage, (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(support_was_killed(status));
    troupe_must(troupe_run_info_get(run, &info));
    assert_false(info.ended);
    assert_null(info.checkpoint);
    char *staging = staging_of(run);
    assert_int_equal(mkdir(staging, 0700), 0);
    char *checkpoints = support_path(run, "checkpoints");
    char *whole = support_path(checkpoints, "checkpoint_000000");
    assert_true(support_exists(whole));
    troupe_must(troupe_run_clean(run));
    assert_false(support_exists(staging));
    assert_true(support_exists(whole));
    free(whole);
    free(checkpoints);
    free(staging);
    free(run);
}

static void test_a_run_that_goes_on_is_left_alone(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    troupe_job *job;
    config.pause_ms = 5;
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .storage = storage, .name = "runs"));
    troupe_result *result;
    assert_int_equal(troupe_job_wait(job, 100, &result), TROUPE_TIMED_OUT);
    assert_int_equal(troupe_run_clean(troupe_job_path(job)), TROUPE_BUSY);
    troupe_job_close(&job);
}

static void kill_self(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    (void)user, (void)job, (void)event;
    kill(getpid(), SIGKILL);
}

static int drive(const char *where)
{
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    const troupe_follower follower = {.size = sizeof follower, .checkpoint = kill_self};
    troupe_job *job;
    troupe_result *result;
    config.pause_ms = 5;
    troupe_must(
        troupe_submit(line_fit, &config, &follower, &job, .storage = where, .name = "killed"));
    troupe_must(troupe_job_wait(job, -1, &result));
    return 1;
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    if (argc == 3)
        return drive(argv[2]);
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_has_ended),
        cmocka_unit_test(test_a_run_that_failed),
        cmocka_unit_test(test_as_much_as_there_is_room_for),
        cmocka_unit_test(test_what_is_no_run),
        cmocka_unit_test(test_what_a_killed_run_left),
        cmocka_unit_test(test_a_run_that_goes_on_is_left_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)troupe_stop();
    support_directory_remove(storage);
    return failed;
}
