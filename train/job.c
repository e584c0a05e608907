// job.c: the job's record: its holders, its state, its follower, and waiting for its end.
#include <actors/sched/scheduler.h>
#include <runtime/base/clock.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <train/coordinator.h>
#include <train/job.h>
#include <train/server.h>

troupe_job *trp_job_create(void)
{
    troupe_job *job = (troupe_job *)trp_alloc(sizeof(*job));
    if (!job)
        return NULL;
    atomic_init(&job->holds, 1);
    job->opening.journal.fd = -1;
    job->newest = job->best = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return job;
}

void trp_job_hold(troupe_job *job)
{
    atomic_fetch_add(&job->holds, 1);
}

void trp_job_release(troupe_job *job)
{
    if (atomic_fetch_sub(&job->holds, 1) > 1)
        return;
    trp_memory_commit_release(job->commit);
    trp_console_close(job->console);
    trp_derived_close(job->derived);
    troupe_result_free(&job->result);
    trp_packed_free(&job->config);
    trp_packed_free(&job->data);
    trp_follow_release(job->follow);
    trp_gate_free(job->gate);
    trp_run_close(job);
    trp_arena_clear(&job->arena);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    trp_free(job);
}

static double elapsed_s(const troupe_job *job)
{
    return job->earlier_s + (job->started_s > 0 ? trp_clock_s() - job->started_s : 0);
}

double trp_job_elapsed_s(troupe_job *job)
{
    pthread_mutex_lock(&job->lock);
    double elapsed = elapsed_s(job);
    pthread_mutex_unlock(&job->lock);
    return elapsed;
}

bool trp_job_stopping(troupe_job *job)
{
    pthread_mutex_lock(&job->lock);
    bool stop = job->stop;
    pthread_mutex_unlock(&job->lock);
    return stop;
}

void trp_job_give_up(troupe_job *job, troupe_status status, const char *why)
{
    pthread_mutex_lock(&job->lock);
    if (job->given_up == TROUPE_OK) {
        job->given_up = status;
        snprintf(job->given_up_why, sizeof(job->given_up_why), "%s", why);
    }
    pthread_mutex_unlock(&job->lock);
}

troupe_status trp_job_given_up(troupe_job *job)
{
    pthread_mutex_lock(&job->lock);
    troupe_status status = job->given_up;
    if (status != TROUPE_OK)
        (void)troupe_fail(status, "%s", job->given_up_why);
    pthread_mutex_unlock(&job->lock);
    return status;
}

void trp_job_set_control(troupe_job *job, trp_control *control)
{
    pthread_mutex_lock(&job->lock);
    job->control = control;
    if (control && job->stop)
        (void)trp_control_stop(control);
    pthread_mutex_unlock(&job->lock);
}

void trp_job_set_commit(troupe_job *job, trp_memory_commit *commit)
{
    trp_memory_commit *before, *next = trp_memory_commit_hold(commit);
    pthread_mutex_lock(&job->lock);
    before = job->commit;
    job->commit = next;
    pthread_mutex_unlock(&job->lock);
    trp_memory_commit_release(before);
}

troupe_status troupe_job_committed_as(const troupe_type *type, troupe_job *job, int rank,
                                      void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(job);
    TRP_REQUIRE(value);
    pthread_mutex_lock(&job->lock);
    trp_memory_commit *commit = trp_memory_commit_hold(job->commit);
    pthread_mutex_unlock(&job->lock);
    troupe_status status = trp_memory_commit_read(commit, job->path, rank, type, value);
    trp_memory_commit_release(commit);
    return status;
}

void trp_job_set_state(troupe_job *job, troupe_job_state state)
{
    trp_assert(state != TROUPE_JOB_DONE);
    pthread_mutex_lock(&job->lock);
    if (job->state != state && job->state != TROUPE_JOB_DONE) {
        job->state = state;
        if (state == TROUPE_JOB_RUNNING && job->started_s <= 0)
            job->started_s = trp_clock_s();
        if (state == TROUPE_JOB_RESTARTING)
            job->restarts++;
        trp_job_show_state(job);
        off_t start = job->opening.journal.size;
        trp_run_journal_state(&job->opening.journal, state);
        trp_follow_state(job->follow, state, start, job->opening.journal.size);
    }
    pthread_mutex_unlock(&job->lock);
}

