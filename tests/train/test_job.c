// test_job.c: jobs: submitting, queueing, stopping, closing, and what is refused.
// timeout: 120
#include "fresh.h"
#include "line.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <train/handle.h>

enum { CPUS = 4 };

static char *storage;

// ---- stop

typedef struct stopper {
    int at; // Report after which it asks for the stop.
    _Atomic int last, done;
    bool wrong;
} stopper;

static void stop_at(void *user, troupe_job *job, const troupe_report_event *event)
{
    stopper *self = (stopper *)user;
    self->wrong |= event->number != atomic_load(&self->last) + 1;
    atomic_store(&self->last, event->number);
    if (event->number == self->at)
        troupe_job_stop(job);
}

// The same as a gate, so that it takes effect at once.
static troupe_gate_answer stop_here(void *user, troupe_job *job, const troupe_report_event *event,
                                    int *ranks)
{
    (void)ranks;
    (void)job;
    return event->number == *(const int *)user ? TROUPE_GATE_STOP : TROUPE_GATE_GO_ON;
}

static void see(void *user, troupe_job *job, const troupe_report_event *event)
{
    stopper *self = (stopper *)user;
    (void)job;
    self->wrong |= event->number != atomic_load(&self->last) + 1;
    atomic_store(&self->last, event->number);
}

static void count_done(void *user, troupe_job *job, troupe_job_state state)
{
    stopper *self = (stopper *)user;
    if (state != TROUPE_JOB_DONE)
        return;
    atomic_fetch_add(&self->done, 1);
    troupe_result *result; // "Its result can be had without waiting."
    if (troupe_job_wait(job, 0, &result) != TROUPE_OK)
        self->wrong = true;
    else
        troupe_result_free(&result);
}

static void test_a_stop_ends_all_ranks_at_the_same_report(void **state)
{
    (void)state;
    for (int world = 1; world <= 3; world++) {
        line_settings config = line_plain(LINE_EPOCHS_MAX);
        stopper self = {.at = 3};
        troupe_follower follower = {
            .size = sizeof follower, .report = see, .state = count_done, .user = &self};
        troupe_job *job;
        troupe_result *result;
        troupe_must(troupe_submit(
            line_fit, &config, &follower, &job, .ranks = world, .storage = storage, .keep = 2,
            .gate = TROUPE_OPTIONS(troupe_gate, .decide = stop_here, .user = &self.at,
                                   .timeout_ms = SUPPORT_SOON_MS)));
        troupe_must(troupe_job_wait(job, -1, &result));
        assert_int_equal(troupe_result_status(result), TROUPE_OK);
        assert_true(troupe_result_stopped(result));
        int reports = troupe_result_reports(result);
        assert_true(reports >= 4 && reports <= 6); // The next one that no rank had entered.
        // All ranks made that report, and saved with it.
        for (int rank = 0; rank < world; rank++)
            assert_int_equal(line_load(result, rank).epoch, reports);
        troupe_arena_reset();
        troupe_job_stop(job); // Harmless.
        troupe_job_status status;
        troupe_job_status_get(job, &status);
        assert_int_equal(status.state, TROUPE_JOB_DONE);
        assert_int_equal(status.reports, reports);
        assert_int_equal(status.pids[0], 0);
        assert_true(status.pid > 0); // For who asks late.
        assert_true(status.elapsed_s == troupe_result_elapsed_s(result));
        troupe_job_close(&job);
        assert_null(job);
        assert_int_equal(atomic_load(&self.last), reports);
        assert_int_equal(atomic_load(&self.done), 1);
        assert_false(self.wrong);
        troupe_result_free(&result);
    }
}

static void test_a_stop_after_the_last_report_changes_nothing(void **state)
{
    (void)state;
    line_settings config = line_plain(3);
    stopper self = {.at = 3};
    troupe_follower follower = {.size = sizeof follower, .report = stop_at, .user = &self};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .ranks = 2, .storage = storage));
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_false(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 3);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

