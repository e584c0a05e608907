// coordinator.c: the life of a run, attempt by attempt.
//
//     start_attempt -> ranks run -> each rank's end -> (all ended) attempt_over -> start_attempt
//                         |                                                     -> finish
//                         +- a failure -> fail_attempt: the group is ended, the other ranks are
//                         killed
//
// A trainer's stages lie between: setup before the first start_attempt, on_start before the loops
// of an attempt, on_shutdown before attempt_over. Each runs on a thread of its own and ends as a
// message.
//
// The invariant: while `pending` > 0 ranks of this attempt may run, and nothing of the next one is
// begun; so a job never has more processes than it has reserved CPUs for.
#include <actors/actor/lifecycle.h>
#include <actors/ref/ref.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/store.h>
#include <stdio.h>
#include <string.h>
#include <train/capability.h>
#include <train/coordinator.h>
#include <train/rank_log.h>
#include <train/record.h>
#include <train/server.h>
#include <train/stage.h>
#include <train/start.h>
#include <train/worker.h>
#include <troupe/async.h>

// What says that a rank has ended; it may outlive the run.
typedef struct watch {
    troupe_job *job; // Held.
    trp_coordinator_actor coordinator;
    trp_rank_event event;
} watch;

typedef struct rank_state {
    trp_worker_actor worker;
    trp_place place;
    troupe_ref end; // id 0: over.
    watch *told;    // Who will say that it is over.
    int pid;
    bool killed; // By this coordinator.
} rank_state;

// Why an attempt failed. A rank that only lost its peers does not count where one with a reason of
// its own is known.
typedef struct cause {
    bool known, own;
    int rank;
    troupe_status status;
    char text[700];
} cause;

typedef struct trp_run {
    troupe_job *job;
    trp_coordinator_actor self;
    trp_record record;
    trp_reports reports;
    trp_commits commits; // Of this attempt, not handed over yet.
    trp_committer committer;
    trp_object region_object;
    trp_group_region *region; // NULL: no group.
    rank_state *ranks;
    trp_rank_logs *logs;
    int first_attempt, attempt, pending;
    bool closing;     // All ranks have ended, and commits have not.
    trp_stage *stage; // That runs; NULL: none.
    trp_stage_kind stage_kind;
    int stage_number; // Of the last one.
    int first_report; // Of this attempt,
    trp_path origin;  // and what it goes on from; "": nothing.
    bool ranks_leave; // The ranks of this attempt are leaving their loops after a failure.
    bool shuts_down;  // on_shutdown of this attempt is to be called.
    bool begun;       // A group has started.
    bool stopped;     // A rank has seen the stop.
    bool given_up;    // The job was, by its user.
    bool finished;
    cause cause;
} trp_run;

static void start_attempt(trp_run *run);
static void group_started(trp_run *run, troupe_status status);

// ---- stages

enum {
    STAGE_END_MS = 5000, // For on_shutdown, and for on_start once the run is ended by force.
    LEAVE_MS = 1000,     // For the loops to end after a failure, before on_shutdown.
};

// Has this coordinator told, after that time. False: it will not be.
static bool remind_after(uint32_t ms, int attempt, int stage)
{
    return troupe_timer_after(trp_coordinator_overdue, ms, attempt, stage).id_ != 0;
}

static bool rank_is_there(const rank_state *state)
{
    char reason[112];
    troupe_actor worker = state->worker.address;
    return worker.id && !state->killed &&
           trp_process_alive(worker.process, worker.incarnation, reason);
}