void trp_job_report(troupe_job *job, int number, const troupe_report_event *event, off_t start)
{
    pthread_mutex_lock(&job->lock);
    job->reports = number;
    if (job->console && job->state != TROUPE_JOB_DONE)
        trp_console_report(job->console, number, elapsed_s(job), event ? event->metrics : NULL,
                           event ? event->count : 0);
    if (event && job->state != TROUPE_JOB_DONE)
        trp_follow_report(job->follow, event, start, job->opening.journal.size);
    pthread_mutex_unlock(&job->lock);
}

void trp_job_checkpoint(troupe_job *job, const troupe_checkpoint_event *event, off_t start)
{
    pthread_mutex_lock(&job->lock);
    if (job->state != TROUPE_JOB_DONE)
        trp_follow_checkpoint(job->follow, event, start, job->opening.journal.size);
    pthread_mutex_unlock(&job->lock);
}

bool trp_job_finish(troupe_job *job, troupe_result *result)
{
    pthread_mutex_lock(&job->lock);
    if (job->state == TROUPE_JOB_DONE) {
        pthread_mutex_unlock(&job->lock);
        troupe_result_free(&result);
        return false;
    }
    if (result) {
        result->elapsed_s = elapsed_s(job);
        result->reports = job->reports;
        result->restarts = job->restarts;
    }
    job->result = result;
    job->control = NULL;
    memset(job->pids, 0, sizeof(job->pids));
    job->state = TROUPE_JOB_DONE;
    trp_derived_end(job->derived);
    trp_job_show_end(job);
    pthread_cond_broadcast(&job->changed);
    trp_follow_end(job->follow);
    trp_gate_end(job->gate);
    pthread_mutex_unlock(&job->lock);
    return true;
}

void trp_job_cancel(troupe_job *job)
{
    troupe_result *result = trp_job_result(job);
    bool lost = trp_job_has_runtime(job) && trp_runtime_is_lost();
    if (result) {
        result->status = lost ? TROUPE_RUNTIME_LOST : TROUPE_CANCELLED;
        result->error = lost ? "the node's keeper or node process has died before the run had ended"
                             : "the runtime was stopped before the run had ended";
    }
    (void)trp_job_finish(job, result);
}

// ---- what a user asks of a job

bool trp_job_has_runtime(const troupe_job *job)
{
    return trp_process_running() && trp_process_incarnation() == job->incarnation;
}

// Waits for a change, at most until `until_ms` (negative: for ever); false: that has passed. With
// the lock.
static bool await_change(troupe_job *job, int64_t until_ms)
{
    enum { SLICE_MS = 100 }; // After which it looks whether the runtime is still there.
    int64_t now = trp_clock_ms();
    if (until_ms >= 0 && now >= until_ms)
        return false;
    int64_t wake_ms = until_ms >= 0 && until_ms < now + SLICE_MS ? until_ms : now + SLICE_MS;
    struct timespec wake = {wake_ms / 1000, wake_ms % 1000 * 1000000};
    (void)pthread_cond_timedwait(&job->changed, &job->lock, &wake);
    if (atomic_exchange(&job->missed, false)) {
        pthread_mutex_unlock(&job->lock);
        trp_coordinator_remind(job);
        pthread_mutex_lock(&job->lock);
    }
    if (job->state != TROUPE_JOB_DONE && !trp_job_has_runtime(job)) {
        pthread_mutex_unlock(&job->lock);
        trp_job_cancel(job);
        pthread_mutex_lock(&job->lock);
    }
    return true;
}

// Waits until the job is DONE. True: it is.
static bool await_done(troupe_job *job, int timeout_ms)
{
    int64_t until_ms = timeout_ms < 0 ? -1 : trp_clock_ms() + timeout_ms;
    pthread_mutex_lock(&job->lock);
    while (job->state != TROUPE_JOB_DONE && await_change(job, until_ms))
        ;
    bool done = job->state == TROUPE_JOB_DONE;
    pthread_mutex_unlock(&job->lock);
    return done;
}

