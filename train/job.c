// job.c: a job on the coordinator's side: its holders, its state, what it is asked for and tells.
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdarg.h>
#include <stdio.h>
#include <train/capability.h>
#include <train/checkpoint.h>
#include <train/coordinator.h>
#include <train/gate.h>
#include <train/job.h>
#include <train/server.h>

trp_job *trp_job_create(void)
{
    trp_job *job = (trp_job *)trp_alloc(sizeof(*job));
    if (!job)
        return NULL;
    atomic_init(&job->holds, 1);
    job->opening.journal = trp_run_journal_none();
    job->newest = -1;
    pthread_mutex_init(&job->lock, NULL);
    return job;
}

void trp_job_hold(trp_job *job)
{
    atomic_fetch_add(&job->holds, 1);
}

void trp_job_release(trp_job *job)
{
    if (atomic_fetch_sub(&job->holds, 1) > 1)
        return;
    trp_packed_free(&job->config);
    trp_packed_free(&job->data);
    trp_live_close(&job->live);
    trp_derived_close(job->derived);
    trp_run_close(job);
    trp_arena_clear(&job->arena);
    pthread_mutex_destroy(&job->lock);
    if (job->port.is)
        job->port.is->let_go(job->port.user);
    trp_free(job);
}

bool trp_job_has_runtime(const trp_job *job)
{
    return trp_process_running() && trp_process_incarnation() == job->incarnation;
}

static double elapsed_s(const trp_job *job)
{
    return job->earlier_s + (job->started_s > 0 ? trp_clock_s() - job->started_s : 0);
}

double trp_job_elapsed_s(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    double elapsed = elapsed_s(job);
    pthread_mutex_unlock(&job->lock);
    return elapsed;
}

// ---- what it is asked for

bool trp_job_stopping(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    bool stop = job->stop;
    pthread_mutex_unlock(&job->lock);
    return stop;
}

// With the lock.
static bool leaves(const trp_job *job)
{
    return job->pause || job->ranks != job->asked;
}

bool trp_job_leaves(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    bool leaving = leaves(job);
    pthread_mutex_unlock(&job->lock);
    return leaving;
}

bool trp_job_paused(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    bool pause = job->pause;
    pthread_mutex_unlock(&job->lock);
    return pause;
}

int trp_job_ranks(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    int ranks = job->ranks;
    pthread_mutex_unlock(&job->lock);
    return ranks;
}

int trp_job_ask_ranks(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    job->asked = job->ranks;
    int ranks = job->most > 0 && job->most < job->ranks ? job->most : job->ranks;
    job->world = ranks;
    pthread_mutex_unlock(&job->lock);
    return ranks;
}

void trp_job_limit_ranks(trp_job *job, int most)
{
    pthread_mutex_lock(&job->lock);
    job->most = most;
    pthread_mutex_unlock(&job->lock);
}

void trp_job_set_world(trp_job *job, int ranks)
{
    pthread_mutex_lock(&job->lock);
    job->world = ranks;
    pthread_mutex_unlock(&job->lock);
}

// That so many ranks can go on from the newest checkpoint.
static troupe_status match_newest(trp_job *job, int ranks)
{
    trp_path folder;
    pthread_mutex_lock(&job->lock);
    int64_t newest = job->newest;
    int only = job->only_world;
    pthread_mutex_unlock(&job->lock);
    if (newest < 0)
        return TROUPE_OK;
    TROUPE_TRY(trp_checkpoint_folder(job->path, newest, &folder));
    return trp_capability_match(only, folder.text, ranks);
}

troupe_status trp_job_check_ranks(trp_job *job, int ranks)
{
    trp_gang gang;
    troupe_train_options options = job->options;
    options.ranks = ranks;
    TROUPE_TRY(trp_train_options_gang(&options, &gang));
    return match_newest(job, ranks);
}

troupe_status trp_job_check_more(trp_job *job, int ranks)
{
    troupe_train_options options = job->options;
    options.ranks = ranks;
    TROUPE_TRY(trp_gang_check_parts(&options));
    return match_newest(job, ranks);
}