// Begins a stage, if the trainer has it: then run->stage is it.
static troupe_status begin_stage(trp_run *run, trp_stage_kind kind)
{
    troupe_job *job = run->job;
    if (!trp_stage_is_there(job->trainer, kind))
        return TROUPE_OK;
    size_t world = (size_t)job->options.ranks;
    trp_stage_rank *ranks = (trp_stage_rank *)trp_alloc(world * sizeof *ranks);
    for (size_t rank = 0; ranks && kind != TRP_STAGE_SETUP && rank < world; rank++)
        if (rank_is_there(&run->ranks[rank]))
            ranks[rank] = (trp_stage_rank){run->ranks[rank].worker, run->ranks[rank].place};
    troupe_status given_up = trp_job_given_up(job); // Which goes before what else ends it.
    trp_stage_plan plan = {
        .job = job,
        .coordinator = run->self,
        .kind = kind,
        .attempt = run->attempt,
        .ended = given_up == TROUPE_OK && run->cause.known ? run->cause.status : given_up,
        .ranks = ranks,
        .until_ms = kind == TRP_STAGE_SHUTDOWN ? trp_clock_ms() + STAGE_END_MS : 0,
    };
    troupe_status status =
        ranks ? trp_stage_begin(&plan, &run->stage)
              : troupe_fail(TROUPE_NO_MEMORY, "no memory for a stage of '%s'", job->trainer->name);
    trp_free(ranks);
    TROUPE_TRY(status);
    run->stage_kind = kind;
    run->stage_number++;
    if (kind == TRP_STAGE_SHUTDOWN)
        (void)remind_after(STAGE_END_MS, run->attempt, run->stage_number);
    return TROUPE_OK;
}

// ---- the end of a run

// The call that goes on with the run.
static void add_way_on(const trp_run *run, trp_buffer *text)
{
    const char *path = run->job->path, *name = strrchr(path, '/');
    trp_buffer_printf(text,
                      "; to go on with it: troupe_train(%s, ..., .storage = \"%.*s\", .name = "
                      "\"%s\", .open = TROUPE_OPEN_RESUME)",
                      run->job->trainer->name, (int)(name - path), path, name + 1);
}

// Puts what led to the end, where the run is and how it could go on into one text.
static const char *describe(const trp_run *run, troupe_result *result)
{
    const troupe_train_options *options = &run->job->options;
    trp_buffer text = {0};
    int restarts = run->attempt - run->first_attempt;
    trp_buffer_printf(&text, "%s; the run is at %s", run->cause.text, run->job->path);
    bool hint = run->begun && !run->given_up && run->cause.status != TROUPE_RUNTIME_LOST;
    if (hint && options->restarts == 0)
        trp_buffer_printf(&text, "; it was not restarted: .restarts = n in the options allows n "
                                 "restarts from the last checkpoint, TROUPE_FOREVER any number");
    else if (hint && restarts > 0)
        trp_buffer_printf(&text, "; its %d restart%s used up", restarts,
                          restarts == 1 ? " is" : "s are");
    if (!run->given_up)
        add_way_on(run, &text);
    trp_buffer_append(&text, "", 1);
    const char *copy = text.failed ? NULL : trp_job_result_text(result, (const char *)text.data);
    trp_buffer_free(&text);
    return copy ? copy : "the run failed, and there is no memory for the reason";
}

static void finish(trp_run *run, troupe_status status)
{
    run->job->ending_s = trp_clock_s();
    troupe_result *result = trp_job_result(run->job);
    if (result && trp_record_fill(&run->record, result) != TROUPE_OK)
        troupe_result_free(&result);
    if (result) {
        result->status = status;
        result->stopped = run->stopped;
        if (status != TROUPE_OK)
            result->error = describe(run, result);
    }
    run->finished = true;
    trp_record_end(&run->record, status, result);
    // What a rank saved and did not report any more is of no use to anyone.
    if (trp_checkpoint_clean(run->job->path) != TROUPE_OK)
        trp_log(TRP_WARN, "not everything that was left incomplete could be removed: %s",
                troupe_last_error()->text);
    trp_run_close(run->job);
    (void)trp_job_finish(run->job, result);
    trp_server_job_done(run->job);
    (void)troupe_actor_end(run->self);
}

