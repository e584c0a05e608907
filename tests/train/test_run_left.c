// test_run_left.c: what a run has left in its folder, as who opens it next finds it: how it ended,
// or how far it came, and what its gate is asked about once more.
// timeout: 60
#include "line.h"

#include <runtime/base/memory.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/result.h>

enum { EPOCHS = 6 };

static char *storage;

typedef struct heard {
    int reports, commits;
    double loss;
    char newest[600];
} heard;

static void hear_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    heard *it = user;
    assert_null(job);
    assert_int_equal(event->number, ++it->reports);
    assert_string_equal(event->metrics[0].name, "loss");
    it->loss = event->metrics[0].value;
}

static void hear_checkpoint(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    heard *it = user;
    assert_null(job);
    it->commits++;
    snprintf(it->newest, sizeof it->newest, "%s", event->folder);
}

static char *run_of(const char *name)
{
    return support_path(storage, name);
}

static troupe_run_left read_left(const char *name, heard *it)
{
    const troupe_follower follower = {
        .size = sizeof follower, .report = hear_report, .user = it, .checkpoint = hear_checkpoint};
    char *run = run_of(name);
    troupe_run_left left;
    *it = (heard){0};
    troupe_must(troupe_run_left_get(run, &follower, &left));
    free(run);
    return left;
}

static troupe_result *train(const char *name, line_settings config, troupe_status status)
{
    troupe_result *result;
    troupe_status got =
        troupe_train(line_fit, &config, &result, .storage = storage, .name = name, .keep = 2,
                     .keep_metric = "loss", .keep_goal = TROUPE_MINIMIZE);
    assert_int_equal(got, status);
    return result;
}

static void assert_same(const troupe_result *one, const troupe_result *other)
{
    assert_int_equal(troupe_result_reports(one), troupe_result_reports(other));
    assert_true(troupe_result_metric(one, "loss") == troupe_result_metric(other, "loss"));
    assert_string_equal(troupe_result_checkpoint(one), troupe_result_checkpoint(other));
    assert_string_equal(troupe_result_best_checkpoint(one), troupe_result_best_checkpoint(other));
    assert_string_equal(troupe_result_path(one), troupe_result_path(other));
}

static void remove_file(const char *name, const char *file)
{
    char *run = run_of(name), *path = support_path(run, file);
    assert_int_equal(unlink(path), 0);
    free(path);
    free(run);
}

static void test_an_end_is_what_the_run_told(void **state)
{
    (void)state;
    heard it;
    line_settings config = line_plain(EPOCHS);
    troupe_result *told = train("ended", config, TROUPE_OK);
    troupe_run_left left = read_left("ended", &it);
    assert_true(left.ended);
    assert_int_equal(left.reports, EPOCHS);
    assert_int_equal(it.reports, EPOCHS);
    assert_int_equal(it.commits, EPOCHS);
    assert_string_equal(it.newest, troupe_result_checkpoint(told));
    assert_same(left.result, told);
    assert_true(troupe_result_elapsed_s(left.result) > 0);
    assert_null(left.from);
    assert_non_null(strstr(left.config, "\"epochs\": 6"));
    troupe_result_free(&left.result);
    troupe_result_free(&told);

    config.trouble = RETURNS;
    config.at = 3;
    config.where = BEFORE_SAVE;
    config.attempts = 1;
    told = train("failed", config, TROUPE_FAILED);
    left = read_left("failed", &it);
    assert_true(left.ended);
    assert_int_equal(troupe_result_status(left.result), TROUPE_FAILED);
    assert_string_equal(troupe_result_error(left.result), troupe_result_error(told));
    assert_string_equal(troupe_result_cause(left.result), troupe_result_cause(told));
    assert_string_not_equal(troupe_result_cause(told), troupe_result_error(told));
    assert_same(left.result, told);
    troupe_result_free(&left.result);
    troupe_result_free(&told);
}

// As earlier versions wrote it: the error has all that was wrong.
static void test_an_end_without_a_cause_has_its_error(void **state)
{
    (void)state;
    heard it;
    line_settings config = line_plain(EPOCHS);
    config.trouble = RETURNS;
    config.at = 1;
    config.where = BEFORE_SAVE;
    config.attempts = 1;
    troupe_result *told = train("old", config, TROUPE_FAILED);
    char *run = run_of("old"), *path = support_path(run, "end"), *text = support_read_file(path);
    char *from = strstr(text, "\"cause\""), *to = strstr(text, "\"reports\"");
    assert_true(from != NULL && to > from);
    memmove(from, to, strlen(to) + 1);
    support_write_file(path, text, strlen(text));
    troupe_run_left left = read_left("old", &it);
    assert_true(left.ended);
    assert_string_equal(troupe_result_error(left.result), troupe_result_error(told));
    assert_string_equal(troupe_result_cause(left.result), troupe_result_error(told));
    troupe_result_free(&left.result);
    troupe_result_free(&told);
    free(text);
    free(path);
    free(run);
}

