// attempt_end.c: how an attempt ends: of itself or by a failure, and what comes next.
#include <actors/ref/ref.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/node/node_client.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <train/run.h>
#include <troupe/async.h>
#include <troupe/process.h>

enum {
    LEAVE_MS = 1000, // For the loops to end after a failure, where their processes stay.
};

// ---- failures

// Whether it has a process of its own: not where one is all of them (TROUPE_LOCAL).
static bool has_process(troupe_actor worker)
{
    return worker.id != 0 && worker.process != trp_process_slot();
}

// The process is what is ended, with all ranks in it, since an actor could not take note of its end
// where its process is stopped. Where the word is lost, for lack of memory, it is sent again at the
// next look.
static void kill_rank(trp_run *run, int rank)
{
    int together = run->job->options.ranks_per_process, first = rank - rank % together;
    troupe_actor worker = run->ranks[first].worker.address;
    if (run->ranks[rank].killed)
        return;
    bool told = worker.id == 0 || trp_node_end(worker.process, worker.incarnation,
                                               "was ended with its group") == TROUPE_OK;
    bool again = !told && has_process(worker);
    for (int i = first; i < first + together && i < run->world; i++) {
        run->ranks[i].killed = told;
        run->ranks[i].to_kill = again;
    }
    if (again)
        atomic_store(&run->job->missed, true);
}

void trp_attempt_kill_again(trp_run *run)
{
    for (int rank = 0; rank < run->world; rank++)
        if (run->ranks[rank].to_kill)
            kill_rank(run, rank);
}

void trp_attempt_kill_ranks(trp_run *run)
{
    for (int rank = 0; rank < run->world; rank++)
        kill_rank(run, rank);
}

void trp_attempt_kill_loops(trp_run *run)
{
    for (int rank = 0; rank < run->world; rank++)
        if (run->ranks[rank].end.id != 0)
            kill_rank(run, rank);
}

static bool has_restart(const trp_run *run)
{
    int most = run->job->options.restarts;
    return most < 0 || run->restarts < most;
}

// Whether processes that are left are those of another attempt. Without a commit in memory all
// ranks begin anew as well.
static bool keeps_processes(const trp_run *run)
{
    return run->memory.last && !run->suspect && has_restart(run) &&
           trp_job_given_up(run->job) == TROUPE_OK && !trp_runtime_is_lost();
}

// After a failure. Where on_shutdown or another attempt is to find them, the other ranks have some
// time to leave their loops, which the end of the group tells them.
static void end_group(trp_run *run, trp_end_reason reason, int rank)
{
    (void)trp_control_end(run->control, run->engine, reason, rank);
    bool may_leave = (run->shuts_down && !trp_runtime_is_lost()) || keeps_processes(run);
    if (may_leave && !run->ranks_leave)
        run->ranks_leave = trp_run_remind_after(LEAVE_MS, run->attempt, 0);
    if (!may_leave || !run->ranks_leave)
        trp_attempt_kill_ranks(run);
}

// Whether a rank that had left its loop for a reason of its own explains that others lost it: its
// word lies in the group's memory, also if it was killed before it could send it.
static void look_for_own_cause(trp_run *run)
{
    for (int rank = 0; rank < run->world; rank++) {
        troupe_status status;
        const char *text;
        char sentence[600];
        if (!trp_control_left(run->control, rank, &status, &text) || status == TROUPE_OK ||
            status == TROUPE_STOPPED || status == TROUPE_PEER_LOST)
            continue;
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank,
                 run->ranks[rank].pid, text);
        trp_run_note_cause(run, rank, status, true, sentence);
    }
}

// The loop of a rank ended with a status.
static void loop_failed(trp_run *run, int rank, troupe_status status, const char *text)
{
    look_for_own_cause(run);
    char sentence[600];
    snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank, run->ranks[rank].pid,
             text);
    trp_run_note_cause(run, rank, status, status != TROUPE_PEER_LOST, sentence);
    end_group(run, TROUPE_PEER_LOST == status ? TRP_END_OVER : TRP_END_LEFT, rank);
}

// Which ranks were in a process, where that were several: ", that of ranks 0 to 3".
static const char *beside(const trp_run *run, int rank, char *text, size_t size)
{
    int together = run->job->options.ranks_per_process, first = rank - rank % together;
    int last = first + together < run->world ? first + together - 1 : run->world - 1;
    text[0] = '\0';
    if (last > first)
        snprintf(text, size, ", that of ranks %d to %d", first, last);
    return text;
}