TROUPE_STRUCT(deaf_settings, (int, unused));

// Takes a stop for nothing: it learns of it again and again, and no report counts any more.
static troupe_status deaf(troupe_rank *me, const deaf_settings *config)
{
    (void)config;
    int stopped = 0;
    while (stopped < 5) {
        troupe_status status = troupe_report(me, {"x", stopped});
        if (status != TROUPE_OK && status != TROUPE_STOPPED)
            return status;
        stopped += status == TROUPE_STOPPED;
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(deaf, deaf_settings);

static void test_reports_after_the_stop_do_not_count(void **state)
{
    (void)state;
    deaf_settings config = {0};
    stopper self = {.at = 2};
    troupe_job *job;
    troupe_result *result;
    troupe_must(
        troupe_submit(deaf, &config, NULL, &job, .storage = storage,
                      .gate = TROUPE_OPTIONS(troupe_gate, .decide = stop_here, .user = &self.at,
                                             .timeout_ms = SUPPORT_SOON_MS)));
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_int_equal(troupe_result_reports(result), 3);
    assert_true(troupe_result_stopped(result));
    assert_true(troupe_result_metric(result, "x") == 0); // Of the report that was the last.
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- the queue

// A loop that runs until its file is there. In another file, if one is named, each rank puts down
// that it has begun ('A' and on, by the number) and that it is about to end ('a' and on).
TROUPE_STRUCT(wait_settings, (troupe_text, file), (troupe_text, trace), (int, number));

static troupe_status put_down(const wait_settings *config, char first)
{
    char what = (char)(first + config->number);
    if (!config->trace)
        return TROUPE_OK;
    int fd = open(config->trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, &what, 1) == 1;
    if (fd >= 0)
        close(fd);
    return written ? TROUPE_OK : troupe_fail(TROUPE_IO, "cannot write to %s", config->trace);
}

static troupe_status waits(troupe_rank *me, const wait_settings *config)
{
    struct stat about;
    TROUPE_TRY(put_down(config, 'A'));
    TROUPE_TRY(troupe_barrier(me));
    while (stat(config->file, &about))
        usleep(1000);
    return put_down(config, 'a');
}
TROUPE_TRAINER(waits, wait_settings);

// What the ranks of the jobs have put down: how many there were at most, and in which order the
// jobs began. Their followers could not tell: each has a thread of its own, which may be late.
static int read_trace(const char *path, int *order, int jobs)
{
    int ranks[26] = {0}, started = 0, used = 0, used_max = 0;
    char *trace = support_read_file(path);
    assert_non_null(trace);
    for (const char *at = trace; *at; at++) {
        bool begins = *at < 'a';
        int number = *at - (begins ? 'A' : 'a');
        assert_in_range(number, 0, jobs - 1);
        if (begins && ranks[number]++ == 0)
            order[started++] = number;
        used += begins ? 1 : -1;
        used_max = used > used_max ? used : used_max;
    }
    free(trace);
    assert_int_equal(started, jobs);
    assert_int_equal(used, 0);
    return used_max;
}

static bool job_runs(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.state == TROUPE_JOB_RUNNING;
}

static void test_jobs_overlap_where_there_is_room_and_never_beyond(void **state)
{
    (void)state;
    enum { JOBS = 5 };
    // Of 4 CPUs: 0 and 1 run together; 2 needs all and is not overtaken by 3 and 4.
    const int workers[JOBS] = {2, 1, 4, 1, 2};
    int order[JOBS];
    troupe_job *jobs[JOBS];
    char *file = support_path(storage, "go"), *trace = support_path(storage, "trace");
    for (int i = 0; i < JOBS; i++) {
        wait_settings config = {file, trace, i};
        troupe_must(
            troupe_submit(waits, &config, NULL, &jobs[i], .ranks = workers[i], .storage = storage));
    }
    assert_true(support_wait_until(job_runs, jobs[0], SUPPORT_SOON_MS));
    assert_true(support_wait_until(job_runs, jobs[1], SUPPORT_SOON_MS));
    troupe_job_status status;
    troupe_job_status_get(jobs[0], &status);
    assert_true(status.pids[0] > 0 && status.pids[1] > 0 && status.pids[2] == 0);
    assert_true(support_process_lives(status.pids[1]));
    troupe_result *result = NULL;
    for (int i = 2; i < JOBS; i++) {
        troupe_job_status_get(jobs[i], &status);
        assert_int_equal(status.state, TROUPE_JOB_QUEUED);
        assert_true(status.elapsed_s == 0);
        assert_int_equal(troupe_job_wait(jobs[i], 0, &result), TROUPE_TIMED_OUT);
        assert_null(result);
    }
    support_write_file(file, "", 0);
    for (int i = 0; i < JOBS; i++) {
        troupe_must(troupe_job_wait(jobs[i], -1, &result));
        assert_string_equal(troupe_result_error(result), "");
        troupe_result_free(&result);
        troupe_job_close(&jobs[i]);
    }
    assert_int_equal(read_trace(trace, order, JOBS), CPUS);
    assert_int_equal(order[2], 2); // In the order of submission.
    free(trace);
    free(file);
}

// B03.
static void test_a_queued_job_can_be_stopped_and_closed(void **state)
{
    (void)state;
    char *file = support_path(storage, "go on");
    wait_settings config = {.file = file};
    troupe_job *running, *queued, *closed, *killed, *last;
    troupe_result *result;
    troupe_must(troupe_submit(waits, &config, NULL, &running, .ranks = CPUS, .storage = storage));
    troupe_must(troupe_submit(waits, &config, NULL, &queued, .ranks = CPUS, .storage = storage));
    troupe_must(troupe_submit(waits, &config, NULL, &closed, .ranks = CPUS, .storage = storage));
    troupe_must(troupe_submit(waits, &config, NULL, &killed, .ranks = CPUS, .storage = storage));
    troupe_must(troupe_submit(waits, &config, NULL, &last, .storage = storage));
    assert_true(support_wait_until(job_runs, running, SUPPORT_SOON_MS));
    troupe_job_close(&closed);
    troupe_job_kill(killed, TROUPE_DEADLINE_EXCEEDED, "it was never begun");
    troupe_must(troupe_job_wait(killed, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_DEADLINE_EXCEEDED);
    assert_string_equal(troupe_result_error(result), "it was never begun");
    assert_false(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&killed);
    troupe_job_stop(queued);
    troupe_must(troupe_job_wait(queued, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    assert_true(troupe_result_stopped(result));
    assert_int_equal(troupe_result_reports(result), 0);
    assert_true(troupe_result_elapsed_s(result) == 0);
    troupe_result_free(&result);
    troupe_job_close(&queued);
    assert_true(job_runs(running));
    support_write_file(file, "", 0);
    troupe_must(troupe_job_wait(last, SUPPORT_SOON_MS, &result));
    assert_false(troupe_result_stopped(result));
    troupe_result_free(&result);
    troupe_job_close(&last);
    troupe_job_close(&running);
    free(file);
}

// A loop that does not report cannot see a stop: closing kills it after its grace.
static void test_closing_kills_a_loop_that_does_not_stop(void **state)
{
    (void)state;
    char *file = support_path(storage, "never there");
    wait_settings config = {.file = file};
    troupe_job *job;
    troupe_must(troupe_submit(waits, &config, NULL, &job, .ranks = 2, .storage = storage));
    assert_true(support_wait_until(job_runs, job, SUPPORT_SOON_MS));
    troupe_job_status status;
    troupe_job_status_get(job, &status);
    pid_t pids[2] = {status.pids[0], status.pids[1]};
    int64_t before = support_now_ms();
    troupe_job_close(&job);
    assert_true(support_now_ms() - before >= 1900);
    assert_true(support_now_ms() - before < 10000);
    assert_true(support_processes_end(pids, 2, SUPPORT_SOON_MS));
    free(file);
    troupe_job_close(&job); // Harmless.
}

// Killed it ends at once, and tells the first reason that it was given.
static void test_a_killed_job_tells_why(void **state)
{
    (void)state;
    char *file = support_path(storage, "never there either");
    wait_settings config = {.file = file};
    troupe_job *job;
    troupe_result *result;
    troupe_must(
        troupe_submit(waits, &config, NULL, &job, .ranks = 2, .storage = storage, .restarts = 3));
    assert_true(support_wait_until(job_runs, job, SUPPORT_SOON_MS));
    troupe_job_kill(job, TROUPE_DEADLINE_EXCEEDED, "it was late");
    troupe_job_kill(job, TROUPE_OK, "another reason");
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_DEADLINE_EXCEEDED);
    assert_non_null(strstr(troupe_result_error(result), "it was late"));
    assert_int_equal(troupe_result_restarts(result), 0);
    troupe_result_free(&result);
    troupe_job_kill(job, TROUPE_FAILED, NULL); // Harmless.
    troupe_job_close(&job);
    free(file);
}

static void close_in_the_end(void *user, troupe_job *job, troupe_job_state state)
{
    if (state != TROUPE_JOB_DONE)
        return;
    troupe_job_close(&job);
    atomic_store((_Atomic bool *)user, true);
}

static bool is_set(void *context)
{
    return atomic_load((_Atomic bool *)context);
}

static void test_a_follower_may_close_its_job_at_the_end(void **state)
{
    (void)state;
    line_settings config = line_plain(2);
    _Atomic bool closed = false;
    troupe_follower follower = {
        .size = sizeof follower, .state = close_in_the_end, .user = (void *)&closed};
    troupe_job *job;
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .storage = storage));
    assert_true(support_wait_until(is_set, (void *)&closed, SUPPORT_SOON_MS));
}

// It stops the run, waits for that, and closes its own handle.
typedef struct early {
    troupe_status waited;
    _Atomic int calls;
    _Atomic bool closed;
} early;

static void close_in_the_first_report(void *user, troupe_job *job, const troupe_report_event *event)
{
    early *told = (early *)user;
    troupe_result *result;
    (void)event;
    atomic_fetch_add(&told->calls, 1);
    troupe_job_stop(job);
    told->waited = troupe_job_wait(job, -1, &result);
    troupe_result_free(&result);
    troupe_job_close(&job);
    atomic_store(&told->closed, true);
}

static void count_call(void *user, troupe_job *job, troupe_job_state state)
{
    (void)job;
    if (state == TROUPE_JOB_DONE)
        atomic_fetch_add(&((early *)user)->calls, 1);
}

static void test_a_follower_may_wait_for_its_job_and_close_it(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX), next = line_plain(1);
    config.pause_ms = 1;
    early told = {0};
    troupe_follower follower = {.size = sizeof follower,
                                .report = close_in_the_first_report,
                                .state = count_call,
                                .user = &told};
    troupe_job *job;
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .ranks = CPUS, .storage = storage,
                              .keep = 1));
    assert_true(support_wait_until(is_set, (void *)&told.closed, SUPPORT_SOON_MS));
    assert_int_equal(told.waited, TROUPE_OK);
    // What the job used is free again.
    troupe_must(troupe_submit(line_fit, &next, NULL, &job, .ranks = CPUS, .storage = storage));
    troupe_result *result;
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(atomic_load(&told.calls), 1);
}