static void note_cause(trp_run *run, int rank, troupe_status status, bool own, const char *text)
{
    if (run->cause.known && (run->cause.own || !own))
        return;
    run->cause = (cause){.known = true, .own = own, .rank = rank, .status = status};
    snprintf(run->cause.text, sizeof(run->cause.text), "%s", text);
}

// Ends the run for a reason that lies outside its ranks, with the thread's last error.
static void fail_run(trp_run *run, troupe_status status)
{
    note_cause(run, -1, status, true, troupe_last_error()->text);
    finish(run, run->cause.status);
}

// ---- failures

// Each is alone in its process. That is what is ended, since an actor could not take note of its
// end where its process is stopped.
static void kill_rank(rank_state *state)
{
    troupe_actor worker = state->worker.address;
    // Where the word is lost, who asks again has it sent again.
    state->killed =
        state->killed || worker.id == 0 ||
        trp_node_end(worker.process, worker.incarnation, "was ended with its group") == TROUPE_OK;
}

static void kill_ranks(trp_run *run)
{
    for (int rank = 0; rank < run->job->options.ranks; rank++)
        kill_rank(&run->ranks[rank]);
}

// Those that have left their loops stay for on_shutdown.
static void kill_loops(trp_run *run)
{
    for (int rank = 0; rank < run->job->options.ranks; rank++)
        if (run->ranks[rank].end.id != 0)
            kill_rank(&run->ranks[rank]);
}

// After a failure. Where on_shutdown is to find them, the other ranks have some time to leave their
// loops, which the end of the group tells them.
static void end_group(trp_run *run, trp_group_reason reason, int rank)
{
    (void)trp_group_end(run->region, reason, rank);
    bool may_leave = run->shuts_down && !trp_runtime_is_lost();
    if (may_leave && !run->ranks_leave)
        run->ranks_leave = remind_after(LEAVE_MS, run->attempt, 0);
    if (!may_leave || !run->ranks_leave)
        kill_ranks(run);
}

// Whether a rank that had left its loop for a reason of its own explains that others lost it: its
// word lies in the group's memory, also if it was killed before it could send it.
static void look_for_own_cause(trp_run *run)
{
    for (int rank = 0; rank < run->job->options.ranks; rank++) {
        troupe_status status;
        const char *text;
        char sentence[600];
        if (!trp_group_left(run->region, rank, &status, &text) || status == TROUPE_OK ||
            status == TROUPE_STOPPED || status == TROUPE_PEER_LOST)
            continue;
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank,
                 run->ranks[rank].pid, text);
        note_cause(run, rank, status, true, sentence);
    }
}

// The loop of a rank ended with a status.
static void loop_failed(trp_run *run, int rank, troupe_status status, const char *text)
{
    look_for_own_cause(run);
    char sentence[600];
    snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank, run->ranks[rank].pid,
             text);
    note_cause(run, rank, status, status != TROUPE_PEER_LOST, sentence);
    end_group(run, TROUPE_PEER_LOST == status ? TRP_GROUP_ENDED : TRP_GROUP_LEFT, rank);
}

// The worker of a rank was lost, or could not be made: the thread's last error says how.
static void rank_lost(trp_run *run, int rank)
{
    rank_state *state = &run->ranks[rank];
    troupe_actor address = state->worker.address;
    const troupe_error *error = troupe_last_error();
    char reason[112] = "", sentence[700];
    if (state->killed)
        return;
    if (address.id == 0)
        snprintf(sentence, sizeof(sentence), "rank %d could not be started: %s", rank, error->text);
    else if (!trp_process_alive(address.process, address.incarnation, reason) && reason[0])
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d) %s after report %d", rank,
                 state->pid, reason, run->reports.last[rank]);
    else
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank, state->pid,
                 error->text);
    bool lost = error->status == TROUPE_MAYBE_EXECUTED || error->status == TROUPE_NOT_EXECUTED;
    note_cause(run, rank, lost ? TROUPE_PEER_LOST : error->status, true, sentence);
    end_group(run, TRP_GROUP_DIED, rank);
}

