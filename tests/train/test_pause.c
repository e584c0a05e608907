// test_pause.c: runs that pause and go on, and runs that go on with another number of ranks.
// timeout: 120
// cost: 8
#include "adds.h"
#include "fresh.h"
#include "hold.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { CPUS = 4, EPOCHS = 12 };

static char *storage;
static line_model undisturbed;

static char *journal_of(troupe_job *job)
{
    char *path = support_path(troupe_job_path(job), "journal.jsonl");
    char *text = support_read_file(path);
    free(path);
    return text;
}

static int count(const char *text, const char *what)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        found++;
    return found;
}

typedef struct seen {
    _Atomic int states[8];
    _Atomic int last, wrong;
} seen;

static void see_state(void *user, troupe_job *job, troupe_job_state state)
{
    (void)job;
    atomic_fetch_add(&((seen *)user)->states[state], 1);
}

static void see_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    (void)job;
    seen *all = user;
    atomic_fetch_add(&all->wrong, event->number != atomic_load(&all->last) + 1);
    atomic_store(&all->last, event->number);
}

static troupe_result *ended(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    if (troupe_result_status(result) != TROUPE_OK)
        fail_msg("%s", troupe_result_error(result));
    return result;
}

// ---- pause

// What a paused run held is free, and the numbers are those of the undisturbed run.
static void test_a_pause_changes_no_number_and_holds_nothing(void **state)
{
    (void)state;
    line_settings config = line_plain(EPOCHS), other = line_plain(2);
    static const int at[] = {1, 5};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, at, 2);
    seen all = {0};
    troupe_follower follower = {
        .size = sizeof follower, .state = see_state, .report = see_report, .user = &all};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .ranks = 2,
                              .cpus_per_rank = CPUS / 2, .storage = storage, .name = "paused",
                              .gate = &gate));
    for (int pause = 0; pause < 2; pause++) {
        hold_await(&held, at[pause]);
        troupe_job_status before = status_of(job);
        troupe_job_pause(job);
        hold_let_go(&held, at[pause]);
        await_state(job, TROUPE_JOB_PAUSED, at[pause] + 1, 2);
        pid_t pids[2] = {before.pids[0], before.pids[1]};
        assert_true(support_processes_end(pids, 2, SUPPORT_SOON_MS));
        // Another one gets all CPUs meanwhile.
        troupe_must(troupe_train(line_fit, &other, &result, .ranks = CPUS, .storage = storage,
                                 .name = "meanwhile"));
        troupe_result_free(&result);
        double elapsed_s = status_of(job).elapsed_s;
        assert_true(status_of(job).elapsed_s == elapsed_s); // Which stands still.
        troupe_job_go_on(job);
    }
    result = ended(job);
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_restarts(result), 0);
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    line_model model = line_load(result, 0);
    line_assert_same(&model, &undisturbed);
    troupe_arena_reset();
    char *text = journal_of(job);
    assert_int_equal(count(text, "\"state\": \"PAUSED\""), 2);
    assert_int_equal(count(text, "\"event\": \"attempt\""), 3);
    free(text);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(atomic_load(&all.states[TROUPE_JOB_PAUSED]), 2);
    assert_int_equal(atomic_load(&all.states[TROUPE_JOB_QUEUED]), 2);
    assert_int_equal(atomic_load(&all.states[TROUPE_JOB_RUNNING]), 3);
    assert_int_equal(atomic_load(&all.last), EPOCHS);
    assert_int_equal(atomic_load(&all.wrong), 0);
}

static void test_a_paused_run_ends_at_once(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        line_settings config = line_plain(LINE_EPOCHS_MAX);
        config.pause_ms = 5;
        config.save_every = 100;
        troupe_job *job;
        troupe_result *result;
        troupe_must(
            troupe_submit(line_fit, &config, NULL, &job, .storage = storage, .name = "ended"));
        await_state(job, TROUPE_JOB_RUNNING, 1, 1);
        pid_t pid = status_of(job).pids[0];
        troupe_job_pause(job);
        await_state(job, TROUPE_JOB_PAUSED, 1, 1);
        assert_false(support_process_lives(pid)); // There is nothing to be killed any more.
        if (how == 0)
            troupe_job_stop(job);
        else if (how == 1)
            troupe_job_kill(job, TROUPE_FAILED, "enough");
        if (how < 2) {
            troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
            assert_int_equal(troupe_result_status(result), how == 0 ? TROUPE_OK : TROUPE_FAILED);
            assert_int_equal(troupe_result_stopped(result), how == 0);
            troupe_result_free(&result);
        }
        troupe_job_close(&job);
    }
}