// ---- slow followers, gates

enum { MANY = 6000 }; // More than what waits in memory.

typedef struct sleeper {
    int last, sleeps;
    bool wrong;
    bool waits; // In its first call, until it is let go.
    _Atomic bool let_go;
} sleeper;

static bool is_let_go(void *context)
{
    return atomic_load(&((sleeper *)context)->let_go);
}

static void sleep_and_look(void *user, troupe_job *job, const troupe_report_event *event)
{
    sleeper *self = (sleeper *)user;
    (void)job;
    if (self->sleeps-- > 0)
        usleep(200 * 1000);
    if (self->waits && event->number == 1)
        self->wrong |= !support_wait_until(is_let_go, self, SUPPORT_SOON_MS);
    self->wrong |= event->number != self->last + 1 || event->count != 1 ||
                   strcmp(event->metrics[0].name, "i") != 0 ||
                   event->metrics[0].value != (double)event->number;
    self->last = event->number;
}

TROUPE_STRUCT(quick_settings, (int, reports));

static troupe_status reports_quickly(troupe_rank *me, const quick_settings *config)
{
    for (int i = 1; i <= config->reports; i++)
        TROUPE_TRY(troupe_report(me, {"i", (double)i}));
    return TROUPE_OK;
}
TROUPE_TRAINER(reports_quickly, quick_settings);