// The worker of a rank was lost, or could not be made: the thread's last error says how.
static void rank_lost(trp_run *run, int rank)
{
    trp_rank_state *state = &run->ranks[rank];
    troupe_actor address = state->worker.address;
    const troupe_error *error = troupe_last_error();
    char reason[112] = "", sentence[700], others[64];
    if (state->killed)
        return;
    run->unstarted += address.id == 0;
    if (address.id == 0)
        snprintf(sentence, sizeof(sentence), "rank %d could not be started: %s", rank, error->text);
    else if (!trp_process_alive(address.process, address.incarnation, reason) && reason[0])
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d%s) %s after report %d", rank,
                 state->pid, beside(run, rank, others, sizeof(others)), reason,
                 run->reports.last[rank]);
    else
        snprintf(sentence, sizeof(sentence), "rank %d (pid %d) failed: %s", rank, state->pid,
                 error->text);
    bool lost = error->status == TROUPE_MAYBE_EXECUTED || error->status == TROUPE_NOT_EXECUTED;
    trp_run_note_cause(run, rank, lost ? TROUPE_PEER_LOST : error->status, true, sentence);
    kill_rank(run, rank); // A process that lives could not run the loop.
    end_group(run, TRP_END_DIED, rank);
}

// ---- processes that were killed

enum { LONGEST_MS = 10000 };

// Waits for what was killed. False: it is looked for again; else there is no memory to wait, and it
// is taken to have ended. `told`: the coordinator will be told as well, and sooner.
static bool wait_on(trp_run *run, trp_run_next next, bool told)
{
    enum { LOOK_MS = 2, SELDOM_MS = 100 };
    if (!told || !run->looks)
        run->looks =
            trp_run_remind_after(told ? SELDOM_MS : LOOK_MS, run->attempt, TRP_ENDED_PROCESSES);
    run->next = told || run->looks ? next : TRP_NEXT_NONE;
    return run->next == TRP_NEXT_NONE;
}

// Whether the coordinator will be told of the end of the rank's process, which lives.
static bool will_be_told(trp_rank_state *state)
{
    if (!state->monitored)
        state->monitored = trp_run_monitor(state->worker);
    return state->monitored && !state->told_end;
}

void trp_attempt_note_end(trp_run *run, troupe_actor worker)
{
    for (int rank = 0; rank < run->room; rank++) {
        trp_rank_state *state = &run->ranks[rank];
        if (state->worker.address.id == worker.id &&
            state->worker.address.incarnation == worker.incarnation)
            state->told_end = true; // If its process lives still, it is looked at.
    }
}

// The same of programs of ranks, whose guards are ranks to who looks at the run's lock.
static bool programs_are_gone(trp_run *run, trp_run_next next, int64_t now_ms)
{
    if (trp_runtime_is_lost() || run->job->trainer != &troupe_trainer_troupe_process ||
        !trp_alive_has_ranks(run->job->folder))
        return true;
    if (now_ms - run->waits_ms <= LONGEST_MS)
        return wait_on(run, next, false);
    trp_log(TRP_WARN, "a program of %s was killed %d s ago and has not ended", run->job->path,
            LONGEST_MS / 1000);
    return true;
}

bool trp_attempt_are_gone(trp_run *run, trp_run_next next)
{
    int64_t now_ms = trp_clock_ms();
    if (run->next != next)
        run->waits_ms = now_ms;
    run->next = TRP_NEXT_NONE;
    for (int rank = 0; rank < run->room && !trp_runtime_is_lost(); rank++) {
        trp_rank_state *state = &run->ranks[rank];
        troupe_actor worker = state->worker.address;
        bool all = next != TRP_NEXT_ATTEMPT;
        if (!has_process(worker) || !(state->killed || state->to_kill || all) ||
            !trp_process_alive(worker.process, worker.incarnation, NULL))
            continue;
        if (all && now_ms - run->waits_ms > LONGEST_MS) {
            trp_log(TRP_WARN,
                    "rank %d (pid %d) of %s was killed %d s ago and has not ended: what its job "
                    "held is given to others",
                    rank, state->pid, run->job->path, LONGEST_MS / 1000);
            return true;
        }
        trp_attempt_kill_again(run);
        return wait_on(run, next, will_be_told(state));
    }
    return programs_are_gone(run, next, now_ms);
}

// ---- the end of an attempt

void trp_attempt_leave_group(trp_run *run)
{
    if (!run->control)
        return;
    trp_job_set_control(run->job, NULL);
    trp_store_release(run->region_object, trp_process_slot());
    run->control = NULL;
}

