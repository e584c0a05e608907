// test_resume.c: a run goes on after the end of its driver, however it ended; what is in the way of
// that is said in a sentence.
// timeout: 120
// cost: 8
// again: memory train 120 memory
#include "line.h"
#include "where.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <train/run_file.h>

enum { EPOCHS = 8, WORLD = 2 };

static char *storage;
static line_model undisturbed;

// A driver of its own, which is killed once `at` reports were made (0: it is not; negative: once
// the checkpoint of report -at is committed).
typedef struct plan {
    const char *name;
    int at, epochs, ranks;
    troupe_open open;
    const char *log; // Where its errors go; NULL: with those of the test.
} plan;

static troupe_gate_answer kill_driver(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    (void)ranks;
    (void)job;
    if (event->number == *(const int *)user)
        kill(getpid(), SIGKILL);
    return TROUPE_GATE_GO_ON;
}

static void kill_committer(void *user, troupe_job *job, const troupe_checkpoint_event *event)
{
    (void)job;
    if (event->report == -*(const int *)user)
        kill(getpid(), SIGKILL);
}

// What run_driver starts: the program itself, with the plan as its arguments.
static int drive(int argc, char **argv)
{
    line_settings config = line_plain(atoi(argv[4]));
    int at = atoi(argv[3]);
    troupe_gate gate = {
        .size = sizeof gate, .decide = kill_driver, .user = &at, .timeout_ms = SUPPORT_SOON_MS};
    troupe_follower follower = {.size = sizeof follower, .user = &at, .checkpoint = kill_committer};
    troupe_job *job;
    troupe_result *result;
    troupe_status status = troupe_start(argc, argv, .cpus = 4);
    if (status == TROUPE_OK)
        status = troupe_submit(line_fit, &config, &follower, &job, .ranks = atoi(argv[5]),
                               .storage = argv[1], .name = argv[2],
                               .open = (troupe_open)atoi(argv[6]), .keep = 2, .gate = &gate);
    if (status == TROUPE_OK)
        status = troupe_job_wait(job, -1, &result);
    if (status == TROUPE_OK) {
        status = troupe_result_status(result);
        troupe_result_free(&result);
        troupe_job_close(&job);
    }
    troupe_status stopped = troupe_stop();
    return (int)(status == TROUPE_OK ? stopped : status);
}

