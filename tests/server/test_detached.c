// test_detached.c: jobs of a real train server, as programs have them: submitted, left, found
// again, followed and changed, while clients and servers are killed.
// timeout: 180
// cost: 30
#include "real_server.h"
#include "record_events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/run_job.h>

enum { RANKS = 2 };

static char *top, *storage; // Both are found in the environment by what is started.

TROUPE_STRUCT(plan, (int, reports), (double, rate), (int, step_us), (troupe_text, witness),
              (bool, fails), (int, hangs_after), (troupe_text, until));
TROUPE_STRUCT(counted, (int, number));

// A line for each process of rank 0, so that it is known how often the job was run.
static void witness(const plan *config, troupe_rank *me)
{
    if (config->witness == NULL || me->rank != 0)
        return;
    FILE *file = fopen(config->witness, "ae");
    assert_non_null(file);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
}

// So many reports, and more until there is a file `until`, if it names one: all of these are saved.
static troupe_status count_up(troupe_rank *me, const plan *config)
{
    counted now = {0};
    bool lasts = config->until != NULL;
    witness(config, me);
    TROUPE_TRY(troupe_restore(counted, me, &now));
    while (now.number < config->reports || lasts) {
        double ends = lasts && support_exists(config->until);
        now.number++;
        TROUPE_TRY(troupe_allreduce(me, &ends, 1, TROUPE_SUM));
        lasts = lasts && ends == 0; // The same on all ranks.
        printf("step %d of rank %d\n", now.number, me->rank);
        fflush(stdout);
        if (now.number % 5 == 0 || config->until != NULL)
            TROUPE_TRY(troupe_save(counted, me, &now));
        while (config->hangs_after > 0 && now.number > config->hangs_after)
            pause();
        if (config->step_us > 0)
            usleep((useconds_t)config->step_us);
        TROUPE_TRY(troupe_report(me, {"number", now.number}, {"rate", troupe_live(plan, me)->rate},
                                 {"loss", 1.0 / now.number}));
    }
    TROUPE_TRY(troupe_return(counted, me, &now));
    return config->fails ? troupe_fail(TROUPE_FAILED, "it was to fail") : TROUPE_OK;
}
TROUPE_TRAINER(count_up, plan, .live = "rate");

static troupe_status count_down(troupe_rank *me, const plan *config)
{
    (void)me, (void)config;
    return TROUPE_OK;
}
TROUPE_TRAINER(count_down, plan);

// What no server takes.
TROUPE_STRUCT(held, (troupe_ref, data));
static troupe_status hold(troupe_rank *me, const held *config)
{
    (void)me, (void)config;
    return TROUPE_OK;
}
TROUPE_TRAINER(hold, held);

// ---- the server

static int clear(void **state)
{
    (void)state;
    char command[400], output[400];
    snprintf(command, sizeof command, "%s server stop --jobs", support_setting("TROUPE_TOOL"));
    (void)support_run(command, output, sizeof output);
    snprintf(command, sizeof command, "rm -rf %s/state", top);
    assert_int_equal(support_run(command, output, sizeof output), 0);
    return 0;
}

#define SUBMIT(config, follower, job, ...)                                                         \
    troupe_submit(count_up, config, follower, job, .ranks = RANKS, .storage = storage,             \
                  .cpus_per_rank = 0.5, .console = TROUPE_CONSOLE_OFF, .rank_metrics = true,       \
                  .restarts = 3, __VA_ARGS__)

static troupe_result *end_of(troupe_job *job)
{
    troupe_result *result;
    troupe_must(troupe_job_wait(job, 60000, &result));
    return result;
}

static int lines_of(const char *path)
{
    char *text = support_read_file(path);
    int count = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        count += *at == '\n';
    free(text);
    return count;
}

// ---- programs of their own

// Starts this program again, to do that with the argument.
static pid_t start_again(const char *act, const char *argument)
{
    pid_t pid;
    char *argv[] = {(char[]){"test_detached"}, strdup(act), strdup(argument), NULL};
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    free(argv[1]);
    free(argv[2]);
    return pid;
}

