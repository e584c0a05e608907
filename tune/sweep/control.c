// control.c: the controller of a sweep: it asks the study what is next, submits that as jobs, tells
// the study of every report and carries out what it decides, until nothing is left.
//
// Train's threads only push events (events.h). The controller opens no worker itself.
#include <tune/sweep/control.h>

#include <math.h>
#include <runtime/base/buffer.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/sweep/journal.h>
#include <tune/sweep/sweep_facts.h>

static const int64_t LOOK_NS = 1000000000;  // Between looks at jobs that say nothing.
static const int64_t GRACE_NS = 2000000000; // For a trial that was asked to stop.

void trp_control_away(trp_control *control)
{
    trp_fair_lock_give(&control->sweep->lock);
}

void trp_control_back(trp_control *control)
{
    trp_fair_lock_take(&control->sweep->lock);
}

// ---- what a report says

// The column of a metric; TRP_COLUMNS_MAX: it is not shown.
static size_t column_of(troupe_sweep *sweep, const char *metric)
{
    for (size_t i = 0; i < sweep->column_count; i++) {
        if (strcmp(sweep->columns[i], metric) == 0)
            return i;
    }
    if (sweep->columns_given || sweep->column_count == TRP_COLUMNS_MAX)
        return TRP_COLUMNS_MAX;
    snprintf(sweep->columns[sweep->column_count], TRP_METRIC_NAME, "%s", metric);
    return sweep->column_count++;
}