// ---- the end of an attempt

static void leave_group(trp_run *run)
{
    if (!run->region)
        return;
    trp_job_set_region(run->job, NULL);
    trp_store_release(run->region_object, trp_process_slot());
    run->region = NULL;
}

// Whether the job was given up; then that is how it ends, whatever its ranks did meanwhile.
static bool finish_given_up(trp_run *run)
{
    troupe_status status = trp_job_given_up(run->job);
    if (status == TROUPE_OK)
        return false;
    run->given_up = true;
    run->cause.known = false;
    fail_run(run, status);
    return true;
}

// Begins on_shutdown of this attempt, once. False: there is nothing to wait for.
static bool shut_down(trp_run *run)
{
    bool wanted = run->shuts_down && !trp_runtime_is_lost();
    run->shuts_down = false;
    if (wanted && begin_stage(run, TRP_STAGE_SHUTDOWN) != TROUPE_OK)
        trp_job_say(run->job, TRP_WARN, "on_shutdown was not called: %s",
                    troupe_last_error()->text);
    return run->stage != NULL;
}

static void attempt_over(trp_run *run)
{
    const troupe_train_options *options = &run->job->options;
    int ended_by, rank, other;
    // A loop may have taken a lost peer for nothing and ended well.
    if (trp_group_ended(run->region, &ended_by) != TRP_GROUP_WHOLE && !run->cause.known) {
        char sentence[96];
        snprintf(sentence, sizeof(sentence), "rank %d was lost by the others", ended_by);
        note_cause(run, ended_by, TROUPE_PEER_LOST, true, sentence);
    }
    if (shut_down(run))
        return; // It goes on from here when that is over.
    kill_ranks(run);
    leave_group(run);
    if (trp_runtime_is_lost()) { // With it all ranks, and the means to start others.
        run->cause.known = false;
        fail_run(run, trp_process_check());
        return;
    }
    if (finish_given_up(run))
        return;
    if (!run->cause.known && trp_reports_uneven(&run->reports, &rank, &other)) {
        (void)troupe_fail(TROUPE_INVALID,
                          "rank %d made %d reports and rank %d %d: all ranks must report equally "
                          "often",
                          rank, run->reports.last[rank], other, run->reports.last[other]);
        fail_run(run, TROUPE_INVALID);
        return;
    }
    if (!run->cause.known) {
        finish(run, TROUPE_OK);
        return;
    }
    int restarts = run->attempt - run->first_attempt;
    if (options->restarts >= 0 && restarts >= options->restarts) {
        finish(run, run->cause.status);
        return;
    }
    run->attempt++;
    trp_job_set_state(run->job, TROUPE_JOB_RESTARTING);
    start_attempt(run);
}

// ---- commits

static void tell_committed(trp_committer *committer)
{
    if (!trp_life_post_to(committer->coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_committed.index, &(troupe_none){0}))
        atomic_store(&committer->job->missed, true); // Or it has ended, and waits for the thread.
}

// Hands over what can be committed, in the order of reports.
static void hand_commits(trp_run *run)
{
    run->committer.coordinator = run->self.address;
    for (trp_commit *commit; (commit = trp_commits_next(&run->commits));)
        trp_record_commit(&run->record, &run->committer, run->attempt, commit);
}

// An attempt is over when its last commit is: what comes next depends on which there are.
static void close_attempt(trp_run *run)
{
    trp_commits_clear(&run->commits); // Of ranks that are gone.
    run->closing = run->committer.busy > 0;
    if (!run->closing)
        attempt_over(run);
}

static void take_commits(trp_run *run)
{
    for (trp_commit *commit; (commit = trp_committer_take(&run->committer));)
        trp_record_committed(&run->record, &run->committer, commit);
    if (run->closing && run->committer.busy == 0) {
        run->closing = false;
        attempt_over(run);
    }
}