// D04, E07: it sleeps for 600 ms; the run does not, and the follower misses nothing.
static void test_a_slow_follower_holds_up_nothing_and_misses_nothing(void **state)
{
    (void)state;
    quick_settings config = {MANY};
    sleeper self = {.sleeps = 3};
    troupe_follower follower = {.size = sizeof follower, .report = sleep_and_look, .user = &self};
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(reports_quickly, &config, &follower, &job, .storage = storage));
    troupe_must(troupe_job_wait(job, -1, &result));
    assert_int_equal(troupe_result_reports(result), MANY);
    troupe_job_close(&job);
    assert_false(self.wrong);
    assert_int_equal(self.last, MANY);
    troupe_result_free(&result);
    // It has not returned from its first call, and the run ends.
    config.reports = 20;
    self = (sleeper){.waits = true};
    troupe_must(troupe_submit(reports_quickly, &config, &follower, &job, .storage = storage));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    atomic_store(&self.let_go, true);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_int_equal(self.last, 20);
    assert_false(self.wrong);
}

typedef struct gatekeeper {
    _Atomic int asked;
    bool wrong;
    bool waits; // Until it is let go.
    _Atomic bool let_go;
} gatekeeper;

static bool keeper_is_let_go(void *context)
{
    return atomic_load(&((gatekeeper *)context)->let_go);
}

