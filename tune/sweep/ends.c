// ends.c: what follows where a run of a trial is over, and runs that take too long.
#include <tune/sweep/control.h>

#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/journal.h>

static const int64_t GRACE_NS = 2000000000; // For a trial that was asked to stop.

// ---- how a trial ends

static troupe_ending ending_of(const trp_trial *trial)
{
    return trial->view.state == TROUPE_TRIAL_ERROR     ? TROUPE_ENDING_FAILED
           : trial->view.state == TROUPE_TRIAL_STOPPED ? TROUPE_ENDING_STOPPED
                                                       : TROUPE_ENDING_COMPLETE;
}

// One that has failed leaves its place to the best of the others.
static void drop_failed(troupe_sweep *sweep, const trp_trial *trial)
{
    if (trial != sweep->best || !trp_trial_failed(trial))
        return;
    sweep->best = NULL;
    for (int i = 0; i < sweep->count; i++) {
        const trp_trial *it = sweep->trials[i];
        if (it != NULL && !isnan(it->view.best_metric) && !trp_trial_failed(it) &&
            trp_control_is_better(sweep, it, sweep->best))
            sweep->best = it;
    }
}

void trp_control_count_end(trp_control *control, const trp_trial *trial)
{
    drop_failed(control->sweep, trial);
    const troupe_sweep *sweep = control->sweep;
    double best = sweep->best != NULL ? sweep->best->view.best_metric : (double)NAN;
    bool most = sweep->objectives[0].goal == TROUPE_MAXIMIZE;
    bool bettered = sweep->best != NULL &&
                    (isnan(control->best) || (most ? best > control->best : best < control->best));
    control->unbettered = bettered ? 0 : control->unbettered + 1;
    control->best = best;
}

troupe_status trp_control_put_end(trp_control *control, const trp_trial *trial)
{
    troupe_sweep *sweep = control->sweep;
    troupe_study_state state = trp_study_state(control->study, trial->number);
    if (state != TROUPE_STUDY_RUNNING && state != TROUPE_STUDY_PAUSED) {
        drop_failed(sweep, trial);
        trp_journal_ended(control->record, trial);
        (void)trp_tune_record_sync(control->record, false);
        return TROUPE_OK;
    }
    trp_buffer text = {0};
    const char *more = trp_journal_of_end(&text, sweep, trial);
    bool failed = trial->view.state == TROUPE_TRIAL_ERROR;
    troupe_status status = more == NULL
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the end of a trial")
                               : trp_study_end(control->study, trial->number, ending_of(trial),
                                               NULL, 0, failed ? trial->view.error : NULL, more);
    trp_buffer_free(&text);
    (void)trp_tune_record_sync(control->record, false); // Soon: the trial's run does not.
    trp_control_count_end(control, trial);
    return status;
}

// Whether a run that has failed is followed by another one.
static bool is_tried_again(const trp_control *control, const trp_trial *trial, troupe_status status)
{
    return status != TROUPE_OK && !control->lost && !trp_trial_is_stopping(trial) &&
           trial->failures < control->sweep->how.retries;
}

// Whether the run has failed on its way to an end that was decided: how it came there is of no
// account.
static bool was_to_end(const trp_control *control, const trp_trial *trial, troupe_status status)
{
    return status != TROUPE_OK && !control->lost && !trial->broken && !trial->halted &&
           (trial->decision == TROUPE_ACT_STOP || trial->decision == TROUPE_ACT_END ||
            trial->decision == TROUPE_ACT_CLONE);
}

void trp_control_drop_first_pent(trp_trial *trial)
{
    trp_pent *first = trial->pent;
    trial->pent = first->next;
    if (trial->pent == NULL)
        trial->last = &trial->pent;
    trp_free(first->event);
    trp_free(first);
}

void trp_control_drop_pent(trp_trial *trial)
{
    while (trial->pent != NULL)
        trp_control_drop_first_pent(trial);
}

// What a trial has reported on its way to a pause that it did not come to counts and is put down,
// and no more.
static troupe_status count_pent(trp_control *control, trp_trial *trial)
{
    double elapsed_s = trial->view.elapsed_s, values[TRP_OBJECTIVES_MAX];
    bool usable;
    troupe_status status = TROUPE_OK;
    for (; trial->pent != NULL && status == TROUPE_OK; trp_control_drop_first_pent(trial)) {
        troupe_report_event report = trial->pent->event->report;
        report.number += trial->base;
        report.elapsed_s += trial->base_s;
        if (report.number <= trial->taken)
            continue;
        trial->taken = report.number;
        status = trp_control_remember(control, trial, &report, values, &usable);
        if (status == TROUPE_OK)
            trp_journal_reported(control->record, control->sweep, trial, &report);
    }
    trial->view.elapsed_s = elapsed_s; // The run's, up to its end.
    return status;
}