static void take_end(trp_run *run, int rank)
{
    rank_state *state = &run->ranks[rank];
    trp_worker_end end;
    troupe_status status = troupe_get(trp_worker_end, state->end, &end);
    state->end.id = 0;
    run->pending--;
    if (status != TROUPE_OK)
        rank_lost(run, rank);
    else if (end.status != TROUPE_OK && end.status != TROUPE_STOPPED)
        loop_failed(run, rank, (troupe_status)end.status, end.text ? end.text : "");
    else
        run->stopped |= end.stopped;
    if (status == TROUPE_OK && rank == 0)
        trp_record_return(&run->record, end.value, end.value_schema);
    if (run->pending == 0)
        close_attempt(run);
}

troupe_status trp_coordinator_ended(trp_coordinator *self, const trp_rank_event *event,
                                    troupe_none *none)
{
    (void)none;
    trp_run *run = self->run;
    if (!run->finished && event->attempt == run->attempt && run->ranks[event->rank].end.id)
        take_end(run, event->rank);
    return TROUPE_OK;
}

// ---- the start of an attempt

static void drop_watch(watch *told)
{
    if (!told)
        return;
    trp_job_release(told->job);
    trp_free(told);
}

static void rank_ended(void *user, troupe_ref ref)
{
    (void)ref;
    watch *told = (watch *)user;
    if (!trp_life_post_to(told->coordinator.address, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_ended.index, &told->event))
        atomic_store(&told->job->missed, true); // Or it has ended, and nobody waits any more.
    drop_watch(told);
}

static troupe_status make_group(trp_run *run, int first_report)
{
    int world = run->job->options.ranks;
    void *memory;
    TROUPE_TRY(trp_store_share(trp_group_size(world), &run->region_object, &memory));
    run->region = trp_group_init(memory, world, first_report);
    trp_job_set_region(run->job, run->region);
    return TROUPE_OK;
}

// Who could not be started says so when it is called.
static troupe_status spawn_workers(trp_run *run)
{
    size_t world = (size_t)run->job->options.ranks;
    trp_worker_actor *workers = (trp_worker_actor *)trp_alloc(world * sizeof(*workers));
    trp_place *places = (trp_place *)trp_alloc(world * sizeof(*places));
    troupe_status status = workers && places
                               ? trp_workers_start(run->job, places, workers)
                               : troupe_fail(TROUPE_NO_MEMORY, "no memory for a group of workers");
    if (status != TROUPE_OK)
        world = 0;
    for (size_t rank = 0; workers && places && rank < world; rank++) {
        troupe_actor address = workers[rank].address;
        run->ranks[rank].worker = workers[rank];
        run->ranks[rank].place = places[rank];
        run->ranks[rank].pid = address.id ? trp_process_pid(address.process) : 0;
        trp_rank_log_follow(run->logs, (int)rank, run->attempt, address);
    }
    trp_free(workers);
    trp_free(places);
    return status;
}

static troupe_status spawn_ranks(trp_run *run)
{
    troupe_job *job = run->job;
    TROUPE_TRY(spawn_workers(run));
    pthread_mutex_lock(&job->lock);
    for (int rank = 0; rank < job->options.ranks && rank < 16; rank++)
        job->pids[rank] = run->ranks[rank].pid;
    pthread_mutex_unlock(&job->lock);
    return TROUPE_OK;
}