// Submits with that key, and goes.
static int act_submit(const char *key)
{
    troupe_job *job;
    char *path = support_path(top, key);
    plan config = {.reports = 20, .rate = 1, .witness = path};
    troupe_must(SUBMIT(&config, NULL, &job, .key = key, .name = key, .server = TROUPE_SERVER_AUTO));
    troupe_must(troupe_job_leave(&job));
    free(path);
    return troupe_stop();
}

// Submits, and is there until it is killed.
static int act_stay(const char *key)
{
    troupe_job *job;
    plan config = {.reports = 60, .rate = 1, .step_us = 5000};
    troupe_must(SUBMIT(&config, NULL, &job, .key = key, .name = key, .server = TROUPE_SERVER_AUTO));
    for (;;)
        pause();
    return 1;
}

// F05.
static void test_a_job_outlives_its_program(void **state)
{
    (void)state;
    int status;
    troupe_job *job;
    events seen = {0};
    counted value;
    troupe_follower follower = events_follower(&seen);
    pid_t pid = start_again("submit", "night");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    troupe_must(troupe_job_follow("night", &follower, &job));
    assert_true(troupe_job_number(job) > 0);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_int_equal(troupe_result_reports(result), 20);
    assert_true(troupe_result_metric(result, "number") == 20);
    troupe_must(troupe_result_value(counted, result, &value));
    assert_int_equal(value.number, 20);
    assert_non_null(
        strstr(troupe_result_checkpoint(result), "/night/checkpoints/checkpoint_000003"));
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(seen.reports, 20);
    assert_int_equal(seen.done, 1);
    events_free(&seen);
    // It is found when it has ended, too, and known at once for what it is.
    troupe_job_status now;
    troupe_must(troupe_job_find("night", &job));
    troupe_job_status_get(job, &now);
    assert_int_equal(now.state, TROUPE_JOB_DONE);
    assert_int_equal(now.reports, 20);
    assert_int_equal(now.ranks, RANKS);
    result = end_of(job);
    assert_int_equal(troupe_result_reports(result), 20);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(troupe_job_find("noon", &job), TROUPE_NOT_FOUND);
    // So is one that waits.
    plan config = {.reports = 1};
    troupe_must(
        SUBMIT(&config, NULL, &job, .key = "later", .start_at = 4e9, .server = TROUPE_SERVER_AUTO));
    troupe_job_status_get(job, &now);
    assert_int_equal(now.state, TROUPE_JOB_QUEUED);
    assert_int_equal(now.ranks, RANKS);
    troupe_job_close(&job);
}

// F06.
static void test_followers_are_told_what_local_ones_are(void **state)
{
    (void)state;
    plan config = {.reports = 40, .rate = 1, .step_us = 2000};
    events here = {.apart = true}, early = here, late = here,
           slow = {.apart = true, .sleeps_us = 3000};
    troupe_follower follower[] = {events_follower(&here), events_follower(&early),
                                  events_follower(&late), events_follower(&slow)};
    troupe_job *job, *again, *third;
    troupe_must(SUBMIT(&config, &follower[0], &job, .name = "same", .server = TROUPE_SERVER_NONE));
    assert_int_equal(troupe_job_number(job), 0);
    troupe_result *local = end_of(job);
    troupe_job_close(&job);
    troupe_must(SUBMIT(&config, &follower[1], &job, .name = "same", .key = "same",
                       .server = TROUPE_SERVER_AUTO));
    troupe_must(troupe_job_follow("same", &follower[3], &third));
    troupe_result *result = end_of(job);
    troupe_must(troupe_job_follow("same", &follower[2], &again));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_string_equal(events_last_part(troupe_result_best_checkpoint(result)),
                        events_last_part(troupe_result_best_checkpoint(local)));
    assert_int_equal(troupe_result_reports(result), troupe_result_reports(local));
    troupe_result_free(&local);
    troupe_result_free(&result);
    support_await_counter(&early.done, 1);
    support_await_counter(&late.done, 1);
    support_await_counter(&slow.done, 1);
    troupe_job_close(&again);
    troupe_job_close(&third);
    troupe_job_close(&job);
    events_compare(&here, &early);
    events_compare(&here, &late);
    events_compare(&here, &slow);
    events_free(&here);
    events_free(&early);
    events_free(&late);
    events_free(&slow);
}