// The run that follows begins with the checkpoint that the clone was given, which is the trial's
// newest from then on.
troupe_status trp_control_go_on_as_clone(trp_control *control, trp_trial *trial)
{
    // One that was being committed when it was decided on is there by now.
    if (trial->from == NULL)
        TROUPE_TRY(trp_control_clone(control, trial, trial->source));
    if (trial->from == NULL)
        trp_log(TRP_WARN, "trial %s goes on from nothing: %s, which it clones, has no checkpoint",
                trial->view.name, control->sweep->trials[trial->source]->view.name);
    trp_free(trial->checkpoint);
    trial->checkpoint = trial->from;
    trial->from = NULL;
    trial->saved = trial->taken;
    trial->given = 0; // Its new point may have others.
    TROUPE_TRY(trp_control_next_run(control, trial, trial->taken, trial->checkpoint));
    return trp_control_draw(control, trial);
}

// From the trial's newest checkpoint, or else as the last one began.
troupe_status trp_control_go_on_as_it_was(trp_control *control, trp_trial *trial)
{
    int base = trial->checkpoint != NULL ? trial->saved : trial->base;
    return trp_control_next_run(control, trial, base, trial->checkpoint);
}

// Another run follows once there is one to be: of one that is paused, when it goes on.
static troupe_status try_again(trp_control *control, trp_trial *trial, const char *error)
{
    trial->failures++;
    trp_log(TRP_WARN, "trial %s is tried again: %s", trial->view.name, error);
    if (trial->decision != TROUPE_ACT_PAUSE && !control->shelves)
        return trp_control_go_on_as_it_was(control, trial);
    trp_trial_paused(trial);
    return TROUPE_OK;
}

// One that says nothing of the metric is no result that a searcher may learn from.
static void expect_a_value(const trp_control *control, trp_trial *trial)
{
    char sentence[320];
    const char *metric = trp_sweep_metric(control->sweep);
    if (trial->view.reports == 0 && control->sweep->port->prints)
        snprintf(sentence, sizeof sentence,
                 "it has ended without a report: expected the sweep's metric %s in a line of JSON "
                 "on its standard output, as {\"%s\": 0.5}",
                 metric, metric);
    else if (trial->view.reports == 0)
        snprintf(sentence, sizeof sentence,
                 "it has ended without a report: expected one with the sweep's metric %s", metric);
    else if (isnan(trial->view.best_metric))
        snprintf(sentence, sizeof sentence,
                 "the sweep's metric %s was NaN in all of its %d reports: expected a number in one",
                 metric, trial->view.reports);
    else
        return;
    trp_trial_broken(trial, sentence);
}

// Whether the run was killed as its trial took too long: also by an earlier life of the sweep, of
// which the time that the run took tells. Another deadline may have been missed before that.
static bool was_overdue(const trp_control *control, const trp_trial *trial, troupe_status status)
{
    double limit_s = control->sweep->how.trial_timeout_s;
    double took_s = trial->view.elapsed_s - trial->base_s;
    return status == TROUPE_DEADLINE_EXCEEDED && limit_s > 0 && took_s >= limit_s;
}

// What follows from the end of a run.
static troupe_status follow_up(trp_control *control, trp_trial *trial, troupe_status status,
                               const char *error, bool stopped)
{
    trial->held = false; // Its job was.
    if (trial->ended_before) {
        trp_trial_ended(trial, status, error, stopped);
        trp_trial_restore(trial);
        return TROUPE_OK;
    }
    if (was_overdue(control, trial, status))
        trp_trial_broken(trial, error);
    if (was_to_end(control, trial, status)) {
        trp_log(TRP_WARN, "trial %s has failed as it was to end: %s", trial->view.name, error);
        status = TROUPE_OK;
        stopped = true;
    }
    bool between = status == TROUPE_OK && stopped && !trial->halted && !trial->broken;
    if (between && trial->decision == TROUPE_ACT_CLONE)
        return trp_control_go_on_as_clone(control, trial);
    if (between && trial->put_by && trial->decision == TROUPE_ACT_GO_ON)
        return trp_control_go_on_as_it_was(control, trial);
    if (between && trial->decision == TROUPE_ACT_PAUSE) { // It is put by.
        trp_trial_paused(trial);
        return TROUPE_OK;
    }
    if (is_tried_again(control, trial, status))
        return try_again(control, trial, error);
    TROUPE_TRY(count_pent(control, trial));
    if (status == TROUPE_OK && !stopped && !trial->broken)
        expect_a_value(control, trial);
    trp_trial_ended(trial, status, error, stopped);
    return trp_control_put_end(control, trial);
}