static void test_a_queued_job_pauses_too(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX), small = line_plain(2);
    config.pause_ms = 5;
    config.save_every = 0;
    troupe_job *first, *second, *third;
    troupe_must(troupe_submit(line_fit, &config, NULL, &first, .ranks = CPUS, .storage = storage,
                              .name = "first"));
    await_state(first, TROUPE_JOB_RUNNING, 1, CPUS);
    troupe_must(troupe_submit(line_fit, &small, NULL, &second, .ranks = CPUS, .storage = storage,
                              .name = "second"));
    troupe_must(troupe_submit(line_fit, &small, NULL, &third, .ranks = 1, .storage = storage,
                              .name = "third"));
    troupe_job_pause(second);
    await_state(second, TROUPE_JOB_PAUSED, 0, 0);
    troupe_job_close(&first);
    troupe_result *result = ended(third); // Which had its turn after the second.
    troupe_result_free(&result);
    assert_int_equal(status_of(second).state, TROUPE_JOB_PAUSED);
    troupe_job_go_on(second);
    result = ended(second);
    assert_int_equal(troupe_result_reports(result), 2);
    troupe_result_free(&result);
    troupe_must(troupe_submit(line_fit, &small, NULL, &first, .storage = storage));
    troupe_job_pause(first); // Before it runs, or while it does, or after it.
    troupe_job_go_on(first);
    result = ended(first);
    troupe_result_free(&result);
    troupe_job_close(&first);
    troupe_job_close(&second);
    troupe_job_close(&third);
}

// The time of a pause is none of the limit's.
static void test_a_time_limit_stands_still_in_a_pause(void **state)
{
    (void)state;
    enum { LIMIT_S = 2 * SUPPORT_SLOWER }; // More than it runs.
    line_settings config = line_plain(EPOCHS);
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, (const int[]){1}, 1);
    troupe_job *job;
    troupe_must(troupe_submit(line_fit, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "limited", .gate = &gate, .time_limit_s = LIMIT_S,
                              .time_limit_grace_s = 0.001));
    hold_await(&held, 1);
    troupe_job_pause(job);
    hold_let_go(&held, 1);
    await_state(job, TROUPE_JOB_PAUSED, 2, 2);
    usleep(LIMIT_S * 1000000 + 200000); // The limit itself.
    assert_int_equal(status_of(job).state, TROUPE_JOB_PAUSED);
    troupe_job_go_on(job);
    troupe_result *result = ended(job);
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- another number of ranks

// B09, F12: in either direction, with the same numbers.
static void test_a_run_goes_on_with_more_and_with_fewer_ranks(void **state)
{
    (void)state;
    static const int worlds[] = {4, 1, 3}, at[] = {1, 5, 9, 13};
    adds config = {.epochs = 40};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, at, 4);
    troupe_job *job;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "resized", .gate = &gate));
    for (int i = 0; i < 3; i++) {
        hold_await(&held, at[i]);
        troupe_must(troupe_job_resize(job, worlds[i]));
        hold_let_go(&held, at[i]);
        hold_await(&held, at[i + 1]);
        await_state(job, TROUPE_JOB_RUNNING, at[i] + 1, worlds[i]);
    }
    hold_let_go(&held, at[3]);
    troupe_result *result = ended(job);
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_restarts(result), 0);
    assert_int_equal(troupe_result_reports(result), config.epochs);
    assert_true(troupe_result_metric(result, "total") == total_of(config.epochs));
    assert_true(troupe_result_metric(result, "world") == 3);
    char *text = journal_of(job);
    for (int i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"event\": \"resize\", \"ranks\": %d}", worlds[i]);
        assert_int_equal(count(text, line), 1);
    }
    free(text);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// B09: what cannot be is refused before anything is stopped.
