// test_stop.c: the runtime is stopped while jobs run, wait or are waited for; and is started again.
// timeout: 120
#include "line.h"

#include <actors/sched/scheduler.h>
#include <pthread.h>
#include <stdatomic.h>

static char *storage;

typedef struct waiting {
    troupe_job *job;
    troupe_status status;
    troupe_result *result;
} waiting;

static void *wait_for_end(void *user)
{
    waiting *self = (waiting *)user;
    self->status = troupe_job_wait(self->job, -1, &self->result);
    return NULL;
}

static bool has_reported(void *context)
{
    troupe_job_status status;
    troupe_job_status_get((troupe_job *)context, &status);
    return status.reports > 0;
}

static void count_done(void *user, troupe_job *job, troupe_job_state state)
{
    (void)job;
    if (state == TROUPE_JOB_DONE)
        atomic_fetch_add((_Atomic int *)user, 1);
}

static void test_stop_cancels_what_runs_and_what_waits(void **state)
{
    (void)state;
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    config.pause_ms = 5;
    _Atomic int done = 0; // Of two followers, each with its thread.
    troupe_follower follower = {
        .size = sizeof follower, .state = count_done, .user = (void *)&done};
    waiting running = {0}, queued = {0};
    troupe_must(troupe_submit(line_fit, &config, &follower, &running.job, .ranks = 2,
                              .storage = storage, .keep = 1));
    troupe_must(troupe_submit(line_fit, &config, &follower, &queued.job, .ranks = 2,
                              .storage = storage, .keep = 1));
    assert_true(support_wait_until(has_reported, running.job, SUPPORT_SOON_MS));
    troupe_job_status status;
    troupe_job_status_get(running.job, &status);
    pid_t pids[2] = {status.pids[0], status.pids[1]};
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_end, &running), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_for_end, &queued), 0);

    int64_t before = support_now_ms();
    assert_int_equal(troupe_stop(), 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_true(support_now_ms() - before < 15000);
    assert_true(support_processes_end(pids, 2, 2000));
    waiting *all[] = {&running, &queued};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(all[i]->status, TROUPE_OK);
        assert_int_equal(troupe_result_status(all[i]->result), TROUPE_CANCELLED);
        assert_non_null(strstr(troupe_result_error(all[i]->result), "the runtime was stopped"));
        assert_non_null(strstr(troupe_job_path(all[i]->job), "/line_fit"));
        troupe_job_stop(all[i]->job); // Harmless.
        troupe_result_free(&all[i]->result);
        troupe_job_close(&all[i]->job);
    }
    assert_int_equal(atomic_load(&done), 2);
}

// A job outlives its runtime, and is told from those of the next one.
static void test_the_next_runtime_starts_afresh(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        troupe_must(troupe_start(0, NULL, .cpus = 2, .stop_timeout_ms = 100));
        line_settings config = line_plain(3);
        troupe_result *result;
        troupe_must(troupe_train(line_fit, &config, &result, .ranks = 2, .storage = storage));
        assert_int_equal(troupe_result_reports(result), 3);
        troupe_result_free(&result);
        troupe_job *left;
        config.epochs = LINE_EPOCHS_MAX;
        config.pause_ms = 5;
        troupe_must(troupe_submit(line_fit, &config, NULL, &left, .storage = storage, .keep = 1));
        assert_true(support_wait_until(has_reported, left, SUPPORT_SOON_MS));
        assert_int_equal(troupe_stop(), 0);
        assert_int_equal(troupe_job_wait(left, 5000, &result), TROUPE_OK);
        assert_int_equal(troupe_result_status(result), TROUPE_CANCELLED);
        troupe_result_free(&result);
        troupe_job_close(&left);
    }
}

// ---- a job that is submitted while the runtime stops

static _Atomic bool holds, lets_go;

typedef struct holder {
    int unused;
} holder;

static troupe_status holder_hold(holder *self, const troupe_none *none, troupe_none *result)
{
    (void)self;
    (void)none;
    (void)result;
    atomic_store(&holds, true);
    while (!atomic_load(&lets_go))
        usleep(1000);
    return TROUPE_OK;
}
TROUPE_ACTOR(holder, (holder_hold, troupe_none, troupe_none));

