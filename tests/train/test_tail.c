// test_tail.c: a run that is read from its files is told as its own coordinator has told it: at
// once, by pieces, and late.
#include "hold.h"
#include "record_events.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <train/detached.h>
#include <train/handle.h>

enum { RANKS = 2 };

static char *storage;

TROUPE_STRUCT(plan, (int, reports), (int, dies), (double, rate), (bool, fails));
TROUPE_STRUCT(counted, (int, number));

static troupe_status count_up(troupe_rank *me, const plan *config)
{
    counted now = {0};
    TROUPE_TRY(troupe_restore(counted, me, &now));
    while (now.number < config->reports) {
        now.number++;
        double sum = 1;
        TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
        printf("step %d of rank %d\n", now.number, me->rank);
        printf("---- %d epochs done\n", now.number); // No line of the library's own.
        fflush(stdout);
        if (now.number % 2 == 0)
            TROUPE_TRY(troupe_save(counted, me, &now));
        if (now.number == config->dies && me->attempt == 0 && me->rank == 1)
            (void)raise(SIGKILL);
        TROUPE_TRY(troupe_report_tagged(
            me, now.number % 3 == 0 ? "third" : "other", {"number", now.number},
            {"rate", troupe_live(plan, me)->rate}, {"loss", 1.0 / now.number}));
    }
    TROUPE_TRY(troupe_return(counted, me, &now));
    return config->fails ? troupe_fail(TROUPE_FAILED, "it was to fail") : TROUPE_OK;
}
TROUPE_TRAINER(count_up, plan, .live = "rate");

static int start(void **state)
{
    (void)state;
    storage = support_directory_make();
    troupe_must(troupe_start(0, NULL, .cpus = RANKS));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)troupe_stop();
    support_directory_remove(storage);
    return 0;
}

// A handle on a run that another process would run.
typedef struct reader {
    troupe_job *handle;
    trp_tail *tail;
    events seen;
} reader;

static void open_reader(reader *is, const char *run)
{
    troupe_follower follower = events_follower(&is->seen);
    troupe_train_options options = {.keep_metric = "loss", .keep_goal = TROUPE_MAXIMIZE};
    trp_port port;
    is->handle = trp_handle_create();
    assert_non_null(is->handle);
    is->handle->path = is->handle->folder = run;
    is->handle->spec.options.console = TROUPE_CONSOLE_OFF;
    troupe_must(trp_follow_start(is->handle, &follower, &is->handle->followers.first));
    port = (trp_port){&trp_handle_port, is->handle};
    is->tail = trp_tail_open(run, 0, &options, &port);
    assert_non_null(is->tail);
}

static troupe_result *close_reader(reader *is, trp_job_end end)
{
    troupe_result *result;
    trp_tail_end(is->tail, &end);
    troupe_must(troupe_job_wait(is->handle, -1, &result));
    trp_tail_close(is->tail);
    trp_followers_await(&is->handle->followers);
    trp_handle_release(is->handle);
    return result;
}

static void assert_same_result(const troupe_result *one, const troupe_result *other)
{
    counted values[2];
    assert_int_equal(troupe_result_status(one), troupe_result_status(other));
    assert_string_equal(troupe_result_error(one), troupe_result_error(other));
    assert_string_equal(troupe_result_cause(one), troupe_result_cause(other));
    assert_int_equal(troupe_result_stopped(one), troupe_result_stopped(other));
    assert_int_equal(troupe_result_reports(one), troupe_result_reports(other));
    assert_int_equal(troupe_result_restarts(one), troupe_result_restarts(other));
    assert_true(troupe_result_metric(one, "loss") == troupe_result_metric(other, "loss"));
    assert_string_equal(events_last_part(troupe_result_checkpoint(one)),
                        events_last_part(troupe_result_checkpoint(other)));
    assert_string_equal(events_last_part(troupe_result_best_checkpoint(one)),
                        events_last_part(troupe_result_best_checkpoint(other)));
    assert_int_equal(troupe_result_value(counted, one, &values[0]),
                     troupe_result_value(counted, other, &values[1]));
}

static trp_job_end end_of(const troupe_result *result)
{
    return (trp_job_end){.status = (int)troupe_result_status(result),
                         .error = troupe_result_error(result),
                         .stopped = troupe_result_stopped(result),
                         .reports = troupe_result_reports(result),
                         .restarts = troupe_result_restarts(result)};
}

// Runs it here, paused once, with a live value; *path is where.
static troupe_result *run_here(const plan *config, events *seen, char path[4096])
{
    static const int at[] = {4, 6};
    hold held = {0};
    const troupe_gate gate = hold_gate(&held, at, 2);
    troupe_job *job;
    troupe_result *result;
    troupe_follower follower = events_follower(seen);
    troupe_must(troupe_submit(count_up, config, &follower, &job, .ranks = RANKS, .restarts = 1,
                              .storage = storage, .console = TROUPE_CONSOLE_OFF,
                              .keep_metric = "loss", .keep_goal = TROUPE_MAXIMIZE,
                              .rank_metrics = true, .gate = &gate));
    hold_await(&held, at[0]);
    troupe_must(troupe_job_modify(count_up, job, rate, 0.5));
    hold_let_go(&held, at[0]);
    hold_await(&held, at[1]);
    troupe_job_pause(job);
    troupe_job_go_on(job);
    hold_let_go(&held, at[1]);
    troupe_must(troupe_job_wait(job, -1, &result));
    snprintf(path, 4096, "%s", troupe_job_path(job));
    troupe_job_close(&job);
    return result;
}

