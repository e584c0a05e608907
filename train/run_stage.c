// run_stage.c: the stages of a trainer in the life of a run.
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/node/server_stop.h>
#include <runtime/shm/process_table.h>
#include <train/run.h>

int trp_run_stage_end_ms = 5000;

// Begins a stage, if the trainer has it: then run->stage is it.
troupe_status trp_run_begin_stage(trp_run *run, trp_stage_kind kind)
{
    trp_job *job = run->job;
    if (!trp_stage_is_there(job, kind))
        return TROUPE_OK;
    size_t world = (size_t)job->world; // Also before there was a group.
    trp_stage_rank *ranks = (trp_stage_rank *)trp_alloc(world * sizeof *ranks);
    for (size_t rank = 0; ranks && !trp_stage_is_early(kind) && rank < world; rank++)
        if (trp_rank_is_there(&run->ranks[rank]))
            ranks[rank] = (trp_stage_rank){run->ranks[rank].worker, run->ranks[rank].place};
    troupe_status given_up = trp_job_given_up(job); // Which goes before what else ends it.
    trp_stage_plan plan = {
        .job = job,
        .coordinator = run->self,
        .kind = kind,
        .attempt = run->attempt,
        .ended = given_up == TROUPE_OK && run->cause.known ? run->cause.status : given_up,
        .ranks = ranks,
        .until_ms = kind == TRP_STAGE_SHUTDOWN ? trp_clock_ms() + trp_run_stage_end_ms : 0,
    };
    troupe_status status =
        ranks ? trp_stage_begin(&plan, &run->stage)
              : troupe_fail(TROUPE_NO_MEMORY, "no memory for a stage of '%s'", job->trainer->name);
    trp_free(ranks);
    TROUPE_TRY(status);
    run->stage_kind = kind;
    run->stage_number++;
    if (kind == TRP_STAGE_SHUTDOWN)
        (void)trp_run_remind_after((uint32_t)trp_run_stage_end_ms, run->attempt, run->stage_number);
    return TROUPE_OK;
}

// Begins on_shutdown of this attempt, once. False: there is nothing to wait for.
bool trp_run_shut_down(trp_run *run)
{
    bool wanted = run->shuts_down && !trp_runtime_is_lost();
    run->shuts_down = false;
    if (wanted && trp_run_begin_stage(run, TRP_STAGE_SHUTDOWN) != TROUPE_OK)
        trp_job_say(run->job, TRP_WARN, "on_shutdown was not called: %s",
                    troupe_last_error()->text);
    return run->stage != NULL;
}

// ---- the end of a stage

// With the thread's last error, if it failed.
void trp_run_group_started(trp_run *run, troupe_status status)
{
    if (status != TROUPE_OK)
        trp_run_note_cause(run, -1, status, true, troupe_last_error()->text);
    run->suspect = status != TROUPE_OK;
    if (status != TROUPE_OK || trp_job_given_up(run->job) != TROUPE_OK)
        trp_attempt_over(run); // No loop runs.
    else
        trp_attempt_run_ranks(run);
}

void trp_run_setup_over(trp_run *run, troupe_status status)
{
    if (status == TROUPE_OK)
        trp_attempt_start(run);
    else if (!trp_run_finish_given_up(run))
        trp_run_fail(run, status);
}

void trp_run_take_stage(trp_run *run)
{
    troupe_status status;
    if (!run->stage || !trp_stage_over(run->stage, &status))
        return;
    if (run->stage_kind == TRP_STAGE_DATA)
        trp_stage_take_data(run->stage, &run->data);
    trp_stage_leave(&run->stage);
    if (run->stage_kind == TRP_STAGE_SETUP) {
        trp_run_setup_over(run, status);
    } else if (run->stage_kind == TRP_STAGE_DATA) {
        trp_attempt_data_made(run, status);
    } else if (run->stage_kind == TRP_STAGE_START) {
        trp_run_group_started(run, status);
    } else {
        if (status != TROUPE_OK)
            trp_job_say(run->job, TRP_WARN, "%s", troupe_last_error()->text);
        run->suspect |= status != TROUPE_OK;
        trp_attempt_over(run);
    }
}

// Goes on without a stage, which is left to itself.
void trp_run_give_up_stage(trp_run *run)
{
    trp_stage_leave(&run->stage);
    if (trp_stage_is_early(run->stage_kind)) {
        (void)trp_run_finish_given_up(run);
        return;
    }
    trp_job_say(run->job, TRP_WARN, "%s has not returned within %d s, and is left to itself",
                run->stage_kind == TRP_STAGE_START ? "on_start" : "on_shutdown",
                trp_run_stage_end_ms / 1000);
    run->shuts_down = false; // It would run beside on_start.
    run->suspect = true;
    trp_attempt_over(run);
}

// The run is ended by force while a stage runs. A setup is not waited for; what else runs has lost
// its ranks, which ends what it waits for.
void trp_run_kill_stage(trp_run *run)
{
    if (trp_stage_is_early(run->stage_kind)) {
        trp_run_give_up_stage(run);
        return;
    }
    trp_attempt_kill_ranks(run);
    if (run->stage_kind == TRP_STAGE_START &&
        !trp_run_remind_after((uint32_t)trp_run_stage_end_ms, run->attempt, run->stage_number))
        trp_run_give_up_stage(run);
}
