// run_rest.c: a run without a group: paused, or waiting for what another group needs.
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <train/run.h>
#include <train/server.h>

void trp_run_rest(trp_run *run, int most)
{
    trp_attempt_kill_ranks(run); // Those that were kept for another attempt.
    run->resting = true;
    run->restarted = most > 0; // For a failure.
    run->cause.known = false;
    run->stopped = false;
    trp_record_return(&run->record, (troupe_bytes){0}, 0); // Of a loop that had not ended.
    int ranks = trp_job_ranks(run->job);
    if (ranks != run->world)
        trp_run_journal_resize(&run->job->opening.journal, ranks);
    trp_job_limit_ranks(run->job, most);
    trp_run_rest_on(run);
}

void trp_run_rest_on(trp_run *run)
{
    if (!trp_attempt_are_gone(run, TRP_NEXT_REST))
        return;
    trp_job_rest(run->job);
    trp_run_look(run); // It may have been told to end meanwhile.
}

bool trp_run_rest_as_before(trp_run *run, troupe_status status)
{
    if (status != TROUPE_INVALID || run->last_world == 0 || run->last_world == run->world)
        return false;
    if (trp_job_take_back_ranks(run->job, run->world, run->last_world))
        trp_job_say(run->job, TRP_WARN, "the group is formed with %d ranks again: %s",
                    run->last_world, troupe_last_error()->text);
    else if (!trp_job_leaves(run->job)) // Nobody wished for this size: there was room for it alone.
        return false;
    trp_run_rest(run, 0);
    return true;
}

void trp_run_look(trp_run *run)
{
    if (!run->resting || run->finished || run->next != TRP_NEXT_NONE)
        return;
    bool ends = trp_job_stopping(run->job) || trp_job_given_up(run->job) != TROUPE_OK;
    if (!ends && trp_job_rests(run->job)) {
        trp_server_look(run->job); // Where the word was lost.
        return;
    }
    run->resting = false;
    run->attempt++;
    trp_attempt_start(run);
}