// Its status; -1: it was killed.
static int run_driver(const plan *how)
{
    char at[16], epochs[16], ranks[16], open[16];
    int status;
    snprintf(at, sizeof at, "%d", how->at);
    snprintf(epochs, sizeof epochs, "%d", how->epochs);
    snprintf(ranks, sizeof ranks, "%d", how->ranks);
    snprintf(open, sizeof open, "%d", (int)how->open);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (how->log && !freopen(how->log, "w", stderr))
            _exit(126);
        execl("/proc/self/exe", "test_resume", storage, how->name, at, epochs, ranks, open,
              (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *run_path(const char *name)
{
    return support_path(storage, name);
}

static char *run_text(const char *name, const char *file)
{
    char *run = run_path(name), *text = where_text(run, file);
    free(run);
    assert_non_null(text);
    return text;
}

// B11, B12, C11: the driver is killed at one report, started again, and killed at a later one,
// until the run is done, as if nothing had been; then it is not started again.
static void test_a_killed_driver_goes_on_where_it_was(void **state)
{
    (void)state;
    for (int first = 1; first <= 3; first++) {
        char name[24]; // The working folder of a run elsewhere has its epoch, also without the run.
        snprintf(name, sizeof name, "again_%d", first);
        plan how = {
            .name = name, .ranks = WORLD, .epochs = EPOCHS, .open = TROUPE_OPEN_RESUME_OR_NEW};
        int kills = 0;
        for (how.at = first; how.at < EPOCHS; how.at += first) {
            assert_int_equal(run_driver(&how), -1);
            kills++;
        }
        how.at = 0;
        assert_int_equal(run_driver(&how), TROUPE_OK);
        // Of this process now, which finds it done and starts nothing.
        line_settings config = line_plain(EPOCHS);
        troupe_result *result;
        troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = name,
                                 .open = TROUPE_OPEN_RESUME));
        assert_int_equal(troupe_result_reports(result), EPOCHS);
        assert_true(troupe_result_metric(result, "epoch") == EPOCHS);
        line_model model = line_load(result, 0);
        line_assert_same(&model, &undisturbed);
        char *text = run_text(name, "journal.jsonl");
        int opened = 0;
        for (char *at = text; (at = strstr(at, "{\"event\": \"open\"")) != NULL; at++) {
            char expected[64];
            snprintf(expected, sizeof expected, "{\"event\": \"open\", \"epoch\": %d,", ++opened);
            assert_int_equal(strncmp(at, expected, strlen(expected)), 0);
        }
        assert_int_equal(opened, kills + 1);
        for (int number = 1; number <= EPOCHS; number++) { // Each once, in their order.
            char line[64];
            snprintf(line, sizeof line, "{\"event\": \"report\", \"report\": %d,", number);
            char *at = strstr(text, line);
            assert_non_null(at);
            assert_null(strstr(at + 1, line));
        }
        free(text);
        char *run = run_path(name);
        assert_int_equal(where_count_checkpoints(run), 2); // Those that are kept, and no others.
        troupe_result_free(&result);
        where_remove_run(run);
        free(run);
    }
}

// C10
static void test_two_drivers_of_one_run_are_one_too_many(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.pause_ms = 2;
    troupe_job *job, *second;
    troupe_result *result;
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .storage = storage, .name = "one"));
    assert_int_equal(troupe_submit(line_fit, &config, NULL, &second, .storage = storage,
                                   .name = "one", .open = TROUPE_OPEN_RESUME),
                     TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "/one is being run by "));
    assert_non_null(strstr(troupe_last_error()->text, where_far ? "process " : "this process"));
    plan how = {.name = "one", .ranks = 1, .epochs = 1, .open = TROUPE_OPEN_RESUME_OR_NEW};
    assert_int_equal(run_driver(&how), TROUPE_BUSY);
    troupe_job_stop(job);
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_true(troupe_result_stopped(result));
    int reports = troupe_result_reports(result);
    troupe_result_free(&result);
    // It is free again as soon as it has ended, and a stopped run goes on.
    config = line_plain(reports + 5);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "one",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), reports + 5);
    assert_false(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// B02
static void test_a_failed_run_goes_on_as_its_error_says(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    config.trouble = RETURNS;
    config.at = 5;
    config.where = BEFORE_SAVE;
    config.victim = 1;
    troupe_result *result;
    assert_int_equal(troupe_train(line_fit, &config, &result, .storage = storage, .ranks = WORLD,
                                  .name = "failed"),
                     TROUPE_FAILED);
    char expected[512];
    snprintf(expected, sizeof expected,
             "troupe_train(line_fit, ..., .storage = \"%s\", .name = \"failed\", .open = "
             "TROUPE_OPEN_RESUME)",
             storage);
    assert_non_null(strstr(troupe_result_error(result), expected));
    const char *cause = troupe_result_cause(result);
    assert_int_equal(strncmp(troupe_result_error(result), cause, strlen(cause)), 0);
    assert_non_null(strstr(cause, "the loss of rank 1 is not what it was"));
    assert_null(strstr(cause, storage)); // Where the run is, and how it goes on.
    assert_null(strstr(cause, ".restarts"));
    char *text = run_text("failed", "end");
    assert_non_null(strstr(text, "\"status\": \"FAILED\""));
    assert_non_null(strstr(text, "the loss of rank 1 is not what it was"));
    free(text);
    troupe_result_free(&result);
    // The number of ranks is that of before. Its attempt has another number, so it goes well.
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "failed",
                             .open = TROUPE_OPEN_RESUME));
    line_model model = line_load(result, 0);
    line_assert_same(&model, &undisturbed);
    text = run_text("failed", "run.json");
    assert_non_null(strstr(text, "\"ranks\": 2"));
    free(text);
    troupe_result_free(&result);
}

// B05, B07, B09
static void test_options_that_are_given_again_count(void **state)
{
    (void)state;
    line_settings config = line_plain(3);
    troupe_result *result;
    plan how = {.name = "fewer", .at = 2, .ranks = 2, .epochs = 3, .open = TROUPE_OPEN_NEW};
    assert_int_equal(run_driver(&how), -1);
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "fewer",
                             .ranks = 1, .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), 3);
    assert_int_equal(line_load(result, 0).epoch, 3);
    char *text = run_text("fewer", "run.json");
    assert_non_null(strstr(text, "\"ranks\": 1"));
    assert_non_null(strstr(text, "\"keep\": 2"));
    assert_null(strstr(text, storage)); // No absolute path.
    free(text);
    troupe_result_free(&result);
}

static void test_another_config_for_a_run_that_has_ended_is_warned_of(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *log = support_path(folder, "log");
    plan how = {.name = "done", .ranks = 1, .epochs = 2, .open = TROUPE_OPEN_RESUME_OR_NEW};
    how.log = log;
    const char *warning = "has ended well, and is not run again with another config";
    for (int i = 0; i < 3; i++) {
        how.epochs = i < 2 ? 2 : 3;
        assert_int_equal(run_driver(&how), TROUPE_OK);
        char *text = support_read_file(log);
        assert_non_null(text);
        if ((strstr(text, warning) != NULL) != (i == 2))
            support_fail_output(text, "time %d", i);
        free(text);
    }
    char *text = run_text("done", "run.json");
    assert_non_null(strstr(text, "\"epochs\": 2"));
    free(text);
    free(log);
    support_directory_remove(folder);
}

