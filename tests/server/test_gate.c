// test_gate.c: gates of jobs of a real train server: they decide as those of a program's own jobs
// do, while clients, servers and runners are killed.
// timeout: 120
// cost: 10
#include "real_server.h"
#include "record_events.h"

#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <train/verdicts.h>

enum { RANKS = 2, LONG_MS = 60000 };

static char *top, *storage; // Both are found in the environment by what is started.

TROUPE_STRUCT(plan, (int, reports), (troupe_text, witness));
TROUPE_STRUCT(counted, (int, number));

// As quickly as it can.
static troupe_status hurry(troupe_rank *me, const plan *config)
{
    counted now = {0};
    if (config->witness != NULL && me->rank == 0) {
        FILE *file = fopen(config->witness, "ae");
        assert_non_null(file);
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    TROUPE_TRY(troupe_restore(counted, me, &now));
    while (now.number < config->reports) {
        double sum = 1;
        now.number++;
        TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
        if (now.number % 5 == 0)
            TROUPE_TRY(troupe_save(counted, me, &now));
        TROUPE_TRY(troupe_report(me, {"number", now.number}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(hurry, plan);

#define SUBMIT(config, follower, job, ...)                                                         \
    troupe_submit(hurry, config, follower, job, .ranks = RANKS, .storage = storage,                \
                  .cpus_per_rank = 0.5, .console = TROUPE_CONSOLE_OFF, .restarts = 3,              \
                  .rank_metrics = true, __VA_ARGS__)

static troupe_result *end_of(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, 60000, &result));
    return result;
}

// The end of a job that a gate has stopped, with so many reports.
static void expect_stop(troupe_job **job, int reports)
{
    troupe_result *result = end_of(*job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_true(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), reports);
    troupe_result_free(&result);
    troupe_job_close(job);
}

// ---- the gate

enum { ANY = -1 };

typedef struct keeper {
    trp_buffer asked; // Numbers of reports, each with a space behind it.
    int stop_at;      // 0: it lets all go on; ANY: the first that it is asked about.
    troupe_gate_answer answer;
    int ranks;
    _Atomic int begun, let_go; // Waits until that is 1, where `waits`.
    bool waits;
    void (*act)(void); // Before it answers.
} keeper;

static troupe_gate_answer keep(void *user, troupe_job *job, const troupe_report_event *event,
                               int *ranks)
{
    keeper *self = user;
    assert_non_null(strstr(troupe_job_path(job), storage));
    assert_true(event->metrics[0].value == event->number);
    assert_int_equal(*ranks, RANKS);
    trp_buffer_printf(&self->asked, "%d ", event->number);
    atomic_store(&self->begun, 1);
    if (self->waits)
        support_await_counter(&self->let_go, 1);
    if (self->stop_at != ANY && event->number != self->stop_at)
        return TROUPE_GATE_GO_ON;
    if (self->act != NULL)
        self->act();
    *ranks = self->ranks;
    return self->answer;
}

static troupe_gate gate_of(keeper *self, int first, int every, int timeout_ms)
{
    return (troupe_gate){.size = sizeof(troupe_gate),
                         .first = first,
                         .every = every,
                         .timeout_ms = timeout_ms,
                         .decide = keep,
                         .user = self};
}

static void expect_asked(keeper *self, const char *numbers)
{
    assert_string_equal(events_text(&self->asked), numbers);
    trp_buffer_free(&self->asked);
}

// ---- decisions

// F07: at the reports that it named alone; a stop holds with the very next report, as it does
// in a program of its own.
static void test_a_stop_holds_as_it_does_locally(void **state)
{
    (void)state;
    static const troupe_server_choice whose[] = {TROUPE_SERVER_NONE, TROUPE_SERVER_AUTO};
    for (int i = 0; i < 2; i++) {
        keeper self = {.stop_at = 45, .answer = TROUPE_GATE_STOP};
        troupe_gate gate = gate_of(&self, 5, 10, LONG_MS);
        plan config = {.reports = 100000};
        troupe_job *job;
        troupe_must(
            SUBMIT(&config, NULL, &job, .name = "stops", .server = whose[i], .gate = &gate));
        assert_int_equal(troupe_job_number(job) > 0, i == 1);
        expect_stop(&job, 46);
        expect_asked(&self, "5 15 25 35 45 ");
    }
}

static void test_a_bound_that_passes_lets_it_go_on(void **state)
{
    (void)state;
    keeper self = {.waits = true, .stop_at = 10, .answer = TROUPE_GATE_STOP};
    troupe_gate gate = gate_of(&self, 10, 10, 30);
    plan config = {.reports = 60};
    troupe_job *job;
    troupe_must(SUBMIT(&config, NULL, &job, .server = TROUPE_SERVER_AUTO, .gate = &gate));
    troupe_result *result = end_of(job); // Though the gate does not answer.
    assert_int_equal(troupe_result_reports(result), 60);
    assert_false(troupe_result_stopped(result));
    troupe_result_free(&result);
    atomic_store(&self.let_go, 1);
    troupe_job_close(&job);
    trp_buffer_free(&self.asked);
    // A later answer counts when it comes.
    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    self = (keeper){.waits = true, .stop_at = 10, .answer = TROUPE_GATE_STOP};
    config.reports = 100000000;
    troupe_must(SUBMIT(&config, &follower, &job, .server = TROUPE_SERVER_AUTO, .gate = &gate));
    support_await_counter(&seen.reports, 50);
    atomic_store(&self.let_go, 1);
    result = end_of(job);
    assert_true(troupe_result_stopped(result));
    assert_true(troupe_result_reports(result) >= 50);
    troupe_result_free(&result);
    troupe_job_close(&job);
    trp_buffer_free(&self.asked);
    events_free(&seen);
}

static bool is_paused(void *job)
{
    troupe_job_status now;
    troupe_job_status_get((troupe_job *)job, &now);
    return now.state == TROUPE_JOB_PAUSED;
}

// The server has to grant something else: the report waits until the runner has heard of it.
static void test_it_pauses_and_resizes_at_its_report(void **state)
{
    (void)state;
    keeper self = {.stop_at = 10, .answer = TROUPE_GATE_PAUSE};
    troupe_gate gate = gate_of(&self, 10, 1000000, LONG_MS);
    plan config = {.reports = 40};
    troupe_job *job;
    troupe_must(SUBMIT(&config, NULL, &job, .server = TROUPE_SERVER_AUTO, .gate = &gate));
    assert_true(support_wait_until(is_paused, job, SUPPORT_SOON_MS));
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    assert_int_equal(now.reports, 11);
    troupe_job_go_on(job);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), 40);
    troupe_result_free(&result);
    troupe_job_close(&job);
    expect_asked(&self, "10 ");

    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    self = (keeper){.stop_at = 10, .answer = TROUPE_GATE_RESIZE, .ranks = 1};
    troupe_must(SUBMIT(&config, &follower, &job, .server = TROUPE_SERVER_AUTO, .gate = &gate));
    result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), 40);
    troupe_result_free(&result);
    troupe_job_close(&job);
    // Of each rank there are its metrics.
    const char *told = events_text(&seen.told);
    assert_non_null(strstr(told, " number=0x1.6p+3 | number=0x1.6p+3 | number=0x1.6p+3\n"));
    assert_non_null(strstr(told, " number=0x1.8p+3 | number=0x1.8p+3\n"));
    events_free(&seen);
    trp_buffer_free(&self.asked);
}