static troupe_status remember_columns(troupe_sweep *sweep, trp_trial *trial,
                                      const troupe_report_event *report)
{
    if (trial->values == NULL)
        trial->values = trp_alloc(TRP_COLUMNS_MAX * sizeof *trial->values);
    if (trial->values == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a trial");
    for (size_t i = 0; i < report->count; i++) {
        size_t column = column_of(sweep, report->metrics[i].name);
        if (column == TRP_COLUMNS_MAX)
            continue;
        trial->values[column] = report->metrics[i].value;
        trial->known |= (uint64_t)1 << column;
    }
    return TROUPE_OK;
}

// Whether the report has the metric of each objective, which go to `values`.
static bool read_objectives(const troupe_sweep *sweep, const troupe_report_event *report,
                            double *values)
{
    size_t found = 0;
    for (size_t i = 0; i < sweep->objective_count; i++) {
        for (size_t j = 0; j < report->count; j++) {
            if (strcmp(report->metrics[j].name, sweep->objectives[i].metric) != 0)
                continue;
            values[i] = report->metrics[j].value;
            found++;
            break;
        }
    }
    return found == sweep->objective_count;
}

// Of two with the same value the first one is the best.
static bool is_better(const troupe_sweep *sweep, const trp_trial *trial, const trp_trial *best)
{
    double x = trial->view.best_metric, y = best != NULL ? best->view.best_metric : NAN;
    if (best == NULL || x == y)
        return best == NULL || trial->number < best->number;
    return sweep->objectives[0].goal == TROUPE_MAXIMIZE ? x > y : x < y;
}

troupe_status trp_control_remember(trp_control *control, trp_trial *trial,
                                   const troupe_report_event *report, double *values, bool *usable)
{
    troupe_sweep *sweep = control->sweep;
    double value = NAN, before = trial->view.best_metric;
    size_t count = sweep->objective_count;
    *usable = read_objectives(sweep, report, values);
    (void)trp_trial_report(trial, report, trp_sweep_metric(sweep), sweep->objectives[0].goal,
                           &value);
    double best = trial->view.best_metric;
    if (!isnan(best) && is_better(sweep, trial, sweep->best))
        sweep->best = trial;
    if (*usable && count > 1 && !isnan(best) && (isnan(before) || best != before)) {
        if (trial->at_best == NULL)
            trial->at_best = trp_alloc(count * sizeof *trial->at_best);
        if (trial->at_best == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a trial");
        memcpy(trial->at_best, values, count * sizeof *values);
    }
    return remember_columns(sweep, trial, report);
}

void trp_control_give_up(trp_control *control, trp_trial *trial, const troupe_report_event *report)
{
    const troupe_sweep *sweep = control->sweep;
    char names[256] = "", sentence[512];
    const char *missing = trp_sweep_metric(sweep);
    size_t length = 0;
    for (size_t i = 0; i < report->count && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   i == 0 ? "" : ", ", report->metrics[i].name);
    for (size_t i = 0; i < sweep->objective_count; i++) {
        bool has = false;
        for (size_t j = 0; j < report->count && !has; j++)
            has = strcmp(report->metrics[j].name, sweep->objectives[i].metric) == 0;
        if (!has) {
            missing = sweep->objectives[i].metric;
            break;
        }
    }
    snprintf(sentence, sizeof sentence, "report %d lacks the sweep's metric %s; it has %s",
             report->number, missing, names[0] == '\0' ? "none" : names);
    trp_trial_broken(trial, sentence);
    if (trial->job != NULL)
        sweep->port->stop(trial->job);
}

// ---- deciding

troupe_status trp_control_clone(trp_control *control, trp_trial *trial, int source)
{
    const trp_trial *of = control->sweep->trials[source];
    trp_free(trial->from);
    trial->from = of->checkpoint != NULL ? trp_strdup(of->checkpoint) : NULL;
    trial->source = source;
    if (of->checkpoint != NULL && trial->from == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the clone of %s", of->view.name);
    return TROUPE_OK;
}

static void resize(const trp_control *control, const trp_trial *trial)
{
    if (control->sweep->port->resize(trial->job, trial->ranks) != TROUPE_OK)
        trp_log(TRP_WARN, "trial %s goes on with the ranks that it has: %s", trial->view.name,
                troupe_last_error()->text);
}

void trp_control_tell(trp_control *control, trp_trial *trial)
{
    const trp_sweep_port *port = control->sweep->port;
    troupe_act act = trial->decision;
    if (act == TROUPE_ACT_RESIZE)
        trial->decision = TROUPE_ACT_GO_ON;
    if (trial->job == NULL)
        return;
    switch (act) {
    case TROUPE_ACT_STOP:
    case TROUPE_ACT_END:
    case TROUPE_ACT_CLONE:
        port->stop(trial->job);
        break;
    case TROUPE_ACT_PAUSE:
        port->pause(trial->job);
        break;
    case TROUPE_ACT_RESIZE:
        resize(control, trial);
        break;
    case TROUPE_ACT_GO_ON:
        break;
    }
}

// Where the gate waits for the decision it is the gate that tells the job, which needs no server
// that runs. But it stops trainers that save when they are due before they have saved, and asked by
// both to pause, the job could be paused again once it has gone on.
static void carry_out(trp_control *control, trp_trial *trial)
{
    const trp_slot *of = trial->slot;
    bool pauses = trial->decision == TROUPE_ACT_PAUSE || trial->decision == TROUPE_ACT_RESIZE;
    bool here = control->sweep->how.server == TROUPE_SERVER_NONE;
    if (!of->gated || (!pauses && (here || of->saves)))
        trp_control_tell(control, trial);
    else if (trial->decision == TROUPE_ACT_RESIZE)
        trial->decision = TROUPE_ACT_GO_ON;
}

// Asks the study about a report. *act: what the trial's job is to be told.
static troupe_status judge(trp_control *control, trp_trial *trial,
                           const troupe_report_event *report, const double *values, troupe_act *act)
{
    trp_buffer text = {0};
    troupe_verdict verdict = {.size = sizeof verdict};
    const char *more = trp_journal_of_report(&text, trial, report);
    troupe_status status =
        more == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial")
                     : trp_study_decide(control->study, trial->number, report->number, values,
                                        report->elapsed_s, trial->ranks, more, &verdict);
    trp_buffer_free(&text);
    *act = status == TROUPE_OK ? verdict.act : TROUPE_ACT_GO_ON;
    if (status != TROUPE_OK || verdict.act == TROUPE_ACT_GO_ON)
        return status;
    if (verdict.act == TROUPE_ACT_CLONE)
        TROUPE_TRY(trp_control_clone(control, trial, verdict.source));
    if (verdict.act == TROUPE_ACT_RESIZE)
        trial->ranks = trial->given = verdict.ranks;
    trp_trial_decided(trial, verdict.act);
    return TROUPE_OK;
}

// Keeps a report that came on the way to a pause. Behind a gate that has told the job there is one
// of these at most: another one says that the gate's time had passed.
static troupe_status keep_pent(trp_control *control, trp_trial *trial, trp_event **event)
{
    trp_pent *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a report of a trial");
    if (trial->slot->gated && trial->pent != NULL && trial->pent->next == NULL)
        control->sweep->port->pause(trial->job);
    *made = (trp_pent){.event = *event};
    *event = NULL;
    *trial->last = made;
    trial->last = &made->next;
    return TROUPE_OK;
}

// A report that has not been looked at. *act: what its job is told.
static troupe_status take_new(trp_control *control, trp_trial *trial,
                              const troupe_report_event *report, troupe_act *act)
{
    double values[TRP_OBJECTIVES_MAX];
    bool usable;
    trial->taken = report->number;
    TROUPE_TRY(trp_control_remember(control, trial, report, values, &usable));
    // What comes until the job has stopped counts, and no more.
    if (!trp_trial_is_stopping(trial) && usable)
        return judge(control, trial, report, values, act);
    trp_journal_reported(control->record, trial, report);
    if (!trp_trial_is_stopping(trial))
        trp_control_give_up(control, trial, report);
    *act = TROUPE_ACT_STOP;
    return TROUPE_OK;
}

// One whose job has just made it.
static troupe_status take_now(trp_control *control, trp_trial *trial,
                              const troupe_report_event *report, troupe_act *act)
{
    troupe_act before = trial->decision;
    TROUPE_TRY(take_new(control, trial, report, act));
    if (trial->decision != before)
        carry_out(control, trial);
    return TROUPE_OK;
}

// The trial's newest checkpoint. *is_new: it is.
static troupe_status keep_checkpoint(trp_trial *trial, const troupe_report_event *of, bool *is_new)
{
    int number = trial->base + of->number;
    *is_new =
        of->checkpoint != NULL && number > trial->saved && trial->decision != TROUPE_ACT_CLONE;
    if (!*is_new)
        return TROUPE_OK;
    char *copy = trp_strdup(of->checkpoint);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the name of a checkpoint");
    trp_free(trial->checkpoint);
    trial->checkpoint = copy;
    trial->saved = number;
    return TROUPE_OK;
}

static troupe_status take_report(trp_control *control, trp_trial *trial, trp_event **event)
{
    bool is_new;
    troupe_report_event report = (*event)->report;
    int number = report.number;
    troupe_act act = TROUPE_ACT_GO_ON;
    TROUPE_TRY(keep_checkpoint(trial, &report, &is_new)); // The report's line says it.
    report.number += trial->base;
    report.elapsed_s += trial->base_s;
    if (trial->decision == TROUPE_ACT_CLONE) // It is another one's from then on.
        act = TROUPE_ACT_CLONE;
    else if (report.number <= trial->taken) // By an earlier life of the sweep, or run of the trial.
        act = trp_trial_is_stopping(trial) ? TROUPE_ACT_STOP : trial->decision;
    else if (trial->decision == TROUPE_ACT_PAUSE && !trp_trial_is_stopping(trial))
        TROUPE_TRY(keep_pent(control, trial, event));
    else
        TROUPE_TRY(take_now(control, trial, &report, &act));
    if (trial->slot->gated) // What a gate answers follows from the report's line.
        trp_tune_record_write(control->record);
    trp_events_deal(&control->events, &trial->slot->dealt, number, act, trial->ranks);
    return TROUPE_OK;
}

// ---- ends

static troupe_ending ending_of(const trp_trial *trial)
{
    return trial->view.state == TROUPE_TRIAL_ERROR     ? TROUPE_ENDING_FAILED
           : trial->view.state == TROUPE_TRIAL_STOPPED ? TROUPE_ENDING_STOPPED
                                                       : TROUPE_ENDING_COMPLETE;
}

troupe_status trp_control_put_end(trp_control *control, const trp_trial *trial)
{
    const troupe_sweep *sweep = control->sweep;
    troupe_study_state state = trp_study_state(control->study, trial->number);
    if (state != TROUPE_STUDY_RUNNING && state != TROUPE_STUDY_PAUSED) {
        trp_journal_ended(control->record, trial);
        (void)trp_tune_record_sync(control->record, false);
        return TROUPE_OK;
    }
    trp_buffer text = {0};
    const char *more = trp_journal_of_end(&text, trial);
    bool failed = trial->view.state == TROUPE_TRIAL_ERROR;
    troupe_status status = more == NULL
                               ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the end of a trial")
                               : trp_study_end(control->study, trial->number, ending_of(trial),
                                               NULL, 0, failed ? trial->view.error : NULL, more);
    trp_buffer_free(&text);
    (void)trp_tune_record_sync(control->record, false); // Soon: the trial's run does not.
    double best = sweep->best != NULL ? sweep->best->view.best_metric : (double)NAN;
    bool bettered = sweep->best != NULL && best != control->best;
    control->unbettered = bettered ? 0 : control->unbettered + 1;
    control->best = best;
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

static void drop_first_pent(trp_trial *trial)
{
    trp_pent *first = trial->pent;
    trial->pent = first->next;
    if (trial->pent == NULL)
        trial->last = &trial->pent;
    trp_free(first->event);
    trp_free(first);
}

static void drop_pent(trp_trial *trial)
{
    while (trial->pent != NULL)
        drop_first_pent(trial);
}

// What a trial has reported on its way to a pause that it did not come to counts and is put down,
// and no more.
static troupe_status count_pent(trp_control *control, trp_trial *trial)
{
    double values[TRP_OBJECTIVES_MAX], elapsed_s = trial->view.elapsed_s;
    troupe_status status = TROUPE_OK;
    for (bool usable; trial->pent != NULL && status == TROUPE_OK; drop_first_pent(trial)) {
        troupe_report_event report = trial->pent->event->report;
        report.number += trial->base;
        report.elapsed_s += trial->base_s;
        if (report.number <= trial->taken)
            continue;
        trial->taken = report.number;
        status = trp_control_remember(control, trial, &report, values, &usable);
        trp_journal_reported(control->record, trial, &report);
    }
    trial->view.elapsed_s = elapsed_s; // The run's, up to its end.
    return status;
}

// The run that follows begins with the checkpoint that the clone was given, which is the trial's
// newest from then on.
static troupe_status go_on_as_clone(trp_control *control, trp_trial *trial)
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
static troupe_status go_on_as_it_was(trp_control *control, trp_trial *trial)
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
        return go_on_as_it_was(control, trial);
    trp_trial_paused(trial);
    return TROUPE_OK;
}

// One that says nothing of the metric is no result that a searcher may learn from.
static void expect_a_report(const trp_control *control, trp_trial *trial)
{
    char sentence[256];
    snprintf(sentence, sizeof sentence,
             "it has ended without a report: expected one with the sweep's metric %s",
             trp_sweep_metric(control->sweep));
    trp_trial_broken(trial, sentence);
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
    if (was_to_end(control, trial, status)) {
        trp_log(TRP_WARN, "trial %s has failed as it was to end: %s", trial->view.name, error);
        status = TROUPE_OK;
        stopped = true;
    }
    bool between = status == TROUPE_OK && stopped && !trial->halted && !trial->broken;
    if (between && trial->decision == TROUPE_ACT_CLONE)
        return go_on_as_clone(control, trial);
    if (between && trial->put_by)
        return go_on_as_it_was(control, trial);
    if (between && trial->decision == TROUPE_ACT_PAUSE) { // It is put by.
        trp_trial_paused(trial);
        return TROUPE_OK;
    }
    if (is_tried_again(control, trial, status))
        return try_again(control, trial, error);
    TROUPE_TRY(count_pent(control, trial));
    if (status == TROUPE_OK && !stopped && !trial->broken && trial->view.reports == 0)
        expect_a_report(control, trial);
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

static troupe_status collect(trp_control *control, trp_trial *trial)
{
    troupe_sweep *sweep = control->sweep;
    const trp_sweep_port *port = sweep->port;
    troupe_result *result = NULL;
    troupe_error failure = {0};
    trp_control_away(control);
    troupe_status status = port->wait(trial->job, -1, &result);
    if (status != TROUPE_OK)
        failure = *troupe_last_error();
    trp_control_back(control);
    trp_control_close_job(control, trial, false);
    const char *error = result != NULL ? port->result_error(result) : failure.text;
    bool stopped = result != NULL && port->result_stopped(result);
    if (result != NULL) {
        status = port->result_status(result);
        trial->view.elapsed_s = trial->base_s + port->result_elapsed_s(result);
    }
    control->lost = control->lost || status == TROUPE_RUNTIME_LOST;
    troupe_status follows = follow_up(control, trial, status, error, stopped);
    troupe_status shown = show_result(sweep, trial, result);
    return follows != TROUPE_OK ? follows : shown;
}

// ---- trials that take too long

static void set_due(trp_control *control, trp_trial *trial, int64_t due_ns)
{
    trial->due_ns = due_ns;
    if (control->due_ns == 0 || due_ns < control->due_ns)
        control->due_ns = due_ns;
}

// A group of the trial runs.
static void begun(trp_control *control, trp_trial *trial)
{
    double limit_s = control->sweep->how.trial_timeout_s;
    control->busy += trial->phase == TRP_TRIAL_PAUSED;
    trial->put_by = false;
    trp_trial_running(trial);
    if (limit_s > 0 && trial->due_ns == 0)
        set_due(control, trial,
                trp_clock_ns() + (trial->left_ns > 0 ? trial->left_ns : (int64_t)(limit_s * 1e9)));
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
        port->kill(trial->job, TROUPE_DEADLINE_EXCEEDED, sentence);
        return;
    }
    trial->overdue = true;
    trp_trial_broken(trial, sentence);
    port->stop(trial->job);
}

static void look_for_overdue(trp_control *control)
{
    int64_t now = trp_clock_ns();
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

// ---- pauses

// The job goes on where neither the study nor the user wants it paused.
static void go_on_if_free(trp_control *control, trp_trial *trial)
{
    if (trial->phase != TRP_TRIAL_PAUSED || trial->job == NULL || control->paused ||
        trial->decision == TROUPE_ACT_PAUSE)
        return;
    trial->held = false;
    trp_trial_goes_on(trial);
    control->busy++;
    control->sweep->port->go_on(trial->job);
}

static void paused(trp_control *control, trp_trial *trial)
{
    if (trial->phase == TRP_TRIAL_PAUSED)
        return;
    int64_t now = trp_clock_ns();
    trial->left_ns = trial->due_ns == 0 ? 0 : trial->due_ns > now ? trial->due_ns - now : 1;
    trial->due_ns = 0;
    trp_trial_paused(trial);
    control->busy--;
    if (trp_trial_is_stopping(trial)) // Who was asked to stop as it was about to pause.
        control->sweep->port->stop(trial->job);
    else
        go_on_if_free(control, trial);
}

// A paused job is to end, and takes a place for as long.
static void stop_paused(trp_control *control, trp_trial *trial)
{
    if (trial->phase == TRP_TRIAL_PAUSED) {
        trp_trial_goes_on(trial);
        control->busy++;
    }
    control->sweep->port->stop(trial->job);
}

// What it has reported on its way to the pause is decided on.
static troupe_status take_pent(trp_control *control, trp_trial *trial)
{
    while (trial->pent != NULL && trial->decision == TROUPE_ACT_GO_ON &&
           !trp_trial_is_stopping(trial)) {
        troupe_report_event report = trial->pent->event->report;
        troupe_act act = TROUPE_ACT_GO_ON;
        report.number += trial->base;
        report.elapsed_s += trial->base_s;
        troupe_status status =
            report.number > trial->taken ? take_new(control, trial, &report, &act) : TROUPE_OK;
        drop_first_pent(trial);
        TROUPE_TRY(status);
        if (trial->decision == TROUPE_ACT_RESIZE)
            trp_control_tell(control, trial);
    }
    return TROUPE_OK;
}

// A paused trial is over. It may have no job any more.
static troupe_status end_paused(trp_control *control, trp_trial *trial)
{
    drop_pent(trial);
    if (trial->job != NULL) {
        stop_paused(control, trial);
        return TROUPE_OK;
    }
    trp_trial_ended(trial, TROUPE_OK, "", true);
    return trp_control_put_end(control, trial);
}

static troupe_status clone_paused(trp_control *control, trp_trial *trial)
{
    drop_pent(trial);
    if (trial->job == NULL)
        return go_on_as_clone(control, trial);
    stop_paused(control, trial);
    return TROUPE_OK;
}

// The study has it go on.
static troupe_status again(trp_control *control, trp_trial *trial)
{
    int report;
    troupe_verdict how;
    trp_study_decided(control->study, trial->number, &report, &how);
    trial->decision = TROUPE_ACT_GO_ON;
    if (how.act == TROUPE_ACT_CLONE) {
        TROUPE_TRY(trp_control_clone(control, trial, how.source));
        trial->decision = TROUPE_ACT_CLONE;
        return clone_paused(control, trial);
    }
    if (how.act == TROUPE_ACT_RESIZE) {
        trial->ranks = trial->given = how.ranks;
        if (trial->job != NULL)
            resize(control, trial);
    }
    TROUPE_TRY(take_pent(control, trial));
    if (trp_trial_is_stopping(trial))
        return end_paused(control, trial);
    if (trial->decision == TROUPE_ACT_CLONE)
        return clone_paused(control, trial);
    if (trial->decision == TROUPE_ACT_PAUSE)
        return TROUPE_OK;
    if (trial->job == NULL) // It was put by.
        return go_on_as_it_was(control, trial);
    go_on_if_free(control, trial);
    return TROUPE_OK;
}

static void pause_all(trp_control *control, bool pause)
{
    const troupe_sweep *sweep = control->sweep;
    control->paused = pause;
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        if (trial->job == NULL || trp_trial_is_stopping(trial))
            continue;
        if (pause && trial->phase != TRP_TRIAL_PAUSED) {
            trial->held = true;
            sweep->port->pause(trial->job);
        } else if (!pause && trial->held && trial->phase != TRP_TRIAL_PAUSED) {
            trial->held = false; // It has not come to it.
            if (trial->decision != TROUPE_ACT_PAUSE)
                sweep->port->go_on(trial->job);
        } else if (!pause) {
            go_on_if_free(control, trial);
        }
    }
    control->progress.changed = true;
}

// ---- events

static troupe_status take_state(trp_control *control, trp_trial *trial, const trp_event *event)
{
    switch (event->state) {
    case TROUPE_JOB_RUNNING:
        begun(control, trial);
        trial->pid = event->pid;
        break;
    case TROUPE_JOB_DONE:
        return collect(control, trial);
    case TROUPE_JOB_PAUSED:
        paused(control, trial);
        break;
    case TROUPE_JOB_QUEUED:
    case TROUPE_JOB_RESTARTING:
        break;
    }
    return TROUPE_OK;
}

static troupe_status take_checkpoint(trp_control *control, trp_trial *trial,
                                     const troupe_report_event *of)
{
    bool is_new;
    TROUPE_TRY(keep_checkpoint(trial, of, &is_new));
    if (is_new)
        trp_journal_checkpoint(control->record, trial, trial->saved, trial->checkpoint);
    return TROUPE_OK;
}

static troupe_status take(trp_control *control, trp_event **event)
{
    trp_trial *trial = control->sweep->trials[(*event)->trial];
    if (trial->job == NULL || (*event)->run != trial->run)
        return TROUPE_OK;
    control->progress.changed = true;
    if ((*event)->is_report)
        return take_report(control, trial, event);
    if ((*event)->is_checkpoint)
        return take_checkpoint(control, trial, &(*event)->report);
    return take_state(control, trial, *event);
}

static void show_if_due(trp_control *control)
{
    int64_t due = trp_progress_due_ns(&control->progress), now = trp_clock_ns();
    if (due >= 0 && now >= due)
        trp_sweep_show(&control->progress, control->sweep, now);
}

// A runtime that is stopped by another thread ends jobs, and may do so without a word.
static troupe_status collect_silent(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    for (int i = 0; i < sweep->count; i++) {
        troupe_job_status status;
        if (sweep->trials[i]->job == NULL)
            continue;
        sweep->port->status(sweep->trials[i]->job, &status);
        if (status.state != TROUPE_JOB_DONE)
            continue;
        TROUPE_TRY(collect(control, sweep->trials[i]));
        control->progress.changed = true;
    }
    return TROUPE_OK;
}

// Until when to wait for events: until progress or a trial is due, and never so long that the end
// of a silent job goes unseen.
static int64_t wait_until_ns(const trp_control *control)
{
    int64_t due = trp_progress_due_ns(&control->progress), until = trp_clock_ns() + LOOK_NS;
    const int64_t others[] = {control->due_ns, control->then_ns, control->budget_ns};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        until = others[i] != 0 && others[i] < until ? others[i] : until;
    return due >= 0 && due < until ? due : until;
}

// ---- what is next

// What the study says of a free place. *done: nothing can be begun now.
static troupe_status take_next(trp_control *control, bool *done)
{
    trp_next next = {0};
    TROUPE_TRY(trp_study_next(control->study, true, &next));
    trp_trial *trial = NULL;
    if (next.kind == TRP_NEXT_NEW || next.kind == TRP_NEXT_AGAIN || next.kind == TRP_NEXT_OVER)
        trial = trp_control_trial(control, next.number);
    control->none_left = next.kind == TRP_NEXT_NONE;
    switch (next.kind) {
    case TRP_NEXT_NEW:
        if (trial == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for trial %d", next.number);
        TROUPE_TRY(trp_control_draw(control, trial));
        trp_control_make_ready(control, trial);
        break;
    case TRP_NEXT_AGAIN:
        TROUPE_TRY(again(control, trial));
        break;
    case TRP_NEXT_OVER:
        trial->decision = TROUPE_ACT_STOP;
        return end_paused(control, trial);
    case TRP_NEXT_LATER:
    case TRP_NEXT_NONE:
        *done = true;
        break;
    }
    return TROUPE_OK;
}

// Submits the first that is ready. *done: it waits still.
static troupe_status submit_ready(trp_control *control, bool *done)
{
    trp_trial *trial = control->ready;
    if (control->then_ns != 0 && trp_clock_ns() < control->then_ns) {
        *done = true;
        return TROUPE_OK;
    }
    TROUPE_TRY(trp_control_submit(control, trial));
    if (trial->phase == TRP_TRIAL_WAITING) {
        *done = true;
        return TROUPE_OK;
    }
    control->ready = trial->ready;
    if (control->ready == NULL)
        control->last_ready = &control->ready;
    return TROUPE_OK;
}

// Begins as many as may run at once, and can be now.
static troupe_status submit_next(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    bool done = control->lost || control->paused || control->halted || control->shelves;
    while (!done && control->busy < sweep->how.concurrent && !control->halts) {
        if (control->ready != NULL)
            TROUPE_TRY(submit_ready(control, &done));
        else
            TROUPE_TRY(take_next(control, &done));
    }
    return TROUPE_OK;
}

// ---- ends of the sweep

static bool has_reached_target(const troupe_sweep *sweep)
{
    if (sweep->how.target == NULL || sweep->best == NULL)
        return false;
    double best = sweep->best->view.best_metric, target = *sweep->how.target;
    return sweep->objectives[0].goal == TROUPE_MAXIMIZE ? best >= target : best <= target;
}

// Those that run are asked to stop, and those that wait for their next run have ended.
static troupe_status halt(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    control->halted = true;
    for (int i = 0; i < sweep->count; i++) {
        trp_trial *trial = sweep->trials[i];
        bool parked = trial->phase == TRP_TRIAL_PAUSED && !trial->held;
        if (trial->phase == TRP_TRIAL_ENDED || parked)
            continue;
        trial->halted = true;
        if (trial->job != NULL) {
            sweep->port->stop(trial->job);
            continue;
        }
        trp_trial_ended(trial, TROUPE_OK, "", true);
        TROUPE_TRY(trp_control_put_end(control, trial));
    }
    control->ready = NULL;
    control->last_ready = &control->ready;
    return TROUPE_OK;
}

// Jobs of trials that stay paused end, with what they have saved.
static void shelve(trp_control *control)
{
    const troupe_sweep *sweep = control->sweep;
    control->shelves = true;
    for (int i = 0; i < sweep->count; i++)
        if (sweep->trials[i]->job != NULL && sweep->trials[i]->phase == TRP_TRIAL_PAUSED)
            sweep->port->stop(sweep->trials[i]->job);
}

static troupe_status look_for_ends(trp_control *control, bool *over)
{
    const troupe_sweep *sweep = control->sweep;
    bool timed_out = control->budget_ns != 0 && trp_clock_ns() >= control->budget_ns;
    bool plateau = sweep->how.patience > 0 && control->unbettered >= sweep->how.patience;
    if (!control->halted && (control->halts || timed_out || plateau || has_reached_target(sweep)))
        TROUPE_TRY(halt(control));
    if (control->halted)
        control->budget_ns = 0;
    if (control->lost && control->busy == 0)
        return troupe_fail(TROUPE_RUNTIME_LOST,
                           "the node's keeper or node process has died in the middle of the "
                           "sweep; what its trials reported is in %s",
                           sweep->folder);
    if (control->busy > 0 || control->ready != NULL || (control->paused && !control->halted))
        return TROUPE_OK;
    if (!control->halted && !control->none_left)
        return troupe_fail(TROUPE_DEADLOCK, "the scheduler %s has no trial go on, and none runs",
                           sweep->scheduler);
    if (control->open == 0)
        *over = true;
    else if (!control->shelves)
        shelve(control);
    return TROUPE_OK;
}

// Takes in an event, and reports that have come since, which a turn each would cost more than the
// reports do. Whatever else has come, or follows, is seen to in the next turn.
static troupe_status take_events(trp_control *control, trp_event *event)
{
    enum { AT_ONCE = 64 };
    troupe_status status = TROUPE_OK;
    trp_tune_record_gather(control->record, true);
    for (int i = 0; status == TROUPE_OK && event != NULL; i++) {
        bool more = event->is_report && i + 1 < AT_ONCE;
        status = take(control, &event);
        trp_free(event);
        event = NULL;
        if (status == TROUPE_OK && more && !has_reached_target(control->sweep))
            event = trp_events_next(&control->events);
    }
    trp_tune_record_gather(control->record, false);
    return status;
}

troupe_status trp_control_turn(trp_control *control, bool *over)
{
    trp_event *event;
    *over = false;
    if (control->pauses != control->paused && !control->halts && !control->halted)
        pause_all(control, control->pauses);
    TROUPE_TRY(submit_next(control));
    show_if_due(control);
    look_for_overdue(control);
    TROUPE_TRY(look_for_ends(control, over));
    if (*over)
        return TROUPE_OK;
    int64_t until = wait_until_ns(control);
    trp_control_away(control);
    troupe_status status = trp_events_pop(&control->events, until, &event);
    trp_control_back(control);
    if (status == TROUPE_TIMED_OUT || status == TROUPE_BUSY)
        return status == TROUPE_BUSY ? TROUPE_OK : collect_silent(control);
    TROUPE_TRY(status);
    return take_events(control, event);
}

void trp_control_forget(trp_control *control)
{
    for (int i = 0; i < control->sweep->count; i++)
        drop_pent(control->sweep->trials[i]);
}

void trp_control_abandon(trp_control *control)
{
    troupe_sweep *sweep = control->sweep;
    bool here = sweep->how.server == TROUPE_SERVER_NONE;
    for (int i = 0; here && i < sweep->count; i++) {
        if (sweep->trials[i]->job != NULL)
            sweep->port->stop(sweep->trials[i]->job);
    }
    for (int i = 0; i < sweep->count; i++)
        trp_control_close_job(control, sweep->trials[i], !here);
}