// F06.
static void test_a_restarted_server_changes_nothing_for_a_follower(void **state)
{
    (void)state;
    plan config = {.reports = 60, .rate = 1, .step_us = 5000};
    events here = {.apart = true}, there = here;
    troupe_follower follower[] = {events_follower(&here), events_follower(&there)};
    troupe_job *job;
    troupe_must(SUBMIT(&config, &follower[0], &job, .name = "on", .server = TROUPE_SERVER_NONE));
    troupe_result *result = end_of(job);
    troupe_result_free(&result);
    troupe_job_close(&job);
    troupe_must(SUBMIT(&config, &follower[1], &job, .name = "on", .server = TROUPE_SERVER_AUTO));
    support_await_counter(&there.reports, 10);
    kill_server();
    support_await_counter(&there.reports, 20);
    run_tool("server start --cpus 4");
    support_await_counter(&there.reports, 30);
    kill_server();
    run_tool("server start --cpus 4");
    result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
    troupe_job_close(&job);
    events_compare(&here, &there);
    events_free(&here);
    events_free(&there);
}

static bool has_checkpoint(void *job)
{
    char folder[4096];
    return troupe_job_checkpoint((troupe_job *)job, TROUPE_NEWEST_CHECKPOINT, folder, sizeof folder,
                                 NULL) == TROUPE_OK;
}

// F11, F12.
static void test_what_is_asked_of_it_comes_true(void **state)
{
    (void)state;
    plan config = {.reports = 100000, .rate = 1, .step_us = 2000};
    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    troupe_job *job;
    troupe_must(SUBMIT(&config, &follower, &job, .name = "asked", .server = TROUPE_SERVER_AUTO));
    support_await_counter(&seen.reports, 6);
    assert_true(support_wait_until(has_checkpoint, job, SUPPORT_SOON_MS));
    troupe_must(troupe_job_modify(count_up, job, rate, 0.25));
    support_await_counter(&seen.lives, 1);
    troupe_job_stop(job);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_true(troupe_result_stopped(result));
    assert_true(troupe_result_metric(result, "rate") == 0.25);
    troupe_result_free(&result);
    assert_int_equal(troupe_job_modify(count_up, job, rate, 0.5), TROUPE_STOPPED);
    troupe_job_close(&job);
    assert_non_null(strstr(events_text(&seen.told), "live 1 after "));
    events_free(&seen);

    config = (plan){.reports = 1, .fails = true};
    troupe_must(SUBMIT(&config, NULL, &job, .name = "fails", .server = TROUPE_SERVER_AUTO));
    result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "failed: it was to fail; the run is at "));
    const char *cause = strstr(troupe_result_cause(result), "failed: ");
    assert_non_null(cause);
    assert_string_equal(cause, "failed: it was to fail");
    assert_int_equal(troupe_result_restarts(result), 3);
    troupe_result_free(&result);
    troupe_job_close(&job);

    config = (plan){.reports = 10, .hangs_after = 3};
    seen = (events){0};
    troupe_must(SUBMIT(&config, &follower, &job, .name = "killed", .server = TROUPE_SERVER_AUTO));
    support_await_counter(&seen.reports, 3);
    troupe_job_kill(job, TROUPE_FAILED, "it hangs");
    result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    assert_non_null(strstr(troupe_result_error(result), "it hangs"));
    assert_string_equal(troupe_result_cause(result), "it hangs");
    troupe_result_free(&result);
    troupe_job_close(&job);
    events_free(&seen);
}

static bool is_paused(void *job)
{
    troupe_job_status now;
    troupe_job_status_get((troupe_job *)job, &now);
    return now.state == TROUPE_JOB_PAUSED;
}