// The trial has the result of its newest run, where it has none that is to come. One that was shown
// lasts as long as the sweep.
static troupe_status show_result(troupe_sweep *sweep, trp_trial *trial, troupe_result *result)
{
    if (trial->phase == TRP_TRIAL_WAITING) {
        if (result != NULL)
            sweep->port->result_free(&result);
        return TROUPE_OK;
    }
    trp_kept *kept = trial->result != NULL ? trp_alloc(sizeof *kept) : NULL;
    if (trial->result != NULL && kept == NULL) {
        if (result != NULL)
            sweep->port->result_free(&result);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the result of %s", trial->view.name);
    }
    if (kept != NULL) {
        *kept = (trp_kept){.next = sweep->kept, .result = trial->result};
        sweep->kept = kept;
    }
    trial->result = result;
    trial->view.result = result;
    return TROUPE_OK;
}

troupe_status trp_control_take_result(trp_control *control, trp_trial *trial, troupe_status status,
                                      const char *error, bool stopped, troupe_result *result)
{
    if (result != NULL)
        trial->view.elapsed_s = trial->base_s + control->sweep->port->result_elapsed_s(result);
    control->lost = control->lost || status == TROUPE_RUNTIME_LOST;
    troupe_status follows = follow_up(control, trial, status, error, stopped);
    troupe_status shown = show_result(control->sweep, trial, result);
    return follows != TROUPE_OK ? follows : shown;
}

troupe_status trp_control_collect(trp_control *control, trp_trial *trial)
{
    const trp_sweep_port *port = control->sweep->port;
    troupe_result *result = NULL;
    troupe_error failure = {0};
    trp_control_away(control);
    troupe_status status = port->wait(trial->job, -1, &result);
    if (status != TROUPE_OK)
        failure = *troupe_last_error();
    trp_control_back(control);
    trp_control_close_job(control, trial, false);
    const char *error = result != NULL ? port->result_cause(result) : failure.text;
    bool stopped = result != NULL && port->result_stopped(result);
    if (result != NULL)
        status = port->result_status(result);
    return trp_control_take_result(control, trial, status, error, stopped, result);
}

// ---- trials that take too long

static void set_due(trp_control *control, trp_trial *trial, int64_t due_ns)
{
    trial->due_ns = due_ns;
    if (control->due_ns == 0 || due_ns < control->due_ns)
        control->due_ns = due_ns;
}

// How long a run that begins may run: one that an earlier life has begun has run before.
static int64_t allowed_ns(const trp_control *control, trp_trial *trial)
{
    const troupe_sweep *sweep = control->sweep;
    troupe_job_status now = {0};
    if (trial->left_ns > 0)
        return trial->left_ns;
    if (trial->submitted_before)
        sweep->port->status(trial->job, &now);
    double left_s = sweep->how.trial_timeout_s - now.elapsed_s;
    return left_s > 0 ? (int64_t)(left_s * 1e9) : 0;
}

// A group of the trial runs.
void trp_control_job_begins(trp_control *control, trp_trial *trial)
{
    const troupe_sweep *sweep = control->sweep;
    control->busy += trial->phase == TRP_TRIAL_PAUSED;
    trial->put_by = false;
    trp_trial_running(trial);
    if (sweep->how.trial_timeout_s > 0 && trial->due_ns == 0)
        set_due(control, trial, trp_sweep_now_ns(sweep) + allowed_ns(control, trial));
}

// First it is asked, so that what it has reported is whole; then it is made to, as often as it
// takes: a request may be lost for lack of memory.
static void end_overdue(trp_control *control, trp_trial *trial)
{
    const trp_sweep_port *port = control->sweep->port;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "it ran for longer than %g s, which trial_timeout_s allows",
             control->sweep->how.trial_timeout_s);
    if (trial->overdue) {
        trp_control_away(control);
        port->kill(trial->job, TROUPE_DEADLINE_EXCEEDED, sentence);
        trp_control_back(control);
        return;
    }
    trial->overdue = true;
    trp_trial_broken(trial, sentence);
    trp_control_ask(control, trial, port->stop);
}

void trp_control_look_for_overdue(trp_control *control)
{
    int64_t now = trp_sweep_now_ns(control->sweep);
    if (control->due_ns == 0 || now < control->due_ns)
        return;
    control->due_ns = 0;
    for (int i = 0; i < control->sweep->count; i++) {
        trp_trial *trial = control->sweep->trials[i];
        if (trial->job == NULL || trial->due_ns == 0)
            continue;
        bool due = trial->due_ns <= now;
        if (due)
            end_overdue(control, trial);
        set_due(control, trial, due ? now + GRACE_NS : trial->due_ns);
    }
}
