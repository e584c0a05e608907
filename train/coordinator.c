// coordinator.c: the actor that runs one job: its messages, its beginning and its end (see run.h).
#include <actors/actor/lifecycle.h>
#include <actors/ref/ref.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <train/coordinator.h>
#include <train/engine_shm.h>
#include <train/job_live.h>
#include <train/run.h>
#include <troupe/async.h>
#include <troupe/life.h>

// Has this coordinator told, after that time. False: it will not be.
bool trp_run_remind_after(uint32_t ms, int attempt, int stage)
{
    return troupe_timer_after(trp_coordinator_overdue, ms, attempt, stage).id_ != 0;
}

bool trp_run_monitor(trp_worker_actor worker)
{
    return troupe_monitor_start(worker, trp_coordinator_gone) != 0;
}

static void tell_committed(trp_committer *committer)
{
    if (!trp_life_post_to(committer->coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_committed.index, &(troupe_none){0}))
        atomic_store(&committer->job->missed, true); // Or it has ended, and waits for the thread.
}

// ---- messages

troupe_status trp_coordinator_ended(trp_coordinator *self, const trp_rank_event *event,
                                    troupe_none *none)
{
    (void)none;
    trp_run *run = self->run;
    if (!run->finished && event->attempt == run->attempt && run->ranks[event->rank].end.id)
        trp_attempt_take_end(run, event->rank);
    return TROUPE_OK;
}

// Ranks may compute on all CPUs, while followers and gates wait for reports; but those that come
// often are left to gather.
static void be_prompt(trp_run *run)
{
    enum { OFTEN_NS = 200000 };
    int64_t now_ns = trp_clock_ns();
    trp_thread_be_prompt(now_ns - run->reported_ns > OFTEN_NS);
    run->reported_ns = now_ns;
}