static void run_ranks(trp_run *run)
{
    troupe_job *job = run->job;
    const char *origin = run->origin.text;
    trp_task task = {
        .world = job->options.ranks,
        .attempt = run->attempt,
        .first_report = run->first_report,
        .timeout_ms = job->options.collective_timeout_ms,
        .keep = job->options.keep,
        .checkpoint_every = job->options.checkpoint_every,
        .trainer = job->trainer->name,
        .schema = troupe_type_hash(job->trainer->config),
        .config = {job->config.data, job->config.size},
        .refs = {job->refs, job->ref_count},
        .region = {.id = run->region_object},
        .coordinator = run->self,
        .origin = origin[0] ? origin : NULL,
        .run = job->path,
        .epoch = job->opening.epoch,
        .metadata = job->options.metadata,
    };
    trp_gate_reports(job->gate, &task.gate_first, &task.gate_every);
    run->pending = task.world;
    for (int rank = 0; rank < task.world; rank++) {
        task.rank = rank;
        task.place = run->ranks[rank].place;
        run->ranks[rank].end = troupe_call_from(run->ranks[rank].worker, trp_worker_run, &task);
    }
    for (int rank = 0; rank < task.world; rank++) {
        watch *told = run->ranks[rank].told;
        run->ranks[rank].told = NULL;
        trp_ref_when(run->ranks[rank].end, rank_ended, told);
    }
}

// Makes what will be needed for sure before anything is started.
static troupe_status make_watches(trp_run *run)
{
    for (int rank = 0; rank < run->job->options.ranks; rank++) {
        watch *told = (watch *)trp_alloc(sizeof(*told));
        if (!told)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory to watch rank %d", rank);
        trp_job_hold(run->job);
        *told = (watch){run->job, run->self, {run->attempt, rank}};
        drop_watch(run->ranks[rank].told);
        run->ranks[rank] = (rank_state){.told = told};
    }
    return TROUPE_OK;
}

static troupe_status prepare(trp_run *run, trp_path *origin, int *first_report)
{
    int last_report;
    TROUPE_TRY(trp_alive_check(run->job->opening.alive, run->job->path));
    TROUPE_TRY(trp_checkpoint_clean(run->job->path));
    TROUPE_TRY(trp_record_origin(&run->record, origin, &last_report));
    if (origin->text[0] && run->attempt == run->first_attempt)
        TROUPE_TRY(trp_capability_world(run->job->trainer, origin->text, run->job->options.ranks));
    TROUPE_TRY(trp_reports_start(&run->reports, run->job->options.ranks, last_report));
    TROUPE_TRY(make_watches(run));
    *first_report = last_report + 1;
    return make_group(run, *first_report);
}

static void tell_group(const trp_run *run)
{
    troupe_job *job = run->job;
    int count = job->options.ranks;
    trp_console_rank *ranks = (trp_console_rank *)trp_alloc((size_t)count * sizeof(*ranks));
    for (int rank = 0; ranks && rank < count; rank++) {
        const rank_state *state = &run->ranks[rank];
        ranks[rank] =
            (trp_console_rank){state->pid, state->place.local_rank, state->place.node_rank};
    }
    if (ranks)
        trp_job_say_group(job, ranks, count);
    trp_free(ranks);
}

// Why the group was restarted (what ended the last one is known still), its processes, and what
// they go on from.
static void tell_start(const trp_run *run, const char *origin)
{
    const char *name = strrchr(origin, '/');
    int restarts = run->attempt - run->first_attempt;
    if (restarts > 0)
        trp_job_say(run->job, TRP_WARN, "%s: the group is restarted (restart %d) from %s",
                    run->cause.text, restarts, name ? name + 1 : "the beginning");
    tell_group(run);
    if (origin[0])
        trp_job_say(run->job, TRP_INFO, "%s continues from %s", run->job->path, origin);
}

static void start_attempt(trp_run *run)
{
    // While it waited, or between two attempts.
    if (finish_given_up(run))
        return;
    if (trp_job_stopping(run->job)) {
        run->stopped = true;
        finish(run, TROUPE_OK);
        return;
    }
    run->cause.known = false;
    run->stopped = false;
    run->ranks_leave = false;
    troupe_status status = prepare(run, &run->origin, &run->first_report);
    if (status == TROUPE_OK)
        status = spawn_ranks(run);
    if (status != TROUPE_OK) {
        leave_group(run);
        fail_run(run, status);
        return;
    }
    const char *origin = run->origin.text;
    trp_run_journal_attempt(&run->job->opening.journal, run->attempt, run->first_report - 1,
                            origin[0] ? origin : NULL);
    run->begun = true;
    run->shuts_down = trp_stage_is_there(run->job->trainer, TRP_STAGE_SHUTDOWN);
    tell_start(run, origin);
    trp_job_set_state(run->job, TROUPE_JOB_RUNNING);
    status = begin_stage(run, TRP_STAGE_START);
    if (!run->stage)
        group_started(run, status);
}