static void test_a_resize_that_cannot_be_is_refused(void **state)
{
    (void)state;
    adds config = {.epochs = 30, .own_parts = 1};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, (const int[]){3}, 1);
    troupe_job *job;
    char folder[4096];
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "refused", .gate = &gate));
    assert_int_equal(troupe_job_resize(job, 0), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".ranks is 0"));
    assert_int_equal(troupe_job_resize(job, CPUS + 1), TROUPE_TOO_LARGE);
    assert_non_null(strstr(troupe_last_error()->text, "need 5 CPUs"));
    hold_await(&held, 3);
    // What was saved for the first report is committed, or that for the third would not be saved.
    troupe_must(troupe_job_checkpoint(job, TROUPE_NEWEST_CHECKPOINT, folder, sizeof folder, NULL));
    // That is known without looking at the storage, which may be slow.
    char *run = support_path(storage, "refused"), *folders = support_path(run, "checkpoints");
    char *away = support_path(run, "away");
    troupe_job_pause(job);
    hold_let_go(&held, 3);
    await_state(job, TROUPE_JOB_PAUSED, 4, 2);
    assert_int_equal(rename(folders, away), 0);
    assert_int_equal(troupe_job_resize(job, 3), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "saved a part of its own"));
    assert_int_equal(rename(away, folders), 0);
    troupe_job_go_on(job);
    free(run);
    free(folders);
    free(away);
    troupe_result *result = ended(job);
    assert_int_equal(troupe_result_reports(result), config.epochs);
    char *text = journal_of(job);
    assert_int_equal(count(text, "\"event\": \"attempt\""), 2); // For the pause alone.
    free(text);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static bool has_grown(troupe_job *job)
{
    troupe_job_status now = status_of(job);
    return now.state == TROUPE_JOB_RUNNING && now.ranks == 3;
}

// Two that both want more than half do not wait for each other, and never hold more than there is.
static void test_two_that_grow_do_not_wait_for_each_other(void **state)
{
    (void)state;
    adds config = {.epochs = 30, .pause_ms = 10};
    hold held[2] = {{0}};
    troupe_job *jobs[2];
    for (int i = 0; i < 2; i++) {
        const troupe_gate gate = hold_gate(&held[i], (const int[]){1}, 1);
        troupe_must(troupe_submit(add_up, &config, NULL, &jobs[i], .ranks = 2, .storage = storage,
                                  .name = "grows", .gate = &gate));
    }
    for (int i = 0; i < 2; i++)
        hold_await(&held[i], 1);
    for (int i = 0; i < 2; i++) {
        troupe_must(troupe_job_resize(jobs[i], 3));
        hold_let_go(&held[i], 1);
    }
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    for (int done = 0; done < 2;) {
        done = 0;
        for (int i = 0; i < 2; i++)
            done += status_of(jobs[i]).state == TROUPE_JOB_DONE;
        // Between two looks at one of them the other may end, and leave it room.
        assert_false(has_grown(jobs[0]) && has_grown(jobs[1]) && has_grown(jobs[0]));
        assert_true(support_now_ms() < until_ms);
        usleep(500);
    }
    for (int i = 0; i < 2; i++) {
        troupe_result *result = ended(jobs[i]);
        assert_true(troupe_result_metric(result, "total") == total_of(config.epochs));
        assert_true(troupe_result_metric(result, "world") == 3);
        troupe_result_free(&result);
        troupe_job_close(&jobs[i]);
    }
}

// ---- the gate

typedef struct keeper {
    troupe_gate_answer answer;
    int ranks, had;
    _Atomic int asked;
} keeper;

static troupe_gate_answer answer_once(void *user, troupe_job *job, const troupe_report_event *event,
                                      int *ranks)
{
    (void)job;
    (void)event;
    keeper *self = user;
    if (atomic_fetch_add(&self->asked, 1) > 0)
        return TROUPE_GATE_GO_ON;
    self->had = *ranks;
    if (self->ranks > 0)
        *ranks = self->ranks;
    return self->answer;
}