static troupe_gate_answer look(void *user, troupe_job *job, const troupe_report_event *event,
                               int *ranks)
{
    (void)ranks;
    gatekeeper *self = (gatekeeper *)user;
    troupe_result *result;
    atomic_fetch_add(&self->asked, 1);
    self->wrong |= event->number % 10 != 5;
    self->wrong |= troupe_job_wait(job, -1, &result) != TROUPE_INVALID;
    if (self->waits)
        self->wrong |= !support_wait_until(keeper_is_let_go, self, SUPPORT_SOON_MS);
    return event->number == 45 ? TROUPE_GATE_STOP : TROUPE_GATE_GO_ON;
}

static void test_a_gate_is_asked_where_it_said_and_within_its_bound(void **state)
{
    (void)state;
    quick_settings config = {100};
    gatekeeper self = {0};
    troupe_result *result;
    troupe_gate gate = {.size = sizeof gate,
                        .first = 5,
                        .every = 10,
                        .decide = look,
                        .user = &self,
                        .timeout_ms = SUPPORT_SOON_MS};
    troupe_must(troupe_train(reports_quickly, &config, &result, .storage = storage, .gate = &gate));
    assert_int_equal(atomic_load(&self.asked), 5);
    assert_int_equal(troupe_result_reports(result), 46);
    assert_true(troupe_result_stopped(result));
    assert_false(self.wrong);
    troupe_result_free(&result);
    // It takes longer than it said, and than the run, which does not wait.
    self = (gatekeeper){.waits = true};
    gate.timeout_ms = 20;
    troupe_job *job;
    troupe_must(
        troupe_submit(reports_quickly, &config, NULL, &job, .storage = storage, .gate = &gate));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_in_range(atomic_load(&self.asked), 0, 1); // It may not have come to it.
    atomic_store(&self.let_go, true);
    assert_int_equal(troupe_result_reports(result), 100);
    troupe_result_free(&result);
    troupe_job_close(&job);
    assert_false(self.wrong);
}