static void test_a_pause_ends_its_process_and_it_goes_on(void **state)
{
    (void)state;
    char *until = support_path(top, "rested");
    plan config = {.reports = 20, .rate = 1, .step_us = 5000, .until = until};
    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    troupe_job *job;
    troupe_must(SUBMIT(&config, &follower, &job, .name = "rests", .server = TROUPE_SERVER_AUTO));
    support_await_counter(&seen.reports, 12);
    troupe_job_pause(job);
    assert_true(support_wait_until(is_paused, job, SUPPORT_SOON_MS));
    troupe_job_go_on(job);
    support_write_file(until, "", 0);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    int reports = troupe_result_reports(result);
    troupe_result_free(&result);
    troupe_job_close(&job);
    // Paused, queued, running, done; each report once.
    assert_non_null(strstr(events_text(&seen.told), "state 4\nstate 0\nstate 1\n"));
    assert_true(reports >= 20);
    assert_int_equal(seen.reports, reports);
    events_free(&seen);
    free(until);
}

static bool has_three_ranks(void *job)
{
    troupe_job_status now;
    troupe_job_status_get((troupe_job *)job, &now);
    return now.state == TROUPE_JOB_RUNNING && now.ranks == 3;
}

// Without a pause by anyone, without a restart, and each report once.
static void test_it_gets_more_ranks_while_it_runs(void **state)
{
    (void)state;
    char *until = support_path(top, "grown");
    plan config = {.reports = 20, .rate = 1, .step_us = 5000, .until = until};
    events seen = {0};
    troupe_follower follower = events_follower(&seen);
    troupe_job *job;
    char wish[64];
    troupe_must(SUBMIT(&config, &follower, &job, .name = "grows", .server = TROUPE_SERVER_AUTO));
    support_await_counter(&seen.reports, 12);
    snprintf(wish, sizeof wish, "modify %lld ranks=3", (long long)troupe_job_number(job));
    run_tool(wish);
    assert_true(support_wait_until(has_three_ranks, job, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    support_write_file(until, "", 0);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    int reports = troupe_result_reports(result);
    assert_int_equal(troupe_result_restarts(result), 0);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_true(reports >= 20);
    assert_int_equal(seen.reports, reports);
    events_free(&seen);
    free(until);
}

static void test_the_same_again_is_the_same_job(void **state)
{
    (void)state;
    plan config = {.reports = 100000, .rate = 1, .step_us = 2000}, other = config;
    troupe_job *job, *same, *none;
    other.rate = 2;
    troupe_must(
        SUBMIT(&config, NULL, &job, .name = "one", .key = "one", .server = TROUPE_SERVER_AUTO));
    troupe_must(
        SUBMIT(&config, NULL, &same, .name = "one", .key = "one", .server = TROUPE_SERVER_AUTO));
    assert_int_equal(troupe_job_number(job), troupe_job_number(same));
    assert_string_equal(troupe_job_path(job), troupe_job_path(same));
    assert_int_equal(
        SUBMIT(&other, NULL, &none, .name = "one", .key = "one", .server = TROUPE_SERVER_AUTO),
        TROUPE_EXISTS);
    assert_non_null(strstr(troupe_last_error()->text, "config.rate"));
    // What was claimed for them is gone: there is one folder of that name.
    char *folder = support_path(storage, "one_1");
    assert_false(support_exists(folder));
    free(folder);
    // Closing one of two ends nothing.
    troupe_job_close(&same);
    troupe_job_status now;
    troupe_job_status_get(job, &now);
    assert_int_not_equal(now.state, TROUPE_JOB_DONE);
    // Its run is no other process's while it has not ended.
    assert_int_equal(SUBMIT(&config, NULL, &none, .name = "one", .open = TROUPE_OPEN_RESUME_OR_NEW,
                            .server = TROUPE_SERVER_NONE),
                     TROUPE_BUSY);
    troupe_job_close(&job); // The last one stops it.
    troupe_must(troupe_job_find("one", &job));
    troupe_result *result = end_of(job);
    assert_true(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&job);
    // Nor another trainer's, which is said before it is queued.
    assert_int_equal(troupe_submit(count_down, &config, NULL, &none, .storage = storage,
                                   .name = "one", .open = TROUPE_OPEN_RESUME,
                                   .server = TROUPE_SERVER_AUTO),
                     TROUPE_WRONG_TYPE);
    assert_non_null(strstr(troupe_last_error()->text, "was made by trainer 'count_up'"));
}

// ---- what is closed and claimed

typedef struct slow_follower {
    _Atomic int begun, let_go;
} slow_follower;

static void be_slow(void *user, troupe_job *job, const troupe_report_event *event)
{
    slow_follower *self = user;
    (void)job, (void)event;
    atomic_store(&self->begun, 1);
    support_await_counter(&self->let_go, 1);
}

static _Atomic int closing;

static void *close_it(void *user)
{
    troupe_job *job = user;
    atomic_store(&closing, 1);
    troupe_job_close(&job); // It waits for its follower.
    return NULL;
}

// Each sees the other while it closes: one of them is the last all the same.
static void test_the_last_two_handles_are_closed_at_once(void **state)
{
    (void)state;
    plan config = {.reports = 100000, .rate = 1, .step_us = 2000};
    slow_follower self = {0};
    troupe_follower follower = {.size = sizeof follower, .report = be_slow, .user = &self};
    troupe_job *job, *other, *found;
    pthread_t thread;
    troupe_must(SUBMIT(&config, &follower, &job, .name = "two", .key = "two",
                       .server = TROUPE_SERVER_AUTO));
    troupe_must(troupe_job_find("two", &other));
    support_await_counter(&self.begun, 1);
    assert_int_equal(pthread_create(&thread, NULL, close_it, job), 0);
    support_await_counter(&closing, 1);
    usleep(20000); // So that it waits: it need not.
    troupe_job_close(&other);
    atomic_store(&self.let_go, 1);
    pthread_join(thread, NULL);
    troupe_must(troupe_job_find("two", &found));
    troupe_result *result = end_of(found);
    assert_true(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&found);
}

// Submits one job, waits for a file, and has another one go on with its run.
static int act_go_on(const char *key)
{
    troupe_job *job, *next;
    char *go = support_path(top, key);
    plan config = {.reports = 5, .rate = 1};
    troupe_must(SUBMIT(&config, NULL, &job, .name = "claimed", .server = TROUPE_SERVER_AUTO));
    troupe_result *result = end_of(job);
    troupe_result_free(&result);
    support_write_file(go, "", 0);
    while (support_exists(go))
        usleep(1000);
    config.reports = 10;
    troupe_must(SUBMIT(&config, NULL, &next, .name = "claimed", .key = key,
                       .open = TROUPE_OPEN_RESUME, .start_at = 4e9, .server = TROUPE_SERVER_AUTO));
    return 1;
}

static bool is_there(void *path)
{
    return support_exists(path);
}

// Kills the client while its request lies at a server that does not read it yet. Whether it had
// come to that.
static bool submit_and_die(const char *key, useconds_t pause_us, troupe_job **job)
{
    char *go = support_path(top, key);
    pid_t server = server_status().pid, pid = start_again("go_on", key);
    assert_true(support_wait_until(is_there, go, SUPPORT_SLOWER * SUPPORT_SOON_MS));
    assert_int_equal(kill(server, SIGSTOP), 0);
    unlink(go);
    usleep(pause_us);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(kill(server, SIGCONT), 0);
    free(go);
    return troupe_job_find(key, job) == TROUPE_OK;
}

static void test_a_run_that_goes_on_is_claimed_with_its_job(void **state)
{
    (void)state;
    enum { TRIES = 9 };
    char key[32] = "";
    trp_arena arena = {0};
    trp_run_job claim;
    struct stat journal;
    troupe_job *job = NULL;
    bool taken = false;
    for (int i = 0; i < TRIES && !taken; i++) {
        snprintf(key, sizeof key, "claim%d", i);
        taken = submit_and_die(key, (useconds_t)10000 << i, &job);
        if (!taken) { // The next one has a run of its own.
            char command[600], output[200];
            snprintf(command, sizeof command, "rm -rf %s/claimed", storage);
            assert_int_equal(support_run(command, output, sizeof output), 0);
        }
    }
    assert_true(taken);
    char *run = support_path(storage, "claimed"), *path = support_path(run, "journal.jsonl");
    troupe_must(trp_run_job_read(run, &arena, &claim));
    assert_int_equal(claim.job, troupe_job_number(job));
    assert_int_equal(stat(path, &journal), 0);
    assert_int_equal(claim.journal, journal.st_size);
    assert_int_equal(trp_run_job_check(run, NULL), TROUPE_BUSY);
    troupe_job_close(&job);
    trp_arena_clear(&arena);
    free(path);
    free(run);
}

typedef struct waiter {
    troupe_job *job;
    atomic_int thread; // Its number, before it waits.
    atomic_bool over;
} waiter;

static void *wait_for_end(void *user)
{
    waiter *self = user;
    atomic_store(&self->thread, gettid());
    troupe_result *result = end_of(self->job);
    atomic_store(&self->over, true);
    troupe_result_free(&result);
    return NULL;
}

static bool is_waiting(void *user)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&((waiter *)user)->thread));
    char *stat = support_read_file(path);
    if (stat != NULL)
        (void)sscanf(stat, "%*d (%*[^)]) %c", &state);
    free(stat);
    return state == 'S';
}