// The loop has ended well after it went on from memory, and no checkpoint has come after one that
// it had asked for and that was lost: the steps since the newest one are made again, for that.
static bool makes_again(trp_run *run)
{
    char sentence[160];
    if (run->stopped || run->lost <= run->record.newest)
        return false;
    snprintf(sentence, sizeof(sentence),
             "the checkpoint of report %d was lost with a rank, and none has come after it",
             run->lost);
    if (!has_restart(run)) {
        trp_job_say(run->job, TRP_WARN, "%s", sentence);
        return false;
    }
    trp_run_note_cause(run, -1, TROUPE_PEER_LOST, true, sentence);
    trp_memory_commits_clear(&run->memory);
    run->lost = 0;
    return true;
}

// With how many ranks an elastic run goes on where processes of others could not be started; 0:
// with as many as before.
static int fewer_ranks(const trp_run *run)
{
    int fewest = run->job->options.min_ranks, left = run->world - run->unstarted;
    const trp_memory_commit *commit = run->memory.last;
    bool elastic = fewest > 0 && run->unstarted > 0;
    for (int ranks = left; elastic && ranks >= fewest; ranks--)
        if (trp_job_check_ranks(run->job, ranks) == TROUPE_OK &&
            (!commit || trp_memory_commit_world(commit, run->job->trainer, ranks) == TROUPE_OK))
            return ranks;
    return 0;
}

void trp_attempt_over(trp_run *run)
{
    int ended_by, rank, other;
    // A loop may have taken a lost peer for nothing and ended well.
    if (trp_control_ended(run->control, &ended_by) != TRP_END_NONE && !run->cause.known) {
        char sentence[96];
        snprintf(sentence, sizeof(sentence), "rank %d was lost by the others", ended_by);
        trp_run_note_cause(run, ended_by, TROUPE_PEER_LOST, true, sentence);
    }
    if (trp_run_shut_down(run))
        return; // It goes on from here when that is over.
    if (!run->cause.known || !keeps_processes(run))
        trp_attempt_kill_ranks(run);
    trp_attempt_leave_group(run);
    if (trp_runtime_is_lost()) { // With it all ranks, and the means to start others.
        run->cause.known = false;
        trp_run_fail(run, trp_process_check());
        return;
    }
    if (trp_run_finish_given_up(run))
        return;
    if (!run->cause.known && trp_reports_uneven(&run->reports, &rank, &other)) {
        (void)troupe_fail(TROUPE_INVALID,
                          "rank %d made %d reports and rank %d %d: all ranks must report equally "
                          "often",
                          rank, run->reports.last[rank], other, run->reports.last[other]);
        trp_run_fail(run, TROUPE_INVALID);
        return;
    }
    if (!run->cause.known && run->stopped && !trp_job_stopping(run->job)) {
        trp_run_rest(run, 0); // It has left to pause, or to be formed anew.
        return;
    }
    if (!run->cause.known && !makes_again(run)) {
        trp_run_finish(run, TROUPE_OK);
        return;
    }
    if (!has_restart(run)) {
        trp_run_finish(run, run->cause.status);
        return;
    }
    int fewer = fewer_ranks(run);
    run->restarts++;
    trp_job_set_state(run->job, TROUPE_JOB_RESTARTING);
    if (fewer > 0) {
        trp_run_rest(run, fewer);
        return;
    }
    run->attempt++;
    run->restarted = true;
    trp_attempt_start(run);
}

// ---- commits

// Hands over what can be committed, in the order of reports.
void trp_attempt_hand_commits(trp_run *run)
{
    run->committer.coordinator = run->self.address;
    for (trp_commit *commit; (commit = trp_commits_next(&run->commits));)
        trp_record_commit(&run->record, &run->committer, run->attempt, commit);
}

// An attempt is over when its last commit is: what comes next depends on which there are.
static void close_attempt(trp_run *run)
{
    int lost = trp_commits_lacking(&run->commits);
    bool passed = run->memory.last && lost <= run->memory.last->report; // It is not made again.
    if (lost > 0 && passed)
        trp_job_say(run->job, TRP_WARN,
                    "report %d of %s has no checkpoint: a rank was lost before it was written",
                    lost, run->job->path);
    run->lost = lost > run->lost ? lost : run->lost;
    trp_commits_clear(&run->commits); // Of ranks that are gone.
    run->closing = run->committer.busy > 0;
    if (!run->closing)
        trp_attempt_over(run);
}

void trp_attempt_take_commits(trp_run *run)
{
    for (trp_commit *commit; (commit = trp_committer_take(&run->committer));)
        trp_record_committed(&run->record, &run->committer, commit);
    if (run->closing && run->committer.busy == 0) {
        run->closing = false;
        trp_attempt_over(run);
    }
}

void trp_attempt_take_end(trp_run *run, int rank)
{
    trp_rank_state *state = &run->ranks[rank];
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