static troupe_gate_answer close_it(void *user, troupe_job *job, const troupe_report_event *event,
                                   int *ranks)
{
    (void)ranks;
    (void)event;
    troupe_job_close(&job);
    atomic_store((_Atomic bool *)user, true);
    return TROUPE_GATE_GO_ON;
}

static void test_a_gate_may_close_its_job(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX), next = line_plain(1);
    config.pause_ms = 1;
    _Atomic bool closed = false;
    troupe_job *job;
    troupe_result *result;
    troupe_must(troupe_submit(
        line_fit, &config, NULL, &job, .ranks = CPUS, .storage = storage, .keep = 1,
        .gate = TROUPE_OPTIONS(troupe_gate, .decide = close_it, .user = (void *)&closed)));
    assert_true(support_wait_until(is_set, (void *)&closed, SUPPORT_SOON_MS));
    // It was stopped: what it used is free again.
    troupe_must(troupe_submit(line_fit, &next, NULL, &job, .ranks = CPUS, .storage = storage));
    troupe_must(troupe_job_wait(job, SUPPORT_SOON_MS, &result));
    assert_int_equal(troupe_result_status(result), TROUPE_OK);
    troupe_result_free(&result);
    troupe_job_close(&job);
}

// ---- from inside a method

typedef struct boss {
    int64_t runs;
} boss;

// Trains inside a method of a light actor, which must not keep the coordinator from running.
static troupe_status boss_train(boss *self, const troupe_none *none, int *reports)
{
    (void)none;
    line_settings config = line_plain(3);
    troupe_result *result;
    TROUPE_TRY(troupe_train(line_fit, &config, &result, .storage = storage));
    *reports = troupe_result_reports(result);
    troupe_result_free(&result);
    self->runs++;
    return TROUPE_OK;
}
TROUPE_ACTOR(boss, (boss_train, troupe_none, int));

static void test_methods_may_train(void **state)
{
    (void)state;
    enum { BOSSES = 6 };
    troupe_ref refs[BOSSES];
    for (int i = 0; i < BOSSES; i++) {
        boss_actor one = troupe_spawn(boss, .place = TROUPE_PLACE_HERE);
        refs[i] = troupe_call(one, boss_train);
    }
    for (int i = 0; i < BOSSES; i++) {
        int reports = 0;
        troupe_must(troupe_get(int, refs[i], &reports));
        assert_int_equal(reports, 3);
    }
}

static troupe_status boss_elsewhere(boss *self, const troupe_none *none, int *code)
{
    (void)none;
    line_settings config = line_plain(3);
    troupe_result *result;
    *code = troupe_train(line_fit, &config, &result, .storage = "/tmp");
    self->runs++;
    return result ? TROUPE_FAILED : TROUPE_OK;
}
typedef struct far_boss {
    boss inner;
} far_boss;
static troupe_status far_train(far_boss *self, const troupe_none *none, int *code)
{
    return boss_elsewhere(&self->inner, none, code);
}
TROUPE_ACTOR(far_boss, (far_train, troupe_none, int));

static void test_workers_submit_no_jobs(void **state)
{
    (void)state;
    far_boss_actor one = troupe_spawn(far_boss, .place = TROUPE_PLACE_ISOLATED);
    int code = 0;
    troupe_must(troupe_get(int, troupe_call(one, far_train), &code));
    assert_int_equal(code, TROUPE_UNSUPPORTED);
    troupe_actor_kill(one);
}