// F04: all are taken on while the wait waits.
static void test_a_wait_does_not_hold_up_other_submissions(void **state)
{
    (void)state;
    enum { OTHERS = 20 };
    plan config = {.reports = 100000000, .rate = 1, .step_us = 2000}, short_one = {.reports = 1};
    waiter self = {.thread = 0};
    troupe_job *others[OTHERS];
    pthread_t thread;
    troupe_must(troupe_submit(count_up, &config, NULL, &self.job, .ranks = 2, .cpus_per_rank = 2,
                              .storage = storage, .server = TROUPE_SERVER_AUTO));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &self), 0);
    assert_true(support_wait_until(is_waiting, &self, SUPPORT_SOON_MS));
    for (int i = 0; i < OTHERS; i++)
        troupe_must(SUBMIT(&short_one, NULL, &others[i], .server = TROUPE_SERVER_AUTO));
    assert_false(atomic_load(&self.over));
    for (int i = 0; i < OTHERS; i++)
        troupe_job_close(&others[i]);
    troupe_job_stop(self.job);
    assert_int_equal(pthread_join(thread, NULL), 0);
    troupe_job_close(&self.job);
}

static void test_a_client_may_be_killed_at_any_moment(void **state)
{
    (void)state;
    enum { TIMES = 12 };
    for (int i = 0; i < TIMES; i++) {
        char key[32];
        troupe_job *job;
        snprintf(key, sizeof key, "killed%d", i);
        pid_t pid = start_again("submit", key);
        usleep((useconds_t)(i * 4000));
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        // Whoever asks again gets that one job, or makes it.
        pid = start_again("submit", key);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        troupe_must(troupe_job_find(key, &job));
        troupe_result *result = end_of(job);
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        assert_int_equal(troupe_result_reports(result), 20);
        troupe_result_free(&result);
        troupe_job_close(&job);
        char *path = support_path(top, key);
        assert_int_equal(lines_of(path), 1); // Run once.
        free(path);
    }
}