bool trp_job_take_back_ranks(trp_job *job, int ranks, int before)
{
    pthread_mutex_lock(&job->lock);
    bool same = job->ranks == ranks;
    if (same)
        job->ranks = before;
    pthread_mutex_unlock(&job->lock);
    return same;
}

void trp_job_rest(trp_job *job)
{
    atomic_store(&job->rests, true);
    trp_server_look(job);
}

bool trp_job_rests(trp_job *job)
{
    return atomic_load(&job->rests);
}

static void give_up(trp_job *job, troupe_status status, const char *why)
{
    pthread_mutex_lock(&job->lock);
    if (job->given_up == TROUPE_OK) {
        job->given_up = status;
        snprintf(job->given_up_why, sizeof(job->given_up_why), "%s", why);
    }
    pthread_mutex_unlock(&job->lock);
}

troupe_status trp_job_given_up(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    troupe_status status = job->given_up;
    if (status != TROUPE_OK)
        (void)troupe_fail(status, "%s", job->given_up_why);
    pthread_mutex_unlock(&job->lock);
    return status;
}

// A trainer that saves when it is due has one report for it after the next one.
static int stops_later(const trp_job *job)
{
    return trp_capability_saves_when_due(job->trainer) ? 1 : 0;
}

void trp_job_set_control(trp_job *job, trp_control *control)
{
    pthread_mutex_lock(&job->lock);
    job->control = control;
    job->live.running = false; // Until its ranks have been given values.
    if (control && (job->stop || leaves(job)))
        (void)trp_control_stop(control, stops_later(job));
    pthread_mutex_unlock(&job->lock);
}

static void stop(trp_job *job, int later)
{
    pthread_mutex_lock(&job->lock);
    bool open = job->state != TROUPE_JOB_DONE;
    job->stop = true;
    // The group's memory has gone with the runtime, also where its coordinator could not say so.
    if (job->control && trp_job_has_runtime(job))
        (void)trp_control_stop(job->control, later);
    pthread_mutex_unlock(&job->lock);
    if (open) // Where it waits in the queue still. Each time: the word may have been lost.
        trp_server_look(job);
    if (open && atomic_load(&job->rests))
        trp_coordinator_remind(job);
}

void trp_job_stop(trp_job *job)
{
    stop(job, stops_later(job));
}

void trp_job_kill(trp_job *job, troupe_status status, const char *why)
{
    give_up(job, status, why);
    trp_job_stop(job); // Where it waits in the queue still, or is between two groups.
    trp_coordinator_kill_group(job);
}

// Has the group leave, if it has to.
static void tell_group(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    if (leaves(job) && job->control && trp_job_has_runtime(job))
        (void)trp_control_stop(job->control, stops_later(job));
    pthread_mutex_unlock(&job->lock);
}

// Whether it is to be another group, or none. They are read with the lock: who has read older ones
// must not take them after somebody who has read newer ones.
static bool take_wishes(trp_job *job, trp_wishes *wishes)
{
    pthread_mutex_lock(&job->lock);
    job->port.is->wishes(job->port.user, wishes);
    bool changed = job->pause != wishes->pause || job->resizes != wishes->resizes;
    job->pause = wishes->pause;
    if (job->resizes != wishes->resizes) {
        job->ranks = wishes->ranks;
        job->most = 0;
    }
    job->resizes = wishes->resizes;
    pthread_mutex_unlock(&job->lock);
    return changed;
}

void trp_job_look(trp_job *job)
{
    trp_wishes wishes = {0};
    bool changed = take_wishes(job, &wishes);
    if (wishes.kill != TROUPE_OK)
        trp_job_kill(job, (troupe_status)wishes.kill, wishes.why ? wishes.why : "");
    else if (wishes.stop_next)
        stop(job, 0);
    else if (wishes.stop)
        trp_job_stop(job);
    if (changed) {
        tell_group(job);
        trp_server_look(job); // Where it waits.
    }
}

void trp_job_make_good(trp_job *job)
{
    if (!atomic_exchange(&job->missed, false))
        return;
    trp_server_look(job); // Of one that waits, which may have no coordinator yet.
    trp_coordinator_remind(job);
}

