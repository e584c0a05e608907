// run_end.c: how a run ends: what it is told to its user, and why.
#include <errno.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <string.h>
#include <train/run.h>
#include <train/server.h>
#include <troupe/process.h>

// Who reads the text has typed `troupe submit`.
static bool is_of_command(const trp_run *run)
{
    return run->job->submission != NULL && run->job->trainer == &troupe_trainer_troupe_process &&
           strcmp(program_invocation_short_name, "troupe") == 0;
}

// The call, or the command, that goes on with the run.
static void add_way_on(const trp_run *run, trp_buffer *text)
{
    const char *path = run->job->path, *name = strrchr(path, '/');
    if (is_of_command(run)) {
        trp_buffer_printf(text,
                          "; to go on with it: troupe submit --resume --storage '%.*s' --name "
                          "'%s', with the other options and the program as before",
                          (int)(name - path), path, name + 1);
        return;
    }
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
    int restarts = run->restarts;
    trp_buffer_printf(&text, "%s; the run is at %s", run->cause.text, run->job->path);
    bool hint = run->begun && !run->given_up && run->cause.status != TROUPE_RUNTIME_LOST;
    if (hint && options->restarts == 0 && is_of_command(run))
        trp_buffer_printf(&text, "; it was not restarted: --restarts N allows N restarts from the "
                                 "last checkpoint, --restarts -1 any number");
    else if (hint && options->restarts == 0)
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

void trp_run_finish(trp_run *run, troupe_status status)
{
    run->job->ending_s = trp_clock_s();
    trp_attempt_kill_ranks(run); // That were kept for another attempt.
    troupe_result *result = trp_job_result(run->job);
    if (result && trp_record_fill(&run->record, result) != TROUPE_OK)
        troupe_result_free(&result);
    if (result) {
        result->status = status;
        result->stopped = run->stopped;
        if (status != TROUPE_OK) {
            result->error = describe(run, result);
            result->cause = trp_job_result_text(result, run->cause.text);
        }
    }
    run->finished = true;
    trp_record_end(&run->record, status, result);
    // What a rank saved and did not report any more is of no use to anyone.
    if (trp_run_clean(run->job) != TROUPE_OK ||
        trp_checkpoint_forget(run->job->folder) != TROUPE_OK)
        trp_log(TRP_WARN, "not everything that was left incomplete could be removed: %s",
                troupe_last_error()->text);
    trp_run_close(run->job);
    (void)trp_job_finish(run->job, result);
    trp_run_let_go(run);
}

// Whether what the job holds may be in use until its processes have ended, or these have to be
// told once more to end. Where all ranks have left their functions, processes only end, for which
// they need no CPU of their own; a program is another matter.
static bool holds_until_gone(const trp_run *run)
{
    if (trp_job_rests(run->job)) // Its processes have ended; `gang` is the job server's.
        return false;
    const trp_gang *gang = &run->job->gang;
    for (int rank = 0; rank < run->room; rank++) {
        if (run->ranks[rank].to_kill)
            return true;
    }
    return run->cause.known || run->suspect || gang->gpus > 0 || gang->memory_bytes > 0 ||
           gang->resources[0] != '\0' || run->job->trainer == &troupe_trainer_troupe_process;
}

void trp_run_let_go(trp_run *run)
{
    if (holds_until_gone(run) && !trp_attempt_are_gone(run, TRP_NEXT_END))
        return;
    trp_server_job_done(run->job);
    (void)troupe_actor_end(run->self);
}

void trp_run_note_cause(trp_run *run, int rank, troupe_status status, bool own, const char *text)
{
    if (run->cause.known && (run->cause.own || !own))
        return;
    run->cause = (trp_cause){.known = true, .own = own, .rank = rank, .status = status};
    snprintf(run->cause.text, sizeof(run->cause.text), "%s", text);
}

// Ends the run for a reason that lies outside its ranks, with the thread's last error.
void trp_run_fail(trp_run *run, troupe_status status)
{
    trp_run_note_cause(run, -1, status, true, troupe_last_error()->text);
    trp_run_finish(run, run->cause.status);
}

// Whether the job was given up; then that is how it ends, whatever its ranks did meanwhile.
bool trp_run_finish_given_up(trp_run *run)
{
    troupe_status status = trp_job_given_up(run->job);
    if (status == TROUPE_OK)
        return false;
    run->given_up = true;
    run->cause.known = false;
    trp_run_fail(run, status);
    return true;
}