// B06, B10
static void test_a_run_may_be_moved(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    if (where_far)
        skip(); // Nothing moves there.
    plan how = {.name = "before", .at = 4, .ranks = WORLD, .epochs = EPOCHS};
    assert_int_equal(run_driver(&how), -1);
    char *elsewhere = support_directory_make(), *from = run_path("before"),
         *to = support_path(elsewhere, "after");
    assert_true(troupe_can_resume(from));
    char command[1024], output[256];
    snprintf(command, sizeof command, "cp -r %s %s && rm -r %s", from, to, from);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    assert_false(troupe_can_resume(from));
    assert_true(troupe_can_resume(to));
    troupe_must(troupe_train(line_fit, &config, &result, .storage = elsewhere, .name = "after",
                             .open = TROUPE_OPEN_RESUME));
    assert_string_equal(troupe_result_path(result), to);
    line_model model = line_load(result, 0);
    line_assert_same(&model, &undisturbed);
    assert_false(support_exists(from));
    troupe_result_free(&result);
    free(from);
    free(to);
    support_directory_remove(elsewhere);
}

static troupe_status another_loop(troupe_rank *me, const line_settings *config)
{
    (void)config;
    return troupe_report(me, {"x", 1.0});
}
TROUPE_TRAINER(another_loop, line_settings);

static void expect(troupe_status expected, const char *name, troupe_open open, const char *text)
{
    line_settings config = line_plain(1);
    troupe_result *result;
    assert_int_equal(
        troupe_train(line_fit, &config, &result, .storage = storage, .name = name, .open = open),
        expected);
    if (strstr(troupe_last_error()->text, text) == NULL)
        fail_msg("'%s' is not in: %s", text, troupe_last_error()->text);
    assert_null(result);
}

static void write_to(const char *name, const char *file, const char *text)
{
    char *run = run_path(name);
    where_write(run, file, text);
    free(run);
}

// B08
static void test_what_is_in_the_way_is_said(void **state)
{
    (void)state;
    expect(TROUPE_NOT_FOUND, "nothing", TROUPE_OPEN_RESUME, "/nothing");
    write_to("foreign", "diary.txt", "dear diary");
    expect(TROUPE_NOT_FOUND, "foreign", TROUPE_OPEN_RESUME, "no run to go on with");
    expect(TROUPE_EXISTS, "foreign", TROUPE_OPEN_RESUME_OR_NEW, "'diary.txt'");
    write_to("newer", "run.json", "{\"version\": 2, \"trainer\": \"line_fit\"}");
    expect(TROUPE_VERSION, "newer", TROUPE_OPEN_RESUME_OR_NEW, "is of version 2");
    write_to("damaged", "run.json", "{\"version\": 1, \"trainer\"");
    expect(TROUPE_CORRUPT, "damaged", TROUPE_OPEN_RESUME_OR_NEW, "run.json is damaged");
    write_to("nameless", "run.json", "{\"version\": 1}");
    expect(TROUPE_CORRUPT, "nameless", TROUPE_OPEN_RESUME, "names no trainer");
    // Copied in part: the checkpoints are there, what runs is not.
    plan how = {.name = "part", .at = -2, .ranks = 1, .epochs = 3};
    assert_int_equal(run_driver(&how), -1);
    char *run = run_path("part");
    where_remove(run, "run.json");
    expect(TROUPE_CORRUPT, "part", TROUPE_OPEN_RESUME_OR_NEW, "copied in part");
    free(run);
    if (where_far)
        return;
    char *other = support_path(storage, "a_file");
    support_write_file(other, "", 0);
    expect(TROUPE_EXISTS, "a_file", TROUPE_OPEN_RESUME_OR_NEW, "is not a folder");
    free(other);
}

// B08
static void test_another_trainer_needs_force(void **state)
{
    (void)state;
    line_settings config = line_plain(2);
    troupe_result *result;
    plan how = {.name = "mine", .at = 1, .ranks = 1, .epochs = 2};
    assert_int_equal(run_driver(&how), -1);
    assert_int_equal(troupe_train(another_loop, &config, &result, .storage = storage,
                                  .name = "mine", .open = TROUPE_OPEN_RESUME),
                     TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "'line_fit'"));
    assert_non_null(strstr(troupe_last_error()->text, "'another_loop'"));
    troupe_must(troupe_train(another_loop, &config, &result, .storage = storage, .name = "mine",
                             .open = TROUPE_OPEN_RESUME, .force = true));
    troupe_result_free(&result);
}