static void test_it_is_told_the_same_afterwards(void **state)
{
    (void)state;
    plan config = {.reports = 400, .dies = 3, .rate = 1};
    events here = {0};
    char path[4096];
    reader there = {0};
    troupe_result *result = run_here(&config, &here, path);
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    open_reader(&there, path);
    trp_tail_read(there.tail);
    troupe_result *read = close_reader(&there, end_of(result));
    events_compare(&here, &there.seen);
    assert_same_result(result, read);
    troupe_result_free(&result);
    troupe_result_free(&read);
    events_free(&here);
    events_free(&there.seen);
}

// Copies some more of a file; whether all is there.
static bool copy_some(const char *from, const char *to, const char *name, size_t most)
{
    char path[4400], piece[4096];
    snprintf(path, sizeof path, "%s/%s", from, name);
    int in = open(path, O_RDONLY);
    snprintf(path, sizeof path, "%s/%s", to, name);
    int out = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(in >= 0 && out >= 0);
    off_t at = lseek(out, 0, SEEK_END);
    ssize_t got = pread(in, piece, most < sizeof piece ? most : sizeof piece, at);
    assert_true(got >= 0);
    assert_int_equal(write(out, piece, (size_t)got), got);
    close(in);
    close(out);
    return got == 0;
}

static void test_it_is_told_the_same_by_pieces(void **state)
{
    (void)state;
    plan config = {.reports = 60, .dies = 5, .rate = 1, .fails = true};
    events here = {0};
    char path[4096], copy[4200], log[4300];
    reader there = {0};
    troupe_result *result = run_here(&config, &here, path);
    assert_int_equal(troupe_result_status(result), TROUPE_FAILED);
    snprintf(copy, sizeof copy, "%s.copy", path);
    snprintf(log, sizeof log, "%s/log", copy);
    open_reader(&there, copy); // There is no such folder yet.
    trp_tail_read(there.tail);
    assert_int_equal(mkdir(copy, 0700), 0);
    trp_tail_read(there.tail);
    assert_int_equal(mkdir(log, 0700), 0);
    bool whole = false;
    for (size_t size = 1; !whole; size = size % 97 + 1) {
        whole = copy_some(path, copy, "journal.jsonl", size);
        whole &= copy_some(path, copy, "log/rank_00000.log", size);
        whole &= copy_some(path, copy, "log/rank_00001.log", size);
        trp_tail_read(there.tail);
    }
    while (!copy_some(path, copy, "end", 4096))
        continue;
    troupe_result *read = close_reader(&there, end_of(result));
    events_compare(&here, &there.seen);
    assert_same_result(result, read);
    troupe_result_free(&result);
    troupe_result_free(&read);
    events_free(&here);
    events_free(&there.seen);
}

// What another runner goes on with: what has no lines of its own is told all the same.
static void test_another_opening_is_a_restart(void **state)
{
    (void)state;
    static const char journal[] =
        "{\"event\": \"open\", \"epoch\": 1}\n"
        "{\"event\": \"state\", \"state\": \"RUNNING\"}\n"
        "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"elapsed_s\": 0, \"pids\": [7]}\n"
        "{\"event\": \"report\", \"report\": 1, \"attempt\": 0, \"elapsed_s\": 1, \"metrics\": "
        "{\"loss\": 1}, \"checkpoint\": null}\n"
        "damaged\n"
        "{\"event\": \"open\", \"epoch\": 2}\n" // It was killed.
        "{\"event\": \"state\", \"state\": \"RUNNING\"}\n"
        "{\"event\": \"attempt\", \"attempt\": 1, \"report\": 1, \"elapsed_s\": 2, \"pids\": [8]}\n"
        "{\"event\": \"state\", \"state\": \"PAUSED\"}\n"
        "{\"event\": \"open\", \"epoch\": 3}\n" // It was to go on.
        "{\"event\": \"state\", \"state\": \"RUNNING\"}\n"
        "{\"event\": \"rep";
    reader there = {0};
    char *folder = support_directory_make(), *file = support_path(folder, "journal.jsonl");
    support_write_file(file, journal, sizeof journal - 1);
    open_reader(&there, folder);
    trp_tail_read(there.tail);
    troupe_job_status now;
    troupe_job_status_get(there.handle, &now);
    assert_int_equal(now.state, TROUPE_JOB_RUNNING);
    assert_int_equal(now.reports, 1);
    assert_int_equal(now.restarts, 1);
    assert_int_equal(now.pids[0], 8);
    troupe_result *result = close_reader(
        &there, (trp_job_end){.status = TROUPE_PEER_LOST, .error = "the runner was lost"});
    assert_string_equal(
        events_text(&there.seen.told),
        "state 1\nreport 1 '' none loss=0x1p+0\nstate 2\nstate 1\nstate 4\nstate 0\n"
        "state 1\nstate 3\n");
    assert_int_equal(troupe_result_status(result), TROUPE_PEER_LOST);
    assert_string_equal(troupe_result_error(result), "the runner was lost");
    assert_true(troupe_result_metric(result, "loss") == 1);
    troupe_result_free(&result);
    events_free(&there.seen);
    free(file);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_told_the_same_afterwards),
        cmocka_unit_test(test_it_is_told_the_same_by_pieces),
        cmocka_unit_test(test_another_opening_is_a_restart),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