static bool is_held(void *unused)
{
    (void)unused;
    return atomic_load(&holds);
}

static bool is_stopping(void *unused)
{
    (void)unused;
    return trp_actors_stopping();
}

static bool is_done(void *count)
{
    return atomic_load((_Atomic int *)count) == 1;
}

static void *stop_it(void *unused)
{
    (void)unused;
    (void)troupe_stop();
    return NULL;
}

// Nobody waits for it: its follower is told of its end.
static void test_what_is_submitted_during_the_stop_ends_with_it(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .cpus = 2, .stop_timeout_ms = SUPPORT_SOON_MS));
    line_settings config = line_plain(1);
    _Atomic int done = 0;
    troupe_follower follower = {
        .size = sizeof follower, .state = count_done, .user = (void *)&done};
    troupe_result *result;
    troupe_job *late;
    pthread_t thread;
    troupe_must(troupe_train(line_fit, &config, &result, .storage = storage)); // By the job server.
    troupe_result_free(&result);
    holder_actor actor = troupe_spawn(holder, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_tell(actor, holder_hold));
    assert_true(support_wait_until(is_held, NULL, SUPPORT_SOON_MS));
    assert_int_equal(pthread_create(&thread, NULL, stop_it, NULL), 0);
    assert_true(support_wait_until(is_stopping, NULL, SUPPORT_SOON_MS));
    troupe_must(troupe_submit(line_fit, &config, &follower, &late, .storage = storage));
    atomic_store(&lets_go, true); // Which the stop waits for; no actor has a turn before its end.
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(support_wait_until(is_done, (void *)&done, SUPPORT_SOON_MS));
    troupe_job_close(&late);
}

// ---- a follower that has not returned when the runtime has stopped

typedef struct slow {
    _Atomic bool called, stopped, returned;
} slow;

static bool is_set(void *context)
{
    return atomic_load((_Atomic bool *)context);
}

static int threads_at_start;

static bool is_alone(void *context)
{
#if defined(__SANITIZE_THREAD__)
    enum { OTHERS = 1 }; // The sanitizer's own, from the first thread on.
#else
    enum { OTHERS = 0 };
#endif
    return support_count_threads() <= *(int *)context + OTHERS;
}

static void return_late(void *user, troupe_job *job, const troupe_report_event *event)
{
    slow *self = (slow *)user;
    (void)job;
    (void)event;
    atomic_store(&self->called, true);
    while (!atomic_load(&self->stopped))
        usleep(1000);
    usleep(300 * 1000); // So that who does not wait for it is found out.
    atomic_store(&self->returned, true);
}

static void test_closing_waits_for_a_follower_that_the_runtime_left_behind(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .cpus = 2, .stop_timeout_ms = 100));
    line_settings config = line_plain(LINE_EPOCHS_MAX);
    slow self = {0};
    troupe_follower follower = {.size = sizeof follower, .report = return_late, .user = &self};
    troupe_job *job;
    troupe_must(troupe_submit(line_fit, &config, &follower, &job, .storage = storage, .keep = 1));
    assert_true(support_wait_until(is_set, (void *)&self.called, SUPPORT_SOON_MS));
    (void)troupe_stop();
    atomic_store(&self.stopped, true);
    troupe_job_close(&job);
    assert_true(atomic_load(&self.returned));
    assert_true(support_wait_until(is_alone, &threads_at_start, SUPPORT_SOON_MS));
}

int main(int argc, char **argv)
{
    threads_at_start = support_count_threads(); // A sanitizer may have one of its own.
    troupe_must(troupe_start(argc, argv, .cpus = 2));
    storage = support_directory_make();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_cancels_what_runs_and_what_waits),
        cmocka_unit_test(test_the_next_runtime_starts_afresh),
        cmocka_unit_test(test_what_is_submitted_during_the_stop_ends_with_it),
        cmocka_unit_test(test_closing_waits_for_a_follower_that_the_runtime_left_behind),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    support_directory_remove(storage);
    return failed;
}