troupe_status troupe_job_wait(troupe_job *job, int timeout_ms, troupe_result **result)
{
    TRP_REQUIRE(job);
    TRP_REQUIRE(result);
    if (timeout_ms < 0 && trp_gate_is_caller(job->gate))
        return troupe_fail(TROUPE_INVALID, "the gate of %s waits for the run that waits for it",
                           job->path);
    // Where this is a method, another thread runs the process's actors meanwhile.
    TROUPE_TRY(trp_scheduler_block());
    bool done = await_done(job, timeout_ms);
    trp_scheduler_unblock();
    if (!done)
        return troupe_fail(TROUPE_TIMED_OUT, "the run %s has not ended yet", job->path);
    trp_console_await(job->console);
    if (!job->result) // Set before the state was DONE, and never changed after.
        return troupe_fail(TROUPE_NO_MEMORY, "there was no memory for the result of %s", job->path);
    atomic_fetch_add(&job->result->holds, 1);
    *result = job->result;
    return TROUPE_OK;
}

void(troupe_job_status_get)(troupe_job *job, troupe_job_status *status, size_t size)
{
    if (TRP_IS_NULL(status))
        return;
    memset(status, 0, size);
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    troupe_job_status now = {
        .state = job->state,
        .reports = job->reports,
        .restarts = job->restarts,
        .elapsed_s = job->result ? job->result->elapsed_s : elapsed_s(job),
    };
    memcpy(now.pids, job->pids, sizeof(now.pids));
    pthread_mutex_unlock(&job->lock);
    trp_output_give(status, size, &now, sizeof now);
}

const char *troupe_job_path(const troupe_job *job)
{
    if (TRP_IS_NULL(job))
        return "";
    return job->path;
}

void troupe_job_stop(troupe_job *job)
{
    if (TRP_IS_NULL(job))
        return;
    pthread_mutex_lock(&job->lock);
    bool open = job->state != TROUPE_JOB_DONE;
    job->stop = true;
    // The group's memory has gone with the runtime, also where its coordinator could not say so.
    if (job->control && trp_job_has_runtime(job))
        (void)trp_control_stop(job->control);
    pthread_mutex_unlock(&job->lock);
    if (open) // Where it waits in the queue still. Each time: the word may have been lost.
        trp_server_stop_job(job);
}

void troupe_job_kill(troupe_job *job, troupe_status status, const char *why)
{
    if (TRP_IS_NULL(job))
        return;
    trp_job_give_up(job, status == TROUPE_OK ? TROUPE_CANCELLED : status, why == NULL ? "" : why);
    troupe_job_stop(job); // Where it waits in the queue still, or is between two groups.
    trp_coordinator_kill_group(job);
}

// Gives the job up from inside its own follower, which is not called again.
static bool close_in_own_call(troupe_job *job)
{
    bool own = trp_follow_is_caller(job->follow) || trp_gate_is_caller(job->gate);
    if (own) {
        trp_follow_abandon(job->follow);
        trp_gate_end(job->gate);
        troupe_job_stop(job);
        trp_job_release(job);
    }
    return own;
}

void troupe_job_close(troupe_job **held)
{
    enum { GRACE_MS = 2000 };
    if (!held || !*held)
        return;
    troupe_job *job = *held;
    *held = NULL;
    if (close_in_own_call(job))
        return;
    // Another thread runs the process's actors meanwhile. Where too many wait already, this one
    // waits all the same, since a job cannot be left half closed.
    bool blocked = trp_scheduler_block() == TROUPE_OK;
    troupe_job_stop(job);
    if (!await_done(job, GRACE_MS)) {
        trp_job_give_up(job, TROUPE_CANCELLED, "the job was closed while it ran");
        trp_coordinator_kill_group(job);
        (void)await_done(job, -1);
    }
    trp_follow_await(job->follow);
    trp_gate_await(job->gate);
    trp_console_await(job->console);
    if (blocked)
        trp_scheduler_unblock();
    trp_job_release(job);
}