// ---- those that are killed

static pid_t start_again(const char *act)
{
    pid_t pid;
    char *argv[] = {(char[]){"test_gate"}, strdup(act), NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    free(argv[1]);
    return pid;
}

static void leave_word(void)
{
    char *path = support_path(top, "asked");
    support_write_file(path, "", 0);
    for (;;)
        pause();
}

// Submits, lets report 5 go on, and is silent about report 10.
static int act_be_silent(void)
{
    keeper self = {.stop_at = 10, .act = leave_word};
    troupe_gate gate = gate_of(&self, 5, 5, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job;
    troupe_must(SUBMIT(&config, NULL, &job, .key = "shared", .name = "shared",
                       .server = TROUPE_SERVER_AUTO, .gate = &gate));
    troupe_result *result = end_of(job);
    troupe_result_free(&result);
    return 1;
}

static bool is_there(void *path)
{
    return support_exists(path);
}

// The next one with the same key is asked what that one has left open, and no more.
static void test_a_client_that_comes_later_answers(void **state)
{
    (void)state;
    char *path = support_path(top, "asked");
    pid_t pid = start_again("silent");
    assert_true(support_wait_until(is_there, path, SUPPORT_SOON_MS));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    keeper self = {.stop_at = 15, .answer = TROUPE_GATE_STOP};
    troupe_gate gate = gate_of(&self, 5, 5, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job;
    troupe_must(SUBMIT(&config, NULL, &job, .key = "shared", .name = "shared",
                       .server = TROUPE_SERVER_AUTO, .gate = &gate));
    expect_stop(&job, 16);
    expect_asked(&self, "10 15 ");
    free(path);
}

// It need not know the config: the key is enough, and the server is started if it has ended.
static void test_who_finds_a_job_may_have_a_gate(void **state)
{
    (void)state;
    // The first one may answer, and be asked again, before it leaves.
    keeper self = {.waits = true}, later = {.stop_at = ANY, .answer = TROUPE_GATE_STOP};
    troupe_gate gate = gate_of(&self, 5, 5, LONG_MS), second = gate_of(&later, 5, 5, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job, *other;
    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    troupe_must(
        SUBMIT(&config, NULL, &job, .key = "found", .server = TROUPE_SERVER_AUTO, .gate = &gate));
    support_await_counter(&self.begun, 1);
    const troupe_find_options here = {.size = sizeof here, .server = TROUPE_SERVER_NONE};
    assert_int_equal(troupe_job_find_with("found", &other, &here), TROUPE_NOT_FOUND);
    atomic_store(&self.let_go, 1);
    troupe_must(troupe_job_leave(&job));
    kill_server();
    const troupe_find_options there = {
        .size = sizeof there, .follower = &follower, .gate = &second, .server = TROUPE_SERVER_AUTO};
    troupe_must(troupe_job_find_with("found", &job, &there));
    troupe_result *result = end_of(job);
    assert_true(troupe_result_stopped(result));
    int at = troupe_result_reports(result) - 1;
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_true(seen.reports >= 6);
    char once[16];
    (void)snprintf(once, sizeof once, "%d ", at);
    assert_string_equal(events_text(&later.asked), once);
    assert_true(at >= 5 && at % 5 == 0);
    events_free(&seen);
    trp_buffer_free(&self.asked);
    trp_buffer_free(&later.asked);
    assert_int_equal(troupe_job_find_with("nobody's", &job, &there), TROUPE_NOT_FOUND);
}

static void test_a_job_of_the_program_has_its_own_gate(void **state)
{
    (void)state;
    keeper self = {.stop_at = 0};
    troupe_gate gate = gate_of(&self, 5, 5, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job, *other;
    troupe_must(SUBMIT(&config, NULL, &job, .key = "own", .server = TROUPE_SERVER_NONE));
    troupe_find_options how = {.size = sizeof how, .gate = &gate};
    assert_int_equal(troupe_job_find_with("own", &other, &how), TROUPE_UNSUPPORTED);
    assert_non_null(strstr(troupe_last_error()->text, "the job is this program's"));
    how.gate = NULL;
    troupe_must(troupe_job_find_with("own", &other, &how));
    assert_string_equal(troupe_job_path(other), troupe_job_path(job));
    troupe_job_close(&other);
    how.server = TROUPE_SERVER_AUTO; // Whose job it is not.
    assert_int_equal(troupe_job_find_with("own", &other, &how), TROUPE_NOT_FOUND);
    troupe_job_close(&job);
}

// Two that are asked the same: a stop of one is a stop.
static void test_two_clients_may_have_a_gate(void **state)
{
    (void)state;
    keeper one = {.waits = true}, other = {.stop_at = 5, .answer = TROUPE_GATE_STOP};
    troupe_gate first = gate_of(&one, 5, 5, LONG_MS), second = gate_of(&other, 5, 5, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job, *same;
    troupe_must(
        SUBMIT(&config, NULL, &job, .key = "both", .server = TROUPE_SERVER_AUTO, .gate = &first));
    support_await_counter(&one.begun, 1);
    troupe_must(
        SUBMIT(&config, NULL, &same, .key = "both", .server = TROUPE_SERVER_AUTO, .gate = &second));
    expect_stop(&same, 6);
    atomic_store(&one.let_go, 1);
    expect_stop(&job, 6);
    expect_asked(&other, "5 ");
    trp_buffer_free(&one.asked);
}

// It is not needed: the answer goes from the client to the runner.
static void test_a_server_that_is_away_holds_up_no_stop(void **state)
{
    (void)state;
    keeper self = {.stop_at = 20, .answer = TROUPE_GATE_STOP, .act = kill_server};
    troupe_gate gate = gate_of(&self, 10, 10, LONG_MS);
    plan config = {.reports = 100000};
    troupe_job *job;
    troupe_must(
        SUBMIT(&config, NULL, &job, .key = "alone", .server = TROUPE_SERVER_AUTO, .gate = &gate));
    expect_stop(&job, 21);
    expect_asked(&self, "10 20 ");
    run_tool("server start --cpus 4");
    troupe_must(troupe_job_find("alone", &job));
    expect_stop(&job, 21);
}

static char *run_folder;

static pid_t runner_of(const char *run)
{
    char *path = support_path(run, "journal.jsonl"), *text = support_read_file(path);
    const char *last = NULL, *at = text;
    while ((at = strstr(at, "\"process\": ")) != NULL)
        last = at += strlen("\"process\": ");
    assert_non_null(last);
    pid_t pid = atoi(last);
    free(path);
    free(text);
    return pid;
}

// The server first, so that it starts no other attempt yet.
static void kill_server_and_runner(void)
{
    pid_t pid = runner_of(run_folder);
    kill_server();
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(support_wait_until(is_gone, &pid, SUPPORT_SOON_MS));
}

static bool has_stop(void *job)
{
    char name[64];
    trp_path folder;
    trp_verdicts known = trp_verdicts_begin();
    troupe_must(trp_state_folder_find(&folder));
    snprintf(name, sizeof name, "jobs/%08d", (int)troupe_job_number(job));
    char *path = support_path(folder.text, name);
    trp_verdicts_read(&known, path);
    free(path);
    trp_verdicts_close(&known);
    return known.stop;
}

// What was answered while nobody was there to hear it counts for the next attempt.
static void test_an_answer_outlives_the_runner(void **state)
{
    (void)state;
    run_folder = support_path(storage, "outlived");
    char *path = support_path(top, "outlived");
    keeper self = {.stop_at = 10, .answer = TROUPE_GATE_STOP, .act = kill_server_and_runner};
    troupe_gate gate = gate_of(&self, 10, 10, LONG_MS);
    plan config = {100000, path};
    troupe_job *job;
    troupe_must(SUBMIT(&config, NULL, &job, .name = "outlived", .server = TROUPE_SERVER_AUTO,
                       .gate = &gate));
    assert_true(support_wait_until(has_stop, job, SUPPORT_SOON_MS));
    run_tool("server start --cpus 4");
    expect_stop(&job, 10);
    expect_asked(&self, "10 ");
    char *text = support_read_file(path); // One group was formed.
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n'));
    free(text);
    free(path);
    free(run_folder);
}

// A handle that is let go takes its gate along: it is not called any more.
static void test_a_handle_that_leaves_takes_its_gate_along(void **state)
{
    (void)state;
    keeper self = {.stop_at = 0};
    troupe_gate gate = gate_of(&self, 1, 1, 20);
    plan config = {.reports = 3000};
    troupe_job *job;
    troupe_must(
        SUBMIT(&config, NULL, &job, .key = "left", .server = TROUPE_SERVER_AUTO, .gate = &gate));
    support_await_counter(&self.begun, 1);
    troupe_must(troupe_job_leave(&job));
    trp_buffer_free(&self.asked); // Nobody adds to it.
    troupe_must(troupe_job_find("left", &job));
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_reports(result), 3000);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_null(self.asked.data);
}

static int clear(void **state)
{
    (void)state;
    real_server_end(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_GATE_TOP");
    storage = support_path(top, "runs");
    troupe_must(troupe_start(argc, argv, .cpus = RANKS)); // Does not return in a job.
    if (argc == 2 && strcmp(argv[1], "silent") == 0)
        return act_be_silent();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_stop_holds_as_it_does_locally, real_server_begin),
        cmocka_unit_test_setup(test_a_bound_that_passes_lets_it_go_on, real_server_begin),
        cmocka_unit_test_setup(test_it_pauses_and_resizes_at_its_report, real_server_begin),
        cmocka_unit_test_setup(test_a_client_that_comes_later_answers, real_server_begin),
        cmocka_unit_test_setup(test_who_finds_a_job_may_have_a_gate, real_server_begin),
        cmocka_unit_test_setup(test_a_job_of_the_program_has_its_own_gate, real_server_begin),
        cmocka_unit_test_setup(test_two_clients_may_have_a_gate, real_server_begin),
        cmocka_unit_test_setup(test_a_server_that_is_away_holds_up_no_stop, real_server_begin),
        cmocka_unit_test_setup(test_an_answer_outlives_the_runner, real_server_begin),
        cmocka_unit_test_setup(test_a_handle_that_leaves_takes_its_gate_along, real_server_begin),
    };
    return cmocka_run_group_tests(tests, NULL, clear);
}