// A gate's answer to report 5 takes effect at report 6, as a stop does.
static void test_a_gate_pauses_and_resizes_at_its_report(void **state)
{
    (void)state;
    adds config = {.epochs = EPOCHS};
    keeper pauses = {.answer = TROUPE_GATE_PAUSE};
    keeper resizes = {.answer = TROUPE_GATE_RESIZE, .ranks = 3};
    troupe_gate gate = {.size = sizeof gate,
                        .first = 5,
                        .every = EPOCHS,
                        .decide = answer_once,
                        .user = &pauses,
                        .timeout_ms = 10000};
    troupe_job *job;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "gate-pauses", .gate = &gate));
    await_state(job, TROUPE_JOB_PAUSED, 6, 2);
    assert_int_equal(status_of(job).reports, 6);
    assert_int_equal(pauses.had, 2);
    troupe_job_go_on(job);
    troupe_result *result = ended(job);
    assert_true(troupe_result_metric(result, "total") == total_of(EPOCHS));
    troupe_result_free(&result);
    troupe_job_close(&job);
    gate.user = &resizes;
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "gate-resizes", .gate = &gate));
    result = ended(job);
    assert_true(troupe_result_metric(result, "total") == total_of(EPOCHS));
    assert_true(troupe_result_metric(result, "world") == 3);
    char *text = journal_of(job), *second = strstr(text, "\"attempt\": 1, \"report\": 6");
    assert_non_null(second); // From behind report 6.
    free(text);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- the driver is killed

static int drive(int argc, char **argv)
{
    adds config = {.epochs = EPOCHS};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, (const int[]){2}, 1);
    troupe_job *job;
    storage = argv[1];
    troupe_must(troupe_start(argc, argv, .cpus = CPUS));
    troupe_must(troupe_submit(add_up, &config, NULL, &job, .ranks = 2, .storage = storage,
                              .name = "orphan", .gate = &gate));
    hold_await(&held, 2);
    troupe_job_pause(job);
    hold_let_go(&held, 2);
    await_state(job, TROUPE_JOB_PAUSED, 3, 2);
    return kill(getpid(), SIGKILL);
}

// Opened again, a run whose driver was killed in a pause just goes on.
static void test_a_paused_run_whose_driver_is_killed_goes_on(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_pause", storage, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    adds config = {.epochs = EPOCHS};
    troupe_result *result;
    troupe_must(troupe_train(add_up, &config, &result, .storage = storage, .name = "orphan",
                             .open = TROUPE_OPEN_RESUME));
    assert_int_equal(troupe_result_reports(result), EPOCHS);
    assert_true(troupe_result_metric(result, "total") == total_of(EPOCHS));
    troupe_result_free(&result);
}

static void undisturb(void)
{
    line_settings config = line_plain(EPOCHS);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = storage,
                             .name = "undisturbed"));
    static double history[EPOCHS];
    undisturbed = line_load(result, 0);
    memcpy(history, undisturbed.history.items, sizeof history);
    undisturbed.history.items = history;
    undisturbed.note = "a \"note\" \xC3\xA4";
    troupe_arena_reset();
    troupe_result_free(&result);
}

static int argument_count;
static char **arguments;

static void start(void)
{
    troupe_must(troupe_start(argument_count, arguments, .cpus = CPUS, .threads = 2));
}

int main(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
    if (argc > 1)
        return drive(argc, argv);
    fresh_start = start;
    start();
    storage = support_directory_make();
    undisturb();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_pause_changes_no_number_and_holds_nothing, fresh_after),
        cmocka_unit_test_teardown(test_a_paused_run_ends_at_once, fresh_after),
        cmocka_unit_test_teardown(test_a_queued_job_pauses_too, fresh_after),
        cmocka_unit_test_teardown(test_a_time_limit_stands_still_in_a_pause, fresh_after),
        cmocka_unit_test_teardown(test_a_run_goes_on_with_more_and_with_fewer_ranks, fresh_after),
        cmocka_unit_test_teardown(test_a_resize_that_cannot_be_is_refused, fresh_after),
        cmocka_unit_test_teardown(test_two_that_grow_do_not_wait_for_each_other, fresh_after),
        cmocka_unit_test_teardown(test_a_gate_pauses_and_resizes_at_its_report, fresh_after),
        cmocka_unit_test_teardown(test_a_paused_run_whose_driver_is_killed_goes_on, fresh_after),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