// ---- the end of a stage

// With the thread's last error, if it failed.
static void group_started(trp_run *run, troupe_status status)
{
    if (status != TROUPE_OK)
        note_cause(run, -1, status, true, troupe_last_error()->text);
    if (status != TROUPE_OK || trp_job_given_up(run->job) != TROUPE_OK)
        attempt_over(run); // No loop runs.
    else
        run_ranks(run);
}

static void setup_over(trp_run *run, troupe_status status)
{
    if (status == TROUPE_OK)
        start_attempt(run);
    else if (!finish_given_up(run))
        fail_run(run, status);
}

static void take_stage(trp_run *run)
{
    troupe_status status;
    if (!run->stage || !trp_stage_over(run->stage, &status))
        return;
    trp_stage_leave(&run->stage);
    if (run->stage_kind == TRP_STAGE_SETUP) {
        setup_over(run, status);
    } else if (run->stage_kind == TRP_STAGE_START) {
        group_started(run, status);
    } else {
        if (status != TROUPE_OK)
            trp_job_say(run->job, TRP_WARN, "%s", troupe_last_error()->text);
        attempt_over(run);
    }
}

// Goes on without a stage, which is left to itself.
static void give_up_stage(trp_run *run)
{
    trp_stage_leave(&run->stage);
    if (run->stage_kind == TRP_STAGE_SETUP) {
        (void)finish_given_up(run);
        return;
    }
    trp_job_say(run->job, TRP_WARN, "%s has not returned within %d s, and is left to itself",
                run->stage_kind == TRP_STAGE_START ? "on_start" : "on_shutdown",
                STAGE_END_MS / 1000);
    run->shuts_down = false; // It would run beside on_start.
    attempt_over(run);
}

// The run is ended by force while a stage runs. A setup is not waited for; what else runs has lost
// its ranks, which ends what it waits for.
static void kill_stage(trp_run *run)
{
    if (run->stage_kind == TRP_STAGE_SETUP) {
        give_up_stage(run);
        return;
    }
    kill_ranks(run);
    if (run->stage_kind == TRP_STAGE_START &&
        !remind_after(STAGE_END_MS, run->attempt, run->stage_number))
        give_up_stage(run);
}

// ---- messages