static troupe_status take_report(trp_run *run, const trp_report *report, trp_object state)
{
    if (run->finished || report->attempt != run->attempt || run->pending == 0)
        return troupe_fail(TROUPE_PEER_LOST, "troupe_report: the group has ended");
    const trp_open_report *whole;
    TROUPE_TRY(trp_reports_take(&run->reports, report, &whole));
    if (state != 0 || report->torn)
        trp_memory_commits_take(&run->memory, run->reports.world, report->rank, report->number,
                                state);
    if (!whole)
        return TROUPE_OK;
    be_prompt(run);
    trp_record_add(&run->record, run->attempt, whole);
    if (trp_memory_commits_whole(&run->memory, whole->number))
        trp_job_set_commit(run->job, run->memory.last);
    trp_buffer config = {0}; // That it was made with: newer values may count from now on.
    if (whole->pending > 0)
        trp_job_live_config(run->job, &config);
    trp_job_live_whole(run->job, whole->number);
    troupe_status status = trp_commits_whole(&run->commits, whole, &config);
    trp_buffer_free(&config);
    TROUPE_TRY(status);
    trp_attempt_hand_commits(run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_report(trp_coordinator *self, const trp_report *report,
                                     troupe_none *none)
{
    (void)none;
    return take_report(self->run, report, 0);
}

troupe_status trp_coordinator_report_state(trp_coordinator *self, const trp_stated_report *report,
                                           troupe_none *none)
{
    (void)none;
    trp_object state = trp_ref_object(report->state);
    return state != 0 ? take_report(self->run, &report->report, state)
                      : troupe_fail(TROUPE_MALFORMED, "a report's state is no object");
}

troupe_status trp_coordinator_written(trp_coordinator *self, const trp_written *written, int *taken)
{
    trp_run *run = self->run;
    *taken = 1;
    if (run->finished || written->attempt != run->attempt || run->pending == 0)
        return TROUPE_OK;          // Nobody waits for it any more.
    if (run->committer.busy > 0) { // Else checkpoints would pile up behind a slow disk.
        *taken = 0;
        return TROUPE_OK;
    }
    TROUPE_TRY(trp_commits_written(&run->commits, written));
    trp_attempt_hand_commits(run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_committed(trp_coordinator *self, const troupe_none *nothing,
                                        troupe_none *none)
{
    (void)nothing;
    (void)none;
    if (!self->run->finished)
        trp_attempt_take_commits(self->run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_look(trp_coordinator *self, const troupe_none *nothing,
                                   troupe_none *none)
{
    (void)nothing;
    (void)none;
    trp_run *run = self->run;
    trp_attempt_kill_again(run);
    trp_run_look(run);
    trp_run_take_stage(run);
    int attempt = run->attempt; // The next one has nothing to do with it.
    for (int rank = 0; rank < run->world; rank++) {
        bool ready = false;
        if (run->finished || run->attempt != attempt)
            break;
        if (run->ranks[rank].end.id &&
            troupe_wait(&run->ranks[rank].end, 1, 1, 0, &ready, NULL) == TROUPE_OK && ready)
            trp_attempt_take_end(run, rank);
    }
    if (!run->finished)
        trp_attempt_take_commits(run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_kill(trp_coordinator *self, const troupe_none *nothing,
                                   troupe_none *none)
{
    (void)nothing;
    (void)none;
    trp_run *run = self->run;
    if (run->finished)
        return TROUPE_OK;
    if (run->stage && trp_job_given_up(run->job) != TROUPE_OK)
        trp_run_kill_stage(run);
    if (run->pending > 0) {
        (void)trp_control_end(run->control, run->engine, TRP_END_OVER, 0);
        trp_attempt_kill_ranks(run);
    }
    return TROUPE_OK;
}

// With what waits for processes to end.
static void go_on(trp_run *run)
{
    if (run->next == TRP_NEXT_ATTEMPT)
        trp_attempt_start(run);
    else if (run->next == TRP_NEXT_REST)
        trp_run_rest_on(run);
    else if (run->next == TRP_NEXT_END)
        trp_run_let_go(run);
}

troupe_status trp_coordinator_overdue(trp_coordinator *self, const trp_overdue *what,
                                      troupe_none *none)
{
    (void)none;
    trp_run *run = self->run;
    if (what->stage == TRP_ENDED_PROCESSES) {
        run->looks = false;
        go_on(run);
        return TROUPE_OK;
    }
    trp_run_take_stage(run);
    if (run->finished || what->attempt != run->attempt)
        return TROUPE_OK;
    if (what->stage == 0)
        trp_attempt_kill_loops(run);
    else if (run->stage && what->stage == run->stage_number)
        trp_run_give_up_stage(run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_gone(trp_coordinator *self, const troupe_down *down,
                                   troupe_none *none)
{
    (void)none;
    trp_attempt_note_end(self->run, down->actor);
    go_on(self->run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_begin(trp_coordinator *self, const troupe_none *nothing,
                                    troupe_none *none)
{
    (void)nothing;
    (void)none;
    trp_run *run = self->run;
    run->self.address = troupe_self();
    pthread_mutex_lock(&run->job->lock);
    run->job->coordinator = run->self.address;
    pthread_mutex_unlock(&run->job->lock);
    troupe_status status = trp_record_open(&run->record, run->job);
    if (trp_run_finish_given_up(run)) // Before there was a coordinator to be told.
        return TROUPE_OK;
    if (status == TROUPE_OK)
        status = trp_run_begin_stage(run, TRP_STAGE_SETUP);
    if (!run->stage)
        trp_run_setup_over(run, status);
    return TROUPE_OK;
}

troupe_status trp_coordinator_init(trp_coordinator *self, const uint64_t *address)
{
    trp_job *job = (trp_job *)(uintptr_t)*address;
    self->run = (trp_run *)trp_alloc(sizeof(*self->run));
    if (!self->run)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the coordinator of %s", job->path);
    int attempts = job->opening.history.attempts;
    *self->run = (trp_run){.job = job,
                           .engine = &trp_engine_shm,
                           .record = {.job = job},
                           .first_attempt = attempts,
                           .attempt = attempts};
    trp_committer_init(&self->run->committer, job);
    self->run->committer.tell = tell_committed;
    self->run->logs = trp_rank_logs_open(job->folder, job->port.is->logs(job->port.user));
    trp_job_hold(job);
    return TROUPE_OK;
}

void trp_coordinator_deinit(trp_coordinator *self)
{
    trp_run *run = self->run;
    trp_committer_end(&run->committer);
    trp_commits_clear(&run->commits);
    if (!run->finished) { // The runtime stops.
        // Later than that where a follower has held it up: then all this has gone already.
        bool there = trp_job_has_runtime(run->job);
        if (there && run->control)
            (void)trp_control_end(run->control, run->engine, TRP_END_OVER, 0);
        for (int rank = 0; there && rank < run->room; rank++)
            troupe_ref_drop(run->ranks[rank].end);
        if (there)
            trp_attempt_leave_group(run);
        trp_run_close(run->job);
        trp_job_cancel(run->job);
    }
    for (int rank = 0; rank < run->room; rank++)
        trp_rank_watch_drop(run->ranks[rank].told);
    trp_stage_leave(&run->stage);
    trp_data_drop(&run->data);
    trp_reports_free(&run->reports);
    trp_memory_commits_clear(&run->memory);
    trp_record_close(&run->record);
    trp_rank_logs_close(run->logs);
    trp_job_release(run->job);
    trp_free(run->ranks);
    trp_free(run);
}

bool trp_coordinator_start(trp_job *job)
{
    uint64_t address = (uint64_t)(uintptr_t)job;
    trp_coordinator_actor made =
        troupe_spawn_from(trp_coordinator, &address, .place = TROUPE_PLACE_HERE);
    troupe_status status = troupe_actor_status(made.address);
    if (status == TROUPE_OK)
        status = troupe_tell(made, trp_coordinator_begin);
    if (status == TROUPE_OK)
        return true;
    troupe_result *result = trp_job_result(job);
    if (result) {
        result->status = status;
        result->error = "the run could not be started: its coordinator could not be made";
    }
    trp_run_close(job);
    (void)trp_job_finish(job, result);
    if (made.address.id)
        (void)troupe_actor_stop(made); // It was made, and could not be told to begin.
    return false;
}

static troupe_actor coordinator_of(trp_job *job)
{
    pthread_mutex_lock(&job->lock);
    troupe_actor coordinator = job->coordinator;
    pthread_mutex_unlock(&job->lock);
    return coordinator;
}

void trp_coordinator_remind(trp_job *job)
{
    troupe_actor coordinator = coordinator_of(job);
    if (coordinator.id &&
        !trp_life_post_to(coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_look.index, &(troupe_none){0}))
        atomic_store(&job->missed, true);
}

void trp_coordinator_kill_group(trp_job *job)
{
    troupe_actor coordinator = coordinator_of(job);
    if (coordinator.id &&
        !trp_life_post_to(coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_kill.index, &(troupe_none){0}))
        trp_log(TRP_INFO, "%s cannot be ended at once: it has just ended, or there is no memory",
                job->path);
}