// ---- what it tells

void trp_job_set_state(trp_job *job, troupe_job_state state)
{
    trp_assert(state != TROUPE_JOB_DONE);
    pthread_mutex_lock(&job->lock);
    if (job->state != state && job->state != TROUPE_JOB_DONE) {
        job->state = state;
        if (state == TROUPE_JOB_PAUSED || state == TROUPE_JOB_QUEUED) { // Which costs no time.
            job->earlier_s = elapsed_s(job);
            job->started_s = 0;
        }
        if (state == TROUPE_JOB_RUNNING && job->started_s <= 0)
            job->started_s = trp_clock_s();
        if (state == TROUPE_JOB_RESTARTING)
            job->restarts++;
        trp_lines lines = trp_run_journal_state(&job->opening.journal, state);
        trp_state_change what = {
            .state = (int)state,
            .restarts = job->restarts,
            .ranks = job->world,
            .elapsed_s = elapsed_s(job),
            .goes_on = job->started_s > 0,
        };
        job->port.is->progress(job->port.user, &what, lines);
    }
    pthread_mutex_unlock(&job->lock);
}

void trp_job_say(trp_job *job, trp_level level, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    job->port.is->say(job->port.user, level, text);
}

void trp_job_say_group(trp_job *job, const trp_console_rank *ranks, int count)
{
    job->port.is->group(job->port.user, ranks, count);
}

void trp_job_report(trp_job *job, int number, const troupe_report_event *event, trp_lines lines)
{
    pthread_mutex_lock(&job->lock);
    job->reports = number;
    if (job->state != TROUPE_JOB_DONE)
        job->port.is->report(job->port.user, number, elapsed_s(job), event, lines);
    pthread_mutex_unlock(&job->lock);
}

void trp_job_checkpoint(trp_job *job, const troupe_checkpoint_event *event, trp_lines lines)
{
    pthread_mutex_lock(&job->lock);
    if (job->state != TROUPE_JOB_DONE)
        job->port.is->checkpoint(job->port.user, event, lines);
    pthread_mutex_unlock(&job->lock);
}

void trp_job_set_newest(trp_job *job, int64_t newest, int only_world)
{
    pthread_mutex_lock(&job->lock);
    job->newest = newest;
    job->only_world = only_world;
    pthread_mutex_unlock(&job->lock);
}

void trp_job_set_checkpoints(trp_job *job, int64_t newest, int64_t best)
{
    job->port.is->checkpoints(job->port.user, newest, best);
}

void trp_job_set_commit(trp_job *job, trp_memory_commit *commit)
{
    job->port.is->committed(job->port.user, commit);
}

void trp_job_ask(trp_job *job, const troupe_report_event *event)
{
    if (!trp_gate_names(&job->spec.gate, event->number))
        return;
    job->port.is->ask(job->port.user, event, job->spec.gate.timeout_ms);
    trp_job_look(job);
}

// ---- its end

troupe_result *trp_job_result(trp_job *job)
{
    return trp_result_make(job->path);
}

bool trp_job_finish(trp_job *job, troupe_result *result)
{
    trp_metric metrics[TRP_METRICS_MAX];
    trp_outcome outcome;
    pthread_mutex_lock(&job->lock);
    bool open = job->state != TROUPE_JOB_DONE;
    if (open) {
        double now_s = trp_clock_s();
        job->control = NULL;
        job->state = TROUPE_JOB_DONE;
        trp_derived_end(job->derived);
        if (result) {
            result->elapsed_s = elapsed_s(job);
            result->reports = job->reports;
            result->restarts = job->restarts;
            outcome = trp_result_outcome(result, metrics);
            outcome.loop_s = job->started_s > 0 ? now_s - job->started_s : 0;
            outcome.written_s = job->ending_s > 0 ? now_s - job->ending_s : 0;
        }
        job->port.is->done(job->port.user, result ? &outcome : NULL);
    }
    pthread_mutex_unlock(&job->lock);
    troupe_result_free(&result);
    return open;
}

void trp_job_cancel(trp_job *job)
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