static void test_the_death_of_a_client_is_no_end(void **state)
{
    (void)state;
    troupe_job *job = NULL;
    pid_t pid = start_again("stay", "stays");
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    while (troupe_job_find("stays", &job) != TROUPE_OK && support_now_ms() < until_ms)
        usleep(1000);
    assert_non_null(job);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    troupe_result *result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 60);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

static void test_what_a_server_cannot_do_is_refused(void **state)
{
    (void)state;
    plan config = {.reports = 1};
    troupe_job *job;
    assert_int_equal(troupe_submit(count_up, &config, NULL, &job, .storage = "s3:runs",
                                   .server = TROUPE_SERVER_AUTO),
                     TROUPE_UNSUPPORTED);
    assert_int_equal(SUBMIT(&config, NULL, &job, .priority = 1, .server = TROUPE_SERVER_NONE),
                     TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_submit(count_up, &config, NULL, &job, .cpus_per_rank = 1000,
                                   .storage = storage, .server = TROUPE_SERVER_AUTO),
                     TROUPE_TOO_LARGE);
    setenv("TROUPE_SERVER", "sometimes", 1);
    assert_int_equal(SUBMIT(&config, NULL, &job, .name = "none"), TROUPE_INVALID);
    setenv("TROUPE_SERVER", "/nowhere", 1);
    assert_int_equal(SUBMIT(&config, NULL, &job, .name = "none"), TROUPE_NOT_FOUND);
    unsetenv("TROUPE_SERVER");
    // A local job cannot be left.
    troupe_must(SUBMIT(&config, NULL, &job, .server = TROUPE_SERVER_NONE));
    assert_int_equal(troupe_job_leave(&job), TROUPE_UNSUPPORTED);
    troupe_job_close(&job);
}