// Without its end it is how far the run came, by what is in the folder.
static void test_a_run_without_an_end_is_how_far_it_came(void **state)
{
    (void)state;
    heard it;
    troupe_result *told = train("killed", line_plain(EPOCHS), TROUPE_OK);
    remove_file("killed", "end");
    char *run = run_of("killed"), *path = support_path(run, "journal.jsonl");
    FILE *journal = fopen(path, "a");
    fprintf(journal, "no line\n{\"event\": \"report\", \"report\": 99, \"elaps");
    fclose(journal);
    troupe_run_left left = read_left("killed", &it);
    assert_false(left.ended);
    assert_int_equal(left.reports, EPOCHS);
    assert_int_equal(it.reports, EPOCHS);
    assert_int_equal(troupe_result_status(left.result), TROUPE_OK);
    assert_same(left.result, told);
    troupe_result_free(&left.result);
    troupe_result_free(&told);
    free(path);
    free(run);
}

static void test_no_run_has_left_nothing(void **state)
{
    (void)state;
    troupe_run_left left;
    char *run = run_of("none"), *path = support_path(run, "run.json");
    assert_int_equal(troupe_run_left_get(run, NULL, &left), TROUPE_NOT_FOUND);
    assert_int_equal(mkdir(run, 0700), 0);
    support_write_file(path, "{\"version\": 99}", 15);
    assert_int_equal(troupe_run_left_get(run, NULL, &left), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, path));
    assert_null(left.result);
    free(path);
    free(run);
}

static void test_no_failing_allocation_leaks(void **state)
{
    (void)state;
    troupe_run_left left;
    char *run = run_of("ended");
    troupe_status status = TROUPE_NO_MEMORY;
    int failures = 0;
    for (; status != TROUPE_OK && failures < 1000; failures++) {
        trp_memory_fail_after(failures);
        status = troupe_run_left_get(run, NULL, &left);
        trp_memory_fail_after(-1);
        if (status != TROUPE_OK) {
            assert_int_equal(status, TROUPE_NO_MEMORY);
            assert_null(left.result);
        }
    }
    assert_in_range(failures, 5, 999);
    troupe_result_free(&left.result);
    free(run);
}

// ---- gates

typedef struct asked {
    int reports[EPOCHS + 1];
    int kills_at; // 0: nothing; else the driver ends itself there.
    int stops_at;
} asked;

static troupe_gate_answer answer(void *user, troupe_job *job, const troupe_report_event *event,
                                 int *ranks)
{
    asked *it = user;
    (void)job;
    (void)ranks;
    if (event->number == it->kills_at)
        kill(getpid(), SIGKILL);
    it->reports[event->number]++;
    return event->number == it->stops_at ? TROUPE_GATE_STOP : TROUPE_GATE_GO_ON;
}

static troupe_result *train_asked(asked *it)
{
    line_settings config = line_plain(EPOCHS);
    config.save_every = 2;
    config.pause_ms = 10;
    const troupe_gate gate = {
        .size = sizeof gate, .decide = answer, .user = it, .timeout_ms = SUPPORT_SOON_MS};
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "asked",
                             .open = TROUPE_OPEN_RESUME_OR_NEW, .gate = &gate));
    return result;
}

// The driver of the earlier opening dies as its gate is asked about report 5; of report 4 there is
// a checkpoint.
static void test_a_gate_is_asked_again_about_what_is_made_again(void **state)
{
    (void)state;
    int status;
    char *argv[] = {(char[]){"test_run_left"}, storage, NULL};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    asked it = {.stops_at = 5};
    troupe_result *result = train_asked(&it);
    assert_true(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 6);
    for (int report = 1; report <= EPOCHS; report++)
        assert_in_range(it.reports[report], report >= 5, 1);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    if (argc == 2) { // The driver that dies.
        storage = argv[1];
        (void)train_asked(&(asked){.kills_at = 5});
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_end_is_what_the_run_told),
        cmocka_unit_test(test_an_end_without_a_cause_has_its_error),
        cmocka_unit_test(test_a_run_without_an_end_is_how_far_it_came),
        cmocka_unit_test(test_no_run_has_left_nothing),
        cmocka_unit_test(test_no_failing_allocation_leaks),
        cmocka_unit_test(test_a_gate_is_asked_again_about_what_is_made_again),
    };
    storage = support_directory_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    troupe_must(troupe_stop());
    support_directory_remove(storage);
    return failed;
}