troupe_status trp_coordinator_report(trp_coordinator *self, const trp_report *report,
                                     troupe_none *none)
{
    (void)none;
    trp_run *run = self->run;
    if (run->finished || report->attempt != run->attempt || run->pending == 0)
        return troupe_fail(TROUPE_PEER_LOST, "troupe_report: the group has ended");
    const trp_open_report *whole;
    TROUPE_TRY(trp_reports_take(&run->reports, report, &whole));
    if (!whole)
        return TROUPE_OK;
    trp_record_add(&run->record, run->attempt, whole);
    TROUPE_TRY(trp_commits_whole(&run->commits, whole));
    hand_commits(run);
    return TROUPE_OK;
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
    hand_commits(run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_committed(trp_coordinator *self, const troupe_none *nothing,
                                        troupe_none *none)
{
    (void)nothing;
    (void)none;
    if (!self->run->finished)
        take_commits(self->run);
    return TROUPE_OK;
}

troupe_status trp_coordinator_look(trp_coordinator *self, const troupe_none *nothing,
                                   troupe_none *none)
{
    (void)nothing;
    (void)none;
    trp_run *run = self->run;
    take_stage(run);
    int attempt = run->attempt; // The next one has nothing to do with it.
    for (int rank = 0; rank < run->job->options.ranks; rank++) {
        bool ready = false;
        if (run->finished || run->attempt != attempt)
            break;
        if (run->ranks[rank].end.id &&
            troupe_wait(&run->ranks[rank].end, 1, 1, 0, &ready, NULL) == TROUPE_OK && ready)
            take_end(run, rank);
    }
    if (!run->finished)
        take_commits(run);
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
        kill_stage(run);
    if (run->pending > 0) {
        (void)trp_group_end(run->region, TRP_GROUP_ENDED, 0);
        kill_ranks(run);
    }
    return TROUPE_OK;
}

troupe_status trp_coordinator_overdue(trp_coordinator *self, const trp_overdue *what,
                                      troupe_none *none)
{
    (void)none;
    trp_run *run = self->run;
    take_stage(run);
    if (run->finished || what->attempt != run->attempt)
        return TROUPE_OK;
    if (what->stage == 0)
        kill_loops(run);
    else if (run->stage && what->stage == run->stage_number)
        give_up_stage(run);
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
    if (status == TROUPE_OK)
        status = begin_stage(run, TRP_STAGE_SETUP);
    if (!run->stage)
        setup_over(run, status);
    return TROUPE_OK;
}

troupe_status trp_coordinator_init(trp_coordinator *self, const uint64_t *address)
{
    troupe_job *job = (troupe_job *)(uintptr_t)*address;
    self->run = (trp_run *)trp_alloc(sizeof(*self->run));
    rank_state *ranks = (rank_state *)trp_alloc((size_t)job->options.ranks * sizeof(*ranks));
    if (!self->run || !ranks) {
        trp_free(ranks);
        trp_free(self->run);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the coordinator of %s", job->path);
    }
    int attempts = job->opening.history.attempts;
    *self->run = (trp_run){.job = job,
                           .record = {.job = job},
                           .ranks = ranks,
                           .first_attempt = attempts,
                           .attempt = attempts};
    trp_committer_init(&self->run->committer, job);
    self->run->committer.tell = tell_committed;
    self->run->logs = trp_rank_logs_open(job->path, job->options.ranks);
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
        if (there && run->region)
            (void)trp_group_end(run->region, TRP_GROUP_ENDED, 0);
        for (int rank = 0; there && rank < run->job->options.ranks; rank++)
            troupe_ref_drop(run->ranks[rank].end);
        if (there)
            leave_group(run);
        trp_run_close(run->job);
        trp_job_cancel(run->job);
    }
    for (int rank = 0; rank < run->job->options.ranks; rank++)
        drop_watch(run->ranks[rank].told);
    trp_stage_leave(&run->stage);
    trp_reports_free(&run->reports);
    trp_record_close(&run->record);
    trp_rank_logs_close(run->logs);
    trp_job_release(run->job);
    trp_free(run->ranks);
    trp_free(run);
}

bool trp_coordinator_start(troupe_job *job)
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
    (void)trp_job_finish(job, result);
    return false;
}

static troupe_actor coordinator_of(troupe_job *job)
{
    pthread_mutex_lock(&job->lock);
    troupe_actor coordinator = job->coordinator;
    pthread_mutex_unlock(&job->lock);
    return coordinator;
}

void trp_coordinator_remind(troupe_job *job)
{
    troupe_actor coordinator = coordinator_of(job);
    if (coordinator.id &&
        !trp_life_post_to(coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_look.index, &(troupe_none){0}))
        atomic_store(&job->missed, true);
}

void trp_coordinator_kill_group(troupe_job *job)
{
    troupe_actor coordinator = coordinator_of(job);
    if (coordinator.id &&
        !trp_life_post_to(coordinator, &troupe_class_trp_coordinator,
                          troupe_method_trp_coordinator_kill.index, &(troupe_none){0}))
        trp_log(TRP_INFO, "%s cannot be ended at once: it has just ended, or there is no memory",
                job->path);
}