// A driver dies between mkdir and run.json: the next one makes the run there.
static void test_a_run_that_was_half_made_is_made(void **state)
{
    (void)state;
    line_settings config = line_plain(1);
    troupe_result *result;
    write_to("half", "alive", "");
    write_to("half", "run.json.new", "{\"versi");
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage, .name = "half",
                             .open = TROUPE_OPEN_RESUME_OR_NEW));
    assert_non_null(strstr(troupe_result_path(result), "/half"));
    troupe_result_free(&result);
}

TROUPE_STRUCT(metadata_settings, (troupe_text, expected));

static troupe_status reads_metadata(troupe_rank *me, const metadata_settings *config)
{
    const char *found = troupe_metadata(me);
    if ((found == NULL) != (config->expected == NULL) ||
        (found != NULL && strcmp(found, config->expected) != 0))
        return troupe_fail(TROUPE_FAILED, "metadata is %s", found != NULL ? found : "missing");
    return troupe_report(me, {"x", 1.0});
}
TROUPE_TRAINER(reads_metadata, metadata_settings);

// A10, A11
static void test_metadata_is_canonical_json_for_the_loops(void **state)
{
    (void)state;
    metadata_settings config = {NULL};
    troupe_result *result;
    troupe_must(troupe_train(reads_metadata, &config, &result, .storage = storage));
    troupe_result_free(&result);
    config.expected = "{\"a\":[1,2.5],\"z\":{\"by\":\"us\"}}";
    troupe_must(troupe_train(reads_metadata, &config, &result, .storage = storage,
                             .metadata = " { \"z\": {\"by\" : \"us\"}, \"a\":[1, 2.50] }"));
    troupe_result_free(&result);
    static const char *const wrong[] = {"", "{\"a\": NaN}", "{\"a\": 1", "[1]",
                                        "{\"a\": 1, \"a\": 2}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        troupe_status status = troupe_train(reads_metadata, &config, &result, .storage = storage,
                                            .metadata = wrong[i]);
        assert_true(status == TROUPE_MALFORMED || status == TROUPE_INVALID);
        assert_non_null(strstr(troupe_last_error()->text, ".metadata"));
    }
}

static troupe_gate_answer move_folder(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    (void)event, (void)ranks;
    assert_int_equal(rename(troupe_job_path(job), (const char *)user), 0);
    return TROUPE_GATE_GO_ON;
}

// It is found out where the group is formed anew.
static void test_a_folder_that_moves_under_a_run_ends_it(void **state)
{
    (void)state;
    if (where_far)
        skip();
    line_settings config = line_plain(EPOCHS);
    config.trouble = KILLED;
    config.victim = 0;
    config.at = 3;
    config.where = BEFORE_REDUCE;
    char *moved = run_path("moved");
    const troupe_gate gate = {.size = sizeof gate,
                              .decide = move_folder,
                              .user = moved,
                              .reports = (const int[]){1},
                              .report_count = 1,
                              .timeout_ms = SUPPORT_SOON_MS};
    troupe_result *result;
    assert_int_equal(troupe_train(line_fit, &config, &result, .storage = storage, .restarts = 1,
                                  .name = "moving", .gate = &gate),
                     TROUPE_IO);
    assert_non_null(strstr(troupe_result_error(result), "/moving"));
    troupe_result_free(&result);
    assert_true(support_exists(moved));
    free(moved);
}

static void undisturb(void)
{
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = WORLD, .storage = storage));
    undisturbed = line_load(result, 0);
    troupe_result_free(&result);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        troupe_must(troupe_storage_register(&memory_storage));
        return drive(argc, argv);
    }
    where_begin(argc, argv);
    troupe_must(troupe_start(argc, argv, .cpus = 4));
    storage = where_storage;
    undisturb();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_driver_goes_on_where_it_was),
        cmocka_unit_test(test_two_drivers_of_one_run_are_one_too_many),
        cmocka_unit_test(test_a_failed_run_goes_on_as_its_error_says),
        cmocka_unit_test(test_options_that_are_given_again_count),
        cmocka_unit_test(test_another_config_for_a_run_that_has_ended_is_warned_of),
        cmocka_unit_test(test_a_run_may_be_moved),
        cmocka_unit_test(test_what_is_in_the_way_is_said),
        cmocka_unit_test(test_another_trainer_needs_force),
        cmocka_unit_test(test_a_run_that_was_half_made_is_made),
        cmocka_unit_test(test_metadata_is_canonical_json_for_the_loops),
        cmocka_unit_test(test_a_folder_that_moves_under_a_run_ends_it),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed |= troupe_stop();
    where_end();
    return failed;
}