// ---- what is refused

#define REFUSED(status, word, ...)                                                                 \
    do {                                                                                           \
        troupe_job *job_ = NULL;                                                                   \
        line_settings config_ = line_plain(1);                                                     \
        assert_int_equal(troupe_submit(line_fit, &config_, NULL, &job_, __VA_ARGS__), status);     \
        assert_null(job_);                                                                         \
        if (!strstr(troupe_last_error()->text, word))                                              \
            fail_msg("'%s' is not in: %s", word, troupe_last_error()->text);                       \
    } while (0)

// A01, A12, C02.
static void test_wrong_options_are_named(void **state)
{
    (void)state;
    char *plain = support_path(storage, "plain file");
    char long_name[200];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[199] = '\0';
    support_write_file(plain, "x", 1);
    REFUSED(TROUPE_INVALID, ".ranks is -1", .storage = storage, .ranks = -1);
    REFUSED(TROUPE_INVALID, ".ranks is 5000", .storage = storage, .ranks = 5000);
    REFUSED(TROUPE_TOO_LARGE, ".ranks = 5", .storage = storage, .ranks = 5);
    REFUSED(TROUPE_TOO_LARGE, "4 in all", .storage = storage, .ranks = 3, .cpus_per_rank = 1.5);
    REFUSED(TROUPE_INVALID, ".cpus_per_rank", .storage = storage, .cpus_per_rank = -1);
    REFUSED(TROUPE_INVALID, ".cpus_per_rank", .storage = storage, .cpus_per_rank = 1e-9);
    REFUSED(TROUPE_INVALID, ".keep is -3", .storage = storage, .keep = -3);
    REFUSED(TROUPE_INVALID, ".keep_goal is 7", .storage = storage, .keep_goal = (troupe_goal)7);
    REFUSED(TROUPE_INVALID, ".keep_metric", .storage = storage, .keep_metric = "");
    REFUSED(TROUPE_INVALID, ".keep_metric", .storage = storage, .keep_metric = long_name);
    REFUSED(TROUPE_INVALID, ".name is ''", .storage = storage, .name = "");
    REFUSED(TROUPE_INVALID, ".name is '..'", .storage = storage, .name = "..");
    REFUSED(TROUPE_INVALID, ".name is 'a/b'", .storage = storage, .name = "a/b");
    REFUSED(TROUPE_INVALID, "1 to 128", .storage = storage, .name = long_name);
    REFUSED(TROUPE_INVALID, ".collective_timeout_ms is -5", .storage = storage,
            .collective_timeout_ms = -5);
    REFUSED(TROUPE_INVALID, ".storage is empty", .storage = "");
    REFUSED(TROUPE_IO, "plain file", .storage = plain);
    REFUSED(TROUPE_NOT_FOUND, ".from: the checkpoint path /nowhere does not exist",
            .storage = storage, .from = "/nowhere");
    REFUSED(TROUPE_NOT_FOUND, ".from", .storage = storage, .from = storage);
    troupe_job *job = NULL;
    assert_int_equal(troupe_submit(line_fit, NULL, NULL, &job, .storage = storage), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "'config' is NULL"));
    line_settings config = line_plain(1);
    assert_int_equal(troupe_submit_as(NULL, &config, NULL, &job, NULL), TROUPE_INVALID);
    assert_int_equal(troupe_submit_as(&troupe_trainer_line_fit, &config, NULL, NULL, NULL),
                     TROUPE_INVALID);
    troupe_trainer loopless = troupe_trainer_line_fit;
    loopless.run = NULL;
    assert_int_equal(troupe_submit_as(&loopless, &config, NULL, &job, NULL), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "'run' is missing"));
    troupe_trainer old = troupe_trainer_line_fit;
    old.abi = 0;
    assert_int_equal(troupe_trainer_register(&old), TROUPE_VERSION);
    troupe_trainer other = troupe_trainer_deaf;
    other.name = "line_fit";
    assert_int_equal(troupe_trainer_register(&other), TROUPE_EXISTS);
    assert_int_equal(troupe_trainer_register(&troupe_trainer_line_fit), TROUPE_OK);
    free(plain);
}