// F03.
static void test_without_a_choice_a_server_that_runs_has_it(void **state)
{
    (void)state;
    plan config = {.reports = 1};
    troupe_job *job;
    clear(NULL);
    troupe_must(SUBMIT(&config, NULL, &job, .name = "here"));
    assert_int_equal(troupe_job_number(job), 0);
    troupe_result *result = end_of(job);
    troupe_result_free(&result);
    troupe_job_close(&job);
    (void)real_server_begin(NULL);
    troupe_must(SUBMIT(&config, NULL, &job, .name = "there"));
    assert_true(troupe_job_number(job) > 0);
    result = end_of(job);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
    troupe_job_close(&job);
    // What it cannot take stays here.
    held has = {troupe_put(int64_t, &(int64_t){1})};
    troupe_must(troupe_submit(hold, &has, NULL, &job, .storage = storage, .cpus_per_rank = 0.5));
    assert_int_equal(troupe_job_number(job), 0);
    troupe_ref_drop(has.data);
    troupe_job_close(&job);
}

// F03, F07.
static void test_many_that_start_one_find_one(void **state)
{
    (void)state;
    enum { STARTERS = 16 };
    pid_t pids[STARTERS];
    troupe_job *job;
    clear(NULL);
    for (int i = 0; i < STARTERS; i++) {
        char key[32];
        snprintf(key, sizeof key, "first%d", i);
        pids[i] = start_again("submit", key);
    }
    for (int i = 0; i < STARTERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_true(server_status().pid > 0);
    for (int i = 0; i < STARTERS; i++) {
        char key[32];
        snprintf(key, sizeof key, "first%d", i);
        troupe_must(troupe_job_find(key, &job));
        troupe_result *result = end_of(job);
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        troupe_result_free(&result);
        troupe_job_close(&job);
    }
}

static int end(void **state)
{
    (void)clear(state);
    (void)troupe_stop();
    support_directory_remove(top);
    return 0;
}

int main(int argc, char **argv)
{
    top = real_server_folder("TEST_DETACHED_TOP");
    storage = support_path(top, "runs");
    troupe_must(troupe_start(argc, argv, .cpus = RANKS)); // Does not return in a job.
    if (argc == 3 && strcmp(argv[1], "submit") == 0)
        return act_submit(argv[2]);
    if (argc == 3 && strcmp(argv[1], "go_on") == 0)
        return act_go_on(argv[2]);
    if (argc == 3 && strcmp(argv[1], "stay") == 0)
        return act_stay(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_job_outlives_its_program, real_server_begin),
        cmocka_unit_test_setup(test_followers_are_told_what_local_ones_are, real_server_begin),
        cmocka_unit_test_setup(test_a_restarted_server_changes_nothing_for_a_follower,
                               real_server_begin),
        cmocka_unit_test_setup(test_what_is_asked_of_it_comes_true, real_server_begin),
        cmocka_unit_test_setup(test_a_pause_ends_its_process_and_it_goes_on, real_server_begin),
        cmocka_unit_test_setup(test_it_gets_more_ranks_while_it_runs, real_server_begin),
        cmocka_unit_test_setup(test_the_same_again_is_the_same_job, real_server_begin),
        cmocka_unit_test_setup(test_the_last_two_handles_are_closed_at_once, real_server_begin),
        cmocka_unit_test_setup(test_a_run_that_goes_on_is_claimed_with_its_job, real_server_begin),
        cmocka_unit_test_setup(test_a_wait_does_not_hold_up_other_submissions, real_server_begin),
        cmocka_unit_test_setup(test_a_client_may_be_killed_at_any_moment, real_server_begin),
        cmocka_unit_test_setup(test_the_death_of_a_client_is_no_end, real_server_begin),
        cmocka_unit_test_setup(test_what_a_server_cannot_do_is_refused, real_server_begin),
        cmocka_unit_test(test_without_a_choice_a_server_that_runs_has_it),
        cmocka_unit_test(test_many_that_start_one_find_one),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