// B14.
static void test_storage_may_be_relative_or_left_out(void **state)
{
    (void)state;
    char *here = realpath(".", NULL), *home = support_path(storage, "home");
    const char *home_before = getenv("HOME");
    char *kept = home_before ? strdup(home_before) : NULL;
    assert_int_equal(mkdir(home, 0755), 0);
    assert_int_equal(chdir(storage), 0);
    setenv("HOME", home, 1);
    line_settings config = line_plain(1);
    troupe_result *result;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = "relative/folder"));
    char *expected = support_path(storage, "relative/folder/line_fit");
    char *real = realpath(expected, NULL);
    assert_string_equal(troupe_result_path(result), real);
    troupe_result_free(&result);
    free(expected);
    free(real);
    troupe_must(troupe_train(line_fit, &config, &result));
    expected = support_path(home, "troupe_results/line_fit");
    assert_string_equal(troupe_result_path(result), expected);
    troupe_result_free(&result);
    free(expected);
    char *usual = support_path(storage, "usual");
    setenv("TROUPE_RESULTS", usual, 1);
    troupe_must(troupe_train(line_fit, &config, &result));
    unsetenv("TROUPE_RESULTS");
    expected = support_path(usual, "line_fit");
    assert_string_equal(troupe_result_path(result), expected);
    troupe_result_free(&result);
    free(expected);
    free(usual);
    if (kept)
        setenv("HOME", kept, 1);
    assert_int_equal(chdir(here), 0);
    free(kept);
    free(here);
    free(home);
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
    line_settings config = line_plain(1);
    troupe_job *job = NULL;
    if (argc > 0 && !getenv("TROUPE_WORKER") &&
        troupe_submit(line_fit, &config, NULL, &job) != TROUPE_NOT_STARTED)
        return 1;
    fresh_start = start;
    start();
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_stop_ends_all_ranks_at_the_same_report, fresh_after),
        cmocka_unit_test_teardown(test_a_stop_after_the_last_report_changes_nothing, fresh_after),
        cmocka_unit_test_teardown(test_reports_after_the_stop_do_not_count, fresh_after),
        cmocka_unit_test_teardown(test_jobs_overlap_where_there_is_room_and_never_beyond,
                                  fresh_after),
        cmocka_unit_test_teardown(test_a_queued_job_can_be_stopped_and_closed, fresh_after),
        cmocka_unit_test_teardown(test_closing_kills_a_loop_that_does_not_stop, fresh_after),
        cmocka_unit_test_teardown(test_a_killed_job_tells_why, fresh_after),
        cmocka_unit_test_teardown(test_a_follower_may_close_its_job_at_the_end, fresh_after),
        cmocka_unit_test_teardown(test_a_follower_may_wait_for_its_job_and_close_it, fresh_after),
        cmocka_unit_test_teardown(test_a_slow_follower_holds_up_nothing_and_misses_nothing,
                                  fresh_after),
        cmocka_unit_test_teardown(test_a_gate_is_asked_where_it_said_and_within_its_bound,
                                  fresh_after),
        cmocka_unit_test_teardown(test_a_gate_may_close_its_job, fresh_after),
        cmocka_unit_test_teardown(test_methods_may_train, fresh_after),
        cmocka_unit_test_teardown(test_workers_submit_no_jobs, fresh_after),
        cmocka_unit_test_teardown(test_wrong_options_are_named, fresh_after),
        cmocka_unit_test_teardown(test_storage_may_be_relative_or_left_out, fresh_after),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return troupe_stop() || failed;
}
